//! Frames as JSON (OpenChatML 2.2 §10), one object per frame.
//!
//! The fields are those of §10 and, so that nothing is lost, every other part of a frame where it
//! is set: `to`, `call_id`, `name`, `constrain`, `attributes` and `terminator`. A call has a
//! `tool_call` with its text; everything else has `content`. A terminator is written where it is
//! not the usual one: `<|call|>` of a call and `<|end|>` of anything else.
//!
//! An unknown role or channel of a frame is the word `unknown`, which no reader takes
//! for one that is shown.

use serde_json::{Map, Value, json};

use super::header;
use crate::convert::{ConvertOptions, Writing};
use crate::document::owned::{FrameBuf, Transcript};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

/// The word for an unknown role or channel.
pub(super) const UNKNOWN: &str = "unknown";

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let mut writing = Writing::default();
    let mut beside = Map::new();
    if let Some(values) = &transcript.header {
        beside.insert("header".into(), header::to_value(values));
    }
    let mut messages = Vec::with_capacity(transcript.frames.len());
    let mut thinking: Option<&FrameBuf> = None;
    for frame in &transcript.frames {
        let folds = options.thinking
            && frame.role == FrameRole::Assistant
            && frame.effective_channel() != Channel::Analysis;
        let earlier = thinking.take();
        let folds = folds && earlier.is_some_and(|earlier| earlier.name == frame.name);
        let folded = earlier.filter(|_| folds);
        if let Some(earlier) = earlier.filter(|_| !folds) {
            messages.push(object(earlier, None));
        }
        if options.thinking && is_plain_thinking(frame) {
            thinking = Some(frame);
        } else {
            let folded = folded.map(|earlier| earlier.body.as_str());
            messages.push(object(frame, folded));
        }
    }
    messages.extend(thinking.map(|frame| object(frame, None)));
    header::lay_out(&mut writing, &beside, "messages", false, &messages, options);
    writing
}

/// Returns whether a frame consists of reasoning only.
///
/// In that case `thinking`, with the name of its message, holds all of the frame.
fn is_plain_thinking(frame: &FrameBuf) -> bool {
    let plain = FrameBuf {
        name: frame.name.clone(),
        ..FrameBuf::analysis(frame.body.as_str())
    };
    *frame == plain
}

fn object(frame: &FrameBuf, thinking: Option<&str>) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), frame.role.as_str().unwrap_or(UNKNOWN).into());
    let mut put = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            object.insert(key.into(), value.into());
        }
    };
    let call = frame.is_call();
    let channel = frame.channel.map(|word| word.as_str().unwrap_or(UNKNOWN));
    put("channel", channel);
    put("to", frame.to.as_deref().filter(|_| !call));
    put("call_id", frame.call_id.as_deref().filter(|_| !call));
    put("name", frame.name.as_deref());
    put("intent", frame.intent.as_deref());
    put("content_type", frame.content_type.as_deref());
    put("constrain", frame.constrain.as_deref().filter(|_| !call));
    if !frame.attributes.is_empty() {
        object.insert("attributes".into(), json!(frame.attributes));
    }
    if let Some(thinking) = thinking {
        object.insert("thinking".into(), thinking.into());
    }
    if call {
        object.insert("tool_call".into(), tool_call(frame));
    } else {
        object.insert("content".into(), frame.body.as_str().into());
    }
    let terminator = match frame.terminator {
        Terminator::End => None,
        Terminator::Call if call => None,
        Terminator::Call => Some("call"),
        Terminator::Return => Some("return"),
        Terminator::None => Some("none"),
    };
    if let Some(word) = terminator {
        object.insert("terminator".into(), word.into());
    }
    Value::Object(object)
}

fn tool_call(frame: &FrameBuf) -> Value {
    let mut call = Map::new();
    let parts = [
        ("id", &frame.call_id),
        ("recipient", &frame.to),
        ("content_type", &frame.constrain),
    ];
    for (key, value) in parts {
        if let Some(value) = value {
            call.insert(key.into(), value.as_str().into());
        }
    }
    call.insert("arguments".into(), frame.body.as_str().into());
    Value::Object(call)
}
