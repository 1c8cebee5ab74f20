//! Options of rendering.

use crate::syntax::vocabulary::FrameRole;

/// The renderer whose output is reproduced where the reference renderer is lossy or broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RendererCompat {
    /// The intended format.
    #[default]
    Meant,
    /// The output of openai-harmony 0.0.8, losses included: for a model that must see exactly what
    /// another program would send it.
    OpenAi0_0_8,
}

/// The reasoning of earlier turns that is left out.
///
/// Reasoning is every message on `analysis`, calls and replies of built-in tools included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reasoning {
    /// None.
    Keep,
    /// Reasoning before the last answer that closes a turn. Later reasoning is kept: a model
    /// that waits for a tool needs its thoughts (OpenChatML 2.2 §7).
    #[default]
    DropFinished,
    /// Reasoning before the *first* answer, if the last assistant message is an answer.
    ///
    /// This is the rule of openai-harmony 0.0.8.
    DropBeforeFirstFinal,
}

/// The extent of a rendering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// The messages.
    #[default]
    Conversation,
    /// The messages and the beginning of the next one, of this role: a prompt.
    Completion(FrameRole),
    /// The messages; a final answer ends in `<|return|>`, for training.
    Training,
}

/// Options of rendering.
///
/// ```
/// use openchatml::harmony::{RendererCompat, Reasoning, RenderOptions};
///
/// let options = RenderOptions::compat(RendererCompat::OpenAi0_0_8);
/// assert_eq!(options.reasoning, Reasoning::DropBeforeFirstFinal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// The renderer whose output is reproduced.
    pub compat: RendererCompat,
    /// The reasoning that is left out.
    pub reasoning: Reasoning,
    /// Whether header values are looked at, and refused if they would not read back. Without this
    /// a name or recipient may forge what follows it: only for values that the program wrote.
    pub check_headers: bool,
    /// Whether text has control tokens in bodies escaped, instead of refusing them. Such a text is
    /// for people and for [`read`](crate::harmony::read()); to a model the tokens are still tokens.
    /// Ids need none of this.
    pub escape: bool,
}

impl RenderOptions {
    /// The choices of `compat`, which decides what reasoning is left out, too.
    pub const fn compat(compat: RendererCompat) -> Self {
        Self {
            compat,
            reasoning: match compat {
                RendererCompat::Meant => Reasoning::DropFinished,
                RendererCompat::OpenAi0_0_8 => Reasoning::DropBeforeFirstFinal,
            },
            check_headers: true,
            escape: false,
        }
    }

    /// Sets the policy for reasoning.
    #[must_use]
    pub const fn with_reasoning(mut self, reasoning: Reasoning) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// Sets whether header values are checked.
    #[must_use]
    pub const fn with_check_headers(mut self, check: bool) -> Self {
        self.check_headers = check;
        self
    }

    /// Sets whether control tokens in bodies of a text are escaped or refused.
    #[must_use]
    pub const fn with_escape(mut self, escape: bool) -> Self {
        self.escape = escape;
        self
    }
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self::compat(RendererCompat::Meant)
    }
}
