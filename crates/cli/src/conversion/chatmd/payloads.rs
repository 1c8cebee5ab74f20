//! The payload files of a transcript (ChatMD §7.3), the only references that a conversion reads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chatmd::{
    DocumentRequest, DocumentText, ImageData, ImageRequest, World, WorldError, WorldErrorKind,
};
use logue_message::image_media_type;
use logue_tools::{FolderHandle, Roots};

/// The directory of payload files beside a transcript.
const FOLDER: &str = ".chatmd";

/// The size in bytes of the largest payload that is converted.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A world that contains only the payload files of one transcript.
#[derive(Debug)]
pub(crate) struct Payloads {
    /// The directory of the payload files; `None` if there is none.
    roots: Option<Roots>,
    read: BTreeSet<String>,
}

impl Payloads {
    /// Opens the payload files of a transcript in `folder`; without a folder there are none.
    pub(crate) fn beside(folder: Option<&Path>) -> Self {
        // A link in its place would lead to files that are not payloads.
        let roots = folder.and_then(|folder| {
            // The directory of a bare file name is empty.
            let beside = FolderHandle::open(&Path::new(".").join(folder)).ok()?;
            let payloads = beside.enter(OsStr::new(FOLDER)).ok()?;
            Some(Roots::of_folder(payloads))
        });
        Self {
            roots,
            read: BTreeSet::new(),
        }
    }

    /// Returns whether the payload `src` of a document was read.
    pub(crate) fn has_read(&self, src: &str) -> bool {
        self.read.contains(src)
    }

    /// Returns whether `src` is a payload that can be read.
    pub(crate) fn has(&self, src: &str) -> bool {
        self.text(&DocumentRequest::local(src)).is_some()
    }

    fn text(&self, request: &DocumentRequest<'_>) -> Option<String> {
        if !request.local || request.strip || request.markdown {
            return None;
        }
        String::from_utf8(self.bytes(request.src)?).ok()
    }

    fn bytes(&self, src: &str) -> Option<Vec<u8>> {
        let name = name(src)?;
        let opened = self.roots.as_ref()?.open_file(name).ok()?;
        if opened.metadata.len() > MAX_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        opened.file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl World for Payloads {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        let text = self.text(request).ok_or_else(|| {
            WorldError::new(
                WorldErrorKind::NotFound,
                "only payload files beside the transcript are read",
            )
        })?;
        self.read.insert(request.src.to_owned());
        Ok(DocumentText::from(text))
    }

    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        let bytes = self.bytes(request.src).unwrap_or_default();
        let media_type = image_media_type(&bytes).ok_or_else(|| {
            WorldError::new(
                WorldErrorKind::NotFound,
                "only payload files beside the transcript are read",
            )
        })?;
        self.read.insert(request.src.to_owned());
        Ok(ImageData::new(media_type, STANDARD.encode(bytes)))
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
