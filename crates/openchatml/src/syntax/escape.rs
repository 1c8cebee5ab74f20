//! Escapes and literal blocks, both ways.
//!
//! Reading: a body is the concatenation of pieces of its source, because an escape only leaves
//! out one `<` and a literal block only leaves out its two markers. So a body without either is
//! borrowed whole, and an offset in any body has a place in the source.
//!
//! Writing: every run of `<` before something that spells a token gets one more; a run of `<` at
//! the end of the body would swallow the terminator and goes into a literal block as a whole
//! (OpenChatML 2.2 §3).

use std::borrow::Cow;

use logue_source::Span;

use crate::syntax::rules::Rules;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;

/// The pieces of `source` whose concatenation is the text of the body at `body`.
pub(crate) fn pieces(source: &[u8], body: Span, rules: Rules) -> Pieces<'_> {
    Pieces {
        scanner: Scanner::new(source, body, rules),
        from: body.start,
        end: body.end.min(source.len()),
        literal: None,
    }
}

/// The text of a body; borrowed if it is one piece of the source.
pub(crate) fn decode(source: &[u8], body: Span, rules: Rules) -> Cow<'_, [u8]> {
    let mut pieces = pieces(source, body, rules);
    let Some(first) = pieces.next() else {
        return Cow::Borrowed(&[]);
    };
    let Some(second) = pieces.next() else {
        return Cow::Borrowed(first.bytes(source));
    };
    let mut text = Vec::with_capacity(body.len());
    text.extend_from_slice(first.bytes(source));
    text.extend_from_slice(second.bytes(source));
    for piece in pieces {
        text.extend_from_slice(piece.bytes(source));
    }
    Cow::Owned(text)
}

/// The source place of byte `offset` of a body's text.
///
/// An offset past the end gives the end of the body.
pub(crate) fn place(source: &[u8], body: Span, rules: Rules, offset: usize) -> usize {
    let mut left = offset;
    for piece in pieces(source, body, rules) {
        if left < piece.len() {
            return piece.start + left;
        }
        left -= piece.len();
    }
    body.end
}

/// Appends `body` to `out` so that reading gives exactly `body`, whatever terminator follows.
pub(crate) fn encode(out: &mut String, body: &str) {
    let kept = body.trim_end_matches('<');
    let whole = Span::new(0, kept.len());
    let mut from = 0;
    for hit in Scanner::new(body.as_bytes(), whole, Rules::V2_2) {
        out.push_str(kept.get(from..hit.span.start).unwrap_or_default());
        out.push('<');
        from = hit.span.start;
    }
    out.push_str(kept.get(from..).unwrap_or_default());
    if kept.len() < body.len() {
        out.push_str(ControlToken::Literal.as_str());
        out.push_str(body.get(kept.len()..).unwrap_or_default());
        out.push_str(ControlToken::EndLiteral.as_str());
    }
}

/// Iterator of [`pieces`]; no piece is empty.
pub(crate) struct Pieces<'s> {
    scanner: Scanner<'s>,
    from: usize,
    end: usize,
    /// The text of a literal block that is still to be given.
    literal: Option<Span>,
}

impl Iterator for Pieces<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        loop {
            if let Some(span) = self.literal.take().filter(|span| !span.is_empty()) {
                return Some(span);
            }
            let piece = match self.scanner.next() {
                Some(hit) if hit.escaped => {
                    let before = Span::new(self.from, hit.span.start - 1);
                    self.from = hit.span.start;
                    before
                }
                Some(hit) if hit.token == ControlToken::Literal => {
                    // A block that is never closed goes to the end of its frame, which was cut.
                    let close = self.scanner.skip_literal();
                    let close = close.unwrap_or(Span::empty(self.end));
                    let before = Span::new(self.from, hit.span.start);
                    self.literal = Some(Span::new(hit.span.end, close.start));
                    self.from = close.end;
                    before
                }
                Some(_) => continue,
                None => {
                    let rest = Span::new(self.from, self.end);
                    self.from = self.end;
                    return (!rest.is_empty()).then_some(rest);
                }
            };
            if !piece.is_empty() {
                return Some(piece);
            }
        }
    }
}
