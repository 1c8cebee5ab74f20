//! Frames to items of Responses, by way of the hub (`logue_message`).
//!
//! A preamble has the phase `commentary`. An answer has the phase `final_answer` where a call
//! follows it, which would else make it a preamble. Reasoning is an item of its own.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Value, json};

use super::blocks::Notes;
use super::header;
use super::images;
use super::messages_write::{dropped_empty, is_kept, to_messages_in_order};
use super::tools::ToolShape;
use crate::convert::{ConvertOptions, Writing, note_terminators};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::syntax::vocabulary::Terminator;

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let mut writing = Writing::default();
    let beside = header::beside(
        transcript,
        &["input", "instructions"],
        ToolShape::Flat,
        &mut writing,
    );
    let empty = dropped_empty(&transcript.frames);
    let is_kept =
        |index: usize, frame: &FrameBuf| !empty.contains(&index) && is_kept(frame, options);
    note_terminators(
        &transcript.frames,
        Terminator::Return,
        is_kept,
        &mut writing,
    );
    let messages = to_messages_in_order(&transcript.frames, &mut writing);
    let mut tools = BTreeMap::new();
    let mut custom = BTreeSet::new();
    let mut items: Vec<Value> = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let losses = &mut writing.losses;
        let mut notes = Notes { index, losses };
        notes.name(message, &tools);
        let role = if message.developer {
            "developer"
        } else {
            message.role.as_str()
        };
        match message.role {
            Role::User if message.content.has_image() => {
                items.push(json!({"role": role, "content": parts(message)}));
            }
            Role::System | Role::User => {
                items.push(json!({"role": role, "content": message.text()}));
            }
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let kind = if custom.contains(id) {
                    "custom_tool_call_output"
                } else {
                    "function_call_output"
                };
                let output = if message.content.has_image() {
                    parts(message).into()
                } else {
                    Value::from(message.text())
                };
                items.push(json!({"type": kind, "call_id": id, "output": output}));
            }
            Role::Assistant => {
                let later = messages.get(index + 1..).unwrap_or_default().iter();
                let mut later = later.take_while(|next| next.role == Role::Assistant);
                let is_followed = later.any(|next| is_written(next, options));
                content(message, is_followed, options, &mut items, &mut notes);
                for tool_call in &message.tool_calls {
                    tools.insert(&tool_call.id, &tool_call.name);
                    if tool_call.kind == CallKind::Custom {
                        custom.insert(tool_call.id.as_str());
                    }
                    items.push(call(tool_call));
                }
            }
        }
    }
    header::lay_out(&mut writing, &beside, "input", true, &items, options);
    writing
}

/// Returns whether a message of the assistant becomes at least one item.
fn is_written(message: &ChatMessage, options: &ConvertOptions) -> bool {
    let is_item = |block: &ContentBlock| match block {
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => options.thinking,
        _ => true,
    };
    !message.tool_calls.is_empty()
        || match &message.content {
            Content::Absent => false,
            Content::Text(_) => true,
            Content::Blocks(blocks) => blocks.iter().any(is_item),
        }
}

/// Writes the texts and images of a user's message or of a result.
fn parts(message: &ChatMessage) -> Vec<Value> {
    let Content::Blocks(blocks) = &message.content else {
        return Vec::new();
    };
    let part = |block: &ContentBlock| match block {
        ContentBlock::Text { text, .. } => Some(json!({"type": "input_text", "text": text})),
        block => images::response_part(block),
    };
    blocks.iter().filter_map(part).collect()
}

/// The items of an assistant's words and reasoning.
fn content(
    message: &ChatMessage,
    is_followed: bool,
    options: &ConvertOptions,
    items: &mut Vec<Value>,
    notes: &mut Notes<'_>,
) {
    let plain;
    let blocks = match &message.content {
        Content::Absent => return,
        Content::Text(text) => {
            plain = [ContentBlock::text(text.as_str())];
            &plain
        }
        Content::Blocks(blocks) => blocks.as_slice(),
    };
    let mut is_hidden = false;
    for block in blocks {
        match block {
            ContentBlock::Text { text, preamble, .. } => {
                let mut item = json!({
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text}],
                });
                if *preamble {
                    item["phase"] = "commentary".into();
                } else if let Some(phase) = &message.phase {
                    item["phase"] = phase.as_str().into();
                } else if is_followed {
                    item["phase"] = "final_answer".into();
                }
                items.push(item);
            }
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
                if !options.thinking =>
            {
                is_hidden = true;
            }
            ContentBlock::Thinking {
                text,
                signature,
                id,
            } => {
                let mut item = json!({"type": "reasoning"});
                if let Some(id) = id {
                    item["id"] = id.as_str().into();
                }
                item["summary"] = json!([{"type": "summary_text", "text": text}]);
                match signature {
                    Some(signature) if id.is_some() => {
                        item["encrypted_content"] = signature.as_str().into();
                    }
                    Some(_) => notes.add(LossKind::SignatureDropped, "a signature dropped"),
                    None => {}
                }
                items.push(item);
            }
            ContentBlock::RedactedThinking { .. } => notes.add(
                LossKind::SignatureDropped,
                "reasoning that only its provider can read dropped",
            ),
            _ => notes.add(LossKind::PartDropped, "content of an unknown kind dropped"),
        }
    }
    if is_hidden {
        notes.add(LossKind::HiddenOmitted, "private reasoning dropped");
    }
}

fn call(call: &ToolCall) -> Value {
    let (id, name, text) = (&call.id, &call.name, call.arguments.as_str());
    match call.kind {
        CallKind::Function => {
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": text})
        }
        CallKind::Custom => {
            json!({"type": "custom_tool_call", "call_id": id, "name": name, "input": text})
        }
    }
}
