//! The port to the outside, and the requests and responses that pass it.

use logue_message::ContentBlock;

use crate::world::error::{WorldError, unsupported};

/// Gives what a document needs: texts, pictures, answers of agents.
pub trait World {
    /// The text of a document.
    ///
    /// # Errors
    /// The document cannot be had; evaluation reports it where the document is named.
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError>;

    /// The text that an import names.
    ///
    /// # Errors
    /// The text cannot be had; a world that does not say otherwise has none.
    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        Err(unsupported(&format!(
            "{}: imports are not at hand",
            request.src
        )))
    }

    /// A picture from a file.
    ///
    /// # Errors
    /// The picture cannot be had; a world that does not say otherwise has none.
    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        Err(unsupported(&format!(
            "{}: pictures are not at hand",
            request.src
        )))
    }

    /// What an agent says last when it is told something.
    ///
    /// # Errors
    /// The agent cannot be run, or failed; a world that does not say otherwise runs none.
    fn agent(&mut self, request: &AgentRequest<'_>) -> Result<String, WorldError> {
        Err(unsupported(&format!(
            "{}: agents are not run here",
            request.src
        )))
    }

    /// What [`ImportedText::id`] is for the document itself, so that an import of it is known as a
    /// cycle at once.
    fn root_id(&self) -> Option<String> {
        None
    }
}

/// A request for the text that an `<import>` names (ChatMD §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportRequest<'a> {
    /// The path, as written; relative to the importing file.
    pub src: &'a str,
    /// The [`ImportedText::id`] of the importing file; `None` if that is the document itself.
    pub importer: Option<&'a str>,
}

/// The text that an import names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedText {
    /// What it is: equal for two imports of the same file. Given back as
    /// [`ImportRequest::importer`] for the imports in it.
    pub id: String,
    /// What reports call it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// A request for a document: the attributes of its `<doc>` (ChatMD §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentRequest<'a> {
    /// Path or address, as written.
    pub src: &'a str,
    /// Whether it is a file rather than an address.
    pub local: bool,
    /// Whether HTML becomes plain text; wins over `markdown`.
    pub strip: bool,
    /// Whether HTML becomes Markdown.
    pub markdown: bool,
}

impl<'a> DocumentRequest<'a> {
    /// A request for the file `src` as it is.
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
pub struct DocumentText {
    /// The text, as it is.
    pub text: String,
    /// Its media type, such as `text/html`, where the world knows it.
    pub media_type: Option<String>,
}

impl From<String> for DocumentText {
    fn from(text: String) -> Self {
        Self {
            text,
            media_type: None,
        }
    }
}

/// A request for a picture from a file: the `src` of an `<img local>` (ChatMD §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageRequest<'a> {
    /// The path, as written.
    pub src: &'a str,
}

impl<'a> ImageRequest<'a> {
    /// A request for the file `src`.
    pub fn local(src: &'a str) -> Self {
        Self { src }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageData {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// A request for an agent's answer: an `<agent>` and what stands in it (ChatMD §8.3).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentRequest<'a> {
    /// The prompt: path or address, as written.
    pub src: &'a str,
    /// Whether it is a file rather than an address.
    pub local: bool,
    /// What the agent is told; empty if nothing is.
    pub input: Vec<ContentBlock>,
}
