//! The differences between versions 2.0 and 2.2 in what counts as markup.

use crate::syntax::token::ControlToken;

/// The rules of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Six tokens and no escape; calls have no ids.
    V2_0,
    /// The newest rules, and those of a fragment.
    V2_2,
}

impl Rules {
    /// Returns whether `token` is one by these rules; else it is text.
    pub(crate) const fn has(self, token: ControlToken) -> bool {
        match self {
            Self::V2_0 => !matches!(
                token,
                ControlToken::Constrain | ControlToken::Literal | ControlToken::EndLiteral
            ),
            Self::V2_2 => true,
        }
    }

    /// Returns whether another `<` makes a token text.
    pub(crate) const fn escapes(self) -> bool {
        matches!(self, Self::V2_2)
    }
}
