//! The reader: tokens in, frames out.
//!
//! A scanner finds the tokens, a state machine gives them their meaning, one step a token. The
//! machine holds spans and never looks back, so the same steps serve a text that arrives in
//! parts. Three states:
//!
//! | state | ends at |
//! |---|---|
//! | between frames | `<\|start\|>` |
//! | in a header | `<\|message\|>`; a terminator or `<\|start\|>` there breaks it off |
//! | in a body | a terminator; `<\|start\|>` and `<\|channel\|>` cut it |
//!
//! `<|channel|>` in a body means that a terminator was lost. What follows it may be private or
//! may only look like a header, so it is neither joined to the body nor believed: it becomes
//! stray text up to the next `<|start|>`, and is hidden (OpenChatML 2.2 §11). The same holds for
//! everything behind a `<|literal|>` in a body that is never closed.
//!
//! A literal block is opaque in every state, so that what somebody quoted in one does not become
//! a frame when the text around it is broken. Outside a body an opener without a closer is only
//! a misplaced token.

use logue_source::{Code, Diagnostic, Span};

use crate::attributes::{Segment, Standing, read_segment};
use crate::document::Document;
use crate::findings::Findings;
use crate::frame::Frame;
use crate::header::Rules;
use crate::limits::MAX_FRAME_HEADER;
use crate::opening;
use crate::token::{Scanner, Token};
use crate::view::Addressee;
use crate::words::{Channel, Role, Terminator};

/// Reads a transcript. Never fails: what is wrong is a diagnostic, and every byte is in the
/// result. Linear in the length of `source`, and copies nothing of it but the document header.
///
/// Implements OpenChatML 2.2 §2, §3 and §6.
pub fn parse(source: &[u8]) -> Document<'_> {
    let mut findings = Findings::default();
    let opening = opening::read(source, &mut findings);
    let part = Span::new(opening.frames_from, source.len());
    let mut machine = Machine {
        source,
        frames: Vec::new(),
        findings,
        rules: opening.rules,
        state: State::Between { from: part.start },
    };
    let mut scanner = Scanner::new(source, part, opening.rules);
    while let Some(hit) = scanner.next() {
        if hit.escaped {
            continue;
        }
        match machine.step(hit.token, hit.span) {
            Step::Next => {}
            Step::SkipLiteral => {
                if scanner.skip_literal().is_none() && machine.unclosed_literal(hit.span) {
                    break;
                }
            }
        }
    }
    machine.finish(source.len());
    Document {
        source,
        header: opening.header,
        header_span: opening.span,
        rules: opening.rules,
        frames: machine.frames,
        findings: machine.findings,
    }
}

/// What the machine wants of its scanner.
enum Step {
    /// The next token.
    Next,
    /// What follows up to `<|endliteral|>`, if there is one, is opaque.
    SkipLiteral,
}

enum State {
    Between {
        /// Behind the last terminator.
        from: usize,
    },
    Header {
        frame: Frame,
        segment: Segment,
        /// Behind the token that opened the segment.
        from: usize,
        standing: Standing,
    },
    Body {
        frame: Frame,
    },
}

struct Machine<'s> {
    source: &'s [u8],
    frames: Vec<Frame>,
    findings: Findings,
    rules: Rules,
    state: State,
}

impl Machine<'_> {
    /// One token that counts.
    fn step(&mut self, token: Token, at: Span) -> Step {
        match std::mem::replace(&mut self.state, State::Between { from: at.end }) {
            State::Between { from } => {
                self.state = match token {
                    Token::Start => {
                        self.between(from, at.start);
                        open(at)
                    }
                    Token::End if self.ends_a_call(from, at) => State::Between { from: at.end },
                    _ => State::Between { from },
                };
                skip_if_literal(token)
            }
            State::Header {
                mut frame,
                segment,
                from,
                standing,
            } => {
                let part = Span::new(from, at.start);
                let standing = self.segment(&mut frame, segment, part, standing);
                self.state = self.in_header(frame, standing, token, at);
                skip_if_literal(token)
            }
            State::Body { frame } => self.in_body(frame, token, at),
        }
    }

    /// The end of the text.
    fn finish(&mut self, end: usize) {
        match std::mem::replace(&mut self.state, State::Between { from: end }) {
            State::Between { from } => self.between(from, end),
            State::Header {
                mut frame,
                segment,
                from,
                standing,
            } => {
                self.segment(&mut frame, segment, Span::new(from, end), standing);
                self.findings.add(
                    Diagnostic::error(
                        Code::StreamTruncated,
                        "the text ends in a frame's header",
                        Span::new(frame.span.start, end),
                    )
                    .with_expected("`<|message|>`, a body and a terminator")
                    .with_help("the frame is kept as incomplete; complete it or remove it"),
                );
                self.broken_off(frame, Span::empty(end), Terminator::None);
            }
            State::Body { frame } => {
                let here = Span::empty(end);
                let message = "the text ends before the frame's terminator";
                self.cut(frame, here, message, Vec::new());
            }
        }
    }

    /// The text between two frames: white space, with or without something stray in it.
    fn between(&mut self, from: usize, to: usize) {
        let gap = Span::new(from, to).bytes(self.source);
        let trimmed = gap.trim_ascii();
        if trimmed.is_empty() {
            return;
        }
        let start = from + (gap.len() - gap.trim_ascii_start().len());
        let span = Span::new(start, start + trimmed.len());
        self.findings.add(
            Diagnostic::error(
                Code::ParseStrayText,
                "text stands outside every frame",
                span,
            )
            .with_expected("`<|start|>` or white space")
            .with_help("put it into a frame, or remove it; it is kept and hidden until then"),
        );
        self.frames.push(Frame::stray_text(span));
    }

    fn segment(
        &mut self,
        frame: &mut Frame,
        segment: Segment,
        part: Span,
        standing: Standing,
    ) -> Standing {
        let length = part.end.saturating_sub(frame.span.end);
        if length > MAX_FRAME_HEADER {
            if standing == Standing::Sound {
                self.findings.add(
                    Diagnostic::error(
                        Code::ParseHeader,
                        format!("the frame's header is longer than {MAX_FRAME_HEADER} bytes"),
                        Span::new(frame.span.start, part.end),
                    )
                    .with_expected("`<|message|>` earlier than here")
                    .with_help("put long text into the body"),
                );
            }
            return Standing::Broken;
        }
        standing.and(read_segment(
            self.source,
            segment,
            part,
            frame,
            &mut self.findings,
        ))
    }

    /// Whether the `<|end|>` at `at` belongs to the call directly before it, as 2.0 allows. The
    /// frame then ends behind it.
    fn ends_a_call(&mut self, from: usize, at: Span) -> bool {
        let gap = Span::new(from, at.start).bytes(self.source);
        let Some(call) = self.frames.last_mut() else {
            return false;
        };
        let ends = self.rules == Rules::V2_0
            && call.terminator == Terminator::Call
            && call.terminator_span.end == from
            && gap.trim_ascii().is_empty();
        if ends {
            call.span.end = at.end;
        }
        ends
    }

    /// A token in a header, whose segment before it has been read.
    fn in_header(&mut self, mut frame: Frame, standing: Standing, token: Token, at: Span) -> State {
        let segment = match token {
            Token::Message => {
                frame.has_message = true;
                frame.header = Span::new(frame.span.end, at.start);
                frame.body = Span::empty(at.end);
                frame.channel = match (standing, frame.parts.channel) {
                    (Standing::Broken, _) => Channel::Unknown,
                    (Standing::Sound, None) => Channel::Final,
                    (Standing::Sound, Some(word)) => Channel::parse(word.bytes(self.source)),
                };
                return State::Body { frame };
            }
            Token::Channel => Segment::Channel,
            Token::Constrain => Segment::Constrain,
            Token::Literal | Token::EndLiteral => {
                self.findings.add(
                    Diagnostic::error(
                        Code::ParseHeader,
                        format!("`{token}` stands in a frame's header"),
                        at,
                    )
                    .with_expected("`<|message|>` before it")
                    .with_help("a literal block is a part of a body"),
                );
                Segment::Misplaced
            }
            Token::Start | Token::End | Token::Call | Token::Return => {
                self.findings.add(
                    Diagnostic::error(
                        Code::ParseHeader,
                        "the frame's header has no `<|message|>`",
                        Span::new(frame.span.start, at.start),
                    )
                    .with_label(at, "the header breaks off here")
                    .with_expected("`<|message|>` and a body behind it")
                    .with_help("write `<|message|>` between the header and the body"),
                );
                let terminator = Terminator::from_token(token).unwrap_or(Terminator::None);
                self.broken_off(frame, at, terminator);
                return after(token, at);
            }
        };
        let standing = if segment == Segment::Misplaced {
            Standing::Broken
        } else {
            standing
        };
        State::Header {
            frame,
            segment,
            from: at.end,
            standing,
        }
    }

    fn in_body(&mut self, frame: Frame, token: Token, at: Span) -> Step {
        match token {
            Token::End | Token::Call | Token::Return => {
                let terminator = Terminator::from_token(token).unwrap_or(Terminator::None);
                self.close(frame, at, terminator);
            }
            Token::Start => {
                let message = "the next frame begins before this one's terminator";
                self.cut(frame, at, message, vec![(at, "the next frame")]);
                self.state = open(at);
            }
            Token::Channel => {
                let message = "a channel is named in the frame's body";
                self.cut(frame, at, message, vec![(at, "the channel")]);
                self.state = State::Between { from: at.start };
            }
            Token::Literal => self.state = State::Body { frame },
            Token::Message | Token::Constrain | Token::EndLiteral => {
                self.findings.add(
                    Diagnostic::error(
                        Code::ParseStrayToken,
                        format!("`{token}` has no meaning in a body and is read as text"),
                        at,
                    )
                    .with_expected(format!("`<{token}` for the text"))
                    .with_help("write one more `<` before it, or use a literal block"),
                );
                self.state = State::Body { frame };
            }
        }
        skip_if_literal(token)
    }

    /// A `<|literal|>` at `open` that nothing closes. In a body, what follows may be anything:
    /// the frame ends before it and the rest is stray text, to the end, which gives `true`.
    fn unclosed_literal(&mut self, open: Span) -> bool {
        let between = State::Between { from: open.start };
        let frame = match std::mem::replace(&mut self.state, between) {
            State::Body { frame } => frame,
            state => {
                self.state = state;
                return false;
            }
        };
        self.findings.add(
            Diagnostic::error(
                Code::StreamTruncated,
                "the literal block is never closed",
                open,
            )
            .with_expected("`<|endliteral|>` somewhere behind it")
            .with_help("close the block, or write `<<|literal|>` if only its text is meant")
            .with_help("the frame is kept up to here; everything behind is hidden until then"),
        );
        self.close(frame, Span::empty(open.start), Terminator::None);
        true
    }

    /// Closes a frame at a terminator, or cut (`at` is then where it stops).
    fn close(&mut self, mut frame: Frame, at: Span, terminator: Terminator) {
        frame.body.end = at.start;
        frame.terminator = terminator;
        frame.terminator_span = match terminator {
            Terminator::None => Span::empty(at.start),
            _ => at,
        };
        frame.span.end = frame.terminator_span.end;
        self.check_terminator(&frame);
        self.check_ids(&mut frame);
        self.frames.push(frame);
    }

    /// Closes a frame that has no terminator.
    fn cut(&mut self, frame: Frame, at: Span, message: &str, labels: Vec<(Span, &str)>) {
        let span = Span::new(frame.span.start, at.start);
        let mut finding = Diagnostic::error(Code::StreamTruncated, message, span)
            .with_expected("`<|end|>`, `<|call|>` or `<|return|>`")
            .with_help("the frame is kept as incomplete; close it where its body ends");
        for (place, text) in labels {
            finding = finding.with_label(place, text);
        }
        self.findings.add(finding);
        self.close(frame, at, Terminator::None);
    }

    /// Keeps a frame whose header never came to `<|message|>`.
    fn broken_off(&mut self, mut frame: Frame, at: Span, terminator: Terminator) {
        frame.header = Span::new(frame.span.end, at.start);
        frame.channel = Channel::Unknown;
        frame.body = Span::empty(at.start);
        frame.terminator = terminator;
        frame.terminator_span = match terminator {
            Terminator::None => Span::empty(at.start),
            _ => at,
        };
        frame.span.end = frame.terminator_span.end;
        self.frames.push(frame);
    }

    fn check_terminator(&mut self, frame: &Frame) {
        let assistant = frame.role == Role::Assistant;
        let finding = match frame.terminator {
            Terminator::Call if !assistant || frame.parts.to.is_none() => Diagnostic::error(
                Code::ParseTerminator,
                "`<|call|>` ends a frame that calls no tool",
                frame.terminator_span,
            )
            .with_expected("`<|end|>`")
            .with_help("only an assistant frame with `to=` is a call"),
            Terminator::Return if !assistant || frame.channel != Channel::Final => {
                Diagnostic::error(
                    Code::ParseTerminator,
                    "`<|return|>` ends a frame that is no final answer",
                    frame.terminator_span,
                )
                .with_expected("`<|end|>`")
                .with_help("only an assistant frame on `final` ends in `<|return|>`")
            }
            Terminator::End if assistant && frame.addressee == Addressee::Tool => {
                Diagnostic::warning(
                    Code::ParseTerminator,
                    "a frame to a tool ends in `<|end|>`, so the tool is not called",
                    frame.terminator_span,
                )
                .with_expected("`<|call|>`")
                .with_help("end the frame in `<|call|>` if the tool is to run")
            }
            _ => return,
        };
        self.findings.add(finding);
    }

    /// Calls and replies name their call, replies their tool (OpenChatML 2.2 §6, §8.2).
    fn check_ids(&mut self, frame: &mut Frame) {
        if self.rules == Rules::V2_0 {
            return;
        }
        let call = frame.role == Role::Assistant
            && (frame.addressee == Addressee::Tool || frame.is_call());
        let reply = frame.role == Role::Tool;
        let place = if frame.header.is_empty() {
            frame.span
        } else {
            frame.header
        };
        if (call || reply) && frame.parts.call_id.is_none() {
            let what = if call { "tool call" } else { "tool reply" };
            // Calls and replies are hidden; one that is addressed to a person may not be.
            if frame.visibility().is_visible() {
                frame.channel = Channel::Unknown;
            }
            self.findings.add(
                Diagnostic::error(
                    Code::ParseHeader,
                    format!("the {what} has no `call_id`"),
                    place,
                )
                .with_expected("`call_id=` in the start header")
                .with_help("a call and its reply carry the same unique id"),
            );
        }
        if reply && frame.parts.name.is_none() {
            self.findings.add(
                Diagnostic::error(Code::ParseHeader, "the tool reply names no tool", place)
                    .with_expected("`name=` with the tool's name")
                    .with_help("write it as the call's `to=` has it"),
            );
        }
    }
}

/// A header that `<|start|>` at `at` opens.
fn open(at: Span) -> State {
    State::Header {
        frame: Frame::opened(at),
        segment: Segment::Start,
        from: at.end,
        standing: Standing::Sound,
    }
}

fn skip_if_literal(token: Token) -> Step {
    match token {
        Token::Literal => Step::SkipLiteral,
        _ => Step::Next,
    }
}

/// The state behind a token that broke a header off.
fn after(token: Token, at: Span) -> State {
    if token == Token::Start {
        open(at)
    } else {
        State::Between { from: at.end }
    }
}
