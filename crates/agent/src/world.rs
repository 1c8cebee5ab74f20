//! Local documents for a prompt, from the disk and below the roots.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use chatmd::{DocRequest, World, WorldError, WorldErrorKind};
use logue_tools::{RootError, Roots};

/// Bytes of the largest document that is put into a message.
const MAX_DOCUMENT: u64 = 16 * 1024 * 1024;

/// The folder, beside a transcript, that holds its payload files.
pub(crate) const PAYLOAD_FOLDER: &str = ".chatmd";

/// The disk as a prompt may see it.
///
/// A document is looked for below the roots, the prompt's folder first. Payload files of a
/// transcript (`./.chatmd/…`) belong to the transcript's own folder and are looked for only in its
/// `.chatmd`, so that a transcript elsewhere neither picks up another one's payloads nor opens the
/// folder that it happens to be written to.
#[derive(Clone, Debug)]
pub struct FileWorld {
    roots: Arc<Roots>,
    payloads: PathBuf,
}

impl FileWorld {
    /// A world of `roots`, with the payloads of a transcript in `transcript_folder`.
    pub fn new(roots: Arc<Roots>, transcript_folder: &Path) -> Self {
        Self {
            roots,
            payloads: transcript_folder.join(PAYLOAD_FOLDER),
        }
    }

    fn open(&self, src: &str) -> Result<(File, Metadata), RootError> {
        match payload_name(src) {
            None => self.roots.open_file(src),
            Some(name) => {
                let absent = |_| RootError::NotFound(src.to_owned());
                Roots::new([self.payloads.clone()])
                    .map_err(absent)?
                    .open_file(name)
            }
        }
    }
}

impl World for FileWorld {
    fn document(&mut self, request: &DocRequest<'_>) -> Result<chatmd::DocumentText, WorldError> {
        let src = request.src;
        if !request.local || request.strip || request.markdown {
            return Err(WorldError::new(
                WorldErrorKind::Unsupported,
                format!("{src}: only local documents as they are can be read yet"),
            ));
        }
        let (file, metadata) = self.open(src).map_err(|error| {
            let kind = match error {
                RootError::NotFound(_) => WorldErrorKind::NotFound,
                RootError::Outside(_) => WorldErrorKind::OutsideRoots,
                _ => WorldErrorKind::Other,
            };
            WorldError::new(kind, error.to_string())
        })?;
        if metadata.len() > MAX_DOCUMENT {
            return Err(WorldError::new(
                WorldErrorKind::TooLarge,
                format!(
                    "{src}: has {} bytes, more than the {MAX_DOCUMENT} that a document may have",
                    metadata.len()
                ),
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_DOCUMENT)
            .read_to_end(&mut bytes)
            .map_err(|error| WorldError::new(WorldErrorKind::Other, format!("{src}: {error}")))?;
        String::from_utf8(bytes)
            .map(chatmd::DocumentText::from)
            .map_err(|_| {
                WorldError::new(WorldErrorKind::NotUtf8, format!("{src}: is not UTF-8 text"))
            })
    }
}

/// The name of a payload in its folder: one plain name, with nothing that climbs.
fn payload_name(src: &str) -> Option<&str> {
    let within = src.strip_prefix("./").unwrap_or(src);
    let name = within.strip_prefix(PAYLOAD_FOLDER)?.strip_prefix('/')?;
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Some(name),
        _ => None,
    }
}
