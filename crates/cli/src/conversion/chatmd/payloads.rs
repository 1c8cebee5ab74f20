//! The payload files of a transcript (ChatMD §7.3), the only references that a conversion reads.

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::sync::Arc;

use chatmd::{
    Document, DocumentRequest, DocumentText, ImageData, ImageRequest, World, WorldError,
    WorldErrorKind,
};
use logue_agent::FileLoader;
use logue_source::Diagnostic;
use logue_tools::Roots;

/// The directory of payload files beside a transcript.
const FOLDER: &str = ".chatmd";

/// The maximum number of changed payloads that are reported.
const MAX_CHANGED: usize = 20;

/// The start of the names of payloads that are named by their hash.
const BY_CONTENT: &str = "sha256-";

/// A world that contains only the payload files of one transcript.
#[derive(Debug)]
pub(crate) struct Payloads {
    /// The reader of a run, for payload files only; `None` without a directory.
    files: Option<FileLoader>,
    read: BTreeSet<String>,
}

impl Payloads {
    /// Opens the payload files of a transcript in `folder`; without a folder there are none.
    pub(crate) fn beside(folder: Option<&Path>) -> Self {
        let files = folder.and_then(|folder| {
            // The directory of a bare file name is empty.
            let folder = Path::new(".").join(folder);
            let roots = Roots::new([folder.clone()]).ok()?;
            Some(FileLoader::new(Arc::new(roots), &folder))
        });
        Self {
            files,
            read: BTreeSet::new(),
        }
    }

    /// Returns whether the payload `src` of a document was read, or is refused.
    pub(crate) fn has_read(&self, src: &str) -> bool {
        self.read.contains(src)
    }

    /// Returns whether `src` is a payload that can be read, or that is refused.
    pub(crate) fn has(&self, src: &str) -> bool {
        match self.text(&DocumentRequest::local(src)) {
            Ok(_) => true,
            Err(error) => error.kind == WorldErrorKind::PayloadChanged,
        }
    }

    /// Returns the refusal of a payload that does not match the hash in its name.
    fn change(&self, src: &str) -> Option<WorldError> {
        let is_by_content = name(src).is_some_and(|name| name.starts_with(BY_CONTENT));
        let read = is_by_content.then(|| self.text(&DocumentRequest::local(src)));
        let error = read?.err()?;
        (error.kind == WorldErrorKind::PayloadChanged).then_some(error)
    }

    /// Returns errors for changed payloads of a document, up to a limit.
    pub(crate) fn changed(&self, document: &Document) -> Vec<Diagnostic> {
        let mut looked_at = BTreeSet::new();
        let references = document.references();
        let new = references.filter(|one| one.local && looked_at.insert(one.src));
        let changed = new.filter_map(|one| {
            let error = self.change(one.src)?;
            let message = format!("cannot read the payload {:?}: {error}", one.src);
            let finding = Diagnostic::error(error.kind.code(), message, one.span);
            Some(error.help.into_iter().fold(finding, Diagnostic::with_help))
        });
        changed.take(MAX_CHANGED).collect()
    }

    /// Returns the text of the payload `src`, if it is unchanged and can be read.
    pub(crate) fn content(&self, src: &str) -> Option<String> {
        let read = self.text(&DocumentRequest::local(src));
        read.ok().map(|document| document.text)
    }

    fn text(&self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        if request.strip || request.markdown {
            return Err(not_read());
        }
        self.loader(request.src)?.document(request)
    }

    /// Returns a reader of `src`, if that is a payload.
    fn loader(&self, src: &str) -> Result<FileLoader, WorldError> {
        let files = self.files.as_ref().filter(|_| name(src).is_some());
        files.cloned().ok_or_else(not_read)
    }

    /// Notes what was read or refused; other payloads count as not fetched.
    fn note<T>(&mut self, src: &str, found: Result<T, WorldError>) -> Result<T, WorldError> {
        match found {
            Err(error) if error.kind != WorldErrorKind::PayloadChanged => Err(not_read()),
            found => {
                self.read.insert(src.to_owned());
                found
            }
        }
    }
}

fn not_read() -> WorldError {
    let message = "only payload files beside the transcript are read";
    WorldError::new(WorldErrorKind::NotFound, message)
}

impl World for Payloads {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        let found = self.text(request);
        self.note(request.src, found)
    }

    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        let found = self.loader(request.src);
        let found = found.and_then(|mut files| files.image(request));
        self.note(request.src, found)
    }
}

/// Returns the plain name of a payload in its directory, without parent components.
fn name(src: &str) -> Option<&str> {
    let within = src.strip_prefix("./").unwrap_or(src);
    let name = within.strip_prefix(FOLDER)?.strip_prefix('/')?;
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Some(name),
        _ => None,
    }
}
