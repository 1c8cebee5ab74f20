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
    pub fn at(text: &[u8]) -> Option<Self> {
        let candidate = match text.get(2)? {
            b's' => Self::Start,
            b'm' => Self::Message,
            b'r' => Self::Return,
            b'l' => Self::Literal,
            b'c' => match text.get(3)? {
                b'h' => Self::Channel,
                b'a' => Self::Call,
                _ => Self::Constrain,
            },
            b'e' => match text.get(5)? {
                b'|' => Self::End,
                _ => Self::EndLiteral,
            },
            _ => return None,
        };
        text.starts_with(candidate.as_str().as_bytes())
            .then_some(candidate)
    }
}

impl std::fmt::Display for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
