//! Reasoning of a model.

use super::{Payload, close, element, open, open_flagged};
use crate::syntax::tag::Tag;

/// Prefix of the number in a generated id of a reasoning record.
const REASONING_ID_PREFIX: &str = "reasoning_";

/// Reasoning of the model to write.
///
/// `signature`, `encrypted` and `continued` are extensions of Logue, which other readers of ChatMD
/// ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReasoningRecord<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// Number of the record in the file; its id if the provider assigned none.
    pub number: usize,
    /// The provider's status of the record.
    pub status: Option<&'a str>,
    /// The provider's signature over the reasoning.
    pub signature: Option<&'a str>,
    /// Reasoning that only the provider can decrypt.
    pub encrypted: Option<&'a str>,
    /// Whether the record continues the previous response although that has text already.
    pub continued: bool,
    /// Summaries of the reasoning.
    pub summaries: &'a [&'a str],
}

impl<'a> ReasoningRecord<'a> {
    /// Creates the n-th record of a file, without attributes of a provider.
    pub const fn new(number: usize, summaries: &'a [&'a str]) -> Self {
        Self {
            id: None,
            number,
            status: None,
            signature: None,
            encrypted: None,
            continued: false,
            summaries,
        }
    }

    /// Sets the provider's id of the record.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Option<&'a str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the number of the record in the file.
    #[must_use]
    pub const fn with_number(mut self, number: usize) -> Self {
        self.number = number;
        self
    }

    /// Sets the provider's status of the record.
    #[must_use]
    pub fn with_status(mut self, status: impl Into<Option<&'a str>>) -> Self {
        self.status = status.into();
        self
    }

    /// Sets the provider's signature over the reasoning.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<Option<&'a str>>) -> Self {
        self.signature = signature.into();
        self
    }

    /// Sets reasoning that only the provider can decrypt.
    #[must_use]
    pub fn with_encrypted(mut self, encrypted: impl Into<Option<&'a str>>) -> Self {
        self.encrypted = encrypted.into();
        self
    }

    /// Sets whether the record continues the previous response although that has text already.
    #[must_use]
    pub const fn with_continued(mut self, continued: bool) -> Self {
        self.continued = continued;
        self
    }
}

/// Writes `<reasoning>` with its summaries.
pub fn reasoning<S: AsRef<str>>(id: &str, summaries: &[S]) -> String {
    let mut out = String::new();
    open(&mut out, Tag::Reasoning, &[("id", Some(id))]);
    close_reasoning(&mut out, summaries);
    out
}

/// Writes `<reasoning>` with all attributes that a provider may assign.
///
/// ```
/// use chatmd::write;
///
/// let reasoning = write::ReasoningRecord::new(1, &["Hm."]);
/// assert_eq!(
///     write::reasoning_record(&reasoning),
///     "<reasoning id=\"reasoning_1\">\n<summary>\nRAW|Hm.|RAW</summary>\n</reasoning>\n"
/// );
/// ```
pub fn reasoning_record(reasoning: &ReasoningRecord<'_>) -> String {
    let generated = reasoning_id(reasoning.number);
    let attributes = [
        ("id", Some(reasoning.id.unwrap_or(&generated))),
        ("status", reasoning.status),
        ("signature", reasoning.signature),
        ("encrypted", reasoning.encrypted),
    ];
    let flags = [
        ("provider_id", reasoning.id.is_some_and(is_reasoning_id)),
        ("continued", reasoning.continued),
    ];
    let mut out = String::new();
    open_flagged(&mut out, Tag::Reasoning, &attributes, &flags);
    close_reasoning(&mut out, reasoning.summaries);
    out
}

/// Returns the generated id of the n-th reasoning record of a file.
///
/// ChatMD requires an id, and the provider may assign none. Reading treats such an id as missing.
pub fn reasoning_id(number: usize) -> String {
    format!("{REASONING_ID_PREFIX}{number}")
}

/// Returns whether an id is one of [`reasoning_id`].
pub(crate) fn is_reasoning_id(id: &str) -> bool {
    id.strip_prefix(REASONING_ID_PREFIX).is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn close_reasoning<S: AsRef<str>>(out: &mut String, summaries: &[S]) {
    out.push('\n');
    for summary in summaries {
        out.push_str(&element(
            Tag::Summary,
            &[],
            Payload::Inline(summary.as_ref()),
        ));
    }
    close(out, Tag::Reasoning);
}
