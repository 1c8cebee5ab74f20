//! One message of a conversation.

use crate::{Content, ContentBlock, ToolCall};

/// Who speaks. Four roles, as model providers know them; the finer rank of an instruction is its
/// [`InstructionRank`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// The person, or the program that stands for one.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The word that wire formats use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role that a word names, if it names one of the four.
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

/// The rank of an instruction: `system > developer > user > assistant > tool`
/// (OpenChatML 2.2 §4). No conversion ever raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstructionRank {
    /// A tool's output.
    Tool,
    /// The model's own words.
    Assistant,
    /// The person.
    User,
    /// Whoever built the application.
    Developer,
    /// Whoever runs the model.
    System,
}

/// One message.
///
/// A developer message is a system message whose [`InstructionRank`] is `Developer`, so that a provider
/// which knows the role gets it back and one which does not still sees an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// Whether a system message comes from the developer rather than from the system.
    pub developer: bool,
    /// What is said.
    pub content: Content,
    /// The tools that an assistant message calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<String>,
    /// The tool's name on a tool message, or a participant's name.
    pub name: Option<String>,
}

impl ChatMessage {
    /// A message of `role` with text content.
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self {
            role,
            developer: false,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }

    /// A system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Role::System, content)
    }

    /// A developer message.
    pub fn developer(content: impl Into<Content>) -> Self {
        Self {
            developer: true,
            ..Self::new(Role::System, content)
        }
    }

    /// A user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// An assistant message.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// The result of the call `tool_call_id`.
    pub fn tool(tool_call_id: impl Into<String>, content: impl Into<Content>) -> Self {
        Self {
            tool_call_id: Some(tool_call_id.into()),
            ..Self::new(Role::Tool, content)
        }
    }

    /// The same with tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, tool_calls: Vec<ToolCall>) -> Self {
        self.tool_calls = tool_calls;
        self
    }

    /// The same with a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The rank of what the message says.
    pub fn rank(&self) -> InstructionRank {
        match self.role {
            Role::System if self.developer => InstructionRank::Developer,
            Role::System => InstructionRank::System,
            Role::User => InstructionRank::User,
            Role::Assistant => InstructionRank::Assistant,
            Role::Tool => InstructionRank::Tool,
        }
    }

    /// The visible text: a plain string, or the text blocks joined with nothing between. Thinking
    /// is never part of it.
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
