//! The text of new elements.
//!
//! Whatever a payload, an id or a path holds, reading the written element gives it back byte by
//! byte, and nothing in it can become an element of its own. Bodies stand in RAW blocks, stubs close
//! themselves, attribute values are escaped; nothing is ever indented inside a block.
//!
//! ```
//! use chatmd::write;
//!
//! let call = write::tool_call(&write::ToolCallRecord {
//!     id: None,
//!     tool_call_id: "call_1",
//!     function_name: "read_file",
//!     custom: false,
//!     signature: None,
//!     payload: write::Payload::Inline("{}"),
//! });
//! assert_eq!(
//!     call,
//!     "<tool_call tool_call_id=\"call_1\" function_name=\"read_file\">\nRAW|{}|RAW</tool_call>\n"
//! );
//! ```

use memchr::memmem;

use crate::document::element::MessageRole;
use crate::syntax::attributes::write_attribute;
use crate::syntax::lexer::{RAW_CLOSE, RAW_OPEN};
use crate::syntax::tag::Tag;

/// Where the payload of a tool call or response is (ChatMD §7.2, §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// In the element.
    Inline(&'a str),
    /// In the file of that path.
    External(&'a str),
}

/// A tool call to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCallRecord<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// The id that the response names.
    pub tool_call_id: &'a str,
    /// The tool.
    pub function_name: &'a str,
    /// Whether it is a `custom_tool_call`.
    pub custom: bool,
    /// A provider's signature over the call.
    pub signature: Option<&'a str>,
    /// The arguments.
    pub payload: Payload<'a>,
}

/// A tool response to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolResponseRecord<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// The call that it answers.
    pub tool_call_id: &'a str,
    /// Whether it answers a `custom_tool_call`.
    pub custom: bool,
    /// The answer.
    pub payload: Payload<'a>,
}

/// Words of the model to be written.
///
/// `signature` and `continued` are attributes of ours, which other readers of ChatMD ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssistantMessage<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// The provider's status of the record, which says something only where there is an id.
    pub status: Option<&'a str>,
    /// Whether the words come before tool calls, for the user to read meanwhile.
    pub preamble: bool,
    /// A provider's signature over the words.
    pub signature: Option<&'a str>,
    /// Whether they belong to the answer before them although that has words already.
    pub continued: bool,
    /// What is said.
    pub text: &'a str,
}

/// Reasoning of the model to be written.
///
/// `signature`, `encrypted` and `continued` are attributes of ours, which other readers of ChatMD
/// ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasoningElement<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// Which reasoning record of the file it is: its id, where the provider gave none.
    pub number: usize,
    /// The provider's status of the record.
    pub status: Option<&'a str>,
    /// A provider's signature over the reasoning.
    pub signature: Option<&'a str>,
    /// Reasoning that only the provider can read.
    pub encrypted: Option<&'a str>,
    /// Whether it belongs to the answer before it although that has words already.
    pub continued: bool,
    /// What the model thought, in one or several texts.
    pub summaries: &'a [&'a str],
}

/// Settings to be written (ChatMD §4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConfigElement<'a> {
    /// The model's name.
    pub model: Option<&'a str>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
    /// The sampling temperature; one that is not finite is left out, as it cannot be read.
    pub temperature: Option<f64>,
    /// How hard the model should think.
    pub reasoning_effort: Option<&'a str>,
}

/// `<config/>`
///
/// ```
/// use chatmd::write;
///
/// let config = write::ConfigElement { model: Some("gpt-4o"), temperature: Some(0.5), ..write::ConfigElement::default() };
/// assert_eq!(write::config(&config), "<config model=\"gpt-4o\" temperature=\"0.5\"/>\n");
/// ```
pub fn config(config: &ConfigElement<'_>) -> String {
    let max_tokens = config.max_tokens.map(|count| count.to_string());
    let temperature = config.temperature.filter(|value| value.is_finite());
    let temperature = temperature.map(|value| value.to_string());
    let mut out = String::from("<");
    out.push_str(Tag::Config.as_str());
    let attributes = [
        ("model", config.model),
        ("max_tokens", max_tokens.as_deref()),
        ("temperature", temperature.as_deref()),
        ("reasoning_effort", config.reasoning_effort),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            write_attribute(&mut out, name, value);
        }
    }
    out.push_str("/>\n");
    out
}

/// A message to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRecord<'a> {
    /// Who speaks; the element is the speaker's own.
    pub role: MessageRole,
    /// A participant's name.
    pub name: Option<&'a str>,
    /// The provider's id of an assistant message.
    pub id: Option<&'a str>,
    /// What is said.
    pub text: &'a str,
}

/// A message with everything that it may carry.
///
/// ```
/// use chatmd::{MessageRole, write};
///
/// let message = write::MessageRecord {
///     role: MessageRole::User,
///     name: Some("Ada"),
///     id: None,
///     text: "Hello",
/// };
/// assert_eq!(write::message(&message), "<user name=\"Ada\">\nRAW|Hello|RAW</user>\n");
/// ```
pub fn message(message: &MessageRecord<'_>) -> String {
    let tag = match message.role {
        MessageRole::User => Tag::User,
        MessageRole::Assistant => Tag::Assistant,
        MessageRole::System => Tag::System,
        MessageRole::Developer => Tag::Developer,
    };
    let attributes = [("name", message.name), ("id", message.id)];
    element(tag, &attributes, Payload::Inline(message.text))
}

/// `<system>`
pub fn system(text: &str) -> String {
    element(Tag::System, &[], Payload::Inline(text))
}

/// `<developer>`
pub fn developer(text: &str) -> String {
    element(Tag::Developer, &[], Payload::Inline(text))
}

/// `<user>`
pub fn user(text: &str) -> String {
    element(Tag::User, &[], Payload::Inline(text))
}

/// `<assistant>`
pub fn assistant(text: &str, id: Option<&str>) -> String {
    element(Tag::Assistant, &[("id", id)], Payload::Inline(text))
}

/// `<assistant>` with everything that a provider may say of its words.
///
/// ```
/// use chatmd::write;
///
/// let answer = write::AssistantMessage { preamble: true, text: "Let me look.", ..write::AssistantMessage::default() };
/// assert_eq!(
///     write::assistant_message(&answer),
///     "<assistant phase=\"commentary\">\nRAW|Let me look.|RAW</assistant>\n"
/// );
/// ```
pub fn assistant_message(answer: &AssistantMessage<'_>) -> String {
    let mut out = String::new();
    let attributes = [
        ("id", answer.id),
        ("status", answer.status),
        ("phase", answer.preamble.then_some(COMMENTARY)),
        ("signature", answer.signature),
    ];
    open_flagged(
        &mut out,
        Tag::Assistant,
        &attributes,
        &[("continued", answer.continued)],
    );
    out.push('\n');
    out.push_str(&raw(answer.text));
    close(&mut out, Tag::Assistant);
    out
}

/// `<reasoning>` with its summaries.
pub fn reasoning<S: AsRef<str>>(id: &str, summaries: &[S]) -> String {
    let mut out = String::new();
    open(&mut out, Tag::Reasoning, &[("id", Some(id))]);
    close_reasoning(&mut out, summaries);
    out
}

/// `<reasoning>` with everything that a provider may say of it.
///
/// ```
/// use chatmd::write;
///
/// let reasoning = write::ReasoningElement { number: 1, summaries: &["Hm."], ..write::ReasoningElement::default() };
/// assert_eq!(
///     write::reasoning_record(&reasoning),
///     "<reasoning id=\"reasoning_1\">\n<summary>\nRAW|Hm.|RAW</summary>\n</reasoning>\n"
/// );
/// ```
pub fn reasoning_record(reasoning: &ReasoningElement<'_>) -> String {
    let own = reasoning_id(reasoning.number);
    let attributes = [
        ("id", Some(reasoning.id.unwrap_or(&own))),
        ("status", reasoning.status),
        ("signature", reasoning.signature),
        ("encrypted", reasoning.encrypted),
    ];
    let flags = [
        ("provider_id", reasoning.id.is_some_and(is_reasoning_id)),
        ("continued", reasoning.continued),
    ];
    let mut out = String::new();
    open_flagged(&mut out, Tag::Reasoning, &attributes, &flags);
    close_reasoning(&mut out, reasoning.summaries);
    out
}

/// The id of the n-th reasoning record of a file, where the provider gave it none: ChatMD wants one.
/// Read back, such an id is no id.
pub fn reasoning_id(number: usize) -> String {
    format!("{NUMBERED}{number}")
}

/// Whether an id is one of [`reasoning_id`].
pub(crate) fn is_reasoning_id(id: &str) -> bool {
    id.strip_prefix(NUMBERED).is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `<tool_call>`
pub fn tool_call(call: &ToolCallRecord<'_>) -> String {
    let attributes = [
        ("type", call.custom.then_some(CUSTOM)),
        ("tool_call_id", Some(call.tool_call_id)),
        ("function_name", Some(call.function_name)),
        ("id", call.id),
        ("signature", call.signature),
    ];
    element(Tag::ToolCall, &attributes, call.payload)
}

/// `<tool_response>`
pub fn tool_response(response: &ToolResponseRecord<'_>) -> String {
    let attributes = [
        ("type", response.custom.then_some(CUSTOM)),
        ("tool_call_id", Some(response.tool_call_id)),
        ("id", response.id),
    ];
    element(Tag::ToolResponse, &attributes, response.payload)
}

/// A payload in RAW blocks. A block cannot hold `|RAW`, so the payload is split behind the `|` of
/// each; the blocks follow one another directly and read as one text.
///
/// ```
/// assert_eq!(chatmd::write::raw("<b>"), "RAW|<b>|RAW");
/// assert_eq!(chatmd::write::raw("|RAW"), "RAW|||RAWRAW|RAW|RAW");
/// ```
pub fn raw(payload: &str) -> String {
    let mut out = String::with_capacity(payload.len() + RAW_OPEN.len() + RAW_CLOSE.len());
    let mut from = 0;
    let splits = memmem::find_iter(payload.as_bytes(), RAW_CLOSE).map(|at| at + 1);
    for to in splits.chain([payload.len()]) {
        out.push_str(RAW_OPEN);
        out.push_str(payload.get(from..to).unwrap_or_default());
        out.push_str(RAW_CLOSE);
        from = to;
    }
    out
}

/// `existing` with `element` behind it, on a line of its own.
pub fn append(existing: &str, element: &str) -> String {
    [existing, separator(existing), element].concat()
}

/// What stands between a text and an element that is written behind it: a newline, unless the text
/// is empty or ends in one.
pub fn separator(existing: &str) -> &'static str {
    if existing.is_empty() || existing.ends_with('\n') {
        ""
    } else {
        "\n"
    }
}

const CUSTOM: &str = "custom_tool_call";

/// The `phase` of words that come before tool calls.
pub(crate) const COMMENTARY: &str = "commentary";

/// What a number stands behind in the id of a reasoning record.
const NUMBERED: &str = "reasoning_";

fn element(tag: Tag, attributes: &[(&str, Option<&str>)], payload: Payload<'_>) -> String {
    let mut out = String::new();
    open(&mut out, tag, attributes);
    out.push('\n');
    match payload {
        Payload::Inline(text) => out.push_str(&raw(text)),
        Payload::External(path) => {
            out.push_str("  <doc");
            write_attribute(&mut out, "src", path);
            out.push_str(" local/>\n");
        }
    }
    close(&mut out, tag);
    out
}

fn open(out: &mut String, tag: Tag, attributes: &[(&str, Option<&str>)]) {
    open_flagged(out, tag, attributes, &[]);
}

fn open_flagged(
    out: &mut String,
    tag: Tag,
    attributes: &[(&str, Option<&str>)],
    flags: &[(&str, bool)],
) {
    out.push('<');
    out.push_str(tag.as_str());
    for (name, value) in attributes {
        if let Some(value) = value {
            write_attribute(out, name, value);
        }
    }
    for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        out.push(' ');
        out.push_str(name);
    }
    out.push('>');
}

fn close_reasoning<S: AsRef<str>>(out: &mut String, summaries: &[S]) {
    out.push('\n');
    for summary in summaries {
        out.push_str(&element(
            Tag::Summary,
            &[],
            Payload::Inline(summary.as_ref()),
        ));
    }
    close(out, Tag::Reasoning);
}

fn close(out: &mut String, tag: Tag) {
    out.push_str("</");
    out.push_str(tag.as_str());
    out.push_str(">\n");
}
