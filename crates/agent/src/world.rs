//! Local documents for a prompt, from the disk and below the roots.

use std::io::Read as _;
use std::path::Path;
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
/// transcript (`./.chatmd/…`) belong to the transcript's own folder and are looked for only there,
/// so that a transcript elsewhere never picks up another one's payloads.
#[derive(Clone, Debug)]
pub struct FileWorld {
    roots: Arc<Roots>,
    transcript: Arc<Roots>,
}

impl FileWorld {
    /// A world of `roots`, with the payloads of a transcript in `transcript_folder`.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn new(roots: Arc<Roots>, transcript_folder: &Path) -> Result<Self, RootError> {
        let transcript = Arc::new(Roots::new([transcript_folder.to_owned()])?);
        Ok(Self { roots, transcript })
    }
}

impl World for FileWorld {
    fn document(&mut self, request: &DocRequest<'_>) -> Result<String, WorldError> {
        let src = request.src;
        if !request.local || request.strip || request.markdown {
            return Err(WorldError::new(
                WorldErrorKind::Unsupported,
                format!("{src}: only local documents as they are can be read yet"),
            ));
        }
        let within = src.strip_prefix("./").unwrap_or(src);
        let is_payload = within
            .strip_prefix(PAYLOAD_FOLDER)
            .is_some_and(|rest| rest.starts_with('/'));
        let roots = if is_payload {
            &self.transcript
        } else {
            &self.roots
        };
        let (file, metadata) = roots.open_file(src).map_err(|error| match error {
            RootError::NotFound(_) => WorldError::new(WorldErrorKind::NotFound, error.to_string()),
            RootError::Outside(_) => {
                WorldError::new(WorldErrorKind::OutsideRoots, error.to_string())
            }
            _ => WorldError::new(WorldErrorKind::Other, error.to_string()),
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
        String::from_utf8(bytes).map_err(|_| {
            WorldError::new(WorldErrorKind::NotUtf8, format!("{src}: is not UTF-8 text"))
        })
    }
}
