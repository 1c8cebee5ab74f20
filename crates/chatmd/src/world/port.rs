//! The port to the outside, and the requests and responses that pass it.

use logue_message::ContentBlock;

use crate::world::error::{WorldError, unsupported};

/// A source of external data: texts, images, answers of agents.
pub trait World {
    /// Returns the text of a document.
    ///
    /// # Errors
    /// Returns an error if the document is not available. Evaluation reports it at the element.
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError>;

    /// Returns the text of an import.
    ///
    /// # Errors
    /// Returns an error if the text is not available. The default implementation always does.
    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        Err(unsupported(&format!(
            "{}: imports are not supported",
            request.src
        )))
    }

    /// Returns an image file.
    ///
    /// # Errors
    /// Returns an error if the image is not available. The default implementation always does.
    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        Err(unsupported(&format!(
            "{}: images are not supported",
            request.src
        )))
    }

    /// Runs an agent and returns its last answer.
    ///
    /// # Errors
    /// Returns an error if the agent cannot run or fails. The default implementation always does.
    fn agent(&mut self, request: &AgentRequest<'_>) -> Result<String, WorldError> {
        Err(unsupported(&format!(
            "{}: agents are not supported",
            request.src
        )))
    }

    /// Returns the [`ImportedText::id`] of the document itself.
    ///
    /// With it, an import of the document is detected as a cycle at once.
    fn root_id(&self) -> Option<String> {
        None
    }
}

/// A request for the text of an `<import>` (ChatMD §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportRequest<'a> {
    /// The path, as written; relative to the importing file.
    pub src: &'a str,
    /// The [`ImportedText::id`] of the importing file; `None` if that is the document itself.
    pub importer: Option<&'a str>,
}

impl<'a> ImportRequest<'a> {
    /// Creates a request for `src` as seen from `importer`.
    pub fn new(src: &'a str, importer: Option<&'a str>) -> Self {
        Self { src, importer }
    }
}

/// The text of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedText {
    /// Identity of the file: equal for two imports of it.
    ///
    /// It becomes the [`ImportRequest::importer`] of nested imports.
    pub id: String,
    /// Name in reports.
    pub name: String,
    /// The text.
    pub text: String,
}

impl ImportedText {
    /// Creates the text of the file `id`, which reports call `name`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            text: text.into(),
        }
    }
}

/// A request for a document: the attributes of its `<doc>` (ChatMD §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentRequest<'a> {
    /// Path or address, as written.
    pub src: &'a str,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
    /// Whether HTML is converted to plain text; takes precedence over `markdown`.
    pub strip: bool,
    /// Whether HTML is converted to Markdown.
    pub markdown: bool,
}

impl<'a> DocumentRequest<'a> {
    /// Creates a request for the unconverted file `src`.
    pub fn local(src: &'a str) -> Self {
        Self {
            src,
            local: true,
            strip: false,
            markdown: false,
        }
    }
}

/// The text of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentText {
    /// The unconverted text.
    pub text: String,
    /// Media type, such as `text/html`, if known.
    pub media_type: Option<String>,
}

impl DocumentText {
    /// Sets the media type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }
}

impl From<String> for DocumentText {
    fn from(text: String) -> Self {
        Self {
            text,
            media_type: None,
        }
    }
}

/// A request for an image file: the `src` of an `<img local>` (ChatMD §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageRequest<'a> {
    /// The path, as written.
    pub src: &'a str,
}

impl<'a> ImageRequest<'a> {
    /// Creates a request for the file `src`.
    pub fn local(src: &'a str) -> Self {
        Self { src }
    }
}

/// The data of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageData {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Bytes in base64.
    pub base64: String,
}

impl ImageData {
    /// Creates an image from its media type and its bytes in base64.
    pub fn new(media_type: impl Into<String>, base64: impl Into<String>) -> Self {
        Self {
            media_type: media_type.into(),
            base64: base64.into(),
        }
    }
}

/// A request for the answer of an agent: an `<agent>` and its content (ChatMD §8.3).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentRequest<'a> {
    /// The prompt: path or address, as written.
    pub src: &'a str,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
    /// Input of the agent; may be empty.
    pub input: Vec<ContentBlock>,
}
