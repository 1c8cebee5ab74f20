//! Rendered conversations with the spans of what the model emits.

use openchatml::FrameRole;

/// The class of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanClass {
    /// Reasoning of the assistant, with the rest of its header.
    Reasoning,
    /// A tool call, with the rest of its header.
    Call,
    /// Text of the assistant for the user, with the rest of its header.
    Answer,
    /// The token that ends a message of the assistant.
    Terminator,
    /// A message of another role: its body and the token that ends it.
    Context,
}

impl SpanClass {
    /// Every class.
    pub const ALL: [Self; 5] = [
        Self::Reasoning,
        Self::Call,
        Self::Answer,
        Self::Terminator,
        Self::Context,
    ];

    /// Returns the name in options and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Call => "call",
            Self::Answer => "answer",
            Self::Terminator => "terminator",
            Self::Context => "context",
        }
    }

    /// Returns the class of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// A set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes(u8);

impl Classes {
    /// The four classes of the assistant.
    pub const ASSISTANT: Self = Self(0b1111);

    /// Returns whether the set contains `class`.
    pub const fn contains(self, class: SpanClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }
}

impl FromIterator<SpanClass> for Classes {
    fn from_iter<I: IntoIterator<Item = SpanClass>>(classes: I) -> Self {
        let bits = classes.into_iter().map(|class| 1 << class as u8);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

/// The roles whose messages are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "a set of roles")]
pub struct TrainedRoles {
    /// The assistant.
    pub assistant: bool,
    /// The user.
    pub user: bool,
    /// System and developer.
    pub system: bool,
    /// Tools.
    pub tool: bool,
}

impl TrainedRoles {
    /// Only the assistant.
    pub const ASSISTANT: Self = Self {
        assistant: true,
        user: false,
        system: false,
        tool: false,
    };

    /// No role.
    pub const NONE: Self = Self {
        assistant: false,
        ..Self::ASSISTANT
    };

    /// Adds a role by its name; returns whether the name is known.
    pub fn add(&mut self, name: &str) -> bool {
        match name {
            "assistant" => self.assistant = true,
            "user" => self.user = true,
            "system" => self.system = true,
            "tool" => self.tool = true,
            _ => return false,
        }
        true
    }

    /// Returns whether messages of `role` are trained.
    pub const fn contains(self, role: FrameRole) -> bool {
        match role {
            FrameRole::Assistant => self.assistant,
            FrameRole::User => self.user,
            FrameRole::System | FrameRole::Developer => self.system,
            FrameRole::Tool => self.tool,
            FrameRole::Other => false,
        }
    }
}

/// A span of the rendered text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskSpan {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// The class.
    pub class: SpanClass,
    /// The message in the row, from 0.
    pub message: usize,
    /// The rendered message, of which one of the row may give several.
    pub part: usize,
    /// Whether the span is trained.
    pub trained: bool,
    /// Whether the span is the token with which the model stops.
    pub stop: bool,
}

impl MaskSpan {
    /// Creates a span of a message.
    pub const fn new(start: usize, end: usize, class: SpanClass, message: usize) -> Self {
        Self {
            start,
            end,
            class,
            message,
            part: message,
            trained: false,
            stop: false,
        }
    }

    /// Sets the rendered message.
    #[must_use]
    pub const fn with_part(mut self, part: usize) -> Self {
        self.part = part;
        self
    }

    /// Sets whether the span is trained.
    #[must_use]
    pub const fn with_trained(mut self, trained: bool) -> Self {
        self.trained = trained;
        self
    }

    /// Sets whether the span is the token with which the model stops.
    #[must_use]
    pub const fn with_stop(mut self, stop: bool) -> Self {
        self.stop = stop;
        self
    }
}

/// A part of a rendered text that is encoded separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskPiece {
    /// The byte of the text after its last one.
    pub end: usize,
    /// Whether it is the name of a special token; otherwise it is ordinary text.
    pub special: bool,
}

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Its pieces in order, without gaps. None: the text is that of a template, in which special
    /// tokens are spelled.
    pub pieces: Vec<MaskPiece>,
    /// Spans of messages, in order and disjoint. Bytes in none of them are not trained.
    pub spans: Vec<MaskSpan>,
    /// Whether messages are not trained because their reasoning was left out.
    pub lacks_reasoning: bool,
}

impl Rendered {
    /// Creates a rendering of a template, in whose text special tokens are spelled.
    pub const fn of_template(text: String, spans: Vec<MaskSpan>) -> Self {
        Self {
            text,
            pieces: Vec::new(),
            spans,
            lacks_reasoning: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.pieces.clear();
        self.spans.clear();
        self.lacks_reasoning = false;
    }

    /// Appends a special token by its name.
    pub(super) fn special(&mut self, name: &str) {
        self.text.push_str(name);
        let end = self.text.len();
        self.pieces.push(MaskPiece { end, special: true });
    }

    /// Appends ordinary text that is encoded separately.
    pub(super) fn ordinary(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        let end = self.text.len();
        self.pieces.push(MaskPiece {
            end,
            special: false,
        });
    }

    /// Adds a span that is not empty, joined to the last one where possible.
    pub(super) fn span(&mut self, span: MaskSpan) {
        if span.start >= span.end {
            return;
        }
        if let Some(last) = self.spans.last_mut()
            && last.end == span.start
            && (last.part, last.class, last.trained) == (span.part, span.class, span.trained)
        {
            last.end = span.end;
            return;
        }
        self.spans.push(span);
    }
}
