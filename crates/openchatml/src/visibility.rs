//! The rule that decides which frames a person may see.

use crate::syntax::vocabulary::{Channel, FrameRole, Intent, is_tool_recipient};

/// The visibility of a frame (OpenChatML 2.2 §9).
///
/// The two cases are closed: a frame is shown or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The frame may be shown.
    Visible,
    /// The frame is not shown.
    Hidden(HiddenReason),
}

/// The reason that a frame is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HiddenReason {
    /// Its role is not shown to people.
    Role,
    /// It is private reasoning.
    Analysis,
    /// It is commentary without a preamble.
    Commentary,
    /// Its channel is not understood.
    UnknownChannel,
    /// It is addressed to a tool.
    ForTool,
    /// It is text outside every frame.
    Stray,
}

impl HiddenReason {
    /// The reason in words that are safe to show.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "frames of this role are hidden",
            Self::Analysis => "private reasoning is hidden",
            Self::Commentary => "commentary that is not a preamble is hidden",
            Self::UnknownChannel => "a frame whose channel is not understood is hidden",
            Self::ForTool => "what is addressed to a tool is hidden",
            Self::Stray => "text outside every frame is hidden",
        }
    }
}

impl Visibility {
    pub(crate) const HIDDEN_STRAY: Self = Self::Hidden(HiddenReason::Stray);

    /// Returns whether the frame may be shown.
    pub const fn is_visible(self) -> bool {
        matches!(self, Self::Visible)
    }
}

/// The recipient of a frame, as far as visibility depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// No recipient.
    Nobody,
    /// People or models of the conversation.
    Participant,
    /// A tool.
    Tool,
}

impl Recipient {
    pub(crate) fn of(to: &[u8]) -> Self {
        if is_tool_recipient(to) {
            Self::Tool
        } else {
            Self::Participant
        }
    }
}

/// The rule itself: everything that it does not name is hidden.
pub(crate) const fn visibility(
    role: FrameRole,
    channel: Channel,
    intent: Option<Intent>,
    recipient: Recipient,
) -> Visibility {
    let reason = match (role, channel) {
        (FrameRole::System | FrameRole::Developer | FrameRole::Tool | FrameRole::Other, _) => {
            HiddenReason::Role
        }
        (_, Channel::Unknown) => HiddenReason::UnknownChannel,
        (_, Channel::Analysis) => HiddenReason::Analysis,
        (FrameRole::Assistant, _) if matches!(recipient, Recipient::Tool) => HiddenReason::ForTool,
        (FrameRole::User | FrameRole::Assistant, Channel::Final) => return Visibility::Visible,
        (FrameRole::Assistant, Channel::Commentary) if matches!(intent, Some(Intent::Preamble)) => {
            return Visibility::Visible;
        }
        (_, Channel::Commentary) => HiddenReason::Commentary,
    };
    Visibility::Hidden(reason)
}
