//! Control tokens in text that arrives in pieces.
//!
//! The scan is one vectorised search for `<|`. What may be the beginning of a token at the end of a
//! piece is held back, at most the length of a token. A token with another `<` directly before it
//! is text without that bracket; text between `<|literal|>` and `<|endliteral|>` is text
//! (OpenChatML 2.2 §3). Models have no ids for these two, texts made of their tokens do.
//!
//! A block that is never closed must not show what follows it. So text of a block leaves at once
//! only up to the first control token in it; from there it is held until the block closes, and if
//! that does not come in time, the message is cut there and the rest is hidden.

use logue_source::Span;

use super::control::Control;
use super::event::{Event, HarmonyReadOptions};
use super::machine::{Machine, Sink};
use crate::ControlToken;
use crate::limits::MAX_FRAME_HEADER;
use crate::syntax::token_stream::TokenStream;

/// Reads Harmony text as it arrives.
///
/// The events are the same however the text is split, up to merging adjacent deltas. Linear in the
/// length of the text; memory is bounded by [`MAX_FRAME_HEADER`], and text in a body is emitted
/// without being copied or allocated for.
///
/// ```
/// use openchatml::harmony::{Event, HarmonyReadOptions, Stream};
/// use openchatml::FrameRole;
///
/// let mut stream = Stream::new(HarmonyReadOptions::default().with_start_role(FrameRole::Assistant));
/// let mut shown = String::new();
/// let mut visible = false;
/// let mut sink = |event: Event<'_>| match event {
///     Event::Start(head) => visible = head.is_visible(),
///     Event::Delta(text) if visible => shown.push_str(text),
///     _ => {}
/// };
/// for piece in ["<|chan", "nel|>final<|mess", "age|>for", "ty-two<|ret", "urn|>"] {
///     stream.push(piece.as_bytes(), &mut sink);
/// }
/// stream.finish(&mut sink);
/// assert_eq!(shown, "forty-two");
/// ```
#[derive(Debug)]
pub struct Stream {
    machine: Machine,
    /// The beginning of a possible token.
    held: Vec<u8>,
    /// Whether a `<` of the text directly precedes the next input.
    bracket: bool,
    /// Bytes before what comes next, `held` not counted.
    at: usize,
    literal: Literal,
    /// Text of a literal block that waits for the block to close.
    block: Vec<u8>,
    block_from: usize,
}

/// The state of the stream with regard to literal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    /// In none.
    Outside,
    /// In one, with no control token in it so far.
    Open,
    /// In one that is held.
    Held,
    /// In one that did not close in time.
    Lost,
}

impl Stream {
    /// A stream at its beginning.
    pub fn new(options: HarmonyReadOptions) -> Self {
        Self {
            machine: Machine::new(options),
            held: Vec::with_capacity(ControlToken::EndLiteral.as_str().len()),
            bracket: false,
            at: 0,
            literal: Literal::Outside,
            block: Vec::new(),
            block_from: 0,
        }
    }

    /// Reads the next chunk of the text.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let sink: &mut Sink<'_> = sink;
        self.feed(bytes, sink);
    }

    /// The end of the text.
    pub fn finish(mut self, sink: &mut impl FnMut(Event<'_>)) {
        let sink: &mut Sink<'_> = sink;
        self.release(sink);
        if self.literal == Literal::Held {
            self.lose(sink);
        }
        self.machine.finish(self.at, sink);
    }

    /// The literal block that is held does not close in time.
    fn lose(&mut self, sink: &mut Sink<'_>) {
        self.literal = Literal::Lost;
        self.machine
            .unclosed_literal(self.block_from, &self.block, sink);
        self.block.clear();
    }
}

impl<'s> TokenStream<Sink<'s>> for Stream {
    type Token = Control;

    fn held(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    fn token_at(&self, text: &[u8]) -> Option<Control> {
        Control::at(text)
    }

    fn may_become_token(&self, text: &[u8]) -> bool {
        Control::may_become(text)
    }

    fn token_len(token: Control) -> usize {
        token.as_str().len()
    }

    fn text(&mut self, bytes: &[u8], sink: &mut Sink<'s>) {
        let Some(last) = bytes.last() else {
            return;
        };
        self.bracket = *last == b'<';
        let at = self.at;
        self.at += bytes.len();
        if self.literal != Literal::Held {
            self.machine.text(bytes, at, sink);
            return;
        }
        let room = MAX_FRAME_HEADER - self.block.len().min(MAX_FRAME_HEADER);
        self.block
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if let Some(rest) = bytes.get(room..).filter(|rest| !rest.is_empty()) {
            self.lose(sink);
            self.machine.text(rest, at + room, sink);
        }
    }

    // A token is text if it is escaped or inside a literal block.
    fn token(&mut self, control: Control, sink: &mut Sink<'s>) {
        let bytes = control.as_str().as_bytes();
        let at = Span::new(self.at, self.at + bytes.len());
        match (self.literal, control) {
            (Literal::Outside, _) => {}
            (_, Control::Token(ControlToken::EndLiteral)) => {
                if self.literal == Literal::Held {
                    let block = std::mem::take(&mut self.block);
                    self.machine.text(&block, self.block_from, sink);
                    self.block = block;
                    self.block.clear();
                }
                self.literal = Literal::Outside;
                self.at = at.end;
                self.bracket = false;
                return;
            }
            (Literal::Open, _) => {
                self.literal = Literal::Held;
                self.block_from = at.start;
                self.text(bytes, sink);
                return;
            }
            (Literal::Held | Literal::Lost, _) => {
                self.text(bytes, sink);
                return;
            }
        }
        let bracket = std::mem::take(&mut self.bracket);
        match control {
            Control::EndOfText if bracket => self.text(bytes, sink),
            Control::Token(_) if bracket => {
                // The bracket at hand is left out, the one before it stays.
                self.at += 1;
                self.text(bytes.get(1..).unwrap_or_default(), sink);
            }
            Control::Token(ControlToken::Literal) => {
                self.at = at.end;
                self.literal = Literal::Open;
                self.machine.need_body(at, sink);
            }
            _ => {
                self.at = at.end;
                self.machine.control(control, at, sink);
            }
        }
    }
}
