//! The typed view: what the elements of a tree say.
//!
//! The view holds everything that ChatMD §3 to §9 give a meaning to, also what is not evaluated.
//! What the tree holds beyond that is reported when the view is made.

use logue_message::CallKind;
use logue_source::Span;

use crate::document::content::{ContentItem, Import};
use crate::document::tool::ToolDecl;
use crate::syntax::tag::Tag;

/// A document: its elements in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The top-level elements that have a meaning there.
    pub elements: Vec<Element>,
}

impl Document {
    /// The configuration that counts, which is the first.
    pub fn config(&self) -> Option<&Config> {
        self.elements.iter().find_map(|element| match element {
            Element::Config(config) => Some(config),
            _ => None,
        })
    }

    /// The tool declarations.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDecl> {
        self.elements.iter().filter_map(|element| match element {
            Element::Tool(tool) => Some(tool),
            _ => None,
        })
    }
}

/// One top-level element.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Element {
    /// `<config>`
    Config(Config),
    /// `<tool>`
    Tool(ToolDecl),
    /// `<user>`, `<assistant>`, `<system>`, `<developer>` or a `<msg>` with such a role.
    Message(MessageElement),
    /// `<tool_call>`, or `<msg role="tool" tool_call>`.
    ToolCall(ToolCallElement),
    /// `<tool_response>`, or `<msg role="tool">`.
    ToolResponse(ToolResponseElement),
    /// `<reasoning>`
    Reasoning(Reasoning),
    /// `<import>`
    Import(Import),
}

impl Element {
    /// Where it is.
    pub fn span(&self) -> Span {
        match self {
            Self::Config(config) => config.span,
            Self::Tool(tool) => tool.span,
            Self::Message(message) => message.span,
            Self::ToolCall(call) => call.span,
            Self::ToolResponse(response) => response.span,
            Self::Reasoning(reasoning) => reasoning.span,
            Self::Import(import) => import.span,
        }
    }
}

/// Settings of the model (ChatMD §4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where it is.
    pub span: Span,
    /// Where its opening tag is.
    pub opener: Span,
    /// The model's name.
    pub model: Option<String>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
    /// The sampling temperature; finite.
    pub temperature: Option<f64>,
    /// How hard the model should think, in the provider's words.
    pub reasoning_effort: Option<String>,
    /// A label.
    pub id: Option<String>,
    /// Whether payloads of tools are written into the transcript rather than beside it. Any value
    /// counts, `false` too.
    pub show_tool_call: bool,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// Whoever runs the model.
    System,
    /// Whoever built the application.
    Developer,
}

impl MessageRole {
    /// The role as `<msg>` names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Developer => "developer",
        }
    }
}

/// A message (ChatMD §6).
#[derive(Clone, Debug, PartialEq)]
pub struct MessageElement {
    /// Where it is.
    pub span: Span,
    /// Where its opening tag is.
    pub opener: Span,
    /// The element that it is written as: the speaker's own, or `<msg>`.
    pub tag: Tag,
    /// Who speaks.
    pub role: MessageRole,
    /// The provider's id of an assistant message.
    pub id: Option<String>,
    /// The provider's status of an assistant message.
    pub status: Option<String>,
    /// A participant's name.
    pub name: Option<String>,
    /// What an assistant message is for: `commentary` is a preamble to tool calls.
    pub phase: Option<String>,
    /// A provider's signature over an assistant message; ours, not in the reference.
    pub signature: Option<String>,
    /// Whether it goes on with the answer before it, where its place alone would begin the next
    /// one; ours, not in the reference.
    pub continued: bool,
    /// What is said.
    pub content: Vec<ContentItem>,
}

/// A record of a tool call (ChatMD §7).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallElement {
    /// Where it is.
    pub span: Span,
    /// Where its opening tag is.
    pub opener: Span,
    /// The element that it is written as: `<tool_call>` or `<msg>`.
    pub tag: Tag,
    /// The id that the response names.
    pub tool_call_id: String,
    /// The tool.
    pub function_name: String,
    /// Whether it is a `custom_tool_call`.
    pub kind: CallKind,
    /// The provider's id of the record.
    pub id: Option<String>,
    /// A provider's signature over the call; ours, not in the reference.
    pub signature: Option<String>,
    /// The arguments.
    pub content: Vec<ContentItem>,
}

/// A record of what a tool answered (ChatMD §7).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResponseElement {
    /// Where it is.
    pub span: Span,
    /// Where its opening tag is.
    pub opener: Span,
    /// The element that it is written as: `<tool_response>` or `<msg>`.
    pub tag: Tag,
    /// The call that it answers; without it the view has an error.
    pub tool_call_id: Option<String>,
    /// Whether it answers a `custom_tool_call`.
    pub kind: CallKind,
    /// The provider's id of the record.
    pub id: Option<String>,
    /// The answer.
    pub content: Vec<ContentItem>,
}

/// A record of the model's reasoning (ChatMD §3.2).
#[derive(Clone, Debug, PartialEq)]
pub struct Reasoning {
    /// Where it is.
    pub span: Span,
    /// The id of the record; without it the view has an error.
    pub id: Option<String>,
    /// Whether the id is the provider's although it looks like one of
    /// [`reasoning_id`](crate::write::numbered) records; ours, not in the reference.
    pub provider_id: bool,
    /// The provider's status of the record.
    pub status: Option<String>,
    /// A provider's signature over the record; ours, not in the reference.
    pub signature: Option<String>,
    /// Reasoning that only the provider can read; ours, not in the reference.
    pub encrypted: Option<String>,
    /// Whether it goes on with the answer before it, where its place alone would begin the next
    /// one; ours, not in the reference.
    pub continued: bool,
    /// Its summaries.
    pub summaries: Vec<Summary>,
}

/// One `<summary>` of a reasoning record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Where it is.
    pub span: Span,
    /// What it says; of RAW blocks amid white space, only what they say.
    pub text: String,
}
