//! Messages in the JSON form of `logue_message` to frames.
//!
//! A stored session is exported in that form. It shares its role and plain text with the other
//! forms; its calls, blocks and authority are its own and identify it.

use logue_message::ChatMessage;

use super::format::Projected;
use super::header;
use super::node::{Kind, Node};
use super::outline::is_message;
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::Transcript;
use crate::messages::frames_from_messages;

/// Returns whether a message has a field that only the JSON form of `logue_message` has.
pub(super) fn is_own(message: Node<'_>) -> bool {
    let Some(object) = message.object() else {
        return false;
    };
    let is_call = |call: Node<'_>| {
        let call = call.object();
        let text = |key: &str| {
            let call = call.as_ref()?;
            Some(call.get(key)?.kind() == Kind::String)
        };
        // Rows of data sets have arguments as an object, and no id.
        text("name").is_some() && text("arguments") == Some(true) && text("function").is_none()
    };
    let is_reasoning = |block: Node<'_>| {
        let Some(block) = block.object() else {
            return false;
        };
        match block.get("type").and_then(Node::string).as_deref() {
            Some("thinking") => block.get("text").is_some(),
            Some("redacted_thinking") => true,
            _ => false,
        }
    };
    let any = |key: &str, is_own: &dyn Fn(Node<'_>) -> bool| {
        let list = object.get(key);
        list.is_some_and(|list| list.items().any(is_own))
    };
    object.get("authority").is_some()
        || any("tool_calls", &is_call)
        || any("content", &is_reasoning)
}

/// Returns whether a conversation is in the JSON form of `logue_message`.
pub(super) fn is_history(values: &[Node<'_>]) -> bool {
    let [conversation] = values else {
        return values.iter().copied().any(is_own);
    };
    let object = conversation.object();
    let messages = match &object {
        Some(object) if is_message(object) => return is_own(*conversation),
        Some(object) => object.get("messages"),
        None => Some(*conversation),
    };
    let messages = messages.filter(|messages| messages.kind() == Kind::Array);
    messages.is_some_and(|messages| messages.items().any(is_own))
}

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut reading = Reading::default();
    let opened = header::open(
        values,
        &["messages"],
        true,
        ToolShape::Wrapped,
        &mut reading,
    );
    let mut messages = Vec::with_capacity(opened.messages.len());
    for (index, message) in opened.messages.into_iter().enumerate() {
        reading.index = index;
        let Some(object) = reading.object(message, "the message") else {
            reading.unread();
            continue;
        };
        let known = [
            "role",
            "authority",
            "content",
            "tool_calls",
            "tool_call_id",
            "name",
        ];
        reading.note_unknown(&object, &known);
        let Some(value) = message.value() else {
            let text = "the message is nested too deeply or is not text";
            reading.wrong(message.span(), text, "plain data");
            reading.unread();
            continue;
        };
        match ChatMessage::from_json(&value) {
            Ok(message) => messages.push(message),
            Err(error) => {
                let text = format!("message {index}: {error}");
                reading.wrong(message.span(), text, error.expected());
                reading.unread();
            }
        }
    }
    let (frames, losses) = frames_from_messages(&messages);
    reading.losses.extend(losses);
    Projected {
        transcript: Transcript {
            header: opened.header,
            frames,
            tools: reading.tools,
        },
        diagnostics: reading.findings.kept().to_vec(),
        losses: reading.losses,
    }
}
