//! A message of a conversation and its role.

use crate::{Content, ContentBlock, ToolCall};

/// The author of a message, in the four roles of model providers.
///
/// The list is closed: wire formats have no others. [`InstructionRank`] is the finer rank of an
/// instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// The person, or a program in place of one.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Returns the word that wire formats use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Parses one of the four words of wire formats.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "system" => Self::System,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The rank of an instruction: `system > developer > user > assistant > tool`.
///
/// Defined by OpenChatML 2.2 §4, which closes the list. No conversion raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstructionRank {
    /// The output of a tool.
    Tool,
    /// The text of the model.
    Assistant,
    /// The text of the user.
    User,
    /// An instruction of the application's developer.
    Developer,
    /// An instruction of the model's operator.
    System,
}

/// One message of a conversation.
///
/// A developer message is a system message whose [`InstructionRank`] is `Developer`. A provider with
/// a developer role gets that role; any other provider still gets an instruction.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The author.
    pub role: Role,
    /// Whether a system message has developer rank rather than system rank.
    pub developer: bool,
    /// The content.
    pub content: Content,
    /// The tools that an assistant message calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<String>,
    /// The tool's name on a tool message, or a participant's name.
    pub name: Option<String>,
    /// Whether an assistant message is only the beginning of an answer that was interrupted.
    pub interrupted: bool,
    /// The provider's phase of an assistant message, such as `final_answer`.
    ///
    /// It is sent back as it was received. The phase `commentary` is a preamble instead.
    pub phase: Option<String>,
}

impl ChatMessage {
    /// Creates a message of `role`.
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self {
            role,
            developer: false,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            interrupted: false,
            phase: None,
        }
    }

    /// Creates the received part of an answer that was interrupted.
    pub fn interrupted(text: impl Into<String>) -> Self {
        Self {
            interrupted: true,
            ..Self::assistant(text.into())
        }
    }

    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Role::System, content)
    }

    /// Creates a developer message.
    pub fn developer(content: impl Into<Content>) -> Self {
        Self {
            developer: true,
            ..Self::new(Role::System, content)
        }
    }

    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates an assistant message.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates the result of the call `tool_call_id`.
    pub fn tool(tool_call_id: impl Into<String>, content: impl Into<Content>) -> Self {
        Self {
            tool_call_id: Some(tool_call_id.into()),
            ..Self::new(Role::Tool, content)
        }
    }

    /// Sets the tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, tool_calls: Vec<ToolCall>) -> Self {
        self.tool_calls = tool_calls;
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the instruction rank of the message.
    pub fn rank(&self) -> InstructionRank {
        match self.role {
            Role::System if self.developer => InstructionRank::Developer,
            Role::System => InstructionRank::System,
            Role::User => InstructionRank::User,
            Role::Assistant => InstructionRank::Assistant,
            Role::Tool => InstructionRank::Tool,
        }
    }

    /// Returns the visible text, without reasoning.
    ///
    /// Text blocks are concatenated without a separator.
    pub fn text(&self) -> String {
        match &self.content {
            Content::Absent => String::new(),
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    ContentBlock::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }
}
