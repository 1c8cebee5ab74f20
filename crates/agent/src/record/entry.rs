//! The entries of a record, and their text with the binding.

use std::collections::BTreeMap;
use std::io;

use chatmd::DocumentText;
use logue_message::{ChatMessage, ContentBlock};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::record::origin::RecordedOrigin;

/// The version of the form.
const VERSION: u32 = 1;

/// One thing that evaluation obtained, and the request that obtained it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecordEntry {
    /// The kind of the request.
    pub kind: RecordKind,
    /// The path or address of the agent, document or prompt, as written.
    pub src: String,
    /// The hash of everything that was sent.
    pub key: String,
    /// The answer of the agent, the text of the document, or the rewritten prompt.
    pub text: String,
    /// The media type of a document, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// The kind of a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordKind {
    /// An agent was asked.
    Agent,
    /// A page was fetched.
    Document,
    /// A model rewrote the prompt.
    Prompt,
}

impl RecordKind {
    /// The name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Document => "document",
            Self::Prompt => "prompt",
        }
    }
}

impl RecordEntry {
    /// Returns the recorded document.
    pub(crate) fn into_page(self) -> DocumentText {
        let mut page = DocumentText::from(self.text);
        page.media_type = self.media_type;
        page
    }
}

/// The entries by their keys.
pub(crate) type Entries = BTreeMap<String, RecordEntry>;

/// The text of a record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordText {
    version: u32,
    /// The authentication code of the entries under the key of the user.
    pub(crate) binding: String,
    pub(crate) entries: Vec<RecordEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<RecordedOrigin>,
}

impl RecordText {
    /// Arranges entries, without their binding.
    pub(crate) fn new(entries: &Entries, origin: Option<RecordedOrigin>) -> Self {
        let mut entries: Vec<RecordEntry> = entries.values().cloned().collect();
        entries.sort_by(|one, other| {
            let place = |entry: &RecordEntry| (entry.kind, entry.src.clone(), entry.key.clone());
            place(one).cmp(&place(other))
        });
        Self {
            version: VERSION,
            binding: String::new(),
            entries,
            origin,
        }
    }

    /// Reads the text of a record.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text: Self = serde_json::from_slice(bytes)?;
        if text.version != VERSION {
            let message = format!("it has the version {}", text.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(text)
    }

    /// The bytes that the binding covers.
    pub(crate) fn covered(&self) -> io::Result<Vec<u8>> {
        let mut bytes = format!("logue evaluation record {VERSION}\n").into_bytes();
        serde_json::to_writer(&mut bytes, &(&self.entries, &self.origin))?;
        Ok(bytes)
    }

    pub(crate) fn into_entries(self) -> Entries {
        let entries = self.entries.into_iter();
        entries.map(|entry| (entry.key.clone(), entry)).collect()
    }
}

/// Returns the key of an entry: a hash of its kind and of everything that was sent.
pub(crate) fn entry_key(kind: RecordKind, sent: &[&str]) -> String {
    let parts = json!([kind.as_str(), sent]);
    format!("{:x}", Sha256::digest(parts.to_string()))
}

/// Returns the identity of an agent's place in the prompts that lead to it.
///
/// `number` counts equal requests of one document, which may have different answers.
pub(crate) fn place_key(
    caller: &str,
    src: &str,
    local: bool,
    input: &[ContentBlock],
    number: usize,
) -> String {
    let input = ChatMessage::user(input.to_vec()).to_json();
    let parts = json!([caller, src, local, input, number]);
    format!("{:x}", Sha256::digest(parts.to_string()))
}
