//! A world in memory.

use std::collections::BTreeMap;

use crate::world::error::{WorldError, WorldErrorKind, unsupported};
use crate::world::port::{DocumentRequest, DocumentText, ImportRequest, ImportedText, World};

/// A world with documents in memory; a leading `./` of a path is ignored.
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
    /// Creates a world without documents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document.
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
            return Err(unsupported("remote documents are not supported"));
        }
        self.documents
            .get(without_dot(request.src))
            .cloned()
            .map(DocumentText::from)
            .ok_or_else(|| WorldError::new(WorldErrorKind::NotFound, "document not found"))
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
                "document not found",
            )),
        }
    }
}

/// Resolves `src` against the directory of `importer`, without `.` and `..`.
fn resolve(importer: Option<&str>, src: &str) -> String {
    let directory = importer.and_then(|path| path.rsplit_once('/'));
    let directory = directory.map_or("", |(directory, _)| directory);
    let mut steps: Vec<&str> = Vec::new();
    for step in directory.split('/').chain(src.split('/')) {
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

fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
