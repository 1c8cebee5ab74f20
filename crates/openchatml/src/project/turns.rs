//! Frames to the JSON of OpenChatML 2.0 §10: `thinking` with either `content` or `tool_calls`.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role};
use serde_json::{Map, Value, json};

use super::blocks::PHASE;
use super::header;
use super::messages_write::{dropped_empty, is_kept, to_messages_in_order};
use crate::convert::{ConvertOptions, Writing, note_terminators};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::{recipient_of, types_of};
use crate::syntax::vocabulary::Terminator;

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let mut writing = Writing::default();
    let mut beside = Map::new();
    if let Some(values) = &transcript.header {
        let mut values = values.clone();
        "2.0".clone_into(&mut values.version);
        beside.insert("header".into(), header::to_value(&values));
    }
    let mut values = Vec::new();
    let all = ConvertOptions::default().with_thinking(true);
    let empty = dropped_empty(&transcript.frames);
    let is_kept = |index: usize, frame: &FrameBuf| !empty.contains(&index) && is_kept(frame, &all);
    note_terminators(&transcript.frames, Terminator::End, is_kept, &mut writing);
    for (index, message) in to_messages_in_order(&transcript.frames, &mut writing)
        .iter()
        .enumerate()
    {
        let mut note = |kind, text: &str| {
            let target = LossTarget::Message(index);
            writing.losses.push(Loss::new(target, kind, text));
        };
        if message.phase.is_some() {
            note(LossKind::AttributeDropped, PHASE);
        }
        if message.role == Role::Assistant {
            assistant(message, &mut values, &mut note);
        } else {
            values.push(other(message));
        }
    }
    header::lay_out(&mut writing, &beside, "messages", false, &values, options);
    writing
}

fn other(message: &ChatMessage) -> Value {
    let mut object = opened(message);
    if message.role == Role::Tool {
        let name = message.name.as_deref().map(recipient_of);
        put(&mut object, "name", name.as_deref());
    }
    put(&mut object, "tool_call_id", message.tool_call_id.as_deref());
    object.insert("content".into(), message.text().into());
    Value::Object(object)
}

/// One object for each text, with the reasoning before it, and one for the calls.
fn assistant(message: &ChatMessage, values: &mut Vec<Value>, note: &mut dyn FnMut(LossKind, &str)) {
    let plain;
    let blocks = match &message.content {
        Content::Absent => &[][..],
        Content::Text(text) => {
            plain = [ContentBlock::text(text.as_str())];
            &plain
        }
        Content::Blocks(blocks) => blocks,
    };
    let mut object = opened(message);
    for block in blocks {
        match block {
            ContentBlock::Thinking {
                text,
                signature,
                id,
            } => {
                if signature.is_some() {
                    note(LossKind::SignatureDropped, "a signature dropped");
                }
                if id.is_some() {
                    note(LossKind::IdDropped, "the id of a reasoning item dropped");
                }
                if object.contains_key("thinking") {
                    values.push(Value::Object(std::mem::replace(
                        &mut object,
                        opened(message),
                    )));
                }
                object.insert("thinking".into(), text.as_str().into());
            }
            ContentBlock::Text { text, preamble, .. } => {
                if *preamble {
                    note(LossKind::PreambleChanged, "a preamble becomes an answer");
                }
                object.insert("content".into(), text.as_str().into());
                values.push(Value::Object(std::mem::replace(
                    &mut object,
                    opened(message),
                )));
            }
            ContentBlock::RedactedThinking { .. } => note(
                LossKind::SignatureDropped,
                "reasoning that only its provider can read dropped",
            ),
            _ => {}
        }
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let text = call.arguments.as_str();
            if types_of(call.kind, text) != types_of(CallKind::Function, text) {
                note(LossKind::TypeChanged, "the kind of a call dropped");
            }
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": text},
            })
        });
        object.insert("tool_calls".into(), calls.collect());
        values.push(Value::Object(object));
    } else if object.contains_key("thinking") {
        values.push(Value::Object(object));
    }
}

fn opened(message: &ChatMessage) -> Map<String, Value> {
    let mut object = Map::new();
    let role = if message.developer {
        "developer"
    } else {
        message.role.as_str()
    };
    object.insert("role".into(), role.into());
    if message.role != Role::Tool {
        put(&mut object, "name", message.name.as_deref());
    }
    object
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        object.insert(key.into(), value.into());
    }
}
