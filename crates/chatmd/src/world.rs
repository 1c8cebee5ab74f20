//! What reading and evaluating a document ask of the world outside it.
//!
//! The crate itself reads nothing. Whoever evaluates a document hands in a [`World`], or drives an
//! [`crate::Evaluator`] with answers from elsewhere;
//! [`MemoryWorld`] is the one for tests and examples.

use std::collections::BTreeMap;
use std::fmt;

use logue_message::ContentBlock;
use logue_source::DiagnosticCode;

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

/// Why something cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError {
    /// The kind of reason.
    pub kind: WorldErrorKind,
    /// The reason in one sentence without a full stop.
    pub message: String,
    /// What to do, each in one sentence.
    pub help: Vec<String>,
}

impl WorldError {
    /// An error of that kind.
    pub fn new(kind: WorldErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: Vec::new(),
        }
    }

    /// The same with one more piece of advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WorldError {}

/// Kinds of reasons why something cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorldErrorKind {
    /// There is no such document.
    NotFound,
    /// The path leads out of the roots.
    OutsideRoots,
    /// The document is not UTF-8 text.
    NotUtf8,
    /// The document is larger than allowed.
    TooLarge,
    /// This world does not give anything of that kind.
    Unsupported,
    /// Nobody allowed this world to ask that host.
    Denied,
    /// An agent cannot be run, or failed.
    Agent,
    /// A payload file of the transcript (ChatMD §7.3) is not there.
    PayloadMissing,
    /// A payload file is named by what it holds, and holds something else.
    PayloadChanged,
    /// Anything else.
    Other,
}

impl WorldErrorKind {
    /// The code that a diagnostic about it carries.
    pub const fn code(self) -> DiagnosticCode {
        match self {
            Self::NotFound | Self::Other => DiagnosticCode::MdDocumentUnreadable,
            Self::OutsideRoots => DiagnosticCode::OutsideRoots,
            Self::NotUtf8 => DiagnosticCode::SourceNotUtf8,
            Self::TooLarge => DiagnosticCode::SourceTooLarge,
            Self::Unsupported => DiagnosticCode::MdUnsupported,
            Self::Denied => DiagnosticCode::NetworkDenied,
            Self::Agent => DiagnosticCode::MdAgentFailed,
            Self::PayloadMissing => DiagnosticCode::MdPayloadMissing,
            Self::PayloadChanged => DiagnosticCode::MdPayloadChanged,
        }
    }
}

/// A world whose documents are in memory. A leading `./` of a path means nothing.
///
/// ```
/// use chatmd::{DocumentRequest, DocumentText, MemoryWorld, World};
///
/// let mut world = MemoryWorld::new().with("notes.md", "Be brief.");
/// let found = world.document(&DocumentRequest::local("./notes.md"));
/// assert_eq!(found, Ok(DocumentText::from("Be brief.".to_owned())));
/// assert!(world.document(&DocumentRequest::local("other.md")).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryWorld {
    documents: BTreeMap<String, String>,
}

impl MemoryWorld {
    /// A world without documents.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more document.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.insert(path, text);
        self
    }

    /// Adds or replaces a document.
    pub fn insert(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.documents
            .insert(without_dot(&path.into()).to_owned(), text.into());
    }
}

impl World for MemoryWorld {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        if !request.local {
            return Err(unsupported("only local documents are at hand"));
        }
        self.documents
            .get(without_dot(request.src))
            .cloned()
            .map(DocumentText::from)
            .ok_or_else(|| WorldError::new(WorldErrorKind::NotFound, "there is no such document"))
    }

    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        let path = resolve(request.importer, request.src);
        match self.documents.get(&path) {
            Some(text) => Ok(ImportedText {
                id: path.clone(),
                name: path,
                text: text.clone(),
            }),
            None => Err(WorldError::new(
                WorldErrorKind::NotFound,
                "there is no such document",
            )),
        }
    }
}

/// `src` as seen from the folder of `importer`, without `.` and `..`.
fn resolve(importer: Option<&str>, src: &str) -> String {
    let folder = importer.and_then(|path| path.rsplit_once('/'));
    let folder = folder.map_or("", |(folder, _)| folder);
    let mut steps: Vec<&str> = Vec::new();
    for step in folder.split('/').chain(src.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    steps.join("/")
}

fn unsupported(message: &str) -> WorldError {
    WorldError::new(WorldErrorKind::Unsupported, message)
}

fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
