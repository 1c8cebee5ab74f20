//! Proposed changes, and the edits that they consist of.

use logue_source::Span;

use crate::edit::replacement::Replacement;
use crate::repair::change::RepairKind;
use crate::syntax::lexer::{RAW_CLOSE, RAW_OPEN};

/// A change with its edits, which only insert or only remove.
pub(super) struct Proposal {
    pub(super) span: Span,
    pub(super) kind: RepairKind,
    pub(super) what: String,
    pub(super) edits: Vec<Replacement>,
}

pub(super) fn insert(at: usize, text: impl Into<String>) -> Replacement {
    Replacement {
        span: Span::empty(at),
        text: text.into(),
    }
}

pub(super) fn remove(span: Span) -> Replacement {
    Replacement {
        span,
        text: String::new(),
    }
}

/// Adds the edits that wrap a part of a text in RAW blocks.
pub(super) fn wrap(text: &str, span: Span, edits: &mut Vec<Replacement>) {
    let part = span.text(text).unwrap_or_default();
    edits.push(insert(span.start, RAW_OPEN));
    for at in memchr::memmem::find_iter(part.as_bytes(), RAW_CLOSE) {
        edits.push(insert(span.start + at + 1, [RAW_CLOSE, RAW_OPEN].concat()));
    }
    edits.push(insert(span.end, RAW_CLOSE));
}
