//! The closed vocabulary: fifteen lower-case names. Everything else that looks like markup is text.

/// A recognised element name (ChatMD §1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// `<msg role="…">`
    Msg,
    /// `<user>`
    User,
    /// `<assistant>`
    Assistant,
    /// `<system>`
    System,
    /// `<developer>`
    Developer,
    /// `<tool>`
    Tool,
    /// `<tool_call>`
    ToolCall,
    /// `<tool_response>`
    ToolResponse,
    /// `<doc>`
    Doc,
    /// `<img>`
    Img,
    /// `<agent>`
    Agent,
    /// `<import>`
    Import,
    /// `<reasoning>`
    Reasoning,
    /// `<summary>`
    Summary,
    /// `<config>`
    Config,
}

impl Tag {
    /// Every tag.
    pub const ALL: [Self; 15] = [
        Self::Msg,
        Self::User,
        Self::Assistant,
        Self::System,
        Self::Developer,
        Self::Tool,
        Self::ToolCall,
        Self::ToolResponse,
        Self::Doc,
        Self::Img,
        Self::Agent,
        Self::Import,
        Self::Reasoning,
        Self::Summary,
        Self::Config,
    ];

    /// The name as it is written between the angle brackets.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Msg => "msg",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Developer => "developer",
            Self::Tool => "tool",
            Self::ToolCall => "tool_call",
            Self::ToolResponse => "tool_response",
            Self::Doc => "doc",
            Self::Img => "img",
            Self::Agent => "agent",
            Self::Import => "import",
            Self::Reasoning => "reasoning",
            Self::Summary => "summary",
            Self::Config => "config",
        }
    }

    /// The tag of a name; names are case-sensitive.
    pub fn parse(name: &str) -> Option<Self> {
        Self::from_bytes(name.as_bytes())
    }

    /// Whether the element is an entry of the conversation: a message, a record of a tool or
    /// reasoning. Such an element hardly ever stands inside another one on purpose.
    pub const fn is_entry(self) -> bool {
        matches!(
            self,
            Self::Msg
                | Self::User
                | Self::Assistant
                | Self::System
                | Self::Developer
                | Self::ToolCall
                | Self::ToolResponse
                | Self::Reasoning
        )
    }

    /// Whether the element sets up the conversation: `config` or `tool`.
    pub const fn is_setting(self) -> bool {
        matches!(self, Self::Config | Self::Tool)
    }

    /// Whether the element says everything in its attributes and is written `<name …/>`.
    pub const fn is_stub(self) -> bool {
        matches!(
            self,
            Self::Doc | Self::Img | Self::Import | Self::Config | Self::Tool
        )
    }

    /// The recognised name that begins at `at`, and its end. What follows is not looked at.
    pub(crate) fn at(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let rest = bytes.get(at..)?;
        let length = rest
            .iter()
            .take(LONGEST_NAME + 1)
            .take_while(|byte| is_name_byte(**byte))
            .count();
        let tag = Self::from_bytes(rest.get(..length)?)?;
        Some((tag, at + length))
    }

    fn from_bytes(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"msg" => Self::Msg,
            b"user" => Self::User,
            b"assistant" => Self::Assistant,
            b"system" => Self::System,
            b"developer" => Self::Developer,
            b"tool" => Self::Tool,
            b"tool_call" => Self::ToolCall,
            b"tool_response" => Self::ToolResponse,
            b"doc" => Self::Doc,
            b"img" => Self::Img,
            b"agent" => Self::Agent,
            b"import" => Self::Import,
            b"reasoning" => Self::Reasoning,
            b"summary" => Self::Summary,
            b"config" => Self::Config,
            _ => return None,
        })
    }
}

/// Bytes of `tool_response`.
pub(crate) const LONGEST_NAME: usize = 13;

/// Whether a byte can stand in a recognised name.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
