//! Writing the text of new elements.
//!
//! Reading a written element returns every payload, id and path byte by byte, and none of them can
//! become an element of its own. Bodies are in RAW blocks, stubs are self-closing, attribute values
//! are escaped, and text inside a block is never indented.
//!
//! ```
//! use chatmd::write;
//!
//! let payload = write::Payload::Inline("{}");
//! let call = write::ToolCallRecord::new("call_1", "read_file", payload);
//! assert_eq!(
//!     write::tool_call(&call),
//!     "<tool_call tool_call_id=\"call_1\" function_name=\"read_file\">\nRAW|{}|RAW</tool_call>\n"
//! );
//! ```

mod declarations;
mod images;
mod reasoning_records;

pub use declarations::{ConfigRecord, builtin_tool, config, declaration, variable};
pub use images::{
    ImageRecord, ToolResponseRecord, UserPart, local_image, tool_response, user_parts,
};
pub(crate) use reasoning_records::is_reasoning_id;
pub use reasoning_records::{ReasoningRecord, reasoning, reasoning_id, reasoning_record};

use memchr::memmem;

use crate::document::element::MessageRole;
use crate::syntax::attributes::write_attribute;
use crate::syntax::lexer::{RAW_CLOSE, RAW_OPEN};
use crate::syntax::tag::Tag;

/// The location of the payload of a tool call or response.
///
/// ChatMD §7.2 and §7.3 close the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// In the element.
    Inline(&'a str),
    /// In the file with that path.
    External(&'a str),
}

/// A tool call to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallRecord<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// Id that the response refers to.
    pub tool_call_id: &'a str,
    /// Name of the tool.
    pub function_name: &'a str,
    /// Whether it is a `custom_tool_call`.
    pub custom: bool,
    /// The provider's signature over the call.
    pub signature: Option<&'a str>,
    /// Arguments of the call.
    pub payload: Payload<'a>,
}

impl<'a> ToolCallRecord<'a> {
    /// Creates a function call without an id of the record.
    pub const fn new(tool_call_id: &'a str, function_name: &'a str, payload: Payload<'a>) -> Self {
        Self {
            id: None,
            tool_call_id,
            function_name,
            custom: false,
            signature: None,
            payload,
        }
    }

    /// Sets the provider's id of the record.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Option<&'a str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets whether it is a `custom_tool_call`.
    #[must_use]
    pub const fn with_custom(mut self, custom: bool) -> Self {
        self.custom = custom;
        self
    }

    /// Sets the provider's signature over the call.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<Option<&'a str>>) -> Self {
        self.signature = signature.into();
        self
    }
}

/// Text of the model to write.
///
/// `signature` and `continued` are extensions of Logue, which other readers of ChatMD ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssistantMessage<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// The provider's status of the record, or [`INTERRUPTED`].
    ///
    /// A provider's status has an effect only with an id.
    pub status: Option<&'a str>,
    /// Whether the text is a preamble to tool calls.
    pub preamble: bool,
    /// The provider's phase of text that is not a preamble.
    pub phase: Option<&'a str>,
    /// The provider's signature over the text.
    pub signature: Option<&'a str>,
    /// Whether the text continues the previous response although that has text already.
    pub continued: bool,
    /// Text of the message.
    pub text: &'a str,
}

impl<'a> AssistantMessage<'a> {
    /// Creates a message with `text` and without attributes.
    pub const fn new(text: &'a str) -> Self {
        Self {
            id: None,
            status: None,
            preamble: false,
            phase: None,
            signature: None,
            continued: false,
            text,
        }
    }

    /// Sets the provider's id of the record.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Option<&'a str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the provider's status of the record.
    #[must_use]
    pub fn with_status(mut self, status: impl Into<Option<&'a str>>) -> Self {
        self.status = status.into();
        self
    }

    /// Sets whether the text is a preamble to tool calls.
    #[must_use]
    pub const fn with_preamble(mut self, preamble: bool) -> Self {
        self.preamble = preamble;
        self
    }

    /// Sets the provider's phase; it has no effect on a preamble.
    #[must_use]
    pub fn with_phase(mut self, phase: impl Into<Option<&'a str>>) -> Self {
        self.phase = phase.into();
        self
    }

    /// Sets the provider's signature over the text.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<Option<&'a str>>) -> Self {
        self.signature = signature.into();
        self
    }

    /// Sets whether the text continues the previous response although that has text already.
    #[must_use]
    pub const fn with_continued(mut self, continued: bool) -> Self {
        self.continued = continued;
        self
    }
}

/// A message to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageRecord<'a> {
    /// Role of the author, which determines the element.
    pub role: MessageRole,
    /// Name of a participant.
    pub name: Option<&'a str>,
    /// The provider's id of an assistant message.
    pub id: Option<&'a str>,
    /// Text of the message.
    pub text: &'a str,
}

impl<'a> MessageRecord<'a> {
    /// Creates a message without attributes.
    pub const fn new(role: MessageRole, text: &'a str) -> Self {
        Self {
            role,
            name: None,
            id: None,
            text,
        }
    }

    /// Sets the name of the participant.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Option<&'a str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the provider's id of an assistant message.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Option<&'a str>>) -> Self {
        self.id = id.into();
        self
    }
}

/// Writes a message with all its attributes.
///
/// ```
/// use chatmd::{MessageRole, write};
///
/// let message = write::MessageRecord::new(MessageRole::User, "Hello").with_name("Ada");
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

/// Writes `<system>`.
pub fn system(text: &str) -> String {
    element(Tag::System, &[], Payload::Inline(text))
}

/// Writes `<developer>`.
pub fn developer(text: &str) -> String {
    element(Tag::Developer, &[], Payload::Inline(text))
}

/// Writes `<user>`.
pub fn user(text: &str) -> String {
    element(Tag::User, &[], Payload::Inline(text))
}

/// Writes `<assistant>`.
pub fn assistant(text: &str, id: Option<&str>) -> String {
    element(Tag::Assistant, &[("id", id)], Payload::Inline(text))
}

/// Writes `<assistant>` with all attributes that a provider may assign.
///
/// ```
/// use chatmd::write;
///
/// let answer = write::AssistantMessage::new("Let me look.").with_preamble(true);
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
        (
            "phase",
            answer.preamble.then_some(COMMENTARY).or(answer.phase),
        ),
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

/// Writes `<tool_call>`.
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

/// Wraps a payload in RAW blocks.
///
/// A block cannot contain `|RAW`, so the payload is split after the `|` of each. The blocks are
/// adjacent and read as one text.
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

/// Appends `element` to `existing`, on a line of its own.
pub fn append(existing: &str, element: &str) -> String {
    [existing, separator(existing), element].concat()
}

/// Returns the separator between a text and an appended element.
///
/// It is a newline, unless the text is empty or ends in one.
pub fn separator(existing: &str) -> &'static str {
    if existing.is_empty() || existing.ends_with('\n') {
        ""
    } else {
        "\n"
    }
}

const CUSTOM: &str = "custom_tool_call";

/// The `status` of an answer that was interrupted; an extension of Logue.
pub const INTERRUPTED: &str = "interrupted";

/// The `phase` of a preamble to tool calls.
pub(crate) const COMMENTARY: &str = "commentary";

fn element(tag: Tag, attributes: &[(&str, Option<&str>)], payload: Payload<'_>) -> String {
    let mut out = String::new();
    open_payload(&mut out, tag, attributes, payload);
    close(&mut out, tag);
    out
}

/// Writes an element up to the end of its payload.
fn open_payload(
    out: &mut String,
    tag: Tag,
    attributes: &[(&str, Option<&str>)],
    payload: Payload<'_>,
) {
    open(out, tag, attributes);
    out.push('\n');
    match payload {
        Payload::Inline(text) => out.push_str(&raw(text)),
        Payload::External(path) => {
            out.push_str("  <doc");
            write_attribute(out, "src", path);
            out.push_str(" local/>\n");
        }
    }
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

fn close(out: &mut String, tag: Tag) {
    out.push_str("</");
    out.push_str(tag.as_str());
    out.push_str(">\n");
}
