//! A change that a repair made, and its kind.

use logue_source::Span;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place in the text that was given.
    pub span: Span,
    /// Why it was made.
    pub kind: RepairKind,
    /// What was done, in one sentence without a full stop.
    pub what: String,
}

/// What can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RepairKind {
    /// A tag that is all attributes lacks its slash.
    Stub,
    /// A summary quotes tags.
    Summary,
    /// A message mentions a tag, so a part of it is read as an element that means nothing there.
    Mention,
    /// The lines of a RAW block are indented by the program that wrote them.
    Indentation,
    /// The last element was not finished.
    Unclosed,
    /// An empty message that was put there to be filled in.
    Template,
}

impl RepairKind {
    /// The name that JSON uses.
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

    /// Why the repair is made, in one sentence without a full stop.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Stub => "a tag without its slash stays open and swallows what follows",
            Self::Summary => "a summary is text, and the tags that it quotes are read as elements",
            Self::Mention => "the model does not see a tag that means nothing where it stands",
            Self::Indentation => "the tabs were added when the text was saved",
            Self::Unclosed => "writing ended before the element did",
            Self::Template => "the model would see an empty message",
        }
    }
}
