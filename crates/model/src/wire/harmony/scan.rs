//! Search for control tokens in the text of a completion.
//!
//! The text has neither the escapes nor the literal blocks of OpenChatML: a `<` before a token is an
//! ordinary `<`. The scanner therefore differs from the transcript reader; tokens become ids.

use openchatml::ControlToken;
use openchatml::harmony::control_id;

/// The id of `<|endoftext|>`.
const END_OF_TEXT: u32 = 199_999;

/// A piece of text or a control token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPiece<'t> {
    Text(&'t str),
    Control(u32),
}

/// An incremental scanner for control tokens.
///
/// The time is linear; the scanner retains less than one token.
#[derive(Debug, Default)]
pub(super) struct ControlScanner {
    retained: String,
}

impl ControlScanner {
    /// Scans the next piece.
    pub(super) fn push(&mut self, piece: &str, emit: &mut impl FnMut(TextPiece<'_>)) {
        let joined;
        let text = if self.retained.is_empty() {
            piece
        } else {
            self.retained.push_str(piece);
            joined = std::mem::take(&mut self.retained);
            &joined
        };
        let mut from = 0;
        let mut search = 0;
        while let Some(at) = text.get(search..).and_then(|text| text.find('<')) {
            let at = search + at;
            let remaining = text.get(at..).unwrap_or_default();
            let token = controls().find(|(token, _)| remaining.starts_with(token));
            if let Some((token, id)) = token {
                emit_text(text.get(from..at), emit);
                emit(TextPiece::Control(id));
                from = at + token.len();
                search = from;
            } else if controls().any(|(token, _)| token.starts_with(remaining)) {
                emit_text(text.get(from..at), emit);
                self.retained.push_str(remaining);
                return;
            } else {
                search = at + 1;
            }
        }
        emit_text(text.get(from..), emit);
    }

    /// Emits the retained text at the end.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(TextPiece<'_>)) {
        emit_text(Some(&std::mem::take(&mut self.retained)), emit);
    }
}

/// Splits a text before and after each complete control token.
pub(super) fn split_controls(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut left, mut search) = (text, 0);
    while let Some(at) = left.get(search..).and_then(|own| own.find('<')) {
        let at = search + at;
        let (before, remaining) = left.split_at(at);
        let token = controls().find(|(token, _)| remaining.starts_with(token));
        let Some((token, _)) = token else {
            search = at + 1;
            continue;
        };
        let (token, after) = remaining.split_at(token.len());
        parts.extend([before, token]);
        (left, search) = (after, 0);
    }
    parts.push(left);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the text of a control token, if it has one.
pub(super) fn control_text(id: u32) -> Option<&'static str> {
    controls().find(|(_, own)| *own == id).map(|(text, _)| text)
}

/// Returns whether a text is one control token.
pub(super) fn is_control_text(text: &str) -> bool {
    controls().any(|(token, _)| token == text)
}

fn emit_text(text: Option<&str>, emit: &mut impl FnMut(TextPiece<'_>)) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        emit(TextPiece::Text(text));
    }
}

fn controls() -> impl Iterator<Item = (&'static str, u32)> {
    let tokens = ControlToken::ALL.into_iter();
    tokens
        .filter_map(|token| Some((token.as_str(), control_id(token)?)))
        .chain([("<|endoftext|>", END_OF_TEXT)])
}
