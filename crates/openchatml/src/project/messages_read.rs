//! Messages of Chat Completions to frames.
//!
//! The messages are read into the hub (`logue_message`) and mapped to frames from there, so they
//! get the same normal forms as what a provider answered. `reasoning_content` is private reasoning
//! before the rest of its message. The older `function_call` and role `function` are read too. A call
//! without an id gets one.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};

use super::format::Projected;
use super::header;
use super::images;
use super::node::{Kind, Node, Object};
use super::reading::Reading;
use super::reasoning_details;
use super::tools::ToolShape;
use crate::convert::assign_ids;
use crate::document::owned::{FrameBuf, HeaderBuf, Transcript};
use crate::loss::LossKind;
use crate::messages::{NAMELESS, frames_from_messages};
use crate::syntax::vocabulary::FrameRole;
use logue_source::Span;

/// The keys of a message. Only that of a tool has the first one.
const KNOWN_OF_TOOL: [&str; 13] = [
    "function",
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_details",
    "refusal",
    "type",
];

/// The keys of a call, in all its spellings.
const CALL_KEYS: [&str; 7] = [
    "id",
    "type",
    "function",
    "custom",
    "index",
    "name",
    "arguments",
];

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut messages = Messages::default();
    let opened = header::open(
        values,
        &["messages", "conversations", "conversation"],
        false,
        ToolShape::Wrapped,
        &mut messages.reading,
    );
    let mut list = Vec::with_capacity(opened.messages.len());
    for (index, message) in opened.messages.into_iter().enumerate() {
        messages.reading.index = index;
        match messages.message(message) {
            Ok(message) => list.push(message),
            Err(()) => messages.reading.unread(),
        }
    }
    finish(messages.reading, opened.header, &list)
}

/// Maps messages of the hub to frames. A call or reply without an id gets one.
pub(super) fn finish(
    mut reading: Reading,
    header: Option<HeaderBuf>,
    list: &[ChatMessage],
) -> Projected {
    let (mut frames, losses) = frames_from_messages(list);
    reading.losses.extend(losses);
    for frame in &mut frames {
        frame.call_id = frame.call_id.take().filter(|id| !id.is_empty());
    }
    reading.losses.extend(assign_ids(&mut frames));
    let named = |frame: &FrameBuf| frame.role != FrameRole::Tool || frame.name.is_some();
    if frames.iter().all(named) {
        // A name may have come with an id.
        reading.losses.retain(|loss| loss.message != NAMELESS);
    }
    Projected {
        transcript: Transcript {
            header,
            frames,
            tools: reading.tools,
        },
        diagnostics: reading.findings.kept().to_vec(),
        losses: reading.losses,
    }
}

#[derive(Default)]
struct Messages {
    reading: Reading,
}

impl Messages {
    fn message(&mut self, node: Node<'_>) -> Result<ChatMessage, ()> {
        let object = self.reading.object(node, "the message").ok_or(())?;
        let role = self.reading.required(&object, "role")?;
        let known = if role == "tool" {
            &KNOWN_OF_TOOL[..]
        } else {
            &KNOWN_OF_TOOL[1..]
        };
        self.reading.note_unknown(&object, known);
        let mut message = match role.as_str() {
            "system" => ChatMessage::system(""),
            "developer" => ChatMessage::developer(""),
            "user" => ChatMessage::user(""),
            "assistant" => ChatMessage::assistant(""),
            "tool_call" => return self.spelled_call(&object),
            "tool" | "function" | "tool_response" => ChatMessage::tool("", ""),
            _ => {
                let place = object.get("role").map_or(object.span, Node::span);
                self.reading.wrong(
                    place,
                    "this is not a role",
                    "`system`, `developer`, `user`, `assistant` or `tool`",
                );
                return Err(());
            }
        };
        message.name = self.reading.text(&object, "name")?;
        if message.role == Role::Tool && message.name.is_none() {
            message.name = self.reading.text(&object, "function")?;
        }
        let answered = self.reading.text(&object, "tool_call_id")?;
        if message.role == Role::Tool {
            message.tool_call_id = answered;
        } else if answered.is_some() {
            self.reading.note(
                LossKind::IdDropped,
                "`tool_call_id` of a non-tool message dropped",
            );
        }
        message.content = self.content(&object, message.role)?;
        if role == "assistant" {
            self.assistant(&object, &mut message)?;
        } else {
            let only = [
                ("tool_calls", LossKind::CallDropped),
                ("function_call", LossKind::CallDropped),
                ("reasoning_content", LossKind::TextDropped),
                ("reasoning", LossKind::TextDropped),
                ("thinking", LossKind::TextDropped),
                ("reasoning_details", LossKind::TextDropped),
                ("refusal", LossKind::TextDropped),
            ];
            let only = only.into_iter();
            for (key, kind) in only.filter(|(key, _)| object.get(key).is_some()) {
                self.reading
                    .note(kind, format!("`{key}` of a non-assistant message dropped"));
            }
        }
        if message.content == Content::Absent && message.role == Role::Tool {
            // A tool without a result has `null` in data sets and in requests.
            message.content = Content::Text(String::new());
        }
        if message.content == Content::Absent && role != "assistant" {
            let start = object.span.start;
            let place = logue_source::Span::new(start, start + 1);
            self.reading
                .wrong(place, "`content` is missing", "a `content`");
            return Err(());
        }
        Ok(message)
    }

    fn content(&mut self, object: &Object<'_>, role: Role) -> Result<Content, ()> {
        let Some(node) = object.get("content") else {
            return Ok(Content::Absent);
        };
        let assistant = role == Role::Assistant;
        let is_part = |part: Node<'_>| part.object().is_some_and(|part| part.get("type").is_some());
        let is_data = match node.kind() {
            Kind::Object | Kind::Scalar => true,
            Kind::Array => !node.items().all(is_part),
            Kind::String | Kind::Null => false,
        };
        if role == Role::Tool && is_data {
            // Data sets hold results as JSON.
            self.reading.note(
                LossKind::PartChanged,
                "a result that is JSON is read as its text",
            );
            return Ok(Content::Text(node.spelled().to_owned()));
        }
        if node.kind() != Kind::Array {
            return Ok(Content::Text(self.reading.must_be_text(node, "content")?));
        }
        let mut blocks = Vec::new();
        for part in node.items() {
            let part = self
                .reading
                .object(part, "the part of `content`")
                .ok_or(())?;
            let kind = self.reading.required(&part, "type")?;
            match kind.as_str() {
                "thinking" | "reasoning" if assistant => {
                    self.reading.note_unknown(&part, &["type", "closed", &kind]);
                    let text = self.reading.required(&part, &kind)?;
                    blocks.push(ContentBlock::thinking(text));
                }
                "text" | "input_text" | "output_text" => {
                    self.reading.note_unknown(&part, &["type", "text"]);
                    let text = self.reading.required(&part, "text")?;
                    blocks.push(ContentBlock::text(text));
                }
                "refusal" => {
                    let text = self.reading.required(&part, "refusal")?;
                    self.reading
                        .note(LossKind::PartChanged, "a refusal is read as text");
                    blocks.push(ContentBlock::text(text));
                }
                "image_url" | "image" | "input_image"
                    if matches!(role, Role::User | Role::Tool) =>
                {
                    blocks.extend(images::read(&mut self.reading, &part));
                }
                "image_url" | "image" | "input_image" => self
                    .reading
                    .note(LossKind::ImageDropped, "an image dropped"),
                _ => self.reading.note(
                    LossKind::PartDropped,
                    format!("a part of the type {kind:?} dropped"),
                ),
            }
        }
        let calls = object.get("tool_calls").is_some() || object.get("function_call").is_some();
        let is_text = |block: &&ContentBlock| matches!(block, ContentBlock::Text { .. });
        let are_joined = !(blocks.iter().any(ContentBlock::is_image) || assistant && calls);
        if blocks.iter().filter(is_text).count() > 1 && are_joined {
            self.reading
                .note(LossKind::PartsJoined, "the parts of the text are joined");
        }
        match blocks.pop() {
            None => Ok(Content::Text(String::new())),
            Some(ContentBlock::Text { text, .. }) if blocks.is_empty() => Ok(Content::Text(text)),
            Some(block) => {
                blocks.push(block);
                Ok(Content::Blocks(blocks))
            }
        }
    }

    fn assistant(&mut self, object: &Object<'_>, message: &mut ChatMessage) -> Result<(), ()> {
        if let Some(calls) = object.get("tool_calls") {
            message.tool_calls = read_calls(calls, &mut self.reading)?;
        }
        if let Some(call) = object.get("function_call") {
            let (name, text) = tool(call, "arguments", &mut self.reading)?;
            message.tool_calls.push(ToolCall::new("", name, text));
        }
        if let Some(text) = self.reading.text(object, "refusal")? {
            self.reading
                .note(LossKind::PartChanged, "a refusal is read as text");
            add_text(message, ContentBlock::text(text), false);
        }
        let mut thinking = self.reading.text(object, "reasoning_content")?;
        for key in ["reasoning", "thinking"] {
            let Some(other) = object.get(key) else {
                continue;
            };
            match (&thinking, other.string()) {
                (None, Some(text)) => thinking = Some(text),
                (Some(one), Some(text)) if *one == text => {}
                _ => {
                    let text = format!("`{key}` dropped");
                    self.reading.note(LossKind::TextDropped, text);
                }
            }
        }
        let details = match object.get("reasoning_details") {
            Some(details) => {
                reasoning_details::read(details, thinking.as_deref(), &mut self.reading)?
            }
            None => Vec::new(),
        };
        let replaced = details
            .iter()
            .any(|it| matches!(it, ContentBlock::Thinking { .. }));
        let thinking = thinking.filter(|text| !text.is_empty() && !replaced);
        let blocks = thinking
            .map(ContentBlock::thinking)
            .into_iter()
            .chain(details);
        for block in blocks.collect::<Vec<_>>().into_iter().rev() {
            add_text(message, block, true);
        }
        Ok(())
    }

    /// A message that is a call: its content is the call as JSON.
    fn spelled_call(&mut self, object: &Object<'_>) -> Result<ChatMessage, ()> {
        let content = self.reading.required(object, "content")?;
        let place = object.get("content").map_or(object.span, Node::span);
        let whole = Span::new(0, content.len());
        let call = Node::parse(content.as_bytes(), whole).ok();
        let call = call.and_then(Node::object);
        let name = call.as_ref().and_then(|call| call.get("name")?.string());
        let (Some(call), Some(name)) = (call, name) else {
            let expected = "`{\"name\": …, \"arguments\": …}`";
            self.reading
                .wrong(place, "the text of a call names no tool", expected);
            return Err(());
        };
        self.reading.note_unknown(&call, &["name", "arguments"]);
        let text = match call.get("arguments") {
            None => String::new(),
            Some(node) => node.string().unwrap_or_else(|| node.spelled().to_owned()),
        };
        let call = ToolCall::new("", name, text);
        Ok(ChatMessage::assistant(Content::Absent).with_tool_calls(vec![call]))
    }
}

/// Reads the calls of a message: a list, or the text of one.
pub(super) fn read_calls(node: Node<'_>, reading: &mut Reading) -> Result<Vec<ToolCall>, ()> {
    let list = |node: Node<'_>, reading: &mut Reading| {
        let calls = node.items().map(|call| read_call(call, reading));
        calls.collect::<Result<Vec<_>, ()>>()
    };
    if node.kind() == Kind::Array {
        return list(node, reading);
    }
    let calls = match node.string() {
        Some(text) if text.trim().is_empty() => return Ok(Vec::new()),
        Some(text) => inside(&text, Kind::Array, reading, list).ok(),
        None => None,
    };
    calls.ok_or_else(|| {
        let text = "`tool_calls` is not a list";
        reading.wrong(node.span(), text, "a list of calls");
    })
}

/// Reads a call: an object, or the text of one.
fn read_call(node: Node<'_>, reading: &mut Reading) -> Result<ToolCall, ()> {
    let Some(text) = node.string() else {
        return call_of(node, reading);
    };
    inside(&text, Kind::Object, reading, call_of).map_err(|()| {
        let expected = "`{\"function\": {\"name\": …, \"arguments\": …}}`";
        let text = "the text of a call is not a call";
        reading.wrong(node.span(), text, expected);
    })
}

/// Reads calls in a text, whose places are not places in the file.
fn inside<T>(
    text: &str,
    kind: Kind,
    reading: &mut Reading,
    read: impl FnOnce(Node<'_>, &mut Reading) -> Result<T, ()>,
) -> Result<T, ()> {
    let inner = Node::parse(text.as_bytes(), Span::new(0, text.len())).map_err(|_| ())?;
    if inner.kind() != kind {
        return Err(());
    }
    let mut own = Reading {
        index: reading.index,
        ..Reading::default()
    };
    let calls = read(inner, &mut own)?;
    reading.losses.append(&mut own.losses);
    let text = "calls that are a text are read as the calls in it";
    reading.note(LossKind::SpellingChanged, text);
    Ok(calls)
}

fn call_of(node: Node<'_>, reading: &mut Reading) -> Result<ToolCall, ()> {
    let call = reading.object(node, "the call").ok_or(())?;
    reading.note_unknown(&call, &CALL_KEYS);
    let id = reading.text(&call, "id")?.unwrap_or_default();
    if call.get("function").is_none() && call.get("name").is_some() {
        // Some data sets leave out the level of the function.
        let name = reading.required(&call, "name")?;
        let text = arguments(&call, "arguments", reading)?;
        return Ok(ToolCall::new(id, name, text));
    }
    if let Some(name) = call.get("function").and_then(Node::string) {
        // Logs have the name of the function in its place.
        let text = arguments(&call, "arguments", reading)?;
        return Ok(ToolCall::new(id, name, text));
    }
    let (key, arguments, kind) = match reading.text(&call, "type")?.as_deref() {
        None | Some("function") => ("function", "arguments", CallKind::Function),
        Some("custom") => ("custom", "input", CallKind::Custom),
        Some(_) => {
            let place = call.get("type").map_or(call.span, Node::span);
            reading.wrong(place, "unknown kind of call", "`function` or `custom`");
            return Err(());
        }
    };
    let Some(inner) = call.get(key) else {
        let expected = format!("a `{key}`");
        reading.wrong(call.span, "the call names no tool", &expected);
        return Err(());
    };
    let (name, text) = tool(inner, arguments, reading)?;
    Ok(ToolCall::new(id, name, text).with_kind(kind))
}

pub(super) fn tool(
    node: Node<'_>,
    key: &str,
    reading: &mut Reading,
) -> Result<(String, String), ()> {
    let tool = reading.object(node, "the tool of a call").ok_or(())?;
    reading.note_unknown(&tool, &["name", key]);
    let name = reading.required(&tool, "name")?;
    let text = arguments(&tool, key, reading)?;
    Ok((name, text))
}

/// The arguments of a call: a text, or a value as it is spelled.
fn arguments(tool: &Object<'_>, key: &str, reading: &mut Reading) -> Result<String, ()> {
    match tool.get(key) {
        Some(node) if matches!(node.kind(), Kind::Object | Kind::Array) => {
            Ok(node.spelled().to_owned())
        }
        _ => reading.required(tool, key),
    }
}

/// Adds a block to a message, whatever form its content has.
fn add_text(message: &mut ChatMessage, block: ContentBlock, first: bool) {
    let mut blocks = match std::mem::take(&mut message.content) {
        Content::Absent => Vec::new(),
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![ContentBlock::text(text)],
        Content::Blocks(blocks) => blocks,
    };
    let at = if first { 0 } else { blocks.len() };
    blocks.insert(at, block);
    message.content = Content::Blocks(blocks);
}
