//! Rows to messages with marks.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::harmony::{Content, FunctionTool, RenderMessage};
use openchatml::{FrameRole, recipient_of};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::marked::{Chat, Marked};
use super::marks::{MarkError, flag, row_train, set_details, train_of};
use super::message_error::{MessageError, content, is_empty, shape};
use super::options::{MaskOptions, RowShape};
use super::row::{Body, RawCall, RawFunction, RawMessage, RawPart, RawParts, RawRow, Text};
use crate::Refusal;

/// Reads the conversation of a row.
pub(super) fn read(row: &[u8], options: &MaskOptions) -> Result<Chat, Refusal> {
    let raw: RawRow<'_> = serde_json::from_slice(row).map_err(|error| invalid(row, &error))?;
    let row_train = row_train(&raw, options.marks);
    let ((Some(messages), None) | (None, Some(messages))) = (raw.messages, raw.conversations)
    else {
        let message = "the row has not one list of messages";
        let found = Diagnostic::error(DiagnosticCode::JsonShape, message, whole(row));
        return Err(found
            .with_expected("an object with `messages` or `conversations`")
            .with_help("convert the data set to messages with `logue data convert`")
            .into());
    };
    let mut reading = Reading {
        row,
        options,
        chat: Chat::default(),
        pending: VecDeque::new(),
        tools_of: BTreeMap::new(),
    };
    if let Some(functions) = raw.functions.filter(|raw| !is_empty(raw)) {
        let text = "`functions` is not read";
        let help = "write the functions as `tools`";
        return Err(content(text, help, reading.place_of(functions)));
    }
    if let Some(tools) = raw.tools {
        reading.chat.tools = read_tools(tools.get())
            .map_err(|error| shape(&format!("`tools` {error}"), reading.place_of(tools)))?;
    }
    let is_row_trained = row_train.map_err(|error| error.into_refusal(whole(row)))?;
    reading.chat.native = match options.shape {
        RowShape::Chat => false,
        RowShape::Harmony => true,
        RowShape::Auto => messages.iter().any(is_native),
    };
    if let Some(system) = raw.system.filter(|system| !system.0.is_empty()) {
        let message = RenderMessage::system(system.0.into_owned());
        reading.chat.messages.push(Marked::new(message, 0));
    }
    for (index, message) in messages.into_iter().enumerate() {
        reading
            .message(index, message)
            .map_err(|error| error.place(row, index))?;
    }
    if !is_row_trained {
        for marked in &mut reading.chat.messages {
            marked.train = Some(false);
            marked.details.clear();
        }
    }
    Ok(reading.chat)
}

/// Returns the refusal of a row that is not JSON, or not of the shape.
pub(super) fn invalid(row: &[u8], error: &serde_json::Error) -> Refusal {
    let (code, help) = if error.is_data() {
        let help = "convert the data set to messages with `logue data convert`";
        (DiagnosticCode::JsonShape, help)
    } else {
        (DiagnosticCode::JsonSyntax, "correct or remove the row")
    };
    let lines = row.split_inclusive(|byte| *byte == b'\n');
    let line: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = (line + error.column().saturating_sub(1)).min(row.len());
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    Refusal::new(code, message, Span::new(at, row.len().min(at + 1))).with_help(help)
}

fn whole(row: &[u8]) -> Span {
    Span::new(0, row.len())
}

/// Returns the place of a message in its row.
pub(super) fn message_span(row: &[u8], index: usize) -> Span {
    let parts: Option<RawParts<'_>> = serde_json::from_slice(row).ok();
    let messages = parts.and_then(|parts| parts.messages.or(parts.conversations));
    let message = messages.and_then(|messages| messages.get(index).copied());
    message.map_or_else(|| whole(row), |message| span_in(row, message))
}

/// Returns the place of a value that is borrowed from the row.
fn span_in(row: &[u8], value: &RawValue) -> Span {
    let text = value.get();
    let start = (text.as_ptr() as usize).wrapping_sub(row.as_ptr() as usize);
    let end = start.wrapping_add(text.len());
    if end <= row.len() && start <= end {
        Span::new(start, end)
    } else {
        whole(row)
    }
}

/// Returns whether a message has what only those of openai-harmony have.
fn is_native(message: &RawMessage<'_>) -> bool {
    message.channel.is_some()
        || message.recipient.is_some()
        || message.content_type.is_some()
        || has_typed_content(&message.content)
}

fn has_typed_content(body: &Body<'_>) -> bool {
    let Body::Parts(parts) = body else {
        return false;
    };
    let mut kinds = parts.iter().filter_map(|part| part.kind.as_ref());
    kinds.any(|kind| matches!(&*kind.0, "system_content" | "developer_content"))
}

struct Reading<'r> {
    row: &'r [u8],
    options: &'r MaskOptions,
    chat: Chat,
    /// The recipients of calls without a reply.
    pending: VecDeque<(Option<String>, String)>,
    /// The recipients of calls by id.
    tools_of: BTreeMap<String, String>,
}

impl<'r> Reading<'r> {
    fn place_of(&self, value: &RawValue) -> Span {
        span_in(self.row, value)
    }

    fn message(&mut self, index: usize, raw: RawMessage<'r>) -> Result<(), MessageError> {
        raw.check_lost()?;
        let train = train_of(&raw, self.options.marks)?;
        let word = match (&raw.role, &raw.from) {
            (Some(word), None) | (None, Some(word)) => &*word.0,
            (None, None) => return Err(MessageError::Shape("the message has no role".into())),
            (Some(_), Some(_)) => {
                let text = "the message has both `role` and `from`";
                return Err(MessageError::Shape(text.into()));
            }
        };
        let before = self.chat.messages.len();
        match word {
            "system" => self.plain(FrameRole::System, index, raw)?,
            "developer" => self.plain(FrameRole::Developer, index, raw)?,
            "user" | "human" => self.plain(FrameRole::User, index, raw)?,
            "assistant" | "gpt" | "bot" | "chatgpt" | "model" => self.assistant(index, raw)?,
            "function_call" | "tool_call" => self.written_call(index, raw)?,
            "tool" | "function" | "observation" | "tool_response" | "function_response" => {
                self.reply(index, raw)?;
            }
            other => {
                return Err(MessageError::Shape(format!(
                    "the role {other:?} is unknown"
                )));
            }
        }
        let added = self.chat.messages.get_mut(before..).unwrap_or_default();
        for marked in added {
            marked.train = train;
        }
        Ok(())
    }

    /// Sets what only messages of openai-harmony have.
    fn native(raw: &mut RawMessage<'r>, message: &mut RenderMessage) {
        let take = |text: &mut Option<Text<'r>>| text.take().map(|text| text.0.into_owned());
        message.name = take(&mut raw.name);
        message.recipient = take(&mut raw.recipient);
        message.channel = take(&mut raw.channel);
        message.content_type = take(&mut raw.content_type);
    }

    fn plain(
        &mut self,
        role: FrameRole,
        index: usize,
        mut raw: RawMessage<'r>,
    ) -> Result<(), MessageError> {
        let mut message = RenderMessage::new(role, "");
        Self::native(&mut raw, &mut message);
        self.push_body(index, raw, message)
    }

    /// Adds a message with the content of `raw`.
    fn push_body(
        &mut self,
        index: usize,
        raw: RawMessage<'r>,
        mut message: RenderMessage,
    ) -> Result<(), MessageError> {
        let body = body_of(raw.content, raw.value)?;
        let mut details = Vec::new();
        if has_typed_content(&body) {
            message.content = self.typed(index)?;
        } else if let Body::Parts(parts) = body {
            message.content.clear();
            let mut at = 0;
            for part in parts {
                let mark = part_mark(&part)?;
                let text = text_part(part)?;
                if let Some(train) = mark {
                    details.push((at..at + text.len(), train));
                }
                at += text.len();
                message.content.push(Content::Text(text.into_owned()));
            }
        } else if let Body::Text(text) = body {
            message.content = vec![Content::Text(text.into_owned())];
        }
        let mut marked = Marked::new(message, index);
        marked.details = details;
        if let Some(ranges) = raw.train_detail.filter(|_| self.options.marks.train_detail) {
            set_details(&mut marked, &ranges)?;
        }
        self.chat.messages.push(marked);
        Ok(())
    }

    /// Reads the typed content of a system or developer message.
    fn typed(&self, index: usize) -> Result<Vec<Content>, MessageError> {
        let span = message_span(self.row, index);
        let message = self.row.get(span.start..span.end).unwrap_or_default();
        let message: RenderMessage = serde_json::from_slice(message)
            .map_err(|error| MessageError::Shape(format!("the typed content: {error}")))?;
        Ok(message.content)
    }

    fn assistant(&mut self, index: usize, mut raw: RawMessage<'r>) -> Result<(), MessageError> {
        if let Some(thought) = raw.reasoning()? {
            let thought = thought.to_owned();
            self.thought(index, thought);
        }
        if let Body::Parts(parts) = &mut raw.content {
            let (thoughts, texts) = std::mem::take(parts)
                .into_iter()
                .partition(RawPart::is_thought);
            *parts = texts;
            let thoughts: Vec<RawPart<'r>> = thoughts;
            for part in thoughts {
                let text = thought_part(part);
                self.thought(index, text.into_owned());
            }
        }
        let calls = raw.tool_calls.take().unwrap_or_default();
        let old_call = raw.function_call.take();
        let has_calls = !calls.is_empty() || old_call.is_some();
        let mut message = RenderMessage::assistant("");
        Self::native(&mut raw, &mut message);
        let is_written = message.channel.is_some() || message.recipient.is_some();
        let has_text = match body_ref(&raw) {
            Body::Absent => false,
            Body::Text(text) => !(text.is_empty() && has_calls),
            Body::Parts(parts) => !parts.is_empty() || (self.chat.native && is_written),
        };
        if has_text {
            if !is_written && !self.chat.native {
                let channel = if has_calls { "commentary" } else { "final" };
                message.channel = Some(channel.to_owned());
            }
            if let Some(tool) = message.recipient.clone().filter(|to| to != "all") {
                self.pending.push_back((None, tool));
            }
            self.push_body(index, raw, message)?;
        } else if raw.train_detail.is_some() && self.options.marks.train_detail {
            return Err(MarkError::new(
                "`train_detail` marks parts of a message without text".into(),
                "remove `train_detail`",
            )
            .into());
        }
        for call in calls {
            self.call(index, call)?;
        }
        if let Some(call) = old_call {
            let function = Some(call);
            self.call(
                index,
                RawCall {
                    function,
                    ..RawCall::default()
                },
            )?;
        }
        Ok(())
    }

    fn thought(&mut self, index: usize, text: String) {
        let message = RenderMessage::assistant(text).with_channel("analysis");
        self.chat.messages.push(Marked::new(message, index));
    }

    fn call(&mut self, index: usize, call: RawCall<'_>) -> Result<(), MessageError> {
        let id = call.id.map(|id| id.0.into_owned());
        let (name, arguments) = match call.function {
            Some(function) => (function.name, function.arguments),
            None => (call.name, call.arguments),
        };
        let Some(name) = name.filter(|name| !name.0.is_empty()) else {
            return Err(MessageError::Shape("a tool call has no name".into()));
        };
        let arguments = match arguments {
            None => String::from("{}"),
            Some(raw) if raw.get().starts_with('"') => serde_json::from_str(raw.get())
                .map_err(|error| MessageError::Shape(format!("the arguments: {error}")))?,
            Some(raw) => raw.get().to_owned(),
        };
        let recipient = recipient_of(&name.0);
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&arguments).is_ok();
        let mut message = RenderMessage::assistant(arguments)
            .with_recipient(recipient.as_str())
            .with_channel("commentary");
        if is_json {
            message = message.with_constrain("json");
        }
        let mut marked = Marked::new(message, index);
        if let Some(id) = &id {
            self.tools_of.insert(id.clone(), recipient.clone());
        }
        marked.id.clone_from(&id);
        self.pending.push_back((id, recipient));
        self.chat.messages.push(marked);
        Ok(())
    }

    /// Reads calls whose message is their JSON.
    fn written_call(&mut self, index: usize, raw: RawMessage<'r>) -> Result<(), MessageError> {
        let Body::Text(text) = body_of(raw.content, raw.value)? else {
            return Err(MessageError::Shape("a call is not JSON text".into()));
        };
        let invalid = |error| MessageError::Shape(format!("a call is not JSON: {error}"));
        let calls: Vec<Box<RawValue>> = if text.trim_start().starts_with('[') {
            serde_json::from_str(&text).map_err(invalid)?
        } else {
            vec![serde_json::from_str(&text).map_err(invalid)?]
        };
        for call in calls {
            let read: RawFunction<'_> = serde_json::from_str(call.get()).map_err(invalid)?;
            let function = Some(read);
            self.call(
                index,
                RawCall {
                    function,
                    ..RawCall::default()
                },
            )?;
        }
        Ok(())
    }

    fn reply(&mut self, index: usize, mut raw: RawMessage<'r>) -> Result<(), MessageError> {
        let id = raw.tool_call_id.take().map(|id| id.0.into_owned());
        let written = raw.name.as_ref().map(|name| name.0.to_string());
        let mut message = RenderMessage::new(FrameRole::Tool, "");
        Self::native(&mut raw, &mut message);
        if self.chat.native {
            return self.push_reply(index, raw, message, id);
        }
        let of_id = id.as_ref().and_then(|id| self.tools_of.get(id)).cloned();
        let place = self.pending.iter().position(|(call, tool)| {
            let by_id = id.is_some() && *call == id;
            let by_name = || {
                written
                    .as_ref()
                    .is_some_and(|name| recipient_of(name) == *tool)
            };
            by_id || (id.is_none() && (written.is_none() || by_name()))
        });
        let waiting = place.and_then(|place| self.pending.remove(place));
        let waiting = waiting.map(|(_, tool)| tool);
        let tool = of_id
            .or(waiting)
            .or(written.map(|name| recipient_of(&name)));
        let Some(tool) = tool else {
            return Err(MessageError::Content(
                "the reply has neither a tool nor a call".into(),
                "add `tool_call_id` or `name` to the reply",
            ));
        };
        let reply = RenderMessage::tool(tool, "");
        message.name = reply.name;
        message.recipient = reply.recipient;
        message.channel = reply.channel;
        self.push_reply(index, raw, message, id)
    }

    fn push_reply(
        &mut self,
        index: usize,
        raw: RawMessage<'r>,
        message: RenderMessage,
        id: Option<String>,
    ) -> Result<(), MessageError> {
        self.push_body(index, raw, message)?;
        if let Some(last) = self.chat.messages.last_mut() {
            last.id = id;
        }
        Ok(())
    }
}

fn body_ref<'m, 'r>(raw: &'m RawMessage<'r>) -> &'m Body<'r> {
    match &raw.content {
        Body::Absent => &raw.value,
        body => body,
    }
}

fn body_of<'r>(content: Body<'r>, value: Body<'r>) -> Result<Body<'r>, MessageError> {
    match (content, value) {
        (body, Body::Absent) | (Body::Absent, body) => Ok(body),
        _ => {
            let text = "the message has both `content` and `value`";
            Err(MessageError::Shape(text.into()))
        }
    }
}

fn part_mark(part: &RawPart<'_>) -> Result<Option<bool>, MessageError> {
    match (part.train, part.weight) {
        (None, None) => Ok(None),
        (Some(mark), None) => Ok(Some(flag("train", mark)?)),
        (None, Some(mark)) => Ok(Some(flag("weight", mark)?)),
        (Some(train), Some(weight)) => {
            let (train, weight) = (flag("train", train)?, flag("weight", weight)?);
            if train == weight {
                return Ok(Some(train));
            }
            let text = "`weight` contradicts `train` of the same part";
            Err(MarkError::new(text.into(), "remove one of the two").into())
        }
    }
}

fn thought_part(part: RawPart<'_>) -> Cow<'_, str> {
    let text = part
        .thinking
        .or(part.reasoning)
        .or(part.text)
        .or(part.value);
    text.map(|text| text.0).unwrap_or_default()
}

fn text_part(part: RawPart<'_>) -> Result<Cow<'_, str>, MessageError> {
    part.check_text()?;
    let text = part.text.or(part.content).or(part.value);
    text.map(|text| text.0)
        .ok_or_else(|| MessageError::Shape("a part has no text".into()))
}

/// Reads declared tools: a list, or its JSON as a string; wrapped or flat.
fn read_tools(json: &str) -> Result<Vec<FunctionTool>, String> {
    #[derive(Deserialize)]
    struct Function {
        name: String,
        description: Option<String>,
        parameters: Option<Value>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Tool {
        Wrapped { function: Function },
        Flat(Function),
    }
    let invalid = |error: serde_json::Error| format!("is not a list of functions: {error}");
    let inner: String;
    let json = if json.starts_with('"') {
        inner = serde_json::from_str(json).map_err(invalid)?;
        if inner.trim().is_empty() {
            return Ok(Vec::new());
        }
        inner.as_str()
    } else {
        json
    };
    let tools: Vec<Tool> = serde_json::from_str(json).map_err(invalid)?;
    let tools = tools.into_iter().map(|tool| match tool {
        Tool::Wrapped { function } | Tool::Flat(function) => function,
    });
    Ok(tools
        .map(|tool| {
            let description = tool.description.unwrap_or_default();
            FunctionTool::new(tool.name, description, tool.parameters)
        })
        .collect())
}
