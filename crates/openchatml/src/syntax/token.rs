//! The nine control tokens.

/// A control token (OpenChatML 2.2 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlToken {
    /// `<|start|>` opens a frame.
    Start,
    /// `<|channel|>` names the channel.
    Channel,
    /// `<|message|>` begins the body.
    Message,
    /// `<|call|>` ends a tool call.
    Call,
    /// `<|constrain|>` names the type that the body must have.
    Constrain,
    /// `<|return|>` ends the final answer of a turn.
    Return,
    /// `<|end|>` ends any other frame.
    End,
    /// `<|literal|>` begins opaque text.
    Literal,
    /// `<|endliteral|>` ends opaque text.
    EndLiteral,
}

impl ControlToken {
    /// All nine, in the order of the specification.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Channel,
        Self::Message,
        Self::Call,
        Self::Constrain,
        Self::Return,
        Self::End,
        Self::Literal,
        Self::EndLiteral,
    ];

    /// The token as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "<|start|>",
            Self::Channel => "<|channel|>",
            Self::Message => "<|message|>",
            Self::Call => "<|call|>",
            Self::Constrain => "<|constrain|>",
            Self::Return => "<|return|>",
            Self::End => "<|end|>",
            Self::Literal => "<|literal|>",
            Self::EndLiteral => "<|endliteral|>",
        }
    }

    /// Returns whether more text could make `text` a token.
    pub(crate) fn may_become(text: &[u8]) -> bool {
        Self::ALL.iter().any(|token| {
            let token = token.as_str().as_bytes();
            token.len() > text.len() && token.starts_with(text)
        })
    }

    /// The token that `text` begins with.
    #[inline]
    pub fn at(text: &[u8]) -> Option<Self> {
        // Byte patterns compile to comparisons without a call.
        Some(match text.strip_prefix(b"<|")? {
            [b's', b't', b'a', b'r', b't', b'|', b'>', ..] => Self::Start,
            [b'm', b'e', b's', b's', b'a', b'g', b'e', b'|', b'>', ..] => Self::Message,
            [b'e', b'n', b'd', b'|', b'>', ..] => Self::End,
            [b'c', b'a', b'l', b'l', b'|', b'>', ..] => Self::Call,
            [b'r', b'e', b't', b'u', b'r', b'n', b'|', b'>', ..] => Self::Return,
            rest if rest.starts_with(b"channel|>") => Self::Channel,
            rest if rest.starts_with(b"constrain|>") => Self::Constrain,
            rest if rest.starts_with(b"literal|>") => Self::Literal,
            rest if rest.starts_with(b"endliteral|>") => Self::EndLiteral,
            _ => return None,
        })
    }
}

impl std::fmt::Display for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
