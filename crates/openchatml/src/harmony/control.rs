//! The tokens that count in Harmony: the nine of OpenChatML, and the end of the text.

use crate::ControlToken;

/// A token that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// One of the nine.
    Token(ControlToken),
    /// `<|endoftext|>`: the model stopped without ending its message.
    EndOfText,
}

const END_OF_TEXT: &str = "<|endoftext|>";

impl Control {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Token(token) => token.as_str(),
            Self::EndOfText => END_OF_TEXT,
        }
    }

    /// The token that `text` begins with.
    pub(crate) fn at(text: &[u8]) -> Option<Self> {
        if let Some(token) = ControlToken::at(text) {
            return Some(Self::Token(token));
        }
        text.starts_with(END_OF_TEXT.as_bytes())
            .then_some(Self::EndOfText)
    }

    /// Returns whether more text could make `text` a token.
    pub(crate) fn may_become(text: &[u8]) -> bool {
        let longer = |token: &str| token.len() > text.len() && token.as_bytes().starts_with(text);
        ControlToken::ALL.iter().any(|token| longer(token.as_str())) || longer(END_OF_TEXT)
    }
}
