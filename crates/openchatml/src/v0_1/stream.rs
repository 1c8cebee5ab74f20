//! 0.1 as it arrives: tokens in bytes, events out.

use logue_source::{Diagnostic, Span};

use super::event::{Event, Function, LegacyReadOptions, MessageEnd, MessageHeader, TextKind};
use super::machine::{Handler, Machine};
use super::marker::{Marker, Thought};
use crate::syntax::token_stream::TokenStream;
use crate::syntax::utf8::Decoder;

/// Reads OpenChatML 0.1 or plain `ChatML` as it arrives.
///
/// The events are the same however the text is split, up to merging adjacent deltas, and those that
/// [`parse`](super::parse) is made of. Linear in the length of the text; memory is bounded by the
/// limits of a role line and of a function value, never by a message.
///
/// ```
/// use openchatml::v0_1::{Event, TextKind, LegacyReadOptions, Stream};
///
/// let mut said = String::new();
/// let mut stream = Stream::new(LegacyReadOptions::default());
/// let mut sink = |event: Event<'_>| {
///     if let Event::Delta { kind: TextKind::Text, text } = event {
///         said += text;
///     }
/// };
/// let text = "<|im_start|>assistant\n<|start_reason|>Hm.<|end_reason|>\nForty-two.<|im_end|>";
/// for piece in text.as_bytes().chunks(5) {
///     stream.push(piece, &mut sink);
/// }
/// stream.finish(&mut sink);
/// assert_eq!(said, "Forty-two.");
/// ```
#[derive(Debug)]
pub struct Stream {
    machine: Machine,
    decoder: Decoder,
    /// The kind of the text whose last character is partial.
    kind: TextKind,
    /// The beginning of a possible token.
    held: Vec<u8>,
    /// Bytes before what comes next, `held` not counted.
    at: usize,
}

impl Stream {
    /// A stream at its beginning.
    pub fn new(options: LegacyReadOptions) -> Self {
        Self {
            machine: Machine::new(options),
            decoder: Decoder::default(),
            kind: TextKind::Text,
            held: Vec::with_capacity(Marker::FunctionOutput.as_str().len()),
            at: 0,
        }
    }

    /// The next bytes of the text.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) {
        let (mut decoder, mut kind) = (std::mem::take(&mut self.decoder), self.kind);
        let mut out = EventEmitter {
            decoder: &mut decoder,
            kind: &mut kind,
            sink,
        };
        self.feed(bytes, &mut out);
        (self.decoder, self.kind) = (decoder, kind);
    }

    /// The end of the text.
    pub fn finish(mut self, sink: &mut impl FnMut(Event<'_>)) {
        let (mut decoder, mut kind) = (std::mem::take(&mut self.decoder), self.kind);
        let mut out = EventEmitter {
            decoder: &mut decoder,
            kind: &mut kind,
            sink,
        };
        self.end(&mut out);
    }

    /// Ends the text.
    pub(super) fn end(&mut self, out: &mut impl Handler) {
        self.release(out);
        self.machine.finish(self.at, out);
    }
}

impl<H: Handler> TokenStream<H> for Stream {
    type Token = Marker;

    fn held(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    fn token_at(&self, text: &[u8]) -> Option<Marker> {
        Marker::at(text, self.machine.is_plain())
    }

    fn may_become_token(&self, text: &[u8]) -> bool {
        Marker::may_become(text, self.machine.is_plain())
    }

    fn token_len(token: Marker) -> usize {
        token.as_str().len()
    }

    fn text(&mut self, bytes: &[u8], out: &mut H) {
        let at = self.at;
        self.at += bytes.len();
        self.machine.text(bytes, at, out);
    }

    fn token(&mut self, mark: Marker, out: &mut H) {
        let at = Span::new(self.at, self.at + mark.as_str().len());
        self.at = at.end;
        self.machine.mark(mark, at, out);
    }
}

/// The mapping of the machine's output to events.
struct EventEmitter<'t, F> {
    decoder: &'t mut Decoder,
    kind: &'t mut TextKind,
    sink: &'t mut F,
}

impl<F: FnMut(Event<'_>)> Handler for EventEmitter<'_, F> {
    fn start(&mut self, head: &MessageHeader) {
        (self.sink)(Event::Start(head));
    }

    fn text(&mut self, kind: TextKind, text: &[u8], _at: usize) {
        *self.kind = kind;
        let sink = &mut *self.sink;
        self.decoder
            .push_lossy(text, &mut |text| sink(Event::Delta { kind, text }));
    }

    fn close(&mut self) {
        let (kind, sink) = (*self.kind, &mut *self.sink);
        self.decoder.flush(&mut |piece| {
            let text = piece.lossy();
            sink(Event::Delta { kind, text });
        });
    }

    fn thought(&mut self, thought: Thought, _at: usize) {
        (self.sink)(Event::ThoughtStart(thought));
    }

    fn thought_end(&mut self, thought: Thought) {
        (self.sink)(Event::ThoughtEnd(thought));
    }

    fn flag(&mut self, thought: Thought, _at: Span) {
        (self.sink)(Event::Flag(thought));
    }

    fn function(&mut self, function: Function, json: &[u8], _at: Span) {
        // What is JSON is UTF-8.
        if let Ok(json) = std::str::from_utf8(json) {
            (self.sink)(Event::Function(function, json));
        }
    }

    fn unfinished(&mut self, function: Function, text: &[u8], _at: usize) {
        let text = String::from_utf8_lossy(text);
        (self.sink)(Event::Unfinished(function, &text));
    }

    fn end(&mut self, ended: MessageEnd) {
        (self.sink)(Event::End(ended));
    }

    fn found(&mut self, finding: Diagnostic) {
        (self.sink)(Event::Diagnostic(finding));
    }
}
