//! The JSON of openai-harmony to frames, by way of Harmony's own conversations.
//!
//! Data sets mix the fields of Chat Completions in: calls, ids and reasoning of an assistant become
//! messages of their own. Other keys are listed.

use std::collections::BTreeMap;

use logue_message::ToolCall;
use serde_json::{Map, Value};

use super::format::Projected;
use super::header;
use super::messages_read::{read_calls, tool};
use super::node::{Node, Object};
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::Transcript;
use crate::harmony::{Conversation, RenderMessage};
use crate::loss::{LossKind, LossTarget};
use crate::messages::{recipient_of, types_of};
use crate::syntax::vocabulary::{Channel, FrameRole};

/// The keys of a message of openai-harmony.
const OWN: [&str; 6] = [
    "role",
    "name",
    "recipient",
    "channel",
    "content_type",
    "content",
];

/// The keys of Chat Completions that are read beside them.
const READ: [&str; 6] = [
    "tool_calls",
    "function_call",
    "tool_call_id",
    "reasoning_content",
    "reasoning",
    "thinking",
];

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut messages = Messages::default();
    let keys = ["messages", "conversations", "conversation"];
    let opened = header::open(
        values,
        &keys,
        false,
        ToolShape::Wrapped,
        &mut messages.reading,
    );
    for (index, node) in opened.messages.into_iter().enumerate() {
        messages.reading.index = index;
        if messages.message(node).is_err() {
            messages.reading.unread();
        }
    }
    let Messages {
        mut reading,
        list,
        ids,
        sources,
        ..
    } = messages;
    let (transcript, losses) = Conversation::new(list).to_transcript_with_ids(&ids);
    reading.losses.extend(losses.into_iter().map(|mut loss| {
        if let LossTarget::Message(index) = &mut loss.target {
            *index = sources.get(*index).copied().unwrap_or(*index);
        }
        loss
    }));
    Projected {
        transcript: Transcript {
            header: opened.header,
            tools: reading.tools,
            ..transcript
        },
        diagnostics: reading.findings.kept().to_vec(),
        losses: reading.losses,
    }
}

#[derive(Default)]
struct Messages {
    reading: Reading,
    list: Vec<RenderMessage>,
    /// The id of the call of each message.
    ids: Vec<Option<String>>,
    /// The place of each message in the file.
    sources: Vec<usize>,
    /// The recipients of the calls so far, by id.
    tools: BTreeMap<String, String>,
}

impl Messages {
    fn message(&mut self, node: Node<'_>) -> Result<(), ()> {
        let object = self.reading.object(node, "the message").ok_or(())?;
        let known: Vec<&str> = OWN.iter().chain(&READ).copied().collect();
        self.reading.note_unknown(&object, &known);
        self.parts(&object);
        let is_assistant =
            object.get("role").and_then(Node::string).as_deref() == Some("assistant");
        let id = self.reading.text(&object, "tool_call_id")?;
        let reasoning = self.reasoning(&object, is_assistant)?;
        let calls = self.calls(&object, is_assistant)?;
        if let Some(text) = &reasoning {
            let thought = RenderMessage::new(FrameRole::Assistant, text.as_str());
            self.push(on(thought, Channel::Analysis), None);
        }
        let content = object.get("content");
        let is_empty = content.is_none_or(|node| node.spelled() == "\"\"");
        if !(is_empty && (!calls.is_empty() || reasoning.is_some())) {
            let mut message = self.own(node, &object)?;
            let mut id = id;
            if message.role == FrameRole::Tool {
                let tool = id.as_ref().and_then(|id| self.tools.get(id));
                message.name = message.name.or_else(|| tool.cloned());
            } else if id.take().is_some() {
                let text = "`tool_call_id` of a non-tool message dropped";
                self.reading.note(LossKind::IdDropped, text);
            }
            self.push(message, id);
        }
        for call in &calls {
            self.call(call);
        }
        Ok(())
    }

    fn push(&mut self, message: RenderMessage, id: Option<String>) {
        self.list.push(message);
        self.ids.push(id);
        self.sources.push(self.reading.index);
    }

    /// The message as openai-harmony reads it.
    fn own(&mut self, node: Node<'_>, object: &Object<'_>) -> Result<RenderMessage, ()> {
        let entries = object.entries.iter();
        let own = entries.filter(|(_, key, _)| OWN.contains(&&**key));
        let own = own.map(|(_, key, value)| (key.to_string(), value.value().unwrap_or_default()));
        let own: Map<String, Value> = own.collect();
        serde_json::from_value(Value::Object(own)).map_err(|error| {
            let text = format!("this is not a message of openai-harmony: {error}");
            let expected = "`role`, `channel`, `recipient`, `content`";
            self.reading.wrong(node.span(), text, expected);
        })
    }

    /// Notes the keys of the parts of a text that are not read.
    fn parts(&mut self, object: &Object<'_>) {
        let content = object.get("content");
        for part in content.into_iter().flat_map(Node::items) {
            let Some(part) = part.object() else {
                continue;
            };
            let known: &[&str] = match part.get("type").and_then(Node::string).as_deref() {
                Some("text") => &["type", "text"],
                Some("system_content") => &[
                    "type",
                    "model_identity",
                    "reasoning_effort",
                    "conversation_start_date",
                    "knowledge_cutoff",
                    "channel_config",
                    "tools",
                ],
                Some("developer_content") => &["type", "instructions", "tools"],
                _ => continue,
            };
            self.reading.note_unknown(&part, known);
        }
    }

    /// The reasoning beside a message of the assistant.
    fn reasoning(&mut self, object: &Object<'_>, is_assistant: bool) -> Result<Option<String>, ()> {
        let mut reasoning: Option<String> = None;
        for key in ["reasoning_content", "reasoning", "thinking"] {
            let Some(text) = self.reading.text(object, key)? else {
                continue;
            };
            if is_assistant && reasoning.as_ref().is_none_or(|one| *one == text) {
                reasoning = Some(text);
            } else {
                let text = format!("`{key}` dropped");
                self.reading.note(LossKind::TextDropped, text);
            }
        }
        Ok(reasoning.filter(|text| !text.is_empty()))
    }

    /// The calls beside a message of the assistant.
    fn calls(&mut self, object: &Object<'_>, is_assistant: bool) -> Result<Vec<ToolCall>, ()> {
        let mut calls = Vec::new();
        for key in ["tool_calls", "function_call"] {
            let Some(node) = object.get(key) else {
                continue;
            };
            if !is_assistant {
                let text = format!("`{key}` of a non-assistant message dropped");
                self.reading.note(LossKind::CallDropped, text);
            } else if key == "tool_calls" {
                calls.extend(read_calls(node, &mut self.reading)?);
            } else {
                let (name, text) = tool(node, "arguments", &mut self.reading)?;
                calls.push(ToolCall::new("", name, text));
            }
        }
        Ok(calls)
    }

    fn call(&mut self, call: &ToolCall) {
        let recipient = recipient_of(&call.name);
        let arguments = call.arguments.as_str();
        let message = RenderMessage::new(FrameRole::Assistant, arguments);
        let message = on(message, Channel::Commentary).with_recipient(&recipient);
        let message = match types_of(call.kind, arguments) {
            (Some(constrain), _) => message.with_constrain(constrain),
            (None, Some(content_type)) => message.with_content_type(content_type),
            (None, None) => message,
        };
        let id = (!call.id.is_empty()).then(|| call.id.clone());
        if let Some(id) = &id {
            self.tools.insert(id.clone(), recipient);
        }
        self.push(message, id);
    }
}

fn on(message: RenderMessage, channel: Channel) -> RenderMessage {
    message.with_channel(channel.as_str().unwrap_or_default())
}
