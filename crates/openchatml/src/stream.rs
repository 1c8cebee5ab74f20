//! OpenChatML 2.2 and 2.0 as it arrives.
//!
//! ```text
//! bytes ─▶ preamble ─▶ tokens and text ─▶ the machine of `parse` ─▶ Event
//! ```
//!
//! [`Stream::push`] takes the bytes in any pieces. The document header is held until it is whole,
//! a frame's header until its `<|message|>`, what may be the beginning of a token or of a
//! character until it is one; a body is emitted at once. The events are those that [`parse`] would
//! make of the whole text, whatever the pieces are.
//!
//! A delta leaves only once the header of its frame is read, so whether it may be shown is known
//! before it comes ([`FrameHeader::is_visible`]). A literal block that is never closed must not show what
//! it swallowed: from the first control token in a block on, its text waits until the block closes.
//!
//! [`ResponseEventMapper`] makes of these events, and of Harmony's, what a client of a model is sent.
//!
//! [`parse`]: crate::parse

mod emit;
mod event;
mod response;

use logue_source::Span;

pub use event::{Event, FrameEnd, FrameHeader, StreamOptions};
pub use response::{Audience, MessageId, ResponseEvent, ResponseEventMapper, ResponsePart};

use crate::limits::{MAX_FRAME_HEADER, MAX_LITERAL_HELD};
use crate::read::machine::{Machine, State};
use crate::read::preamble;
use crate::syntax::findings::Findings;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::rules::Rules;
use crate::syntax::token::ControlToken;
use crate::syntax::token_stream::TokenStream;
use emit::{Emitter, Sink};

/// Bytes of a frame's header that are kept; later ones are not read.
const KEPT: usize = MAX_FRAME_HEADER + 64;

/// Reads OpenChatML 2.2 and 2.0 as it arrives (OpenChatML 2.2 §9).
///
/// Linear in the length of the text. Memory is bounded by the limits of the two headers and of a
/// literal block, never by a body; text in a body is emitted without a copy or an allocation.
///
/// ```
/// use openchatml::stream::{Event, StreamOptions, Stream};
///
/// let mut stream = Stream::new(StreamOptions::default());
/// let mut shown = String::new();
/// let mut visible = false;
/// let mut sink = |event: Event<'_>| match event {
///     Event::Start(head) => visible = head.is_visible(),
///     Event::Delta(text) if visible => shown.push_str(text),
///     _ => {}
/// };
/// for piece in ["version: 2.2\n<|st", "art|>assistant<|chan", "nel|>final<|message|>for", "ty-two<|ret", "urn|>"] {
///     stream.push(piece.as_bytes(), &mut sink);
/// }
/// stream.finish(&mut sink);
/// assert_eq!(shown, "forty-two");
/// ```
#[derive(Debug)]
pub struct Stream {
    machine: Machine,
    emitter: Emitter,
    rules: Rules,
    /// Input before the first frame, until its end is decided.
    preamble: Option<Vec<u8>>,
    search: preamble::Search,
    /// The beginning of a possible token.
    held: Vec<u8>,
    /// Whether a `<` of the text directly precedes the next input.
    bracket: bool,
    /// Bytes before what comes next, `held` not counted.
    at: usize,
    literal: Literal,
    /// Text of a literal block that waits for the block to close.
    block: Vec<u8>,
    /// The header that is being read, from its `<|start|>`.
    header: Vec<u8>,
    header_from: usize,
}

/// The state of the stream with regard to literal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    /// In none.
    Outside,
    /// In one of a body, with no control token in it so far.
    Open { open: Span },
    /// In one of a body that is held, from its first token on.
    Held { open: Span, from: usize },
    /// In one that belongs to no body, or did not close in time.
    Opaque,
}

impl Stream {
    /// A stream at its beginning.
    pub fn new(options: StreamOptions) -> Self {
        Self {
            machine: Machine::new(Rules::V2_2),
            emitter: Emitter::new(options),
            rules: Rules::V2_2,
            preamble: Some(Vec::new()),
            search: preamble::Search::default(),
            held: Vec::with_capacity(ControlToken::EndLiteral.as_str().len()),
            bracket: false,
            at: 0,
            literal: Literal::Outside,
            block: Vec::new(),
            header: Vec::new(),
            header_from: 0,
        }
    }

    /// The next bytes of the text.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        if let Some(mut preamble) = self.preamble.take() {
            preamble.extend_from_slice(bytes);
            if self.search.is_decided(&preamble) {
                self.open(&preamble, sink);
            } else {
                self.preamble = Some(preamble);
            }
            return;
        }
        self.feed_frames(bytes, sink);
    }

    /// The end of the text.
    pub fn finish(mut self, sink: &mut impl FnMut(Event<'_>)) {
        let sink: &mut Sink<'_> = sink;
        if let Some(preamble) = self.preamble.take() {
            self.open(&preamble, sink);
        }
        self.release(sink);
        match self.literal {
            Literal::Held { open, from } => self.lose(open, from, sink),
            Literal::Open { open } => {
                let window = OffsetSlice::new(&self.header, self.header_from);
                let mut output = self.emitter.to(self.at, sink);
                self.machine
                    .unclosed_literal(window, open, self.at, &mut output);
            }
            Literal::Outside | Literal::Opaque => {}
        }
        let window = OffsetSlice::new(&self.header, self.header_from);
        let mut output = self.emitter.to(self.at, sink);
        self.machine.finish(window, self.at, &mut output);
        output.flush();
    }

    /// Reads the document header and the text after it.
    fn open(&mut self, preamble: &[u8], sink: &mut Sink<'_>) {
        let mut findings = Findings::default();
        let read = preamble::read(preamble, &mut findings);
        self.rules = read.rules;
        self.machine = Machine::new(read.rules);
        self.at = read.frames_from;
        let mut output = self.emitter.to(self.at, sink);
        output.opened(read.header.as_ref(), findings);
        self.feed_frames(preamble.get(read.frames_from..).unwrap_or_default(), sink);
    }

    fn feed_frames(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        if !self.emitter.is_stopped() {
            self.feed(bytes, sink);
        }
    }

    /// Emits or keeps text, by the state of the machine.
    fn pass_text(&mut self, bytes: &[u8], at: usize, sink: &mut Sink<'_>) {
        match self.machine.state() {
            State::Body => self.emitter.to(at, sink).delta(bytes),
            State::Header { .. } => self.keep(bytes),
            State::Between { .. } => {
                let mut output = self.emitter.to(at, sink);
                self.machine.between(bytes, at, &mut output);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.header.len());
        self.header
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// The literal block that is held does not close in time.
    fn lose(&mut self, open: Span, from: usize, sink: &mut Sink<'_>) {
        self.literal = Literal::Opaque;
        let window = OffsetSlice::new(&self.header, self.header_from);
        let mut output = self.emitter.to(from, sink);
        self.machine
            .unclosed_literal(window, open, from, &mut output);
        self.machine.between(&self.block, from, &mut output);
        self.block = Vec::new();
    }

    /// A token that counts.
    fn control(&mut self, token: ControlToken, at: Span, sink: &mut Sink<'_>) {
        self.at = at.end;
        if token == ControlToken::Literal {
            self.literal = match self.machine.state() {
                State::Body => Literal::Open { open: at },
                _ => Literal::Opaque,
            };
        }
        let window = OffsetSlice::new(&self.header, self.header_from);
        let mut output = self.emitter.to(at.start, sink);
        let means_nothing = matches!(
            token,
            ControlToken::Message | ControlToken::Constrain | ControlToken::EndLiteral
        );
        if means_nothing && self.machine.state() == State::Body {
            output.delta(token.as_str().as_bytes());
        }
        self.machine.token(window, token, at, &mut output);
        output.flush();
        if token == ControlToken::Start {
            self.header.clear();
            self.header_from = at.start;
        }
        if matches!(self.machine.state(), State::Header { .. }) {
            self.keep(token.as_str().as_bytes());
        }
    }
}

impl<'s> TokenStream<Sink<'s>> for Stream {
    type Token = ControlToken;

    fn held(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    fn token_at(&self, text: &[u8]) -> Option<ControlToken> {
        ControlToken::at(text).filter(|token| self.rules.has(*token))
    }

    fn may_become_token(&self, text: &[u8]) -> bool {
        ControlToken::may_become(text)
    }

    fn token_len(token: ControlToken) -> usize {
        token.as_str().len()
    }

    fn text(&mut self, bytes: &[u8], sink: &mut Sink<'s>) {
        let Some(last) = bytes.last() else {
            return;
        };
        self.bracket = *last == b'<';
        let at = self.at;
        self.at += bytes.len();
        let Literal::Held { open, from } = self.literal else {
            self.pass_text(bytes, at, sink);
            return;
        };
        let room = MAX_LITERAL_HELD.saturating_sub(self.block.len());
        self.block
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if let Some(rest) = bytes.get(room..).filter(|rest| !rest.is_empty()) {
            self.lose(open, from, sink);
            self.pass_text(rest, at + room, sink);
        }
    }

    // A token is text if it is escaped or inside a literal block.
    fn token(&mut self, token: ControlToken, sink: &mut Sink<'s>) {
        let bytes = token.as_str().as_bytes();
        let at = Span::new(self.at, self.at + bytes.len());
        let escaped = std::mem::take(&mut self.bracket) && self.rules.escapes();
        let in_body = self.machine.state() == State::Body;
        match self.literal {
            Literal::Outside if escaped && in_body => {
                // The bracket at hand is left out, the one before it stays.
                self.at += 1;
                self.text(bytes.get(1..).unwrap_or_default(), sink);
                self.bracket = false;
            }
            Literal::Outside if escaped => {
                self.text(bytes, sink);
                self.bracket = false;
            }
            Literal::Outside => self.control(token, at, sink),
            literal if token == ControlToken::EndLiteral => {
                self.literal = Literal::Outside;
                if let Literal::Held { from, .. } = literal {
                    let block = std::mem::take(&mut self.block);
                    self.pass_text(&block, from, sink);
                }
                if in_body {
                    self.at = at.end;
                } else {
                    self.text(bytes, sink);
                }
                self.bracket = false;
            }
            Literal::Open { open } => {
                self.literal = Literal::Held {
                    open,
                    from: at.start,
                };
                self.text(bytes, sink);
            }
            Literal::Held { .. } | Literal::Opaque => self.text(bytes, sink),
        }
    }
}
