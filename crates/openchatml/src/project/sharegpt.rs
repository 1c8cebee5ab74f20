//! Frames to `ShareGPT`: speakers with their texts, and calls as JSON texts.
//!
//! | `from` | frame |
//! |---|---|
//! | `system`, `human`, `gpt` | system, user, visible words of the assistant |
//! | `function_call` | a call: `{"name": …, "arguments": …}` |
//! | `observation` | a tool's reply |
//!
//! The form has no place for what is hidden and no developer. Private reasoning as `gpt` would be
//! shown, a developer as `system` would be raised, so both are left out and listed.

use std::borrow::Cow;

use serde_json::Value;

use super::header;
use super::tools::ToolShape;
use crate::convert::{
    ConvertOptions, Ordered, Pairing, Writing, note_implied_ids, note_terminators,
};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::messages::{recipient_of, tool_of, types_of};
use crate::syntax::json::{PushJson, is_json, push_string};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};
use logue_message::CallKind;

/// The key that holds the messages.
pub(super) const KEY: &str = "conversations";

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let ordered = Ordered::new(transcript, Pairing::Order);
    let transcript = &*ordered.transcript;
    let mut writing = Writing::default();
    let beside = header::beside(
        transcript,
        &[KEY, "system"],
        ToolShape::Wrapped,
        &mut writing,
    );
    let is_kept = |_: usize, frame: &FrameBuf| speaker(frame).is_ok();
    note_terminators(
        &transcript.frames,
        Terminator::Return,
        is_kept,
        &mut writing,
    );
    let mut values = Vec::with_capacity(transcript.frames.len());
    for (index, frame) in transcript.frames.iter().enumerate() {
        writing.index = index;
        match speaker(frame) {
            Ok(from) => {
                note_losses(frame, &mut writing);
                let text = match from {
                    "function_call" => Cow::Owned(call(frame)),
                    _ => Cow::Borrowed(frame.body.as_str()),
                };
                values.push(Written(from, text));
            }
            Err((kind, why)) => writing.note(kind, &format!("left out, because {why}")),
        }
    }
    ordered.finish(&mut writing.losses);
    note_implied_ids(&ordered.frames, Pairing::Order, &mut writing.losses);
    header::lay_out(&mut writing, &beside, KEY, true, &values, options);
    writing
}

/// A speaker and its text.
struct Written<'f>(&'static str, Cow<'f, str>);

impl PushJson for Written<'_> {
    fn push_json(&self, out: &mut String) {
        out.push_str("{\"from\":");
        push_string(out, self.0);
        out.push_str(",\"value\":");
        push_string(out, &self.1);
        out.push('}');
    }
}

/// The speaker of a frame, or the reason that none is allowed.
fn speaker(frame: &FrameBuf) -> Result<&'static str, (LossKind, &'static str)> {
    let dropped = LossKind::MessageDropped;
    if frame.role == FrameRole::Other {
        return Err((dropped, "its role is not known"));
    }
    if frame.channel == Some(Channel::Unknown) {
        return Err((dropped, "its channel is not known"));
    }
    let call_cut = frame.terminator == Terminator::None && frame.to.is_some();
    match frame.role {
        FrameRole::System => Ok("system"),
        FrameRole::Developer => Err((
            dropped,
            "the form has no developer, and `system` would raise its rank",
        )),
        FrameRole::Tool => Ok("observation"),
        FrameRole::User if frame.visibility().is_visible() => Ok("human"),
        FrameRole::Assistant if frame.is_call() => Ok("function_call"),
        FrameRole::Assistant if call_cut => {
            Err((LossKind::CallDropped, "half a call must never run"))
        }
        FrameRole::Assistant if frame.visibility().is_visible() => Ok("gpt"),
        _ => Err((
            LossKind::HiddenOmitted,
            "the form has no place for what is hidden",
        )),
    }
}

fn note_losses(frame: &FrameBuf, writing: &mut Writing) {
    let call = frame.is_call();
    let tool = call || frame.role == FrameRole::Tool;
    let preamble = frame.role == FrameRole::Assistant
        && frame.effective_channel() == Channel::Commentary
        && !call;
    if preamble {
        writing.note(LossKind::PreambleChanged, "a preamble becomes an answer");
    }
    let moved = match frame.channel {
        Some(channel) if tool => channel != Channel::Commentary,
        Some(_) => matches!(frame.role, FrameRole::System | FrameRole::Developer),
        None => tool,
    };
    let to = frame.to.as_deref();
    let name = call && recipient_of(tool_of(to.unwrap_or_default())) != to.unwrap_or_default();
    let derived = types_of(CallKind::Function, &frame.body).0;
    let constrain = frame.constrain.as_deref();
    let reply_home = frame.role == FrameRole::Tool && to == Some("assistant");
    let lost = [
        ("the channel dropped", LossKind::ChannelChanged, moved),
        (
            "the tool is read as a function of that name",
            LossKind::ToolRenamed,
            name,
        ),
        (
            "to dropped",
            LossKind::RecipientDropped,
            to.is_some() != reply_home && !call,
        ),
        (
            "call_id dropped",
            LossKind::IdDropped,
            frame.call_id.is_some(),
        ),
        ("name dropped", LossKind::NameDropped, frame.name.is_some()),
        (
            "intent dropped",
            LossKind::IntentDropped,
            frame.intent.is_some(),
        ),
        (
            "content_type dropped",
            LossKind::TypeChanged,
            frame.content_type.is_some(),
        ),
        (
            "constrain dropped",
            LossKind::TypeChanged,
            if call {
                constrain != derived
            } else {
                constrain.is_some()
            },
        ),
        (
            "unknown attributes dropped",
            LossKind::AttributeDropped,
            !frame.attributes.is_empty(),
        ),
        (
            "the frame was cut; the form holds what there is of it",
            LossKind::CutCompleted,
            frame.terminator == Terminator::None,
        ),
    ];
    for (what, kind, _) in lost.into_iter().filter(|(_, _, lost)| *lost) {
        writing.note(kind, what);
    }
}

/// A call as text. Arguments that are an object are copied verbatim, others as a string.
fn call(frame: &FrameBuf) -> String {
    let to = frame.to.as_deref().unwrap_or_default();
    let body = frame.body.as_str();
    let object = body.starts_with('{') && body.ends_with('}') && is_json(body);
    let name = Value::from(tool_of(to));
    if object {
        format!("{{\"name\": {name}, \"arguments\": {body}}}")
    } else {
        format!("{{\"name\": {name}, \"arguments\": {}}}", Value::from(body))
    }
}
