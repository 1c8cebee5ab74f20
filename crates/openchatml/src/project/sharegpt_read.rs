//! `ShareGPT` to frames.
//!
//! The form has no ids, so calls and replies get some in order, and a reply its tool's name. The
//! other names that data sets use for the speakers are read too.

use std::borrow::Cow;

use super::format::Projected;
use super::header;
use super::node::{Kind, Node, Object};
use super::reading::Reading;
use super::sharegpt::KEY;
use super::tools::ToolShape;
use crate::convert::assign_ids;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::messages::{recipient_of, types_of};
use crate::syntax::vocabulary::{FrameRole, Terminator};
use logue_message::CallKind;
use logue_source::Span;

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut turns = Turns::default();
    let opened = header::open(
        values,
        &[KEY, "conversation", "messages"],
        false,
        ToolShape::Wrapped,
        &mut turns.reading,
    );
    let mut header = opened.header;
    // Some sets have the ground rules beside the messages.
    let system = header
        .as_mut()
        .and_then(|header| header.extra.shift_remove("system"));
    match system {
        Some(serde_json::Value::String(text)) => turns.frames.push(FrameBuf::system(text)),
        Some(_) => turns
            .reading
            .note_whole(LossKind::TextDropped, "the key \"system\" dropped"),
        None => {}
    }
    let header = header.filter(|header| header.model.is_some() || !header.extra.is_empty());
    for (index, message) in opened.messages.into_iter().enumerate() {
        turns.reading.index = index;
        let before = turns.frames.len();
        if turns.message(message).is_err() {
            turns.frames.truncate(before);
            turns.reading.unread();
        }
    }
    let mut frames = turns.frames;
    if let Some(last) = frames.last_mut()
        && last.role == FrameRole::Assistant
        && !last.is_call()
    {
        last.terminator = Terminator::Return;
    }
    let mut reading = turns.reading;
    reading.losses.extend(assign_ids(&mut frames));
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
struct Turns {
    reading: Reading,
    frames: Vec<FrameBuf>,
}

impl Turns {
    fn message(&mut self, node: Node<'_>) -> Result<(), ()> {
        let object = self.reading.object(node, "the message").ok_or(())?;
        self.reading.note_unknown(&object, &["from", "value"]);
        let from = self.reading.required(&object, "from")?;
        let value = self.reading.required(&object, "value")?;
        match &*folded(&from) {
            "human" | "user" => self.frames.push(FrameBuf::user(value)),
            "gpt" | "assistant" | "model" | "chatgpt" | "bot" => {
                self.frames.push(FrameBuf::answer(value));
            }
            "system" => self.frames.push(FrameBuf::system(value)),
            "observation" | "tool" | "tool_response" | "function_response" | "ipython" => {
                let mut reply = FrameBuf::reply("", "", value);
                reply.name = None;
                reply.call_id = None;
                self.frames.push(reply);
            }
            "function_call" | "tool_call" => return self.calls(&value, &object),
            _ => {
                let place = object.get("from").map_or(object.span, Node::span);
                self.reading.wrong(
                    place,
                    "unknown speaker",
                    "`system`, `human`, `gpt`, `function_call` or `observation`",
                );
                return Err(());
            }
        }
        Ok(())
    }

    /// One call, or a list of them, as JSON in a string.
    fn calls(&mut self, value: &str, object: &Object<'_>) -> Result<(), ()> {
        let place = object.get("value").map_or(object.span, Node::span);
        let expected = "`{\"name\": …, \"arguments\": …}`";
        let Ok(inner) = Node::parse(value.as_bytes(), Span::new(0, value.len())) else {
            self.reading
                .wrong(place, "the text of a call is not JSON", expected);
            return Err(());
        };
        let one = [inner];
        let list: Vec<Node<'_>> = match inner.kind() {
            Kind::Array => inner.items().collect(),
            _ => one.to_vec(),
        };
        for node in list {
            let call = node.object().filter(|call| call.duplicate().is_none());
            let name = call.as_ref().and_then(|call| call.get("name")?.string());
            let (Some(call), Some(name)) = (call, name) else {
                self.reading
                    .wrong(place, "the text of a call names no tool", expected);
                return Err(());
            };
            self.reading.note_unknown(&call, &["name", "arguments"]);
            let arguments = match call.get("arguments") {
                None => String::new(),
                Some(node) if node.kind() == Kind::String => {
                    let text = node.string();
                    text.ok_or_else(|| {
                        self.reading
                            .wrong(place, "the arguments of a call are not text", expected);
                    })?
                }
                Some(node) => node.spelled().to_owned(),
            };
            let (constrain, _) = types_of(CallKind::Function, &arguments);
            let constrain = constrain.map(str::to_owned);
            self.frames.push(FrameBuf {
                call_id: None,
                constrain,
                ..FrameBuf::call(recipient_of(&name), "", arguments)
            });
        }
        Ok(())
    }
}

/// A speaker as data sets spell it, in one spelling.
fn folded(from: &str) -> Cow<'_, str> {
    if from.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(from);
    }
    Cow::Owned(from.to_ascii_lowercase().replace('-', "_"))
}
