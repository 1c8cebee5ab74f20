//! The state machine of every reader of 0.1.
//!
//! Its input is text and tokens with their places. The speaker decides which token counts: blocks
//! of thought and calls are an assistant's, outputs a tool's, flags and lists the system's; in
//! other places they are text, as the specification's own prompts have them (OpenChatML 0.1 §8.5).
//!
//! | state | text is | ends at |
//! |---|---|---|
//! | between messages | white space, an edge of the base model, else stray | `<\|im_start\|>` |
//! | role line | held | a newline |
//! | text | emitted at once, but for a newline that may be layout | `<\|im_end\|>` and tokens that count |
//! | thought | emitted at once | its closing token |
//! | function | held until it is JSON; then it is a value, else it is text | the end of the JSON |
//!
//! One newline on each side of a thought or value, and before `<|im_end|>`, is layout.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::event::{Function, LegacyReadOptions, MessageEnd, MessageHeader, TextKind};
use super::json::Brackets;
use super::marker::{Marker, Thought};
use super::role_line;
use crate::limits::{MAX_BLANK, MAX_FRAME_HEADER, MAX_FUNCTION_VALUE};
use crate::syntax::vocabulary::FrameRole;

/// The receiver of the machine's output.
pub(crate) trait Handler {
    fn start(&mut self, head: &MessageHeader);
    /// More text of the item at hand, or a new item.
    fn text(&mut self, kind: TextKind, text: &[u8], at: usize);
    /// The item at hand is whole.
    fn close(&mut self);
    /// A block of thought begins; its text is at `at`.
    fn thought(&mut self, thought: Thought, at: usize);
    fn thought_end(&mut self, thought: Thought);
    fn flag(&mut self, thought: Thought, at: Span);
    fn function(&mut self, function: Function, json: &[u8], at: Span);
    /// The beginning of a value that was cut.
    fn unfinished(&mut self, function: Function, text: &[u8], at: usize);
    fn end(&mut self, ended: MessageEnd);
    fn found(&mut self, finding: Diagnostic);
}

#[derive(Debug)]
enum State {
    Between,
    Stray {
        /// The end of the last byte that is not blank.
        end: usize,
    },
    RoleLine,
    Text,
    /// A block of thought, and the number of open blocks of each kind.
    Thought(Thought, Span, [usize; 3]),
    Function(Function, Brackets),
    /// After a declared function: another one may follow.
    ListGap,
}

#[derive(Debug)]
pub(crate) struct Machine {
    options: LegacyReadOptions,
    state: State,
    /// Text that waits for what it is: a role line, an edge, a function value, white space.
    held: Vec<u8>,
    held_from: usize,
    /// The newline at this place may be layout.
    newline: Option<usize>,
    /// Whether a newline that comes next is layout.
    layout: bool,
    head: MessageHeader,
    start: usize,
    content_from: usize,
}

impl Machine {
    pub(crate) fn new(options: LegacyReadOptions) -> Self {
        Self {
            options,
            state: State::Between,
            held: Vec::new(),
            held_from: 0,
            newline: None,
            layout: false,
            head: MessageHeader::stray(),
            start: 0,
            content_from: 0,
        }
    }

    pub(crate) const fn is_plain(&self) -> bool {
        self.options.plain
    }

    /// Text at `at`.
    pub(crate) fn text(&mut self, mut bytes: &[u8], mut at: usize, out: &mut impl Handler) {
        while !bytes.is_empty() {
            let used = match &self.state {
                State::Between => self.between(bytes, at, out),
                State::Stray { end } => self.stray(bytes, at, *end, out),
                State::RoleLine => self.role_line(bytes, at, out),
                State::Text => self.plain_text(bytes, at, out),
                State::Thought(thought, ..) => {
                    out.text(TextKind::Thought(*thought), bytes, at);
                    bytes.len()
                }
                State::Function(..) => self.function(bytes, at, out),
                State::ListGap => self.list_gap(bytes, out),
            };
            at += used;
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// A token at `at`.
    pub(crate) fn mark(&mut self, mark: Marker, at: Span, out: &mut impl Handler) {
        match &self.state {
            State::Function(..) | State::ListGap => {
                if matches!(mark, Marker::ImStart) {
                    self.end_value(out);
                } else {
                    self.give_up_value(out);
                }
                self.in_text(mark, at, out);
            }
            State::RoleLine if matches!(mark, Marker::ImStart) => {
                self.begin(false, at.start, out);
                self.cut(at, out);
                self.open(at);
            }
            State::RoleLine => {
                self.begin(matches!(mark, Marker::ImEnd), at.start, out);
                self.in_text(mark, at, out);
            }
            State::Between | State::Stray { .. } if mark == Marker::ImStart => {
                self.end_stray(out);
                self.open(at);
            }
            State::Between | State::Stray { .. } => {
                self.text(mark.as_str().as_bytes(), at.start, out);
            }
            State::Text => self.in_text(mark, at, out),
            State::Thought(thought, opened, depth) => {
                let block = (*thought, *opened, *depth);
                self.in_thought(block, mark, at, out);
            }
        }
    }

    /// The end of the text.
    pub(crate) fn finish(&mut self, at: usize, out: &mut impl Handler) {
        match &self.state {
            State::Between | State::Stray { .. } => {
                self.end_stray(out);
                return;
            }
            State::RoleLine => self.begin(false, at, out),
            State::Function(..) | State::ListGap => self.end_value(out),
            State::Thought(thought, opened, _) => {
                let (thought, opened) = (*thought, *opened);
                self.unclosed(thought, opened, out);
            }
            State::Text => {}
        }
        self.cut(Span::empty(at), out);
    }

    fn open(&mut self, at: Span) {
        self.state = State::RoleLine;
        self.start = at.start;
        self.hold_from(at.end);
    }

    fn hold_from(&mut self, at: usize) {
        self.held.clear();
        self.held_from = at;
    }

    /// White space and edges; anything else begins stray text.
    fn between(&mut self, bytes: &[u8], at: usize, out: &mut impl Handler) -> usize {
        if self.held.is_empty() {
            self.held_from = at;
        }
        self.held.extend_from_slice(bytes);
        loop {
            let blank = self.held.len() - self.held.trim_ascii_start().len();
            self.drop_held(blank);
            let mark = (self.held_from == 0).then_some(&b"\xef\xbb\xbf"[..]);
            let edges = self.options.edges.iter().map(String::as_bytes);
            let edges = edges.chain(mark);
            let mut edges = edges.filter(|edge| !edge.is_empty());
            let held = &self.held;
            if let Some(edge) = edges.clone().find(|edge| held.starts_with(edge)) {
                let length = edge.len();
                self.drop_held(length);
                continue;
            }
            if held.is_empty() || edges.any(|edge| edge.starts_with(held)) {
                return bytes.len();
            }
            self.begin_stray(out);
            return bytes.len();
        }
    }

    fn drop_held(&mut self, length: usize) {
        self.held.drain(..length);
        self.held_from += length;
    }

    fn begin_stray(&mut self, out: &mut impl Handler) {
        self.head = MessageHeader::stray();
        self.start = self.held_from;
        self.content_from = self.start;
        out.start(&self.head);
        let held = std::mem::take(&mut self.held);
        self.state = State::Stray {
            end: self.held_from,
        };
        self.text(&held, self.held_from, out);
    }

    fn stray(&mut self, bytes: &[u8], at: usize, end: usize, out: &mut impl Handler) -> usize {
        let text = bytes.trim_ascii_end();
        if !text.is_empty() {
            let held = std::mem::take(&mut self.held);
            out.text(TextKind::Text, &held, end);
            out.text(TextKind::Text, text, at);
            self.state = State::Stray {
                end: at + text.len(),
            };
        }
        let blank = bytes.get(text.len()..).unwrap_or_default();
        self.held.extend_from_slice(blank);
        if self.held.len() > MAX_BLANK {
            let held = std::mem::take(&mut self.held);
            out.text(TextKind::Text, &held, at + bytes.len() - held.len());
            self.state = State::Stray {
                end: at + bytes.len(),
            };
        }
        bytes.len()
    }

    fn end_stray(&mut self, out: &mut impl Handler) {
        if matches!(self.state, State::Between) {
            if self.held.is_empty() {
                return;
            }
            // The beginning of an edge that did not come to its end.
            self.begin_stray(out);
        }
        let State::Stray { end } = self.state else {
            return;
        };
        let span = Span::new(self.start, end);
        out.found(
            Diagnostic::error(
                DiagnosticCode::ParseStrayText,
                "text is outside every message",
                span,
            )
            .with_expected("`<|im_start|>` or white space")
            .with_help("put it into a message, or remove it; it is kept and hidden until then"),
        );
        out.close();
        out.end(MessageEnd {
            complete: false,
            span,
            content: span,
        });
        self.state = State::Between;
        self.held.clear();
    }

    fn role_line(&mut self, bytes: &[u8], at: usize, out: &mut impl Handler) -> usize {
        let newline = memchr::memchr(b'\n', bytes);
        let line = bytes.get(..newline.unwrap_or(bytes.len())).unwrap_or(bytes);
        let room = MAX_FRAME_HEADER.saturating_sub(self.held.len());
        if line.len() > room {
            self.held
                .extend_from_slice(line.get(..room).unwrap_or(line));
            self.begin(false, at + room, out);
            return room.max(1).min(bytes.len());
        }
        self.held.extend_from_slice(line);
        let Some(newline) = newline else {
            return bytes.len();
        };
        self.begin(true, at + newline + 1, out);
        newline + 1
    }

    /// The role line is over; the content begins at `from`.
    fn begin(&mut self, ended: bool, from: usize, out: &mut impl Handler) {
        let line = std::mem::take(&mut self.held);
        self.head = role_line::read(&line, self.held_from, ended, &mut |found| out.found(found));
        self.content_from = from;
        self.newline = None;
        self.layout = false;
        self.state = State::Text;
        out.start(&self.head);
    }

    /// Text of a message. A newline at its end waits, because it may be layout.
    fn plain_text(&mut self, bytes: &[u8], at: usize, out: &mut impl Handler) -> usize {
        if std::mem::take(&mut self.layout) && bytes.first() == Some(&b'\n') {
            return 1;
        }
        self.release(out);
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if text.len() < bytes.len() {
            self.newline = Some(at + text.len());
        }
        if !text.is_empty() {
            out.text(TextKind::Text, text, at);
        }
        bytes.len()
    }

    /// The newline that waited is text.
    fn release(&mut self, out: &mut impl Handler) {
        if let Some(at) = self.newline.take() {
            out.text(TextKind::Text, b"\n", at);
        }
    }

    fn in_text(&mut self, mark: Marker, at: Span, out: &mut impl Handler) {
        let role = self.head.role;
        match mark {
            Marker::ImEnd => self.end(at, true, out),
            Marker::ImStart => {
                self.cut(at, out);
                self.open(at);
            }
            Marker::Open(thought) if role == FrameRole::Assistant => {
                self.newline = None;
                out.close();
                out.thought(thought, at.end);
                let mut depth = [0; 3];
                depth[thought as usize] = 1;
                self.state = State::Thought(thought, at, depth);
            }
            Marker::Flag(thought) if role == FrameRole::System => {
                self.release(out);
                out.close();
                out.flag(thought, at);
                self.layout = false;
            }
            Marker::FunctionList if role == FrameRole::System => {
                self.open_value(Function::List, at);
            }
            Marker::FunctionCall if role == FrameRole::Assistant => {
                self.open_value(Function::Call, at);
            }
            Marker::FunctionOutput if role == FrameRole::Tool => {
                self.open_value(Function::Output, at);
            }
            _ => {
                if matches!(mark, Marker::Open(_) | Marker::Close(_)) {
                    out.found(without_meaning(mark, at));
                }
                self.text(mark.as_str().as_bytes(), at.start, out);
            }
        }
    }

    /// Until every block that was opened is closed, what follows may still be private.
    fn in_thought(
        &mut self,
        (thought, opened, mut depth): (Thought, Span, [usize; 3]),
        mark: Marker,
        at: Span,
        out: &mut impl Handler,
    ) {
        let mut means_nothing = false;
        match mark {
            Marker::ImEnd | Marker::ImStart => {
                self.unclosed(thought, opened, out);
                self.in_text(mark, at, out);
                return;
            }
            Marker::Open(inner) => {
                depth[inner as usize] += 1;
                means_nothing = true;
            }
            Marker::Close(inner) if depth[inner as usize] > 0 => {
                depth[inner as usize] -= 1;
                if depth == [0; 3] {
                    out.close();
                    out.thought_end(thought);
                    self.state = State::Text;
                    self.layout = true;
                    return;
                }
            }
            Marker::Close(_) => means_nothing = true,
            _ => {}
        }
        if means_nothing {
            out.found(without_meaning(mark, at));
        }
        self.state = State::Thought(thought, opened, depth);
        self.text(mark.as_str().as_bytes(), at.start, out);
    }

    fn unclosed(&mut self, thought: Thought, opened: Span, out: &mut impl Handler) {
        let closer = Marker::Close(thought).as_str();
        out.found(
            Diagnostic::error(
                DiagnosticCode::StreamTruncated,
                "the block of thought is never closed",
                opened,
            )
            .with_expected(format!("`{closer}` in the same message"))
            .with_help("close it where the thought ends; later text is hidden until then"),
        );
        out.close();
        out.thought_end(thought);
        self.state = State::Text;
    }

    fn open_value(&mut self, function: Function, at: Span) {
        self.layout = false;
        self.hold_from(at.start);
        // A newline that waited belongs to the value, unless that turns out to be text.
        if self.newline.take().is_some() {
            self.held_from -= 1;
            self.held.push(b'\n');
        }
        let token = match function {
            Function::List => Marker::FunctionList,
            Function::Call => Marker::FunctionCall,
            Function::Output => Marker::FunctionOutput,
        };
        self.held.extend_from_slice(token.as_str().as_bytes());
        self.state = State::Function(function, Brackets::new(self.held.len()));
    }

    fn function(&mut self, bytes: &[u8], at: usize, out: &mut impl Handler) -> usize {
        let State::Function(function, brackets) = &mut self.state else {
            return 0;
        };
        let function = *function;
        let Some(used) = brackets.feed(bytes) else {
            self.give_up_value(out);
            return 0;
        };
        let json_from = brackets.begin();
        let whole = brackets.is_closed();
        self.held
            .extend_from_slice(bytes.get(..used).unwrap_or(bytes));
        if self.held.len() > MAX_FUNCTION_VALUE {
            self.give_up_value(out);
            return used;
        }
        if !whole {
            return used;
        }
        let json = self.held.get(json_from..).unwrap_or_default();
        if !super::json::is_value(function, json) {
            self.give_up_value(out);
            return used;
        }
        let span = Span::new(self.held_from + json_from, at + used);
        out.close();
        out.function(function, json, span);
        self.hold_from(at + used);
        self.state = match function {
            Function::List => State::ListGap,
            Function::Call | Function::Output => State::Text,
        };
        self.layout = true;
        used
    }

    /// White space after a declared function: another one follows, or text.
    fn list_gap(&mut self, bytes: &[u8], out: &mut impl Handler) -> usize {
        let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace());
        let blank = blank.count();
        self.held
            .extend_from_slice(bytes.get(..blank).unwrap_or_default());
        let next = bytes.get(blank);
        if self.held.len() > MAX_BLANK || next.is_some_and(|next| *next != b'{') {
            self.give_up_value(out);
        } else if next.is_some() {
            let begin = self.held.len();
            self.state = State::Function(Function::List, Brackets::new(begin));
        }
        blank
    }

    /// Passes the held bytes on as text.
    fn give_up_value(&mut self, out: &mut impl Handler) {
        self.state = State::Text;
        let held = std::mem::take(&mut self.held);
        let from = self.held_from;
        self.text(&held, from, out);
    }

    /// A value that the end of the text, or the next message, cut: it was never meant to be seen.
    fn end_value(&mut self, out: &mut impl Handler) {
        if let State::Function(function, brackets) = &self.state
            && brackets.is_open()
        {
            let (function, from) = (*function, brackets.begin());
            let value = self.held.get(from..).unwrap_or_default();
            out.close();
            out.unfinished(function, value, self.held_from + from);
            self.state = State::Text;
            self.held.clear();
            return;
        }
        self.give_up_value(out);
    }

    fn cut(&mut self, at: Span, out: &mut impl Handler) {
        let mut finding = Diagnostic::error(
            DiagnosticCode::StreamTruncated,
            "the message has no `<|im_end|>`",
            Span::new(self.start, at.start),
        )
        .with_expected("`<|im_end|>`")
        .with_help("the message is kept as incomplete; close it where its content ends");
        if !at.is_empty() {
            finding = finding.with_label(at, "the next message");
        }
        out.found(finding);
        self.end(Span::empty(at.start), false, out);
    }

    fn end(&mut self, at: Span, complete: bool, out: &mut impl Handler) {
        self.newline = None;
        out.close();
        out.end(MessageEnd {
            complete,
            span: Span::new(self.start, at.end),
            content: Span::new(self.content_from.min(at.start), at.start),
        });
        self.state = State::Between;
        self.held.clear();
    }
}

fn without_meaning(mark: Marker, at: Span) -> Diagnostic {
    let token = mark.as_str();
    Diagnostic::warning(
        DiagnosticCode::ParseStrayToken,
        format!("`{token}` has no meaning here and is read as text"),
        at,
    )
    .with_expected("a block of thought that an assistant opens and closes")
    .with_help("remove the token, or complete the block")
}
