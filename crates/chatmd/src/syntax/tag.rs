//! The closed vocabulary of lower-case names: fifteen of the reference, `var`, and later ones.
//!
//! Declarations of later versions of ochat are recognised outside all elements only, and their parts
//! only inside a `<tool>` that has such parts. All other markup is text.

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
    /// `<var>`, an extension of Logue: an element outside all others only.
    Var,
    /// `<script>` of later versions of ochat: outside all elements only, its content verbatim.
    Script,
    /// `<shell_access>` of later versions of ochat: outside all elements only, its content verbatim.
    ShellAccess,
    /// `<moderator_runtime>` of later versions of ochat: outside all elements only.
    ModeratorRuntime,
    /// `<read>`, a directory of a `<tool name="read_file">`.
    Read,
    /// `<command>` of a `<tool type="shell">`.
    Command,
    /// `<arg>` of a `<command>`.
    Arg,
    /// `<secret_arg>` of a `<command>`.
    SecretArg,
    /// `<path_arg>` of a `<command>`.
    PathArg,
    /// `<arguments>` of a `<tool type="shell">`.
    Arguments,
}

/// Names that are recognised outside all elements only.
const TOP_LEVEL: [Tag; 4] = [
    Tag::Var,
    Tag::Script,
    Tag::ShellAccess,
    Tag::ModeratorRuntime,
];

/// Names that are recognised inside a `<tool>` with parts only.
const TOOL_PARTS: [Tag; 6] = [
    Tag::Read,
    Tag::Command,
    Tag::Arguments,
    Tag::Arg,
    Tag::SecretArg,
    Tag::PathArg,
];

impl Tag {
    /// Every tag.
    pub const ALL: [Self; 25] = [
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
        Self::Var,
        Self::Script,
        Self::ShellAccess,
        Self::ModeratorRuntime,
        Self::Read,
        Self::Command,
        Self::Arg,
        Self::SecretArg,
        Self::PathArg,
        Self::Arguments,
    ];

    /// Returns the name between the angle brackets.
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
            Self::Var => "var",
            Self::Script => "script",
            Self::ShellAccess => "shell_access",
            Self::ModeratorRuntime => "moderator_runtime",
            Self::Read => "read",
            Self::Command => "command",
            Self::Arg => "arg",
            Self::SecretArg => "secret_arg",
            Self::PathArg => "path_arg",
            Self::Arguments => "arguments",
        }
    }

    /// Returns the tag with this name; names are case-sensitive.
    pub fn parse(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        let found = Self::at(bytes, 0).or_else(|| Self::top_level_at(bytes, 0));
        let (tag, end) = found.or_else(|| Self::tool_part_at(bytes, 0))?;
        (end == name.len()).then_some(tag)
    }

    /// Returns whether the element is an entry of the conversation.
    ///
    /// Entries are messages, tool calls, tool responses and reasoning. Such an element is rarely
    /// nested in another one on purpose.
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

    /// Returns whether the element is a setting: `config`, `tool`, `var`, or a later declaration.
    pub const fn is_setting(self) -> bool {
        matches!(self, Self::Config | Self::Tool | Self::Var) || self.is_ochat_declaration()
    }

    /// Returns whether the element is a declaration of later versions of ochat.
    pub const fn is_ochat_declaration(self) -> bool {
        matches!(
            self,
            Self::Script | Self::ShellAccess | Self::ModeratorRuntime
        )
    }

    /// Returns whether the element is recognised inside a `<tool>` with parts only.
    pub const fn is_tool_part(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Command
                | Self::Arguments
                | Self::Arg
                | Self::SecretArg
                | Self::PathArg
        )
    }

    /// Returns whether the content of the element is verbatim up to its closing tag.
    pub(crate) const fn is_verbatim(self) -> bool {
        matches!(self, Self::Script | Self::ShellAccess)
    }

    /// Returns whether the element has a meaning inside a message.
    pub(crate) const fn is_inline(self) -> bool {
        matches!(self, Self::Doc | Self::Img | Self::Agent | Self::Import)
    }

    /// Returns whether the element consists of attributes and is written `<name …/>`.
    pub const fn is_stub(self) -> bool {
        matches!(
            self,
            Self::Doc
                | Self::Img
                | Self::Import
                | Self::Config
                | Self::Tool
                | Self::Var
                | Self::ModeratorRuntime
                | Self::Read
                | Self::Arguments
                | Self::Arg
                | Self::SecretArg
                | Self::PathArg
        )
    }

    /// Returns the name at `at` that is recognised outside all elements only, and its end.
    ///
    /// Inside an element it is text, such as the `<var>` of HTML.
    pub(crate) fn top_level_at(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        Self::one_at(&TOP_LEVEL, bytes, at)
    }

    /// Returns the name at `at` of a part of a `<tool>`, and its end.
    pub(crate) fn tool_part_at(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        Self::one_at(&TOOL_PARTS, bytes, at)
    }

    fn one_at(tags: &[Self], bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let rest = bytes.get(at..)?;
        let length = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
        let name = rest.get(..length)?;
        let tag = tags.iter().find(|tag| tag.as_str().as_bytes() == name)?;
        Some((*tag, at + length))
    }

    /// Returns the recognised name that begins at `at`, and its end.
    ///
    /// The next byte is not part of a name; what follows is not checked further.
    #[inline]
    pub(crate) fn at(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let rest = bytes.get(at..)?;
        // Spelled out, because byte patterns compile to comparisons without a call.
        let tag = match rest {
            [b'u', b's', b'e', b'r', ..] => Self::User,
            [b'a', b's', b's', b'i', b's', b't', b'a', b'n', b't', ..] => Self::Assistant,
            [b't', b'o', b'o', b'l', b'_', b'c', b'a', b'l', b'l', ..] => Self::ToolCall,
            [
                b't',
                b'o',
                b'o',
                b'l',
                b'_',
                b'r',
                b'e',
                b's',
                b'p',
                b'o',
                b'n',
                b's',
                b'e',
                ..,
            ] => Self::ToolResponse,
            [b't', b'o', b'o', b'l', ..] => Self::Tool,
            [b'r', b'e', b'a', b's', b'o', b'n', b'i', b'n', b'g', ..] => Self::Reasoning,
            [b's', b'u', b'm', b'm', b'a', b'r', b'y', ..] => Self::Summary,
            [b's', b'y', b's', b't', b'e', b'm', ..] => Self::System,
            [b'd', b'e', b'v', b'e', b'l', b'o', b'p', b'e', b'r', ..] => Self::Developer,
            [b'd', b'o', b'c', ..] => Self::Doc,
            [b'i', b'm', b'g', ..] => Self::Img,
            [b'a', b'g', b'e', b'n', b't', ..] => Self::Agent,
            [b'i', b'm', b'p', b'o', b'r', b't', ..] => Self::Import,
            [b'm', b's', b'g', ..] => Self::Msg,
            [b'c', b'o', b'n', b'f', b'i', b'g', ..] => Self::Config,
            _ => return None,
        };
        let length = tag.as_str().len();
        let continues = rest.get(length).copied().is_some_and(is_name_byte);
        (!continues).then_some((tag, at + length))
    }
}

/// Length of the longest name, `moderator_runtime`, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 17;

/// Returns whether a byte can occur in a recognised name.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
