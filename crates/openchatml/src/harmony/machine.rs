//! The state machine of every reader of Harmony.
//!
//! Its input is text and control tokens with their places, its output are [`Event`]s. Three states:
//!
//! | state | text is | ends at |
//! |---|---|---|
//! | between messages | white space, else a stray message | `<\|start\|>`, `<\|channel\|>` |
//! | in a header | held | `<\|message\|>`; anything else breaks it off |
//! | in a body | emitted at once | a stop token; `<\|start\|>` and `<\|channel\|>` cut it |
//!
//! It holds a header, white space in front of what may be stray text, and the beginning of one
//! character: each has a limit, so a body of any length costs no memory. Its buffers are used
//! again, so text in a body costs no allocation.

mod body;
mod header_recovery;

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::control::Control;
use super::event::{End, Event, HarmonyReadOptions, MessageEnd, MessageHeader};
use super::header::{Header, SegmentKind};
use super::recover::{self, Reading};

use crate::ControlToken;
use crate::limits::MAX_FRAME_HEADER;
use crate::syntax::utf8::Decoder;
use crate::syntax::vocabulary::FrameRole;
use body::check_stop;
use header_recovery::HeaderAbort;

/// A receiver of events.
pub(super) type Sink<'s> = dyn FnMut(Event<'_>) + 's;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    Header,
    Body,
    /// Strict, and there was an error.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Machine {
    state: State,
    strict: bool,
    tools: Vec<String>,
    /// The role of what names none: the assistant in a completion of its message.
    default_role: FrameRole,
    header: Header,
    /// White space since the last message, kept for stray text, and its place.
    blank: Vec<u8>,
    blank_from: usize,
    /// The message whose body is read.
    head: MessageHeader,
    start: usize,
    body_from: usize,
    decoder: Decoder,
    /// Whether the message is known not to be UTF-8.
    not_utf8: bool,
    last_role: FrameRole,
    last_end: Option<End>,
}

impl Machine {
    pub(super) fn new(options: HarmonyReadOptions) -> Self {
        let default_role = match options.start_role {
            Some(FrameRole::Assistant) => FrameRole::Assistant,
            _ => FrameRole::Other,
        };
        let mut machine = Self {
            state: State::Between,
            strict: options.strict,
            tools: options.tools,
            default_role,
            header: Header::default(),
            blank: Vec::new(),
            blank_from: 0,
            head: MessageHeader::new(default_role),
            start: 0,
            body_from: 0,
            decoder: Decoder::default(),
            not_utf8: false,
            last_role: default_role,
            last_end: None,
        };
        if let Some(role) = options.start_role {
            machine.header.open_implied(0, role);
            machine.state = State::Header;
        }
        machine
    }

    /// Text at `at`.
    pub(super) fn text(&mut self, mut bytes: &[u8], mut at: usize, sink: &mut Sink<'_>) {
        while !bytes.is_empty() {
            let used = match self.state {
                State::Stopped => return,
                State::Body => {
                    self.decode(bytes, at, sink);
                    return;
                }
                State::Header => {
                    let used = self.header.room().min(bytes.len());
                    if used == 0 {
                        self.break_off(HeaderAbort::TooLong, Span::empty(at), sink);
                    }
                    self.header.push(bytes.get(..used).unwrap_or_default(), at);
                    used
                }
                State::Between => self.between(bytes, at, sink),
            };
            bytes = bytes.get(used..).unwrap_or_default();
            at += used;
        }
    }

    /// Returns whether text of whole characters is one delta and changes nothing else.
    #[cfg(feature = "o200k")]
    pub(super) fn is_in_text(&self) -> bool {
        self.state == State::Body && self.decoder.held() == 0
    }

    /// The control token at `at`.
    pub(super) fn control(&mut self, control: Control, at: Span, sink: &mut Sink<'_>) {
        match self.state {
            State::Stopped => {}
            State::Between => self.control_between(control, at, sink),
            State::Header => self.control_in_header(control, at, sink),
            State::Body => self.control_in_body(control, at, sink),
        }
    }

    /// The end of the input.
    pub(super) fn finish(&mut self, end: usize, sink: &mut Sink<'_>) {
        let here = Span::empty(end);
        match self.state {
            State::Stopped | State::Between => {}
            State::Header if self.header.is_empty() => self.state = State::Between,
            State::Header => self.break_off(HeaderAbort::Eos, here, sink),
            State::Body => self.truncated(here, sink),
        }
    }

    /// Opens a body for content that requires one.
    pub(super) fn need_body(&mut self, at: Span, sink: &mut Sink<'_>) {
        match self.state {
            State::Between => self.open_stray(at.start, sink),
            State::Header => self.break_off(HeaderAbort::Body, at, sink),
            State::Body | State::Stopped => {}
        }
    }

    /// Handles the bytes at `at` of a literal block that is not closed.
    ///
    /// They may belong to no block: the message ends before them, and they are stray.
    pub(super) fn unclosed_literal(&mut self, at: usize, held: &[u8], sink: &mut Sink<'_>) {
        self.need_body(Span::empty(at), sink);
        let found = Diagnostic::error(
            DiagnosticCode::StreamTruncated,
            "the literal block is not closed in time",
            Span::new(self.start, at),
        );
        self.report(
            found
                .with_expected(format!(
                    "`<|endliteral|>` within {MAX_FRAME_HEADER} bytes of a control token in the block"
                ))
                .with_help("the message ends here as incomplete; what follows is kept and hidden"),
            sink,
        );
        self.end(End::Implicit, Span::empty(at), sink);
        if self.state != State::Stopped {
            self.open_stray(at, sink);
            self.decode(held, at, sink);
        }
    }

    /// An id that the vocabulary does not have: one U+FFFD.
    ///
    /// The first one of a body is reported, and each one outside.
    pub(super) fn unknown_id(&mut self, id: u32, at: Span, sink: &mut Sink<'_>) {
        if self.state != State::Body || !std::mem::replace(&mut self.not_utf8, true) {
            let message = format!("the token id {id} is not in the vocabulary");
            let found = Diagnostic::warning(DiagnosticCode::ParseStrayToken, message, at);
            self.report(
                found
                    .with_expected("an id of `o200k_harmony`")
                    .with_help("it is shown as U+FFFD"),
                sink,
            );
        }
        if self.state == State::Body {
            self.flush(at.start, sink);
            self.replace(at, sink);
        } else {
            self.text("\u{FFFD}".as_bytes(), at.start, sink);
        }
    }

    fn between(&mut self, bytes: &[u8], at: usize, sink: &mut Sink<'_>) -> usize {
        if self.blank.len() >= MAX_FRAME_HEADER {
            // White space of this length does not belong to stray text.
            self.blank.clear();
        }
        if self.blank.is_empty() {
            self.blank_from = at;
        }
        let room = MAX_FRAME_HEADER - self.blank.len();
        let window = bytes.get(..room).unwrap_or(bytes);
        let blank = window.iter().take_while(|byte| byte.is_ascii_whitespace());
        let used = blank.count();
        let (blank, rest) = window.split_at(used);
        self.blank.extend_from_slice(blank);
        if !rest.is_empty() {
            let found = Diagnostic::error(
                DiagnosticCode::ParseStrayText,
                "text is outside every message",
                Span::new(at + used, at + used + 1),
            );
            self.report(
                found
                    .with_expected("`<|start|>` or white space")
                    .with_help("it is kept as a message of its own and hidden"),
                sink,
            );
            self.open_stray(at + used, sink);
        }
        used
    }

    /// Opens a message for text outside every message.
    fn open_stray(&mut self, at: usize, sink: &mut Sink<'_>) {
        let start = if self.blank.is_empty() {
            at
        } else {
            self.blank_from
        };
        let mut head = MessageHeader::new(self.last_role);
        head.stray = true;
        head.sound = false;
        self.begin(head, start, start, sink);
        let blank = std::mem::take(&mut self.blank);
        self.decode(&blank, start, sink);
        self.blank = blank;
        self.blank.clear();
    }

    fn control_between(&mut self, control: Control, at: Span, sink: &mut Sink<'_>) {
        match control {
            Control::Token(ControlToken::Start) => {
                self.header.open(at);
                self.state = State::Header;
                self.blank.clear();
            }
            Control::Token(ControlToken::End) => self.stray_stop(End::End, at, sink),
            Control::Token(ControlToken::Call) => self.stray_stop(End::Call, at, sink),
            Control::Token(ControlToken::Return) => self.stray_stop(End::Return, at, sink),
            Control::Token(token @ (ControlToken::Channel | ControlToken::Constrain)) => {
                let found = Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    format!("`{token}` is outside every header"),
                    at,
                );
                self.report(
                    found
                        .with_expected("`<|start|>` and a role before it")
                        .with_help("it begins a message of the role before"),
                    sink,
                );
                self.continue_header(token, at);
            }
            Control::Token(_) => {
                self.need_body(at, sink);
                self.control_in_body(control, at, sink);
            }
            Control::EndOfText => {
                self.blank.clear();
                self.end_of_text(at, sink);
            }
        }
    }

    fn stray_stop(&mut self, end: End, at: Span, sink: &mut Sink<'_>) {
        self.blank.clear();
        let found = Diagnostic::warning(
            DiagnosticCode::ParseTerminator,
            format!("`<|{}|>` ends no message", end.as_str()),
            at,
        );
        self.report(
            found
                .with_expected("`<|start|>` or the end of the text")
                .with_help("it counts for the message before it if that ended in `<|end|>`"),
            sink,
        );
        if self.last_end == Some(End::End) && end != End::End && self.state != State::Stopped {
            self.last_end = Some(end);
            sink(Event::Amended(end));
        }
    }

    /// A header whose `<|start|>` and role are missing.
    fn continue_header(&mut self, token: ControlToken, at: Span) {
        if self.state == State::Stopped {
            return;
        }
        self.blank.clear();
        self.header.open_implied(at.start, self.last_role);
        self.header.segment(kind_of(token), at);
        self.state = State::Header;
    }

    fn control_in_header(&mut self, control: Control, at: Span, sink: &mut Sink<'_>) {
        match control {
            Control::Token(ControlToken::Message) => {
                let role = self.header.implied.unwrap_or(self.default_role);
                let reading = recover::read(&self.header, 0, false, role, &self.tools);
                self.begin_read(reading, self.header.start, at.end, sink);
            }
            Control::Token(token @ (ControlToken::Channel | ControlToken::Constrain)) => {
                if self.header.room() < at.len() {
                    self.break_off(HeaderAbort::TooLong, Span::empty(at.start), sink);
                    self.control(control, at, sink);
                } else {
                    self.header.segment(kind_of(token), at);
                }
            }
            Control::Token(ControlToken::End) => {
                self.break_off(HeaderAbort::Stop(End::End), at, sink);
            }
            Control::Token(ControlToken::Call) => {
                self.break_off(HeaderAbort::Stop(End::Call), at, sink);
            }
            Control::Token(ControlToken::Return) => {
                self.break_off(HeaderAbort::Stop(End::Return), at, sink);
            }
            Control::Token(ControlToken::Start) => {
                self.break_off(HeaderAbort::Start, at, sink);
                self.control(control, at, sink);
            }
            Control::Token(ControlToken::Literal | ControlToken::EndLiteral) => {
                self.text(control.as_str().as_bytes(), at.start, sink);
            }
            Control::EndOfText => {
                self.break_off(HeaderAbort::Eos, at, sink);
                self.end_of_text(at, sink);
            }
        }
    }

    fn control_in_body(&mut self, control: Control, at: Span, sink: &mut Sink<'_>) {
        match control {
            Control::Token(ControlToken::End) => self.end(End::End, at, sink),
            Control::Token(ControlToken::Call) => self.end(End::Call, at, sink),
            Control::Token(ControlToken::Return) => self.end(End::Return, at, sink),
            Control::Token(token @ (ControlToken::Start | ControlToken::Channel)) => {
                if !self.head.stray || token == ControlToken::Channel {
                    let found = Diagnostic::error(
                        DiagnosticCode::ParseHeader,
                        format!("`{token}` is in a message's body"),
                        at,
                    );
                    self.report(
                        found
                            .with_expected("`<|end|>`, `<|call|>` or `<|return|>` before it")
                            .with_help("the message ends here as incomplete and another begins"),
                        sink,
                    );
                }
                self.end(End::Implicit, Span::empty(at.start), sink);
                match self.state {
                    State::Stopped => {}
                    _ if token == ControlToken::Channel => self.continue_header(token, at),
                    _ => self.control(control, at, sink),
                }
            }
            Control::Token(ControlToken::Message) => {
                let found = Diagnostic::error(
                    DiagnosticCode::ParseStrayToken,
                    "`<|message|>` is in a message's body",
                    at,
                );
                self.report(
                    found
                        .with_expected("text or a stop token")
                        .with_help("the token is dropped, and the text around it is joined"),
                    sink,
                );
            }
            Control::Token(token) => {
                let found = Diagnostic::error(
                    DiagnosticCode::ParseStrayToken,
                    format!("`{token}` is in a message's body"),
                    at,
                );
                self.report(
                    found
                        .with_expected("text or a stop token")
                        .with_help("it is read as text"),
                    sink,
                );
                self.text(token.as_str().as_bytes(), at.start, sink);
            }
            Control::EndOfText => {
                self.end_of_text(at, sink);
                self.truncated(Span::empty(at.start), sink);
            }
        }
    }

    fn end_of_text(&mut self, at: Span, sink: &mut Sink<'_>) {
        let found = Diagnostic::warning(
            DiagnosticCode::ParseStrayToken,
            "`<|endoftext|>` is not a token of the envelope",
            at,
        );
        self.report(
            found
                .with_expected("a stop token")
                .with_help("it is read as the end of what the model wrote"),
            sink,
        );
    }

    /// The input ends in a body.
    fn truncated(&mut self, at: Span, sink: &mut Sink<'_>) {
        if self.head.stray {
            return self.end(End::Eos, at, sink);
        }
        let found = Diagnostic::error(
            DiagnosticCode::StreamTruncated,
            "the text ends before the message's stop token",
            Span::new(self.start, at.start),
        );
        self.report(
            found
                .with_expected("`<|end|>`, `<|call|>` or `<|return|>`")
                .with_help("the message is kept as incomplete"),
            sink,
        );
        self.end(End::Eos, at, sink);
    }

    /// Begins the message that a header is of.
    fn begin_read(&mut self, reading: Reading, start: usize, body: usize, sink: &mut Sink<'_>) {
        for note in reading.notes {
            self.report(note, sink);
        }
        let head = reading.head;
        if !reading.names_channel && matches!(head.role, FrameRole::Assistant | FrameRole::Tool) {
            let span = Span::new(start, body);
            let message = "the message names no channel";
            let found = match head.role {
                FrameRole::Tool => {
                    Diagnostic::warning(DiagnosticCode::ParseChannelMissing, message, span)
                }
                _ => Diagnostic::error(DiagnosticCode::ParseChannelMissing, message, span),
            };
            self.report(
                found
                    .with_expected("`<|channel|>` with `analysis`, `commentary` or `final`")
                    .with_help("the message is hidden, because its channel is not known"),
                sink,
            );
        }
        self.begin(head, start, body, sink);
    }

    fn begin(&mut self, head: MessageHeader, start: usize, body: usize, sink: &mut Sink<'_>) {
        if self.state == State::Stopped {
            return;
        }
        if !head.stray {
            self.last_role = head.role;
        }
        self.head = head;
        self.start = start;
        self.body_from = body;
        self.not_utf8 = false;
        self.state = State::Body;
        sink(Event::Start(&self.head));
    }

    /// Ends the message; `at` is its stop token, or empty.
    fn end(&mut self, end: End, at: Span, sink: &mut Sink<'_>) {
        if self.state != State::Body {
            return;
        }
        self.flush(at.start, sink);
        if let Some(found) = check_stop(&self.head, end, at) {
            self.report(found, sink);
        }
        if self.state == State::Stopped {
            return;
        }
        self.state = State::Between;
        self.last_end = Some(end);
        sink(Event::End(MessageEnd {
            end,
            complete: end.is_stop(),
            span: Span::new(self.start, at.end),
            body: Span::new(self.body_from.min(at.start), at.start),
        }));
    }

    /// Reports a finding. In strict mode the first error is the last event but for the end of the
    /// message that was open.
    fn report(&mut self, found: Diagnostic, sink: &mut Sink<'_>) {
        if self.state == State::Stopped {
            return;
        }
        let stop = self.strict && found.is_error();
        let at = found.primary;
        sink(Event::Diagnostic(found));
        if !stop {
            return;
        }
        let open = std::mem::replace(&mut self.state, State::Stopped) == State::Body;
        if open {
            let end = at.start.max(self.body_from);
            sink(Event::End(MessageEnd {
                end: End::Implicit,
                complete: false,
                span: Span::new(self.start, end),
                body: Span::new(self.body_from, end),
            }));
        }
    }
}

fn kind_of(token: ControlToken) -> SegmentKind {
    match token {
        ControlToken::Constrain => SegmentKind::Constrain,
        _ => SegmentKind::Channel,
    }
}
