//! The text of a message, and what may end it.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::super::event::{End, Event, MessageHeader};

use super::{Machine, Sink, State};
use crate::syntax::utf8::Piece;
use crate::syntax::vocabulary::{Channel, FrameRole};
use crate::visibility::Recipient;

impl Machine {
    pub(super) fn decode(&mut self, bytes: &[u8], at: usize, sink: &mut Sink<'_>) {
        if self.state == State::Stopped {
            return;
        }
        // Nearly all text is whole characters: those need no decoder.
        if self.decoder.held() == 0
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            if self.state == State::Body && !text.is_empty() {
                sink(Event::Delta(text));
            }
            return;
        }
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut place = at.saturating_sub(decoder.held());
        decoder.push(bytes, &mut |piece| match piece {
            Piece::Text(text) => {
                if self.state == State::Body {
                    sink(Event::Delta(text));
                }
                place += text.len();
            }
            Piece::Bad(length) => {
                self.replace(Span::new(place, place + length), sink);
                place += length;
            }
        });
        self.decoder = decoder;
    }

    /// Gives up on a character that the body has only the beginning of.
    pub(super) fn flush(&mut self, at: usize, sink: &mut Sink<'_>) {
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.flush(&mut |piece| {
            if let Piece::Bad(length) = piece {
                self.replace(Span::new(at.saturating_sub(length), at), sink);
            }
        });
    }

    /// One U+FFFD, with a diagnostic for the first of a message.
    pub(super) fn replace(&mut self, at: Span, sink: &mut Sink<'_>) {
        if !std::mem::replace(&mut self.not_utf8, true) {
            let found = Diagnostic::warning(
                DiagnosticCode::SourceNotUtf8,
                "the message is not valid UTF-8",
                at,
            );
            self.report(
                found
                    .with_expected("UTF-8 text")
                    .with_help("each invalid sequence is shown as U+FFFD"),
                sink,
            );
        }
        if self.state == State::Body {
            sink(Event::Delta("\u{FFFD}"));
        }
    }
}

/// Returns whether a message may end in its stop token.
pub(super) fn check_stop(head: &MessageHeader, end: End, at: Span) -> Option<Diagnostic> {
    let assistant = head.role == FrameRole::Assistant;
    let call = assistant && head.recipient() == Recipient::Tool;
    let (message, expected) = match end {
        End::Call if !assistant || head.recipient.is_none() => {
            ("`<|call|>` ends a message that calls no tool", "`<|end|>`")
        }
        End::End | End::Return if call => (
            "a message to a tool does not end in `<|call|>`",
            "`<|call|>`",
        ),
        End::Return if !assistant || head.known_channel() != Channel::Final => (
            "`<|return|>` ends a message that is not a final answer",
            "`<|end|>`",
        ),
        _ => return None,
    };
    Some(
        Diagnostic::warning(DiagnosticCode::ParseTerminator, message, at)
            .with_expected(expected)
            .with_help("the stop token is kept as it is"),
    )
}
