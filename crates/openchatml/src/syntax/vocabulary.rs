//! The closed vocabularies of a frame header: roles, channels, intents, terminators.

use logue_message::InstructionRank;

use crate::ControlToken;

/// The speaker of a frame (OpenChatML 2.2 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameRole {
    /// The ground rules; hidden.
    System,
    /// Instructions and tools of the application's developer; hidden.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's reply, written `tool name=…` or `functions.<tool>`.
    Tool,
    /// An unknown role, or stray text; hidden, and of the lowest authority.
    Other,
}

impl FrameRole {
    /// The role that a word names; `functions.<tool>` is a tool.
    pub fn parse(word: &[u8]) -> Self {
        match word {
            b"system" => Self::System,
            b"developer" => Self::Developer,
            b"user" => Self::User,
            b"assistant" => Self::Assistant,
            b"tool" => Self::Tool,
            _ if word.len() > FUNCTIONS.len() && word.starts_with(FUNCTIONS.as_bytes()) => {
                Self::Tool
            }
            _ => Self::Other,
        }
    }

    /// The word that is written; `None` for [`FrameRole::Other`].
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other => return None,
        })
    }

    /// The rank of what the role says. No reading, conversion or recovery raises it.
    pub const fn authority(self) -> InstructionRank {
        match self {
            Self::System => InstructionRank::System,
            Self::Developer => InstructionRank::Developer,
            Self::User => InstructionRank::User,
            Self::Assistant => InstructionRank::Assistant,
            Self::Tool | Self::Other => InstructionRank::Tool,
        }
    }
}

/// The spelling of a frame's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RoleForm {
    /// The role's own word.
    #[default]
    Word,
    /// `functions.<tool>`, which reads as `tool name=functions.<tool>`.
    Functions,
}

/// The channel of a frame (OpenChatML 2.2 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Private reasoning; never shown.
    Analysis,
    /// Tool traffic, and preambles marked for the user.
    Commentary,
    /// The answer.
    Final,
    /// Not understood, so hidden.
    Unknown,
}

impl Channel {
    /// The channel that a word names.
    pub fn parse(word: &[u8]) -> Self {
        match word {
            b"analysis" => Self::Analysis,
            b"commentary" => Self::Commentary,
            b"final" => Self::Final,
            _ => Self::Unknown,
        }
    }

    /// The word that is written; `None` for [`Channel::Unknown`].
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            Self::Analysis => "analysis",
            Self::Commentary => "commentary",
            Self::Final => "final",
            Self::Unknown => return None,
        })
    }
}

/// The intent of a frame (OpenChatML 2.2 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Commentary for the user.
    Preamble,
    /// State of the work; not shown.
    Status,
    /// For debugging; not shown.
    Debug,
    /// Another word.
    Other,
}

impl Intent {
    /// The intent that a word names.
    pub fn parse(word: &[u8]) -> Self {
        match word {
            b"preamble" => Self::Preamble,
            b"status" => Self::Status,
            b"debug" => Self::Debug,
            _ => Self::Other,
        }
    }
}

/// The end of a frame (OpenChatML 2.2 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Terminator {
    /// `<|end|>`.
    #[default]
    End,
    /// `<|call|>`: a tool call that is to be run.
    Call,
    /// `<|return|>`: the final answer of a turn.
    Return,
    /// Nothing: the frame was cut.
    None,
}

impl Terminator {
    /// The terminator that a token is, if it is one.
    pub const fn from_token(token: ControlToken) -> Option<Self> {
        Some(match token {
            ControlToken::End => Self::End,
            ControlToken::Call => Self::Call,
            ControlToken::Return => Self::Return,
            _ => return None,
        })
    }

    /// The token; `None` for a cut frame.
    pub const fn token(self) -> Option<ControlToken> {
        Some(match self {
            Self::End => ControlToken::End,
            Self::Call => ControlToken::Call,
            Self::Return => ControlToken::Return,
            Self::None => return None,
        })
    }
}

/// The namespace of tools that the developer declared.
pub(crate) const FUNCTIONS: &str = "functions.";

/// Returns whether a recipient is a tool and not a participant.
///
/// Participants are the people and models of the conversation.
pub(crate) fn is_tool_recipient(to: &[u8]) -> bool {
    !matches!(to, b"user" | b"assistant" | b"all")
}

/// Returns whether a tool is built into every Harmony model.
pub(crate) fn is_builtin(tool: &str) -> bool {
    tool == "python" || tool == "browser" || tool.starts_with("browser.")
}
