//! Replacements of parts of a text.

use logue_source::{Diagnostic, Span};

use crate::syntax::tag::Tag;

/// One change: what stands at `span` becomes `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What is replaced; empty to insert.
    pub span: Span,
    /// What stands there afterwards.
    pub text: String,
}

/// Why changes cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The tree has an error, so where its nodes end is a guess.
    Broken(Box<Diagnostic>),
    /// The node is none of this tree.
    OtherTree,
    /// An attribute cannot have this name.
    Name(String),
    /// What is to be put in is no sequence of elements.
    NotElements(String),
    /// The element says everything in its attributes and has no content.
    NoContent(Tag),
    /// Two changes concern the same bytes.
    Overlap(Span, Span),
    /// A span that leaves the text or cuts a character.
    OutOfText(Span),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Broken(error) => write!(f, "the text has errors: {}", error.message),
            Self::OtherTree => f.write_str("the element belongs to another text"),
            Self::Name(name) => write!(f, "an attribute cannot be called {name:?}"),
            Self::NotElements(reason) => {
                write!(f, "only elements can be put there: {reason}")
            }
            Self::NoContent(tag) => write!(f, "a `<{tag}>` has no content"),
            Self::Overlap(first, second) => {
                write!(
                    f,
                    "two changes, at {first:?} and {second:?}, concern the same text"
                )
            }
            Self::OutOfText(span) => write!(f, "the text has no {span:?}"),
        }
    }
}

impl std::error::Error for EditError {}

/// Makes all changes at once. Their order counts only where several insert at one place.
///
/// Linear in the text and the changes, up to the sorting of the changes.
///
/// # Errors
/// Two changes overlap, or one does not fit the text.
///
/// ```
/// use chatmd::edit::{Replacement, apply};
///
/// let change = Replacement { span: (6..7).into(), text: "b".into() };
/// assert_eq!(apply("<user>a</user>", vec![change])?, "<user>b</user>");
/// # Ok::<(), chatmd::edit::EditError>(())
/// ```
pub fn apply(text: &str, changes: Vec<Replacement>) -> Result<String, EditError> {
    let mut out = String::with_capacity(text.len());
    join(text, changes, |part| out.push_str(part))?;
    Ok(out)
}

/// Gives the parts of the changed text in order.
pub(super) fn join(
    text: &str,
    mut changes: Vec<Replacement>,
    mut give: impl FnMut(&str),
) -> Result<(), EditError> {
    changes.sort_by_key(|change| (change.span.start, change.span.end));
    let mut last = Span::empty(0);
    for change in &changes {
        let span = change.span;
        if span.start < last.end {
            return Err(EditError::Overlap(last, span));
        }
        let kept = text.get(last.end..span.start);
        let (Some(kept), Some(_)) = (kept, span.text(text)) else {
            return Err(EditError::OutOfText(span));
        };
        give(kept);
        give(&change.text);
        last = span;
    }
    give(text.get(last.end..).unwrap_or_default());
    Ok(())
}
