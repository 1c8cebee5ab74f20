//! The payload files of a transcript (ChatMD §7.3): the only ones that a conversion reads.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Component, Path};

use chatmd::{DocumentRequest, DocumentText, World, WorldError, WorldErrorKind};
use logue_tools::Roots;

/// The folder beside a transcript that holds them.
const FOLDER: &str = ".chatmd";

/// Bytes of the largest payload that is put into a transcript.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A world that has the payload files of one transcript and nothing else.
#[derive(Debug)]
pub(crate) struct Payloads {
    /// The folder that holds them; `None` where there is none.
    roots: Option<Roots>,
    read: BTreeSet<String>,
}

impl Payloads {
    /// Those of a transcript in `folder`; none for one that is in no file.
    pub(crate) fn beside(folder: Option<&Path>) -> Self {
        let roots = folder.and_then(|folder| Roots::new([folder.join(FOLDER)]).ok());
        Self {
            roots,
            read: BTreeSet::new(),
        }
    }

    /// Whether the payload that a document names was read.
    pub(crate) fn has_read(&self, src: &str) -> bool {
        self.read.contains(src)
    }

    fn text(&self, request: &DocumentRequest<'_>) -> Option<String> {
        if !request.local || request.strip || request.markdown {
            return None;
        }
        let name = name(request.src)?;
        let (file, metadata) = self.roots.as_ref()?.open_file(name).ok()?;
        if metadata.len() > LARGEST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        String::from_utf8(bytes).ok()
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
}

/// The name of a payload in its folder: one plain name, with nothing that climbs.
fn name(src: &str) -> Option<&str> {
    let within = src.strip_prefix("./").unwrap_or(src);
    let name = within.strip_prefix(FOLDER)?.strip_prefix('/')?;
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Some(name),
        _ => None,
    }
}
