//! Frames to messages of Chat Completions, by way of the hub (`logue_message`).
//!
//! The hub has a place for reasoning, Chat Completions have not: it is left out, and listed, unless
//! [`ConvertOptions::thinking`] asks for `reasoning_content`, a field of several servers that none shows.
//! A developer stays a developer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Map, Value, json};

use super::blocks::{INTERRUPTION, PHASE};
use super::header;
use super::images;
use super::tools::ToolShape;
use crate::convert::{ConvertOptions, Writing, assign_ids, note_terminators};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::{messages_from_frames, messages_in_order};
use crate::syntax::json::{PushJson, push_string};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

pub(super) fn write(transcript: &Transcript, options: &ConvertOptions) -> Writing {
    let mut writing = Writing::default();
    let beside = header::beside(transcript, &["messages"], ToolShape::Wrapped, &mut writing);
    let empty = dropped_empty(&transcript.frames);
    let is_kept =
        |index: usize, frame: &FrameBuf| !empty.contains(&index) && is_kept(frame, options);
    note_terminators(
        &transcript.frames,
        Terminator::Return,
        is_kept,
        &mut writing,
    );
    let messages = to_messages(&transcript.frames, &mut writing);
    let mut tools = BTreeMap::new();
    let mut values = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let mut message = Message {
            index,
            source: message,
            options,
            losses: &mut writing.losses,
        };
        if let Some((role, text)) = message.plain() {
            values.push(Written::Plain(role, text));
            continue;
        }
        let value = message.value(&mut tools);
        // Of a message that was reasoning only, nothing that may be sent is left.
        let has_fields = ["tool_calls", "reasoning_content"].map(|key| value.get(key).is_some());
        if has_fields.contains(&true) || !value["content"].is_null() {
            values.push(Written::Value(value));
        }
    }
    header::lay_out(&mut writing, &beside, "messages", false, &values, options);
    writing
}

/// The messages of the hub, with the losses of that mapping. Calls end a message.
pub(super) fn to_messages(frames: &[FrameBuf], writing: &mut Writing) -> Vec<ChatMessage> {
    map(frames, writing, messages_from_frames)
}

/// The messages of the hub, for a form that holds words between calls.
pub(super) fn to_messages_in_order(frames: &[FrameBuf], writing: &mut Writing) -> Vec<ChatMessage> {
    map(frames, writing, messages_in_order)
}

fn map(
    frames: &[FrameBuf],
    writing: &mut Writing,
    to_messages: impl Fn(&[FrameBuf]) -> (Vec<ChatMessage>, Vec<Loss>),
) -> Vec<ChatMessage> {
    note_empty(frames, writing);
    // Messages know calls by their ids only.
    let needs_id = |frame: &FrameBuf| frame.is_call() || frame.role == FrameRole::Tool;
    let has_id = |frame: &FrameBuf| frame.call_id.is_some() || !needs_id(frame);
    let mut frames = Cow::Borrowed(frames);
    if !frames.iter().all(has_id) {
        writing.losses.extend(assign_ids(frames.to_mut()));
    }
    let (messages, losses) = to_messages(&frames);
    writing.losses.extend(losses);
    messages
}

/// Lists the ends of answers that messages do not restore.
///
/// Reading messages gives `<|return|>` to an answer at the end, and `<|end|>` to the others.
///
/// ```
/// use openchatml::{FrameBuf, Terminator, project};
///
/// let mut frames = vec![FrameBuf::answer("Hi")];
/// assert_eq!(project::terminator_losses(&frames).len(), 1);
/// frames[0].terminator = Terminator::Return;
/// assert!(project::terminator_losses(&frames).is_empty());
/// ```
pub fn terminator_losses(frames: &[FrameBuf]) -> Vec<Loss> {
    let mut writing = Writing::default();
    let options = ConvertOptions::default().with_thinking(true);
    let empty = dropped_empty(frames);
    let is_kept =
        |index: usize, frame: &FrameBuf| !empty.contains(&index) && is_kept(frame, &options);
    note_terminators(frames, Terminator::Return, is_kept, &mut writing);
    writing.losses
}

/// Returns whether messages keep a frame, as far as the frame itself decides it.
pub(super) fn is_kept(frame: &FrameBuf, options: &ConvertOptions) -> bool {
    if frame.channel == Some(Channel::Unknown) {
        return false;
    }
    let is_cut = frame.terminator == Terminator::None && frame.to.is_some();
    match frame.role {
        FrameRole::Other => false,
        FrameRole::User => frame.effective_channel() == Channel::Final,
        FrameRole::System | FrameRole::Developer | FrameRole::Tool => true,
        FrameRole::Assistant if frame.is_call() => true,
        FrameRole::Assistant if is_cut => false,
        FrameRole::Assistant => match frame.effective_channel() {
            Channel::Final => true,
            _ if frame.body.is_empty() => false,
            _ => options.thinking || frame.visibility().is_visible(),
        },
    }
}

/// Notes the frames without text that a message does not keep.
fn note_empty(frames: &[FrameBuf], writing: &mut Writing) {
    for index in dropped_empty(frames) {
        writing.index = index;
        writing.note(LossKind::EmptyDropped, "left out, because it is empty");
    }
}

/// Returns the places of the frames without text that a message does not keep.
///
/// These are reasoning and preambles, and an answer that joins the text before it.
pub(super) fn dropped_empty(frames: &[FrameBuf]) -> BTreeSet<usize> {
    let mut dropped = BTreeSet::new();
    // The name of the message that a text of the same name joins.
    let mut open = None;
    for (index, frame) in frames.iter().enumerate() {
        let answer = frame.effective_channel() == Channel::Final;
        let is_text = frame.role == FrameRole::Assistant && !frame.is_call();
        let joins = open == Some(frame.name.as_deref());
        if is_text && frame.body.is_empty() && (joins || !answer) {
            dropped.insert(index);
        }
        let is_left_out = frame.role == FrameRole::Other
            || frame.channel == Some(Channel::Unknown)
            || (frame.role == FrameRole::User && !answer);
        if !is_left_out {
            let is_open = frame.role == FrameRole::Assistant && !(answer && is_text);
            open = is_open.then_some(frame.name.as_deref());
        }
    }
    dropped
}

/// A message that is laid out.
enum Written<'m> {
    /// Its role and text.
    Plain(&'static str, &'m str),
    Value(Value),
}

impl PushJson for Written<'_> {
    fn push_json(&self, out: &mut String) {
        match self {
            Self::Plain(role, text) => {
                out.push_str("{\"role\":");
                push_string(out, role);
                out.push_str(",\"content\":");
                push_string(out, text);
                out.push('}');
            }
            Self::Value(value) => value.push_json(out),
        }
    }
}

struct Message<'m, 'w> {
    index: usize,
    source: &'m ChatMessage,
    options: &'w ConvertOptions,
    losses: &'w mut Vec<Loss>,
}

impl<'m> Message<'m, '_> {
    /// Returns the role and text of a message that has nothing else.
    fn plain(&self) -> Option<(&'static str, &'m str)> {
        let ChatMessage {
            content: Content::Text(text),
            tool_calls,
            tool_call_id: None,
            name: None,
            phase: None,
            interrupted: false,
            ..
        } = self.source
        else {
            return None;
        };
        tool_calls.is_empty().then(|| (self.role(), text.as_str()))
    }

    fn role(&self) -> &'static str {
        if self.source.developer {
            "developer"
        } else {
            self.source.role.as_str()
        }
    }

    fn value(&mut self, tools: &mut BTreeMap<&'m str, &'m str>) -> Value {
        let message = self.source;
        let mut object = Map::new();
        if message.interrupted {
            self.note(LossKind::AttributeDropped, INTERRUPTION);
        }
        if message.phase.is_some() {
            self.note(LossKind::AttributeDropped, PHASE);
        }
        object.insert("role".into(), self.role().into());
        self.reasoning(&mut object);
        object.insert("content".into(), self.content());
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(call);
            object.insert("tool_calls".into(), calls.collect());
        }
        for call in &message.tool_calls {
            tools.insert(&call.id, &call.name);
        }
        let id = message.tool_call_id.as_deref();
        if let Some(id) = id {
            object.insert("tool_call_id".into(), id.into());
        }
        // A reply's name is the one of its call, and need not be repeated.
        let known = message.role == Role::Tool
            && id.and_then(|id| tools.get(id).copied()) == message.name.as_deref();
        if let Some(name) = message.name.as_deref().filter(|_| !known) {
            object.insert("name".into(), name.into());
        }
        Value::Object(object)
    }

    fn content(&mut self) -> Value {
        let blocks = match &self.source.content {
            Content::Absent => return Value::Null,
            Content::Text(text) => return text.as_str().into(),
            Content::Blocks(blocks) => blocks,
        };
        let calls = !self.source.tool_calls.is_empty();
        let mut texts = Vec::new();
        let mut parts = Vec::new();
        for block in blocks {
            if let ContentBlock::Text { text, preamble, .. } = block {
                if *preamble && !calls {
                    self.note(LossKind::PreambleChanged, "a preamble becomes an answer");
                }
                texts.push(text.as_str());
                parts.push(json!({"type": "text", "text": text}));
            } else {
                parts.extend(images::chat_part(block));
            }
        }
        if self.source.content.has_image() {
            return parts.into();
        }
        match texts.as_slice() {
            [] => Value::Null,
            [text] => (*text).into(),
            texts => {
                let parts = texts
                    .iter()
                    .map(|text| json!({"type": "text", "text": text}));
                parts.collect()
            }
        }
    }

    fn reasoning(&mut self, object: &mut Map<String, Value>) {
        let Content::Blocks(blocks) = &self.source.content else {
            return;
        };
        let mut after_text = false;
        let mut moved = false;
        let (mut is_signed, mut has_id, mut is_encrypted) = (false, false, false);
        let mut texts = Vec::new();
        for block in blocks {
            match block {
                ContentBlock::Thinking {
                    text,
                    signature,
                    id,
                } => {
                    moved |= after_text;
                    is_signed |= signature.is_some();
                    has_id |= id.is_some();
                    texts.push(text.as_str());
                }
                ContentBlock::RedactedThinking { .. } => is_encrypted = true,
                _ => after_text = true,
            }
        }
        if texts.is_empty() && !is_encrypted {
            return;
        }
        if !self.options.thinking {
            self.note(LossKind::HiddenOmitted, "private reasoning dropped");
            return;
        }
        let proofs = [
            (is_signed, LossKind::SignatureDropped, "a signature dropped"),
            (
                has_id,
                LossKind::IdDropped,
                "the id of a reasoning item dropped",
            ),
            (
                is_encrypted,
                LossKind::SignatureDropped,
                "reasoning that only its provider can read dropped",
            ),
        ];
        for (_, kind, text) in proofs.into_iter().filter(|(is_lost, _, _)| *is_lost) {
            self.note(kind, text);
        }
        if texts.is_empty() {
            return;
        }
        if texts.len() > 1 {
            self.note(
                LossKind::PartsJoined,
                "the parts of the reasoning are joined",
            );
        }
        if moved {
            self.note(
                LossKind::OrderChanged,
                "reasoning is moved in front of the text",
            );
        }
        object.insert("reasoning_content".into(), texts.join("\n\n").into());
    }

    fn note(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Message(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }
}

fn call(call: &ToolCall) -> Value {
    let (id, name, text) = (&call.id, &call.name, call.arguments.as_str());
    match call.kind {
        CallKind::Function => json!({
            "id": id, "type": "function", "function": {"name": name, "arguments": text},
        }),
        CallKind::Custom => json!({
            "id": id, "type": "custom", "custom": {"name": name, "input": text},
        }),
    }
}
