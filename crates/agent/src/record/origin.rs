//! The origin of a transcript: the prompt in another directory that it began with.
//!
//! Paths of the transcript count from the origin, so the origin is bound to everything that its user
//! saw: the place of the transcript, its text at that time and the directory of the prompt. Text
//! that was added later names no files and declares no tools.

use std::path::{Path, PathBuf};

use chatmd::{Document, Element, ReferenceKind};
use logue_source::LineIndex;
use logue_tools::{EntryKind, FolderHandle};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::folder_of;
use crate::prepare::source::PromptLanguage;
use crate::prompt::file_loader::payload_name;

/// The reason why the recorded origin of a transcript is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginRefusal {
    /// The transcript is at another place.
    #[error("the transcript was moved")]
    Moved,
    /// The part of the transcript that its user started is different.
    #[error("the beginning of the transcript was changed after `-o` wrote it")]
    Changed,
    /// A later part of the transcript names a file or declares a tool.
    #[error("line {line} of the transcript, added later, names a file or changes the setup")]
    Extended {
        /// The line of the element, from 1.
        line: usize,
    },
    /// The directory of the prompt is missing or was replaced, or the prompt is missing.
    #[error("{} is not where it was: the file is missing, or a link replaced its directory", .prompt.display())]
    Replaced {
        /// The path of the prompt.
        prompt: PathBuf,
    },
}

/// The recorded origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedOrigin {
    /// The absolute path of the prompt, in a directory without links.
    pub(crate) prompt: String,
    /// The absolute path of the transcript: a copy of the record elsewhere does not count.
    pub(crate) transcript: String,
    /// The length of the transcript when the origin was recorded, in bytes.
    length: usize,
    /// The hash of those bytes.
    sha256: String,
}

impl RecordedOrigin {
    /// Describes the origin of a transcript with this text, if both paths are UTF-8.
    pub(crate) fn new(prompt: &Path, transcript: &Path, text: &str) -> Option<Self> {
        Some(Self {
            prompt: prompt.to_str()?.to_owned(),
            transcript: transcript.to_str()?.to_owned(),
            length: text.len(),
            sha256: hash(text.as_bytes()),
        })
    }

    /// Checks that the transcript and the directory are those of which the user decided.
    pub(crate) fn verify(
        &self,
        transcript: &Path,
        text: &str,
        language: PromptLanguage,
    ) -> Result<(), OriginRefusal> {
        if transcript.to_str() != Some(&*self.transcript) {
            return Err(OriginRefusal::Moved);
        }
        let start = text.as_bytes().get(..self.length);
        if start.is_none_or(|start| hash(start) != self.sha256) {
            return Err(OriginRefusal::Changed);
        }
        // Frames of OpenChatML name no files; their tools are in the header.
        if language == PromptLanguage::ChatMd
            && let Some(place) = setup_after(text, self.length)
        {
            let line = LineIndex::new(text.as_bytes()).line_of(place) + 1;
            return Err(OriginRefusal::Extended { line });
        }
        let prompt = Path::new(&self.prompt);
        if is_in_place(prompt) {
            return Ok(());
        }
        let prompt = prompt.to_owned();
        Err(OriginRefusal::Replaced { prompt })
    }
}

/// Returns whether the prompt exists and no link leads to its directory.
fn is_in_place(prompt: &Path) -> bool {
    let (folder, name) = (folder_of(prompt), prompt.file_name());
    let opened = FolderHandle::open(folder).ok();
    let opened = opened.filter(|opened| opened.path() == folder).zip(name);
    opened.is_some_and(|(opened, name)| {
        matches!(opened.kind(name), Ok(EntryKind::File | EntryKind::Link))
    })
}

/// Returns the place of the first element after `length` bytes that changes the setup.
///
/// It names a file, other than a payload, or is neither a message nor a record of a call.
fn setup_after(text: &str, length: usize) -> Option<usize> {
    let (document, _) = Document::from_tree(&chatmd::parse(text));
    let elements = document.elements.iter().filter(|element| {
        !matches!(
            element,
            Element::Message(_)
                | Element::ToolCall(_)
                | Element::ToolResponse(_)
                | Element::Reasoning(_)
                | Element::Variable(_)
        )
    });
    let references = document.references().filter(|reference| {
        let kinds = [ReferenceKind::Document, ReferenceKind::Image];
        let is_file = reference.local && kinds.contains(&reference.kind);
        !is_file || payload_name(reference.src).is_none()
    });
    let spans = elements.map(Element::span);
    let spans = spans.chain(references.map(|reference| reference.span));
    let later = spans.filter(|span| span.end > length);
    later.map(|span| span.start).min()
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
