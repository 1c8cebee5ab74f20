//! Replacements of parts of a text.

use logue_source::{Diagnostic, Span};

use crate::syntax::tag::Tag;

/// One change: the text at `span` becomes `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replacement {
    /// Replaced span; empty for an insertion.
    pub span: Span,
    /// New text.
    pub text: String,
}

impl Replacement {
    /// Creates a replacement of the text at `span`.
    pub fn new(span: impl Into<Span>, text: impl Into<String>) -> Self {
        Self {
            span: span.into(),
            text: text.into(),
        }
    }
}

/// The reason why changes cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The tree has an error, so the extent of its elements is uncertain.
    Malformed(Box<Diagnostic>),
    /// The element belongs to another tree.
    OtherTree,
    /// The attribute name is invalid.
    InvalidName(String),
    /// The inserted text is not a sequence of elements.
    NotElements(String),
    /// The element consists of attributes and cannot have content.
    NoContent(Tag),
    /// Two changes affect the same bytes.
    Overlap(Span, Span),
    /// A span is outside the text or splits a character.
    OutOfText(Span),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "the text has errors: {}", error.message),
            Self::OtherTree => f.write_str("the element belongs to another text"),
            Self::InvalidName(name) => write!(f, "invalid attribute name {name:?}"),
            Self::NotElements(reason) => {
                write!(f, "not a sequence of elements: {reason}")
            }
            Self::NoContent(tag) => write!(f, "`<{tag}>` cannot have content"),
            Self::Overlap(first, second) => {
                write!(f, "the changes at {first:?} and {second:?} overlap")
            }
            Self::OutOfText(span) => write!(f, "invalid span {span:?}"),
        }
    }
}

impl std::error::Error for EditError {}

/// Applies all changes together.
///
/// Their order matters only for insertions at one position. Linear in the text and the changes, up to
/// the sorting of the changes.
///
/// # Errors
/// Returns [`EditError::Overlap`] if two changes overlap, and [`EditError::OutOfText`] if one does not
/// fit the text.
///
/// ```
/// use chatmd::edit::{Replacement, apply};
///
/// let change = Replacement::new(6..7, "b");
/// assert_eq!(apply("<user>a</user>", vec![change])?, "<user>b</user>");
/// # Ok::<(), chatmd::edit::EditError>(())
/// ```
pub fn apply(text: &str, changes: Vec<Replacement>) -> Result<String, EditError> {
    let mut out = String::with_capacity(text.len());
    join(text, changes, |part| out.push_str(part))?;
    Ok(out)
}

/// Passes the parts of the changed text to `emit`, in order.
pub(super) fn join(
    text: &str,
    mut changes: Vec<Replacement>,
    mut emit: impl FnMut(&str),
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
        emit(kept);
        emit(&change.text);
        last = span;
    }
    emit(text.get(last.end..).unwrap_or_default());
    Ok(())
}
