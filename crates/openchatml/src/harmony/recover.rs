//! The words of a header, and the recovery of misplaced ones.
//!
//! A header is read in the order of its segments; within one, attributes may be in any order.
//! If a header ended in `<|message|>`, every word belongs to it, and an unknown word is junk
//! with a diagnostic. Where it broke off, the longest beginning that is a header is one, and what
//! follows is the message's text.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use memchr::memmem;

use super::event::MessageHeader;
use super::header::{Header, SegmentKind};
use super::words;
use crate::read::attributes::is_false_address;
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole};

/// Maximum number of findings of one header.
const MAX_NOTES: usize = 16;

/// The content of a header, or of the part up to the next message.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) head: MessageHeader,
    pub(super) notes: Vec<Diagnostic>,
    /// Whether a channel is named, whatever it is.
    pub(super) names_channel: bool,
    /// In a header that broke off: the start and segment of text that does not belong to it.
    pub(super) rest: Option<(usize, usize)>,
}

/// Reads the segments of `header` from number `first` on. `role` is that of a message that names
/// none.
pub(super) fn read(
    header: &Header,
    first: usize,
    broken: bool,
    role: FrameRole,
    tools: &[String],
) -> Reading {
    let mut reader = Reader {
        header,
        broken,
        tools,
        head: MessageHeader::new(role),
        notes: Vec::new(),
        channel: None,
        constrained: false,
        junk: None,
    };
    let mut rest = None;
    for index in first..header.segments.len() {
        if let Some(offset) = reader.segment(index) {
            rest = Some((offset, index));
            break;
        }
    }
    reader.finish();
    Reading {
        names_channel: reader.channel.is_some(),
        head: reader.head,
        notes: reader.notes,
        rest,
    }
}

struct Reader<'h> {
    header: &'h Header,
    broken: bool,
    tools: &'h [String],
    head: MessageHeader,
    notes: Vec<Diagnostic>,
    /// The word that named the channel.
    channel: Option<Span>,
    /// Whether the content type followed `<|constrain|>`.
    constrained: bool,
    /// Misplaced words, from the first to the last.
    junk: Option<Span>,
}

impl<'h> Reader<'h> {
    /// Reads a segment; returns the offset of text after an aborted header.
    fn segment(&mut self, index: usize) -> Option<usize> {
        let segment = *self.header.segments.get(index)?;
        let part = self.header.part(index);
        let mut at = part.start;
        match segment.kind {
            SegmentKind::Role => {
                let word = self.next_word(at, part.end);
                at = self.role(word);
            }
            SegmentKind::Implied => {
                let word = self.next_word(at, part.end);
                if self.head.role.as_str().map(str::as_bytes) == Some(self.bytes(word)) {
                    self.repair(
                        word,
                        "the role is repeated",
                        "an attribute or `<|channel|>`",
                    );
                    at = word.end;
                }
            }
            SegmentKind::Channel => {
                let word = self.next_word(at, part.end);
                at = self.channel(segment.at, part.start, word);
            }
            SegmentKind::Constrain => {
                let word = self.next_word(at, part.end);
                at = self.constrain(segment.at, word);
            }
        }
        loop {
            let word = self.next_word(at, part.end);
            if word.is_empty() {
                return None;
            }
            match self.word(word, segment.kind) {
                Some(end) => at = end,
                None if self.broken => return Some(word.start),
                None => {
                    self.junk(word);
                    at = word.end;
                }
            }
        }
    }

    /// The next word from `at` on, empty where there is none. In a header that broke off, a value
    /// ends where JSON begins.
    fn next_word(&self, at: usize, end: usize) -> Span {
        let text = Span::new(at, end).bytes(&self.header.text);
        let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace());
        let start = at + blank.count();
        let text = Span::new(start, end).bytes(&self.header.text);
        let length = text.iter().take_while(|byte| !byte.is_ascii_whitespace());
        Span::new(start, start + length.count())
    }

    /// Reads the word in the role's place; returns the next offset. If the header broke off and the
    /// word is not a role, it may be the first of a text, and is left to be read as such.
    fn role(&mut self, word: Span) -> usize {
        let bytes = self.bytes(word);
        if bytes.is_empty() || memchr::memchr(b'=', bytes).is_some() {
            self.note(
                Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    "the message names no role",
                    self.span(word),
                )
                .with_expected("a role after `<|start|>`")
                .with_help("the message counts as the assistant's in a completion of one"),
            );
            return word.start;
        }
        let read = words::role(bytes);
        if self.broken && !read.certain && self.header.segments.len() == 1 {
            return word.start;
        }
        if read.repaired {
            let shown = String::from_utf8_lossy(bytes).into_owned();
            self.note(
                Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    format!("`{shown}` is not a role"),
                    self.span(word),
                )
                .with_expected("`system`, `developer`, `user`, `assistant` or a tool's name")
                .with_help(match read.role.as_str() {
                    Some(role) if read.channel.is_some() => {
                        let channel = read.channel.unwrap_or_default();
                        format!("it is read as `{role}` on the channel `{channel}`")
                    }
                    Some(role) if read.name.is_none() => format!("it is read as `{role}`"),
                    _ => {
                        "it is read as the name of a tool, which has the least authority".to_owned()
                    }
                }),
            );
        }
        self.head.role = read.role;
        self.head.name = read.name;
        if let Some(channel) = read.channel {
            self.head.channel = Some(channel.to_owned());
            self.channel = Some(word);
        }
        word.end
    }

    fn channel(&mut self, token: Span, from: usize, mut word: Span) -> usize {
        if let Some(length) = words::addressed_channel(self.bytes(word)) {
            self.repair(
                word,
                "the recipient follows the channel without white space",
                "white space before `to=`",
            );
            word = Span::new(word.start, word.start + length);
        }
        if word.start > from && !word.is_empty() {
            let blank = Span::new(from, word.start);
            self.repair(
                blank,
                "white space before the channel's name",
                "the name immediately after `<|channel|>`",
            );
        }
        let bytes = self.bytes(word);
        let is_name = !bytes.is_empty() && memchr::memchr(b'=', bytes).is_none();
        let read = if is_name {
            words::channel(bytes)
        } else {
            words::ChannelWord::default()
        };
        if !is_name {
            self.note(
                Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    "`<|channel|>` names no channel",
                    token,
                )
                .with_expected("`analysis`, `commentary` or `final` after it")
                .with_help("the message is hidden, because its channel is not known"),
            );
        } else if read.repaired {
            let shown = String::from_utf8_lossy(bytes).into_owned();
            let help = match &read.name {
                Some(name) if *name != shown => format!("it is read as `{name}`"),
                Some(_) => "it is kept, and the message is hidden".to_owned(),
                None => "it is left out, and the message is hidden".to_owned(),
            };
            let message = format!("`{shown}` is not a channel");
            let place = self.span(word);
            let found = match read.name {
                Some(_) => Diagnostic::warning(DiagnosticCode::HeaderRepaired, message, place),
                None => Diagnostic::error(DiagnosticCode::ParseHeader, message, place),
            };
            self.note(
                found
                    .with_expected("`analysis`, `commentary` or `final`")
                    .with_help(help),
            );
        }
        let used = Span::new(word.start, word.start + read.used);
        if let Some(before) = self.channel {
            self.second_channel(before, word, read.name);
        } else {
            self.head.channel = read.name;
            self.channel = Some(word);
        }
        if let Some(glued) = read.content_type {
            self.head
                .content_type
                .get_or_insert_with(|| glued.to_owned());
        }
        if !self.broken {
            // The junk after the name is in the word that the diagnostic underlines.
            return if is_name { word.end } else { word.start };
        }
        used.end
    }

    /// The later channel counts if it is one, except that a call stays on `commentary`. A doubtful
    /// second one never leaves the message visible.
    fn second_channel(&mut self, before: Span, word: Span, name: Option<String>) {
        let later = Channel::parse(name.as_deref().unwrap_or_default().as_bytes());
        let earlier = self.head.known_channel();
        let call = self.head.recipient.is_some() && earlier == Channel::Commentary;
        let counts = later != Channel::Unknown && !call;
        self.note(
            Diagnostic::warning(
                DiagnosticCode::AttributeConflict,
                "the message names a second channel",
                self.span(word),
            )
            .with_label(self.span(before), "the first one")
            .with_expected("one channel")
            .with_help(if counts {
                "the later one counts"
            } else {
                "the first one counts, unless it would show what may be meant to be hidden"
            }),
        );
        if counts {
            self.head.channel = name;
            self.channel = Some(word);
        } else if earlier == Channel::Final {
            self.head.channel = None;
        }
    }

    fn constrain(&mut self, token: Span, word: Span) -> usize {
        let bytes = self.bytes(word);
        let length = words::content_type_length(bytes);
        if length == 0 || memchr::memchr(b'=', bytes).is_some() {
            self.note(
                Diagnostic::error(
                    DiagnosticCode::ParseHeader,
                    "`<|constrain|>` names no type",
                    token,
                )
                .with_expected("a type such as `json` after it")
                .with_help("the message has no content type"),
            );
            return word.start;
        }
        let end = word.start + length;
        let value = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
        if self.constrained
            || self
                .head
                .content_type
                .as_ref()
                .is_some_and(|old| *old != value)
        {
            self.twice(word, "content type");
        }
        if !self.constrained {
            self.head.content_type = Some(value);
            self.constrained = true;
        }
        end
    }

    /// Reads an attribute or a bare word.
    ///
    /// Returns the next offset, or `None` for a misplaced word.
    fn word(&mut self, word: Span, kind: SegmentKind) -> Option<usize> {
        let bytes = self.bytes(word);
        if let Some(equals) = memchr::memchr(b'=', bytes) {
            let key = bytes.get(..equals).unwrap_or_default();
            let value = Span::new(word.start + equals + 1, word.end);
            return self.attribute(key, value, word, kind);
        }
        let free = matches!(
            kind,
            SegmentKind::Channel | SegmentKind::Role | SegmentKind::Implied
        );
        let may_call = kind == SegmentKind::Channel && self.head.role == FrameRole::Assistant;
        if !self.broken && may_call && words::is_address(bytes, self.tools) {
            if self.head.recipient.is_some() {
                self.twice(word, "to");
                return Some(word.end);
            }
            self.repair(word, "the recipient has no `to=`", "`to=` before it");
            self.head.recipient = Some(self.string(word));
            return Some(word.end);
        }
        let is_type = words::content_type_length(bytes) == bytes.len()
            && Channel::parse(bytes) == Channel::Unknown;
        if self.broken || !free || !is_type || self.head.content_type.is_some() {
            return None;
        }
        self.head.content_type = Some(self.string(word));
        Some(word.end)
    }

    fn attribute(
        &mut self,
        key: &[u8],
        value: Span,
        word: Span,
        kind: SegmentKind,
    ) -> Option<usize> {
        let value = self.cut(value);
        let end = if self.broken { value.end } else { word.end };
        let name = match key {
            b"to" => "to",
            b"call_id" => "call_id",
            b"name" => "name",
            // In a doubtful place it must not show what may be meant to be hidden.
            b"intent" if kind == SegmentKind::Constrain => return None,
            b"intent" => "intent",
            b"content_type" => "content_type",
            _ if is_false_address(key) => {
                self.head.sound = false;
                self.note(
                    Diagnostic::error(
                        DiagnosticCode::ParseHeader,
                        "an attribute looks as if it addressed the message",
                        self.span(word),
                    )
                    .with_expected("`<|channel|>` for a channel, `to=` for a recipient")
                    .with_help("the message is hidden, because its channel is not known"),
                );
                return Some(word.end);
            }
            _ => return None,
        };
        if !self.broken && value.end < word.end {
            let tail = Span::new(value.end, word.end);
            self.junk(tail);
        }
        if value.is_empty()
            && name == "to"
            && let Some(end) = self.separated_recipient(word)
        {
            return Some(end);
        }
        if value.is_empty() {
            let code = if name == "to" {
                DiagnosticCode::CallSchema
            } else {
                DiagnosticCode::ParseHeader
            };
            self.note(
                Diagnostic::error(code, format!("`{name}=` has no value"), self.span(word))
                    .with_expected("a value immediately after `=`")
                    .with_help("the attribute is left out"),
            );
            return Some(end);
        }
        let text = self.string(value);
        let place = match name {
            "to" => &mut self.head.recipient,
            "call_id" => &mut self.head.call_id,
            "name" => &mut self.head.name,
            "intent" => &mut self.head.intent,
            _ => &mut self.head.content_type,
        };
        if place.is_some() {
            self.twice(word, name);
        } else {
            *place = Some(text);
            if kind == SegmentKind::Constrain {
                self.repair(
                    word,
                    "an attribute follows the content type",
                    "it before `<|constrain|>`",
                );
            }
        }
        Some(end)
    }

    /// Reads the recipient after `to=` and white space; returns the next offset.
    fn separated_recipient(&mut self, word: Span) -> Option<usize> {
        let part = self.header.part_at(word.start);
        let next = self.next_word(word.end, part.end);
        let bytes = self.bytes(next);
        let is_name = words::is_address(bytes, self.tools) || bytes == b"assistant";
        if self.broken || !is_name || self.head.recipient.is_some() {
            return None;
        }
        self.repair(
            word.join(next),
            "white space before the recipient",
            "the recipient immediately after `to=`",
        );
        self.head.recipient = Some(self.string(next));
        Some(next.end)
    }

    /// A value up to what cannot belong to it: markup, and JSON where the header broke off.
    fn cut(&self, value: Span) -> Span {
        let bytes = self.bytes(value);
        let markup = memmem::find(bytes, b"<|");
        let json = bytes.iter().position(|byte| b"{[\"<".contains(byte));
        let json = json.filter(|_| self.broken);
        let length = markup.into_iter().chain(json).min();
        Span::new(
            value.start,
            length.map_or(value.end, |length| value.start + length),
        )
    }

    /// Findings that require the complete header.
    fn finish(&mut self) {
        if !self.head.sound {
            self.head.channel = None;
        }
        if let Some(junk) = self.junk {
            self.repair(
                junk,
                "the header holds what belongs nowhere in it",
                "`<|message|>`",
            );
        }
        self.check_call_channel();
        let recipient = self.head.recipient.as_deref().unwrap_or_default();
        if let Some((tool, glued)) = words::unglue(recipient, self.tools) {
            let start = self.header.start;
            self.note(
                Diagnostic::warning(
                    DiagnosticCode::HeaderRepaired,
                    format!("`{recipient}` is not a tool, `{tool}` is"),
                    Span::new(start, self.header.place(self.header.text.len())),
                )
                .with_expected("white space or `<|constrain|>` before the content type")
                .with_help(format!(
                    "it is read as `{tool}` with `{glued}` as content type"
                )),
            );
            self.head.recipient = Some(tool.to_owned());
            self.head
                .content_type
                .get_or_insert_with(|| glued.to_owned());
        }
    }

    /// Reports a function call on the channel of reasoning (OpenChatML 2.2 §8.3).
    fn check_call_channel(&mut self) {
        let function = self.head.recipient.as_deref();
        let is_function = function.is_some_and(|name| name.starts_with(FUNCTIONS));
        let is_reasoning = self.head.known_channel() == Channel::Analysis;
        let (Some(word), true) = (self.channel, is_function && is_reasoning) else {
            return;
        };
        if self.head.role == FrameRole::Assistant {
            let message = "a function is called on `analysis`";
            let place = self.span(word);
            let found = Diagnostic::warning(DiagnosticCode::CallOutsideCommentary, message, place);
            self.note(
                found
                    .with_expected("`commentary`")
                    .with_help("it is read as a call, and stays hidden"),
            );
        }
    }

    fn junk(&mut self, word: Span) {
        self.junk = Some(self.junk.map_or(word, |junk| junk.join(word)));
    }

    fn repair(&mut self, part: Span, what: &str, expected: &str) {
        let found = Diagnostic::warning(DiagnosticCode::HeaderRepaired, what, self.span(part));
        self.note(
            found
                .with_expected(expected)
                .with_help("the message is read as if it were well-formed there"),
        );
    }

    fn twice(&mut self, word: Span, what: &str) {
        let message = format!("the message has a second `{what}`");
        self.note(
            Diagnostic::warning(DiagnosticCode::AttributeConflict, message, self.span(word))
                .with_expected("each once")
                .with_help("the first one counts"),
        );
    }

    fn note(&mut self, found: Diagnostic) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(found);
        }
    }

    fn bytes(&self, part: Span) -> &'h [u8] {
        part.bytes(&self.header.text)
    }

    fn string(&self, part: Span) -> String {
        String::from_utf8_lossy(self.bytes(part)).into_owned()
    }

    fn span(&self, part: Span) -> Span {
        self.header.span(part)
    }
}
