//! The meaning of tokens: the state machine of the batch reader and the stream.
//!
//! Its input is tokens and the text between frames, with their places; a [`Handler`] receives what
//! they make. It holds one frame and never looks back; what a header says it looks up in the
//! [`OffsetSlice`] that it is given. Three states:
//!
//! | state | ends at |
//! |---|---|
//! | between frames | `<\|start\|>` |
//! | in a header | `<\|message\|>`; a terminator or `<\|start\|>` there breaks it off |
//! | in a body | a terminator; `<\|start\|>` and `<\|channel\|>` cut it |
//!
//! `<|channel|>` in a body means that a terminator was lost. What follows it may be private or
//! may only look like a header, so it is neither joined to the body nor believed: it becomes
//! stray text up to the next `<|start|>`, and is hidden (OpenChatML 2.2 §11).
//!
//! A literal block is opaque in every state, so that quoted text does not become a
//! frame when the text around it is malformed. An unclosed block hides the text after the
//! first token in it: that may be a frame, and it may be a quotation.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::frame::{Frame, Kind, Part};
use crate::limits::{MAX_BLANK, MAX_FRAME_HEADER, MAX_LITERAL_HELD};
use crate::read::attributes::{Segment, SegmentValidity, read_segment};
use crate::read::header_fast;
use crate::syntax::findings::Findings;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::rules::Rules;
use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};
use crate::visibility::Recipient;

/// The receiver of the machine's output.
pub(crate) trait Handler {
    /// A frame's header is read; its body follows.
    fn begun(&mut self, _window: OffsetSlice<'_>, _frame: &Frame) {}
    /// Stray text begins.
    fn stray_begun(&mut self, _at: usize) {}
    /// More of the stray text, without what is blank at its end so far.
    fn stray(&mut self, _text: &[u8]) {}
    /// White space in stray text, if more of it follows.
    fn blank(&mut self, _text: &[u8]) {}
    /// A frame or stray text ends, and is the receiver's to take. One that did not begin before has
    /// no body.
    fn ended(&mut self, window: OffsetSlice<'_>, frame: &mut Frame);
    /// The last frame, a call, continues to `end`.
    fn extended(&mut self, end: usize);
    /// The buffer for findings.
    fn findings(&mut self) -> &mut Findings;
}

/// The state of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Between frames; the stray text so far, without blanks at its end.
    Between {
        stray: Option<Span>,
    },
    Header {
        segment: Segment,
        /// The end of the token that opened the segment.
        from: usize,
        standing: SegmentValidity,
    },
    Body,
}

#[derive(Debug)]
pub(crate) struct Machine {
    rules: Rules,
    state: State,
    /// The frame that is being read.
    frame: Frame,
    /// The end of the last frame, if a call followed by white space only.
    behind_call: Option<usize>,
}

impl Machine {
    pub(crate) const fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Between { stray: None },
            frame: Frame::opened(Span::empty(0)),
            behind_call: None,
        }
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// One token that counts. Between frames only `<|start|>` and `<|end|>` are passed.
    pub(crate) fn token(
        &mut self,
        window: OffsetSlice<'_>,
        token: ControlToken,
        at: Span,
        out: &mut impl Handler,
    ) {
        match self.state {
            State::Between { stray } => match token {
                ControlToken::Start => {
                    self.end_stray(window, stray, out);
                    self.open(at);
                }
                ControlToken::End if self.behind_call.is_some() => {
                    self.behind_call = None;
                    out.extended(at.end);
                }
                _ => self.between(token.as_str().as_bytes(), at.start, out),
            },
            State::Header {
                segment,
                from,
                standing,
            } => {
                let part = Span::new(from, at.start);
                let standing = self.segment(window, segment, part, standing, out);
                self.in_header(window, standing, token, at, out);
            }
            State::Body => self.in_body(window, token, at, out),
        }
    }

    /// Reads the `<|start|>` at `at` with a header of the usual form.
    ///
    /// Returns the offset of the body, or `None` without output for any other header. Valid only
    /// between frames.
    pub(crate) fn begin(
        &mut self,
        window: OffsetSlice<'_>,
        at: Span,
        out: &mut impl Handler,
    ) -> Option<usize> {
        header_fast::read(window, at, self.rules, &mut self.frame)?;
        if let State::Between { stray } = self.state {
            self.end_stray(window, stray, out);
        }
        self.behind_call = None;
        self.state = State::Body;
        out.begun(window, &self.frame);
        Some(self.frame.body.start)
    }

    /// Text between frames: white space, with or without something stray in it.
    pub(crate) fn between(&mut self, mut text: &[u8], mut at: usize, out: &mut impl Handler) {
        let State::Between { mut stray } = self.state else {
            return;
        };
        while !text.is_empty() {
            let word = text.trim_ascii_start();
            let blank = text.len() - word.len();
            at += blank;
            if let Some(span) = stray
                && blank > 0
            {
                if at - span.end > MAX_BLANK {
                    self.end_stray(OffsetSlice::new(&[], at), stray.take(), out);
                } else {
                    let blank = text.get(..blank).unwrap_or_default();
                    out.blank(blank);
                }
            }
            let length = word.iter().position(u8::is_ascii_whitespace);
            let length = length.unwrap_or(word.len());
            if length > 0 {
                self.behind_call = None;
                let start = stray.map_or(at, |span| span.start);
                if stray.is_none() {
                    out.stray_begun(at);
                }
                stray = Some(Span::new(start, at + length));
                out.stray(word.get(..length).unwrap_or(word));
            }
            at += length;
            text = word.get(length..).unwrap_or_default();
        }
        self.state = State::Between { stray };
    }

    /// The end of the text.
    pub(crate) fn finish(&mut self, window: OffsetSlice<'_>, end: usize, out: &mut impl Handler) {
        match self.state {
            State::Between { stray } => self.end_stray(window, stray, out),
            State::Header {
                segment,
                from,
                standing,
            } => {
                self.segment(window, segment, Span::new(from, end), standing, out);
                out.findings().add(
                    Diagnostic::error(
                        DiagnosticCode::StreamTruncated,
                        "the text ends in a frame's header",
                        Span::new(self.frame.span.start, end),
                    )
                    .with_expected("`<|message|>`, a body and a terminator")
                    .with_help("the frame is kept as incomplete; complete it or remove it"),
                );
                self.broken_off(window, Span::empty(end), Terminator::None, out);
            }
            State::Body => {
                let message = "the text ends before the frame's terminator";
                self.cut(window, Span::empty(end), (message, None), out);
            }
        }
        self.state = State::Between { stray: None };
    }

    /// Handles the end of an unclosed literal block that began at `open`.
    ///
    /// The text ends or a token follows in the block. In a body the frame ends at `at`; later text
    /// may be anything.
    pub(crate) fn unclosed_literal(
        &mut self,
        window: OffsetSlice<'_>,
        open: Span,
        at: usize,
        out: &mut impl Handler,
    ) {
        if self.state != State::Body {
            return;
        }
        out.findings().add(
            Diagnostic::error(
                DiagnosticCode::StreamTruncated,
                "the literal block is never closed",
                open,
            )
            .with_expected(format!(
                "`<|endliteral|>`, at most {MAX_LITERAL_HELD} bytes after the first token in the block"
            ))
            .with_help("close the block, or write `<<|literal|>` if only its text is meant")
            .with_help("the frame is kept up to the first token; later text is hidden"),
        );
        self.close(window, Span::empty(at), Terminator::None, out);
        self.state = State::Between { stray: None };
    }

    fn open(&mut self, at: Span) {
        self.behind_call = None;
        self.frame = Frame::opened(at);
        self.state = State::Header {
            segment: Segment::Start,
            from: at.end,
            standing: SegmentValidity::Sound,
        };
    }

    fn end_stray(&mut self, window: OffsetSlice<'_>, stray: Option<Span>, out: &mut impl Handler) {
        let Some(span) = stray else {
            return;
        };
        out.findings().add(
            Diagnostic::error(
                DiagnosticCode::ParseStrayText,
                "text is outside every frame",
                span,
            )
            .with_expected("`<|start|>` or white space")
            .with_help("put it into a frame, or remove it; it is kept and hidden until then"),
        );
        out.ended(window, &mut Frame::stray_text(span));
        self.state = State::Between { stray: None };
    }

    fn segment(
        &mut self,
        window: OffsetSlice<'_>,
        segment: Segment,
        part: Span,
        standing: SegmentValidity,
        out: &mut impl Handler,
    ) -> SegmentValidity {
        let opened = self.frame.span;
        if part.end.saturating_sub(opened.end) > MAX_FRAME_HEADER {
            if standing == SegmentValidity::Sound {
                out.findings().add(
                    Diagnostic::error(
                        DiagnosticCode::ParseHeader,
                        format!("the frame's header is longer than {MAX_FRAME_HEADER} bytes"),
                        Span::new(opened.start, part.end),
                    )
                    .with_expected("`<|message|>` earlier than here")
                    .with_help("put long text into the body"),
                );
            }
            return SegmentValidity::Broken;
        }
        standing.and(read_segment(
            window,
            segment,
            part,
            &mut self.frame,
            out.findings(),
        ))
    }

    /// A token in a header, whose segment before it has been read.
    fn in_header(
        &mut self,
        window: OffsetSlice<'_>,
        standing: SegmentValidity,
        token: ControlToken,
        at: Span,
        out: &mut impl Handler,
    ) {
        let segment = match token {
            ControlToken::Message => {
                self.begin_body(window, standing, at, out);
                return;
            }
            ControlToken::Channel => Segment::Channel,
            ControlToken::Constrain => Segment::Constrain,
            ControlToken::Literal | ControlToken::EndLiteral => {
                out.findings().add(
                    Diagnostic::error(
                        DiagnosticCode::ParseHeader,
                        format!("`{token}` is in a frame's header"),
                        at,
                    )
                    .with_expected("`<|message|>` before it")
                    .with_help("a literal block is a part of a body"),
                );
                Segment::Misplaced
            }
            ControlToken::Start | ControlToken::End | ControlToken::Call | ControlToken::Return => {
                out.findings().add(
                    Diagnostic::error(
                        DiagnosticCode::ParseHeader,
                        "the frame's header has no `<|message|>`",
                        Span::new(self.frame.span.start, at.start),
                    )
                    .with_label(at, "the header breaks off here")
                    .with_expected("`<|message|>` followed by a body")
                    .with_help("write `<|message|>` between the header and the body"),
                );
                let terminator = Terminator::from_token(token).unwrap_or(Terminator::None);
                self.broken_off(window, at, terminator, out);
                if token == ControlToken::Start {
                    self.open(at);
                }
                return;
            }
        };
        self.state = State::Header {
            segment,
            from: at.end,
            standing: if segment == Segment::Misplaced {
                SegmentValidity::Broken
            } else {
                standing
            },
        };
    }

    fn begin_body(
        &mut self,
        window: OffsetSlice<'_>,
        standing: SegmentValidity,
        at: Span,
        out: &mut impl Handler,
    ) {
        let frame = &mut self.frame;
        frame.kind = Kind::Message;
        frame.body = Span::empty(at.end);
        frame.channel = match (standing, frame.part(Part::Channel)) {
            (SegmentValidity::Broken, _) => Channel::Unknown,
            (SegmentValidity::Sound, None) => Channel::Final,
            (SegmentValidity::Sound, Some(word)) => Channel::parse(window.get(word)),
        };
        self.check_names(out);
        self.state = State::Body;
        out.begun(window, &self.frame);
    }

    fn in_body(
        &mut self,
        window: OffsetSlice<'_>,
        token: ControlToken,
        at: Span,
        out: &mut impl Handler,
    ) {
        match token {
            ControlToken::End | ControlToken::Call | ControlToken::Return => {
                let terminator = Terminator::from_token(token).unwrap_or(Terminator::None);
                self.close(window, at, terminator, out);
            }
            ControlToken::Start => {
                let message = "the next frame begins before this one's terminator";
                self.cut(window, at, (message, Some("the next frame")), out);
                self.open(at);
            }
            ControlToken::Channel => {
                let message = "a channel is named in the frame's body";
                self.cut(window, at, (message, Some("the channel")), out);
                self.between(token.as_str().as_bytes(), at.start, out);
            }
            ControlToken::Literal => {}
            ControlToken::Message | ControlToken::Constrain | ControlToken::EndLiteral => {
                out.findings().add(
                    Diagnostic::error(
                        DiagnosticCode::ParseStrayToken,
                        format!("`{token}` has no meaning in a body and is read as text"),
                        at,
                    )
                    .with_expected(format!("`<{token}` for the text"))
                    .with_help("write one more `<` before it, or use a literal block"),
                );
            }
        }
    }

    /// Closes a frame at a terminator, or cut (`at` is then where it stops).
    fn close(
        &mut self,
        window: OffsetSlice<'_>,
        at: Span,
        terminator: Terminator,
        out: &mut impl Handler,
    ) {
        self.frame.body.end = at.start;
        self.frame.terminator = terminator;
        self.check_terminator(out);
        self.end_frame(window, out);
    }

    /// Closes a frame that has no terminator.
    fn cut(
        &mut self,
        window: OffsetSlice<'_>,
        at: Span,
        (message, label): (&str, Option<&str>),
        out: &mut impl Handler,
    ) {
        let span = Span::new(self.frame.span.start, at.start);
        let mut finding = Diagnostic::error(DiagnosticCode::StreamTruncated, message, span)
            .with_expected("`<|end|>`, `<|call|>` or `<|return|>`")
            .with_help("the frame is kept as incomplete; close it where its body ends");
        if let Some(text) = label {
            finding = finding.with_label(at, text);
        }
        out.findings().add(finding);
        self.close(window, at, Terminator::None, out);
    }

    /// Keeps a frame whose header never came to `<|message|>`.
    fn broken_off(
        &mut self,
        window: OffsetSlice<'_>,
        at: Span,
        terminator: Terminator,
        out: &mut impl Handler,
    ) {
        self.frame.channel = Channel::Unknown;
        self.frame.body = Span::empty(at.start);
        self.frame.terminator = terminator;
        self.end_frame(window, out);
    }

    fn end_frame(&mut self, window: OffsetSlice<'_>, out: &mut impl Handler) {
        let end = self.frame.terminator_span().end;
        self.frame.span.end = end;
        let may_go_on = self.rules == Rules::V2_0 && self.frame.terminator == Terminator::Call;
        self.behind_call = may_go_on.then_some(end);
        self.state = State::Between { stray: None };
        out.ended(window, &mut self.frame);
    }

    fn check_terminator(&self, out: &mut impl Handler) {
        let assistant = self.frame.role == FrameRole::Assistant;
        // A call of a tool was looked at when its header ended.
        let called = assistant && self.frame.recipient == Recipient::Participant;
        if called && self.frame.terminator == Terminator::Call {
            self.check_call_id("tool call", out);
        }
        let frame = &self.frame;
        let finding = match frame.terminator {
            Terminator::Call if !assistant || !frame.has_part(Part::To) => Diagnostic::error(
                DiagnosticCode::ParseTerminator,
                "`<|call|>` ends a frame that calls no tool",
                frame.terminator_span(),
            )
            .with_expected("`<|end|>`")
            .with_help("only an assistant frame with `to=` is a call"),
            Terminator::Return if !assistant || frame.channel != Channel::Final => {
                Diagnostic::error(
                    DiagnosticCode::ParseTerminator,
                    "`<|return|>` ends a frame that is not a final answer",
                    frame.terminator_span(),
                )
                .with_expected("`<|end|>`")
                .with_help("only an assistant frame on `final` ends in `<|return|>`")
            }
            Terminator::End if assistant && frame.recipient == Recipient::Tool => {
                Diagnostic::warning(
                    DiagnosticCode::ParseTerminator,
                    "a frame to a tool ends in `<|end|>`, so the tool is not called",
                    frame.terminator_span(),
                )
                .with_expected("`<|call|>`")
                .with_help("end the frame in `<|call|>` if the tool is to run")
            }
            _ => return,
        };
        out.findings().add(finding);
    }

    /// Calls and replies name their call, replies their tool (OpenChatML 2.2 §6, §8.2).
    fn check_names(&self, out: &mut impl Handler) {
        if self.rules == Rules::V2_0 {
            return;
        }
        let reply = self.frame.role == FrameRole::Tool;
        if reply {
            self.check_call_id("tool reply", out);
        } else if self.frame.role == FrameRole::Assistant && self.frame.recipient == Recipient::Tool
        {
            self.check_call_id("tool call", out);
        }
        if reply && !self.frame.has_part(Part::Name) {
            out.findings().add(
                Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    "the tool reply names no tool",
                    self.header_place(),
                )
                .with_expected("`name=` with the tool's name")
                .with_help("write it as the call's `to=` has it"),
            );
        }
    }

    fn check_call_id(&self, what: &str, out: &mut impl Handler) {
        if self.rules == Rules::V2_0 || self.frame.has_part(Part::CallId) {
            return;
        }
        out.findings().add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                format!("the {what} has no `call_id`"),
                self.header_place(),
            )
            .with_expected("`call_id=` in the start header")
            .with_help("a call and its reply carry the same unique id"),
        );
    }

    /// The place that a finding about the header underlines.
    fn header_place(&self) -> Span {
        let header = self.frame.header_span();
        if header.is_empty() {
            self.frame.span
        } else {
            header
        }
    }
}
