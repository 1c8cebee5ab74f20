//! Changes of a text that leave every other byte as it is.

use logue_source::Span;

/// One change: what stands at `span` becomes `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What is replaced; empty to insert.
    pub span: Span,
    /// What stands there afterwards.
    pub text: String,
}

/// Why changes cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// Two changes concern the same bytes.
    Overlap(Span, Span),
    /// A span that leaves the text or cuts a character.
    OutOfText(Span),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
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
pub fn apply(text: &str, mut changes: Vec<Replacement>) -> Result<String, EditError> {
    changes.sort_by_key(|change| (change.span.start, change.span.end));
    let mut out = String::with_capacity(text.len());
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
        out.push_str(kept);
        out.push_str(&change.text);
        last = span;
    }
    out.push_str(text.get(last.end..).unwrap_or_default());
    Ok(out)
}
