//! What evaluation asks of the world outside the document.
//!
//! The crate itself reads nothing. Whoever evaluates a document hands in a [`World`];
//! [`MemoryWorld`] is the one for tests and examples.

use std::collections::BTreeMap;
use std::fmt;

use logue_source::Code;

/// Gives evaluation the documents that it needs.
pub trait World {
    /// The text of a document.
    ///
    /// # Errors
    /// The document cannot be had; evaluation reports it where the document is named.
    fn document(&mut self, request: &DocRequest<'_>) -> Result<String, WorldError>;
}

/// A request for a document: the attributes of its `<doc>` (ChatMD §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocRequest<'a> {
    /// Path or address, as written.
    pub src: &'a str,
    /// Whether it is a file rather than an address.
    pub local: bool,
    /// Whether HTML becomes plain text; wins over `markdown`.
    pub strip: bool,
    /// Whether HTML becomes Markdown.
    pub markdown: bool,
}

impl<'a> DocRequest<'a> {
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

/// Why a document cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError {
    /// The kind of reason.
    pub kind: WorldErrorKind,
    /// The reason in one sentence without a full stop.
    pub message: String,
}

impl WorldError {
    /// An error of that kind.
    pub fn new(kind: WorldErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WorldError {}

/// Kinds of reasons why a document cannot be had.
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
    /// This world does not give documents of that kind.
    Unsupported,
    /// Anything else.
    Other,
}

impl WorldErrorKind {
    /// The code that a diagnostic about it carries.
    pub const fn code(self) -> Code {
        match self {
            Self::NotFound | Self::Other => Code::MdDocument,
            Self::OutsideRoots => Code::OutsideRoots,
            Self::NotUtf8 => Code::SourceNotUtf8,
            Self::TooLarge => Code::SourceTooLarge,
            Self::Unsupported => Code::MdUnsupported,
        }
    }
}

/// A world whose documents are in memory. A leading `./` of a path means nothing.
///
/// ```
/// use chatmd::{DocRequest, MemoryWorld, World};
///
/// let mut world = MemoryWorld::new().with("notes.md", "Be brief.");
/// assert_eq!(world.document(&DocRequest::local("./notes.md")).as_deref(), Ok("Be brief."));
/// assert!(world.document(&DocRequest::local("other.md")).is_err());
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
    fn document(&mut self, request: &DocRequest<'_>) -> Result<String, WorldError> {
        if !request.local || request.strip || request.markdown {
            return Err(WorldError::new(
                WorldErrorKind::Unsupported,
                "only local documents are at hand, and only as they are",
            ));
        }
        self.documents
            .get(without_dot(request.src))
            .cloned()
            .ok_or_else(|| WorldError::new(WorldErrorKind::NotFound, "there is no such document"))
    }
}

fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
