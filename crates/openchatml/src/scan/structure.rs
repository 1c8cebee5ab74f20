//! The context of a token: the envelope's own markup, or user content.
//!
//! This follows the reader of frames as far as the question goes: what opens a header, a body, a
//! literal block. A document header, which may hold tokens as values, lasts to the first `<|start|>`
//! that begins a line.

use logue_source::Span;

use super::ScanFormat;
use crate::dialect::Dialect;

/// The function of a token in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Markup of the text itself.
    Markup,
    /// Said, and escaped or quoted.
    Harmless,
    /// Said.
    Text,
}

#[derive(Clone, Debug)]
pub(super) struct Structure {
    text: ScanFormat,
    state: State,
    /// Whether the next letter is the first one of its line.
    line_begins: bool,
    /// Whether anything but white space was seen at all.
    any: bool,
    /// Whether a frame may begin at the `<` that was seen last.
    may_open: bool,
    /// The channel that the frame's header names: on `analysis`, markers of reasoning are not
    /// tokens (OpenChatML 2.2 §7).
    channel: Vec<u8>,
    raw: Raw,
}

/// A raw block of ChatMarkdown: `RAW|` and `|RAW`, and the letters of its marker so far.
#[derive(Clone, Copy, Debug, Default)]
struct Raw {
    is_open: bool,
    seen: usize,
}

impl Raw {
    fn letter(&mut self, letter: u8) {
        let marker: &[u8; 4] = if self.is_open { b"|RAW" } else { b"RAW|" };
        if marker.get(self.seen) == Some(&letter) {
            self.seen += 1;
        } else {
            self.seen = usize::from(marker.first() == Some(&letter));
        }
        if self.seen == marker.len() {
            *self = Self {
                is_open: !self.is_open,
                seen: 0,
            };
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first frame, where there may be a document header.
    Opening,
    Between,
    Header,
    /// After `<|channel|>`.
    Channel,
    Body,
    Literal(Span),
}

/// Bytes of a channel's name that are kept.
const CHANNEL: usize = 16;

impl Structure {
    pub(super) const fn new(text: ScanFormat) -> Self {
        Self {
            text,
            state: State::Opening,
            line_begins: true,
            any: false,
            may_open: true,
            channel: Vec::new(),
            raw: Raw {
                is_open: false,
                seen: 0,
            },
        }
    }

    /// A `<`, which may begin a token.
    pub(super) fn bracket(&mut self) {
        self.raw.seen = 0;
        self.may_open = self.line_begins || !self.any;
        self.line_begins = false;
        self.any = true;
    }

    /// A letter other than `<`.
    pub(super) fn letter(&mut self, letter: u8) {
        // A byte order mark precedes everything.
        let mark = !self.any && matches!(letter, 0xef | 0xbb | 0xbf);
        if !mark {
            self.line_begins = letter == b'\n';
            self.any |= !letter.is_ascii_whitespace();
        }
        if self.text == ScanFormat::ChatMd {
            self.raw.letter(letter);
        }
        if self.state == State::Channel && self.channel.len() < CHANNEL {
            self.channel.push(letter);
        }
    }

    /// The literal block that is open.
    pub(super) const fn unclosed(&self) -> Option<Span> {
        match self.state {
            State::Literal(span) => Some(span),
            _ => None,
        }
    }

    /// The token that ends here. `escaped`: another `<` precedes it.
    pub(super) fn token(&mut self, token: &str, span: Span, escaped: bool) -> Place {
        match self.text {
            ScanFormat::Plain | ScanFormat::Json => Place::Text,
            ScanFormat::ChatMd => own(!self.raw.is_open && is_chatmd(token)),
            ScanFormat::Envelope(Dialect::V2_2) => self.in_2_x(token, span, escaped, true),
            ScanFormat::Envelope(Dialect::V2_0) => self.in_2_x(token, span, false, false),
            ScanFormat::Envelope(Dialect::Harmony) => own(is_harmony(token)),
            ScanFormat::Envelope(Dialect::V0_1) => own(is_0_1(token)),
            ScanFormat::Envelope(Dialect::ChatMl) => {
                own(matches!(token, "<|im_start|>" | "<|im_end|>"))
            }
        }
    }

    fn in_2_x(&mut self, token: &str, span: Span, escaped: bool, newest: bool) -> Place {
        let own = match token {
            "<|literal|>" | "<|endliteral|>" | "<|constrain|>" => newest,
            _ => is_harmony(token),
        };
        match self.state {
            State::Literal(_) if token == "<|endliteral|>" => {
                self.state = State::Body;
                Place::Markup
            }
            // If nothing closes the block, its opener is reported at the end.
            State::Literal(_) => quoted(own),
            State::Opening if token == "<|start|>" && !escaped && self.may_open => {
                self.state = State::Header;
                self.channel.clear();
                Place::Markup
            }
            State::Opening => Place::Markup,
            _ if escaped && own => Place::Harmless,
            State::Body => self.in_body(token, span, own, newest),
            State::Between | State::Header | State::Channel => {
                self.state = match token {
                    "<|start|>" => State::Header,
                    "<|channel|>" => State::Channel,
                    "<|message|>" if self.state != State::Between => State::Body,
                    "<|end|>" | "<|call|>" | "<|return|>" => State::Between,
                    _ if self.state == State::Between => State::Between,
                    _ => State::Header,
                };
                if token == "<|start|>" || token == "<|channel|>" {
                    self.channel.clear();
                }
                if own { Place::Markup } else { Place::Text }
            }
        }
    }

    fn in_body(&mut self, token: &str, span: Span, own: bool, newest: bool) -> Place {
        match token {
            "<|end|>" | "<|call|>" | "<|return|>" => {
                self.state = State::Between;
                Place::Markup
            }
            "<|start|>" => {
                self.state = State::Header;
                self.channel.clear();
                Place::Markup
            }
            "<|literal|>" if newest => {
                self.state = State::Literal(span);
                Place::Markup
            }
            _ if !own && self.channel.starts_with(b"analysis") && is_marker(token) => Place::Markup,
            _ => Place::Text,
        }
    }
}

const fn own(own: bool) -> Place {
    if own { Place::Markup } else { Place::Text }
}

/// A token in a literal block: quoted where it is one of the envelope's own.
const fn quoted(own: bool) -> Place {
    if own { Place::Harmless } else { Place::Text }
}

/// A tag of ChatMarkdown that other models have as a token.
fn is_chatmd(token: &str) -> bool {
    matches!(
        token,
        "<tool_call>" | "</tool_call>" | "<tool_response>" | "</tool_response>"
    )
}

fn is_harmony(token: &str) -> bool {
    matches!(
        token,
        "<|start|>"
            | "<|channel|>"
            | "<|message|>"
            | "<|call|>"
            | "<|constrain|>"
            | "<|return|>"
            | "<|end|>"
    )
}

/// A marker of private reasoning.
fn is_marker(token: &str) -> bool {
    matches!(
        token,
        "<|start_reflect|>"
            | "<|end_reflect|>"
            | "<|start_introspect|>"
            | "<|end_introspect|>"
            | "<|start_reason|>"
            | "<|end_reason|>"
    )
}

fn is_0_1(token: &str) -> bool {
    is_marker(token)
        || matches!(
            token,
            "<|im_start|>"
                | "<|im_end|>"
                | "<|fim_prefix|>"
                | "<|fim_middle|>"
                | "<|fim_suffix|>"
                | "<|file_separator|>"
                | "<|reflect|>"
                | "<|introspect|>"
                | "<|reason|>"
                | "<|function_list|>"
                | "<|function_call|>"
                | "<|function_output|>"
        )
}
