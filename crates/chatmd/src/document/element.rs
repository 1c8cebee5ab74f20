//! The types of the typed view: a document and its top-level elements.
//!
//! The view contains everything that ChatMD §3 to §9 give a meaning to, including what is not
//! evaluated. Reading the view reports all other content of the tree.

use std::collections::BTreeMap;

use logue_message::CallKind;
use logue_source::Span;

use crate::document::content::{ContentItem, Import};
use crate::document::shell_access::{ShellAccess, ShellProfile};
use crate::document::tool::ToolDecl;
use crate::document::variable::Variable;
use crate::syntax::tag::Tag;
use crate::syntax::whitespace::is_blank;

/// A document: its elements in order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// The top-level elements that have a meaning there.
    pub elements: Vec<Element>,
}

impl Document {
    /// Returns the effective configuration, which is the first.
    pub fn config(&self) -> Option<&Config> {
        self.elements.iter().find_map(|element| match element {
            Element::Config(config) => Some(config),
            _ => None,
        })
    }

    /// Sets the profile of each tool to that of the `<shell_access>` that its runtime names.
    pub(crate) fn resolve_profiles(&mut self) {
        let labels = self.elements.iter().filter_map(|element| match element {
            Element::ShellAccess(access) => Some((access.id.clone(), access.profile)),
            _ => None,
        });
        let profiles: BTreeMap<String, ShellProfile> = labels.collect();
        for element in &mut self.elements {
            if let Element::Tool(tool) = element
                && let Some(shell) = &mut tool.shell
            {
                shell.profile = profiles.get(&shell.runtime).copied();
            }
        }
    }

    /// Returns the tool declarations in order.
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
    Reasoning(ReasoningElement),
    /// `<import>`
    Import(Import),
    /// `<var>`, an extension of Logue.
    Variable(Variable),
    /// `<shell_access>` of later versions of ochat, as a label.
    ShellAccess(ShellAccess),
}

impl Element {
    /// Returns the span of the element.
    pub fn span(&self) -> Span {
        match self {
            Self::Config(config) => config.span,
            Self::Tool(tool) => tool.span,
            Self::Message(message) => message.span,
            Self::ToolCall(call) => call.span,
            Self::ToolResponse(response) => response.span,
            Self::Reasoning(reasoning) => reasoning.span,
            Self::Import(import) => import.span,
            Self::Variable(variable) => variable.span,
            Self::ShellAccess(access) => access.span,
        }
    }
}

/// Settings of the model (ChatMD §4).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Span of the element.
    pub span: Span,
    /// Span of its opening tag.
    pub opener: Span,
    /// Name of the model.
    pub model: Option<String>,
    /// Maximum number of tokens of one response.
    pub max_tokens: Option<u64>,
    /// Sampling temperature; finite.
    pub temperature: Option<f64>,
    /// Reasoning effort, in the provider's vocabulary.
    pub reasoning_effort: Option<String>,
    /// Probability mass of nucleus sampling; finite. An extension of Logue.
    pub top_p: Option<f64>,
    /// Sampling seed; an extension of Logue.
    pub seed: Option<i64>,
    /// Texts that end a response; an extension of Logue.
    pub stop: Vec<String>,
    /// Policy for the tool calls of a turn's first request; an extension of Logue.
    ///
    /// It is `auto`, `required`, `none` or the name of a tool.
    pub tool_choice: Option<String>,
    /// Path of the JSON Schema of the answer; an extension of Logue.
    pub response_schema: Option<String>,
    /// Label of the configuration.
    pub id: Option<String>,
    /// Whether tool payloads are written into the transcript instead of separate files.
    ///
    /// The attribute is a flag: any value enables it, `false` too.
    pub show_tool_call: bool,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The operator of the model.
    System,
    /// The developer of the application.
    Developer,
}

impl MessageRole {
    /// Returns the value of the `role` attribute of `<msg>`.
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
#[non_exhaustive]
pub struct MessageElement {
    /// Span of the element.
    pub span: Span,
    /// Span of its opening tag.
    pub opener: Span,
    /// Tag of the element: the one of the role, or `<msg>`.
    pub tag: Tag,
    /// Role of the author.
    pub role: MessageRole,
    /// The provider's id of an assistant message.
    pub id: Option<String>,
    /// The provider's status of an assistant message.
    pub status: Option<String>,
    /// Name of a participant.
    pub name: Option<String>,
    /// Purpose of an assistant message: `commentary` is a preamble to tool calls.
    pub phase: Option<String>,
    /// The provider's signature over an assistant message; an extension of Logue.
    pub signature: Option<String>,
    /// Whether the element continues the previous response; an extension of Logue.
    ///
    /// Without it, the position of the element would start the next response.
    pub continued: bool,
    /// Content of the message.
    pub content: Vec<ContentItem>,
}

/// A record of a tool call (ChatMD §7).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCallElement {
    /// Span of the element.
    pub span: Span,
    /// Span of its opening tag.
    pub opener: Span,
    /// Tag of the element: `<tool_call>` or `<msg>`.
    pub tag: Tag,
    /// Id that the response refers to.
    pub tool_call_id: String,
    /// Name of the tool.
    pub function_name: String,
    /// Kind of the call: a function call or a `custom_tool_call`.
    pub kind: CallKind,
    /// The provider's id of the record.
    pub id: Option<String>,
    /// The provider's signature over the call; an extension of Logue.
    pub signature: Option<String>,
    /// Arguments of the call.
    pub content: Vec<ContentItem>,
}

impl ToolCallElement {
    /// Returns the arguments if the element contains them as text.
    pub fn arguments_text(&self) -> Option<&str> {
        match self.content.as_slice() {
            [] => Some(""),
            [ContentItem::Text(text)] => Some(text.payload.as_deref().unwrap_or(&text.text)),
            _ => None,
        }
    }

    /// Returns the path of the file that contains the arguments.
    pub fn arguments_file(&self) -> Option<&str> {
        let is_layout =
            |item: &&ContentItem| matches!(item, ContentItem::Text(text) if is_blank(&text.text));
        let mut items = self.content.iter().filter(|item| !is_layout(item));
        match (items.next(), items.next()) {
            (Some(ContentItem::Doc(file)), None) if file.local => Some(&file.src),
            _ => None,
        }
    }
}

/// A record of a tool result (ChatMD §7).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResponseElement {
    /// Span of the element.
    pub span: Span,
    /// Span of its opening tag.
    pub opener: Span,
    /// Tag of the element: `<tool_response>` or `<msg>`.
    pub tag: Tag,
    /// Id of the call; a missing one is an error of the view.
    pub tool_call_id: Option<String>,
    /// Kind of the call: a function call or a `custom_tool_call`.
    pub kind: CallKind,
    /// The provider's id of the record.
    pub id: Option<String>,
    /// Result of the call.
    pub content: Vec<ContentItem>,
}

/// A record of the model's reasoning (ChatMD §3.2).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReasoningElement {
    /// Span of the element.
    pub span: Span,
    /// Id of the record; a missing one is an error of the view.
    pub id: Option<String>,
    /// Whether the provider assigned the id; an extension of Logue.
    ///
    /// It distinguishes such an id from one of [`reasoning_id`](crate::write::reasoning_id) with
    /// the same form.
    pub provider_id: bool,
    /// The provider's status of the record.
    pub status: Option<String>,
    /// The provider's signature over the record; an extension of Logue.
    pub signature: Option<String>,
    /// Reasoning that only the provider can decrypt; an extension of Logue.
    pub encrypted: Option<String>,
    /// Whether the record continues the previous response; an extension of Logue.
    ///
    /// Without it, the position of the record would start the next response.
    pub continued: bool,
    /// Summaries of the reasoning.
    pub summaries: Vec<Summary>,
}

/// One `<summary>` of a reasoning record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Span of the element.
    pub span: Span,
    /// Text of the summary.
    ///
    /// RAW blocks with nothing but white space around them contribute only their content.
    pub text: String,
}
