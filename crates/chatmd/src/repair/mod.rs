//! The repair of transcripts that earlier programs wrote and that no reader can read back.
//!
//! A repair adds what a writer left out (a slash, a closer, the delimiters of a RAW block) and takes
//! away what it put in (indentation, an empty message). What anybody said stays, byte by byte, white
//! space that was layout aside. Where it is not certain what was meant, the text stays as it is and
//! the error is among [`Repair::remaining`].

mod elements;
mod ends;
mod indented;
mod summaries;

use logue_source::{Diagnostic, Span};

use crate::edit::{Replacement, apply};
use crate::lexer::{RAW_CLOSE, RAW_OPEN};

/// Passes over a text; each may uncover what the one before it hid.
const PASSES: usize = 8;

pub(crate) use ends::is_cut;

/// The help of an error that [`repair`] mends.
pub(crate) const FIX: &str = "run `logue fix FILE` to repair it";

/// A repaired text.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The text after the changes: the one that was given, if there are none.
    pub text: String,
    /// What was changed, in the order of the text.
    pub changes: Vec<Change>,
    /// The errors that the text still has; their spans point into the text that was given.
    pub remaining: Vec<Diagnostic>,
}

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

/// Repairs a text; one without damage comes back as it is.
///
/// - `<doc … local>` and its like get their slash.
/// - The text of summaries that quote tags goes into RAW blocks. Such a summary ends at the
///   `</summary>` that another `<summary>` or the end of its `<reasoning>` follows.
/// - Tags in messages, calls and results that mean nothing there, or lack every attribute, become
///   the text that they are.
/// - The tabs that an earlier program put before every line of a RAW block are taken away where its
///   whole layout shows that it wrote the block.
/// - A last element that was not finished is closed, unless it is a call cut in its arguments.
/// - Empty `<user>` messages at the end of a transcript, or before another `<user>`, are removed.
///
/// Linear in the text.
///
/// ```
/// let text = "<tool_call tool_call_id=\"c\" function_name=\"f\">\n\
///     <doc src=\"./.chatmd/0.json\" local>\n</tool_call>\n<user>Go on.</user>\n";
/// let repair = chatmd::repair(text);
/// assert_eq!(repair.changes[0].kind, chatmd::RepairKind::Stub);
/// assert!(repair.text.contains("local/>"));
/// assert!(repair.remaining.is_empty());
/// ```
pub fn repair(text: &str) -> Repair {
    let mut repaired = text.to_owned();
    let mut changes = Vec::new();
    let mut origin = Origin::default();
    for _ in 0..PASSES {
        let proposals = proposals(&repaired);
        if proposals.is_empty() {
            break;
        }
        let edits = proposals
            .iter()
            .flat_map(|proposal| proposal.edits.clone())
            .collect();
        let Ok(next) = apply(&repaired, edits) else {
            break;
        };
        changes.extend(proposals.iter().map(|proposal| Change {
            span: origin.span(text, proposal.span),
            kind: proposal.kind,
            what: proposal.what.clone(),
        }));
        origin.push(&proposals);
        repaired = next;
    }
    changes.sort_by_key(|change| change.span.start);
    let mut remaining = crate::check(&repaired);
    remaining.retain(Diagnostic::is_error);
    for error in &mut remaining {
        error.primary = origin.span(text, error.primary);
        for label in &mut error.labels {
            label.span = origin.span(text, label.span);
        }
    }
    Repair {
        text: repaired,
        changes,
        remaining,
    }
}

/// What one pass changes: first the summaries, because what they quote may hide everything else.
fn proposals(text: &str) -> Vec<Proposal> {
    let found = summaries::proposals(text);
    if !found.is_empty() {
        return found;
    }
    let tree = crate::parse(text);
    let mut found = elements::proposals(&tree);
    if found.is_empty() {
        found = ends::proposals(&tree);
    }
    if found.is_empty() {
        found = indented::proposals(&tree);
    }
    found
}

/// A change with the edits that make it, which only insert or only remove.
struct Proposal {
    span: Span,
    kind: RepairKind,
    what: String,
    edits: Vec<Replacement>,
}

fn insert(at: usize, text: impl Into<String>) -> Replacement {
    Replacement {
        span: Span::empty(at),
        text: text.into(),
    }
}

fn remove(span: Span) -> Replacement {
    Replacement {
        span,
        text: String::new(),
    }
}

/// The edits that put a part of a text into RAW blocks.
fn wrap(text: &str, span: Span, edits: &mut Vec<Replacement>) {
    let part = span.text(text).unwrap_or_default();
    edits.push(insert(span.start, RAW_OPEN));
    for at in memchr::memmem::find_iter(part.as_bytes(), RAW_CLOSE) {
        edits.push(insert(span.start + at + 1, [RAW_CLOSE, RAW_OPEN].concat()));
    }
    edits.push(insert(span.end, RAW_CLOSE));
}

/// The way from places of a repaired text to those of the text that was given.
#[derive(Default)]
struct Origin {
    passes: Vec<Vec<Moved>>,
}

/// From `new` on, bytes stand as far from it as they stood from `old`, up to the next one.
#[derive(Clone, Copy)]
struct Moved {
    new: usize,
    old: usize,
}

impl Origin {
    fn push(&mut self, proposals: &[Proposal]) {
        let mut edits: Vec<&Replacement> = proposals
            .iter()
            .flat_map(|proposal| &proposal.edits)
            .collect();
        edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
        let (mut added, mut removed) = (0, 0);
        let moves = edits.into_iter().flat_map(|edit| {
            let begin = Moved {
                new: edit.span.start + added - removed,
                old: edit.span.start,
            };
            added += edit.text.len();
            removed += edit.span.len();
            let end = Moved {
                new: begin.new + edit.text.len(),
                old: edit.span.end,
            };
            [begin, end]
        });
        self.passes.push(moves.collect());
    }

    fn span(&self, text: &str, span: Span) -> Span {
        let [start, end] =
            [span.start, span.end].map(|at| text.floor_char_boundary(self.offset(at)));
        Span::new(start, end.max(start))
    }

    fn offset(&self, at: usize) -> usize {
        self.passes.iter().rev().fold(at, |at, moves| {
            let next = moves.partition_point(|moved| moved.new <= at);
            let Some(last) = next.checked_sub(1).and_then(|last| moves.get(last)) else {
                return at;
            };
            let back = last.old + (at - last.new);
            // Inside what was inserted there is only the place of the insertion.
            moves.get(next).map_or(back, |next| back.min(next.old))
        })
    }
}
