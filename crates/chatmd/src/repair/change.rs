//! The changes of a repair.

use logue_source::Span;

/// One change of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Span in the input.
    pub span: Span,
    /// Kind of the change.
    pub kind: RepairKind,
    /// Description of the change, in one sentence without a period.
    pub what: String,
}

/// The kind of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RepairKind {
    /// A tag that consists of attributes lacks its slash.
    Stub,
    /// A summary quotes tags.
    Summary,
    /// A message mentions a tag, which is read as an element without a meaning there.
    Mention,
    /// The lines of a RAW block were indented by the writing program.
    Indentation,
    /// The last element is unfinished.
    Unclosed,
    /// An empty message is a template for the next input.
    Template,
}

impl RepairKind {
    /// Returns the name in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Summary => "summary",
            Self::Mention => "mention",
            Self::Indentation => "indentation",
            Self::Unclosed => "unclosed",
            Self::Template => "template",
        }
    }

    /// Returns the reason for the repair, in one sentence without a period.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Stub => "a tag without its slash stays open and contains the following text",
            Self::Summary => "the tags that a summary quotes are read as elements",
            Self::Mention => "a tag without a meaning in its place is not sent to the model",
            Self::Indentation => "the tabs were added when the text was saved",
            Self::Unclosed => "writing ended before the element did",
            Self::Template => "an empty message is not sent to the model",
        }
    }
}
