//! Frames to requests of Anthropic Messages, by way of the hub (`logue_message`).
//!
//! `system` has the first messages of the system, if there are any; later ones stay where they are.
//! Results are blocks of a user's message. The form has no developer: as `system` a developer's words
//! would be raised, so they are left out and listed. A signature is never made up.

use std::collections::BTreeMap;

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Value, json};

use super::blocks::{Notes, is_object, on_one_line};
use super::header;
use super::images;
use super::messages_write::{dropped_empty, is_kept, to_messages};
use super::tools::ToolShape;
use crate::convert::{ConvertOptions, Writing, note_terminators};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::syntax::vocabulary::{FrameRole, Terminator};

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let mut writing = Writing::default();
    let mut beside = header::beside(
        transcript,
        &["messages", "system"],
        ToolShape::InputSchema,
        &mut writing,
    );
    let empty = dropped_empty(&transcript.frames);
    let is_kept = |index: usize, frame: &FrameBuf| {
        frame.role != FrameRole::Developer && !empty.contains(&index) && is_kept(frame, options)
    };
    note_terminators(
        &transcript.frames,
        Terminator::Return,
        is_kept,
        &mut writing,
    );
    let messages = to_messages(&transcript.frames, &mut writing);
    let is_system = |message: &&ChatMessage| message.role == Role::System && !message.developer;
    let first = messages.iter().take_while(is_system).count();
    let mut tools = BTreeMap::new();
    let mut values: Vec<String> = Vec::with_capacity(messages.len());
    let mut system = Vec::new();
    let mut results: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let losses = &mut writing.losses;
        let mut notes = Notes { index, losses };
        notes.name(message, &tools);
        notes.phase(message);
        if message.role != Role::Tool {
            flush(&mut results, &mut values);
        }
        match message.role {
            Role::System if message.developer => notes.add(
                LossKind::MessageDropped,
                "left out, because the form has no developer, and `system` would raise its rank",
            ),
            Role::System if index < first => system.push(message.text()),
            Role::User if message.content.has_image() => {
                let content = parts(message, &mut notes);
                values.push(json!({"role": "user", "content": content}).to_string());
            }
            Role::System | Role::User => {
                let role = message.role.as_str();
                values.push(json!({"role": role, "content": message.text()}).to_string());
            }
            Role::Tool => {
                let content = if message.content.has_image() {
                    parts(message, &mut notes).into()
                } else {
                    Value::from(message.text())
                };
                let result = json!({
                    "type": "tool_result",
                    "tool_use_id": message.tool_call_id,
                    "content": content,
                });
                results.push(result.to_string());
            }
            Role::Assistant => {
                for call in &message.tool_calls {
                    tools.insert(&call.id, &call.name);
                }
                values.extend(assistant(message, options, &mut notes));
            }
        }
    }
    flush(&mut results, &mut values);
    match system.as_slice() {
        [] => {}
        [text] => {
            beside.insert("system".into(), text.as_str().into());
        }
        texts => {
            let blocks = texts
                .iter()
                .map(|text| json!({"type": "text", "text": text}));
            beside.insert("system".into(), blocks.collect());
        }
    }
    header::lay_out(&mut writing, &beside, "messages", true, &values, options);
    writing
}

/// Writes the texts and images of a user's message or of a result.
fn parts(message: &ChatMessage, notes: &mut Notes<'_>) -> Vec<Value> {
    let Content::Blocks(blocks) = &message.content else {
        return Vec::new();
    };
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        if let ContentBlock::Text { text, .. } = block {
            parts.push(json!({"type": "text", "text": text}));
        } else if let Some((part, has_detail)) = images::anthropic_block(block) {
            if has_detail {
                notes.add(LossKind::SettingDropped, "the detail of an image dropped");
            }
            parts.push(part);
        }
    }
    parts
}

/// Writes the results of one turn as a user's message.
fn flush(results: &mut Vec<String>, values: &mut Vec<String>) {
    if !results.is_empty() {
        let blocks = std::mem::take(results).join(",");
        values.push(format!("{{\"role\":\"user\",\"content\":[{blocks}]}}"));
    }
}

fn assistant(
    message: &ChatMessage,
    options: &ConvertOptions,
    notes: &mut Notes<'_>,
) -> Option<String> {
    let calls = &message.tool_calls;
    let blocks = match &message.content {
        Content::Text(text) if calls.is_empty() => {
            return Some(json!({"role": "assistant", "content": text}).to_string());
        }
        Content::Absent | Content::Text(_) => &[][..],
        Content::Blocks(blocks) => blocks,
    };
    let mut parts = Vec::new();
    let mut is_hidden = false;
    for block in blocks {
        match block {
            ContentBlock::Text { text, preamble, .. } => {
                if *preamble && calls.is_empty() {
                    notes.add(LossKind::PreambleChanged, "a preamble becomes an answer");
                }
                parts.push(json!({"type": "text", "text": text}).to_string());
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
                let mut part = json!({"type": "thinking", "thinking": text});
                if let Some(signature) = signature {
                    part["signature"] = Value::from(signature.as_str());
                }
                if id.is_some() {
                    notes.add(LossKind::IdDropped, "the id of a reasoning item dropped");
                }
                parts.push(part.to_string());
            }
            ContentBlock::RedactedThinking { data } => {
                parts.push(json!({"type": "redacted_thinking", "data": data}).to_string());
            }
            _ => notes.add(LossKind::PartDropped, "content of an unknown kind dropped"),
        }
    }
    if is_hidden {
        notes.add(LossKind::HiddenOmitted, "private reasoning dropped");
    }
    parts.extend(calls.iter().map(|call| tool_use(call, notes)));
    let content = parts.join(",");
    (!parts.is_empty()).then(|| format!("{{\"role\":\"assistant\",\"content\":[{content}]}}"))
}

fn tool_use(call: &ToolCall, notes: &mut Notes<'_>) -> String {
    let arguments = call.arguments.as_str();
    if call.kind == CallKind::Custom {
        notes.add(LossKind::TypeChanged, "the kind of a call dropped");
    }
    let input = if is_object(arguments) {
        let (line, is_changed) = on_one_line(arguments);
        if is_changed {
            notes.add(
                LossKind::SpellingChanged,
                "white space between the arguments dropped",
            );
        }
        line
    } else {
        notes.add(
            LossKind::TypeChanged,
            "arguments that are not an object are written as text",
        );
        Value::from(arguments).to_string()
    };
    let (id, name) = (
        Value::from(call.id.as_str()),
        Value::from(call.name.as_str()),
    );
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}")
}
