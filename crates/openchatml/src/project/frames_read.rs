//! JSON to frames: the forms of OpenChatML 2.2 §10 and 2.0 §10, which share their fields.
//!
//! `thinking` becomes an `analysis` frame before the others of its message. `tool_calls` (2.0)
//! become calls on `commentary`. A turn, which is everything up to the next message of a user, has
//! `tool_call` or `tool_calls`, not both (2.2 §6), and a message with `tool_calls` has no `content`
//! (2.0 §10).

use super::format::Projected;
use super::frames::UNKNOWN;
use super::header;
use super::messages_read::read_calls;
use super::node::{Kind, Node, Object};
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossKind;
use crate::messages::{recipient_of, types_of};
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole, Terminator};

const KNOWN: [&str; 15] = [
    "role",
    "channel",
    "to",
    "call_id",
    "tool_call_id",
    "name",
    "intent",
    "content_type",
    "constrain",
    "attributes",
    "thinking",
    "content",
    "tool_call",
    "tool_calls",
    "terminator",
];

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut frames = Frames::default();
    let opened = header::open(
        values,
        &["messages"],
        true,
        ToolShape::Wrapped,
        &mut frames.reading,
    );
    for (index, message) in opened.messages.into_iter().enumerate() {
        frames.reading.index = index;
        let before = frames.list.len();
        if frames.message(message).is_err() {
            frames.list.truncate(before);
            frames.reading.unread();
        }
    }
    Projected {
        transcript: Transcript {
            header: opened.header,
            frames: frames.list,
            tools: frames.reading.tools,
        },
        diagnostics: frames.reading.findings.kept().to_vec(),
        losses: frames.reading.losses,
    }
}

fn is_empty_list(node: Node<'_>) -> bool {
    match node.string() {
        Some(text) => matches!(text.trim(), "" | "[]"),
        None => node.kind() == Kind::Array && node.items().next().is_none(),
    }
}

/// The spelling of the calls of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    ToolCall,
    ToolCalls,
}

#[derive(Default)]
struct Frames {
    reading: Reading,
    list: Vec<FrameBuf>,
    turn: Option<Spelling>,
}

impl Frames {
    fn message(&mut self, node: Node<'_>) -> Result<(), ()> {
        let object = self.reading.object(node, "the message").ok_or(())?;
        self.reading.note_unknown(&object, &KNOWN);
        let mut frame = self.head(&object)?;
        if frame.role == FrameRole::User {
            self.turn = None;
        }
        let content = self.reading.text(&object, "content")?;
        let thinking = self.thinking(&object, &frame)?;
        let only_thinking = thinking.is_some();
        self.list.extend(thinking);
        match (object.get("tool_call"), object.get("tool_calls")) {
            (Some(_), Some(calls)) => {
                self.reading.wrong(
                    calls.span(),
                    "a message has `tool_call` and `tool_calls`",
                    "one of the two",
                );
                return Err(());
            }
            (Some(call), None) => {
                self.spelled(call, Spelling::ToolCall)?;
                self.no_content(content.as_deref(), call, "tool_call")?;
                self.call(call, &mut frame)?;
            }
            (None, Some(calls)) if !is_empty_list(calls) => {
                self.spelled(calls, Spelling::ToolCalls)?;
                self.no_content(content.as_deref(), calls, "tool_calls")?;
                return self.calls(calls, &frame);
            }
            (None, _) => match content {
                None if only_thinking => return Ok(()),
                None => {
                    let start = object.span.start;
                    let place = logue_source::Span::new(start, start + 1);
                    self.reading
                        .wrong(place, "`content` is missing", "a `content`");
                    return Err(());
                }
                Some(content) => frame.body = content,
            },
        }
        frame.terminator = self.terminator(&object, &frame)?;
        self.list.push(frame);
        Ok(())
    }

    /// Everything but the text.
    fn head(&mut self, object: &Object<'_>) -> Result<FrameBuf, ()> {
        let word = self.reading.required(object, "role")?;
        let role = FrameRole::parse(word.as_bytes());
        if role == FrameRole::Other && word != UNKNOWN {
            let place = object.get("role").map_or(object.span, Node::span);
            self.reading.wrong(
                place,
                "this is not a role",
                "`system`, `developer`, `user`, `assistant` or `tool`",
            );
            return Err(());
        }
        let mut frame = FrameBuf::new(role, "");
        let channel = self.reading.text(object, "channel")?;
        frame.channel = channel
            .as_deref()
            .map(|word| Channel::parse(word.as_bytes()));
        if let Some(word) = channel.filter(|word| word != UNKNOWN)
            && frame.channel == Some(Channel::Unknown)
        {
            self.reading.note(
                LossKind::ChannelChanged,
                format!("the channel {word:?} is not known and becomes `{UNKNOWN}`"),
            );
        }
        frame.to = self.reading.text(object, "to")?;
        frame.call_id = self.reading.text(object, "call_id")?;
        if frame.call_id.is_none() {
            frame.call_id = self.reading.text(object, "tool_call_id")?;
            // Messages of 2.0 have neither: results are on `commentary`, to the assistant.
            if frame.call_id.is_some() && role == FrameRole::Tool && frame.channel.is_none() {
                frame.channel = Some(Channel::Commentary);
                frame.to.get_or_insert_with(|| "assistant".to_owned());
            }
        }
        frame.name = self.reading.text(object, "name")?;
        if role == FrameRole::Tool && word.starts_with(FUNCTIONS) && frame.name.is_none() {
            frame.name = Some(word);
        }
        frame.intent = self.reading.text(object, "intent")?;
        frame.content_type = self.reading.text(object, "content_type")?;
        frame.constrain = self.reading.text(object, "constrain")?;
        if let Some(attributes) = object.get("attributes") {
            frame.attributes = self.attributes(attributes)?;
        }
        Ok(frame)
    }

    /// `[[key, value], …]`.
    fn attributes(&mut self, node: Node<'_>) -> Result<Vec<(String, Option<String>)>, ()> {
        let mut attributes = Vec::new();
        let mut sound = node.kind() == Kind::Array;
        for pair in node.items() {
            let mut parts = pair.items();
            match (parts.next(), parts.next(), parts.next()) {
                (Some(key), Some(value), None) => {
                    let key = self.reading.must_be_text(key, "attributes")?;
                    let value = match value.kind() {
                        Kind::Null => None,
                        _ => Some(self.reading.must_be_text(value, "attributes")?),
                    };
                    attributes.push((key, value));
                }
                _ => sound = false,
            }
        }
        if !sound {
            self.reading.wrong(
                node.span(),
                "`attributes` is not a list of keys and values",
                "`[[\"key\", \"value\"]]`",
            );
            return Err(());
        }
        Ok(attributes)
    }

    /// The reasoning before the message. Only an assistant has one: what another role says must
    /// not become the model's own.
    fn thinking(&mut self, object: &Object<'_>, frame: &FrameBuf) -> Result<Option<FrameBuf>, ()> {
        let Some(node) = object.get("thinking") else {
            return Ok(None);
        };
        let text = self.reading.must_be_text(node, "thinking")?;
        if frame.role != FrameRole::Assistant {
            self.reading.wrong(
                node.span(),
                "`thinking` of a non-assistant message",
                "`thinking` on an assistant's message",
            );
            return Err(());
        }
        Ok(Some(FrameBuf {
            name: frame.name.clone(),
            ..FrameBuf::analysis(text)
        }))
    }

    fn spelled(&mut self, node: Node<'_>, spelling: Spelling) -> Result<(), ()> {
        if *self.turn.get_or_insert(spelling) == spelling {
            return Ok(());
        }
        self.reading.wrong(
            node.span(),
            "a turn mixes `tool_call` and `tool_calls`",
            "one of the two in all messages up to the next user's",
        );
        Err(())
    }

    fn no_content(&mut self, content: Option<&str>, node: Node<'_>, key: &str) -> Result<(), ()> {
        if content.is_none_or(str::is_empty) {
            return Ok(());
        }
        self.reading.wrong(
            node.span(),
            format!("a message has `content` and `{key}`"),
            "one of the two; put the content into a message of its own",
        );
        Err(())
    }

    fn callable(&mut self, node: Node<'_>, frame: &FrameBuf) -> Result<(), ()> {
        if frame.role == FrameRole::Assistant && frame.to.is_none() {
            return Ok(());
        }
        let message = if frame.to.is_some() {
            "a message has `to` and a call"
        } else {
            "a non-assistant message calls a tool"
        };
        self.reading
            .wrong(node.span(), message, "an assistant's message without `to`");
        Err(())
    }

    /// The call of 2.2 §10.
    fn call(&mut self, node: Node<'_>, frame: &mut FrameBuf) -> Result<(), ()> {
        self.callable(node, frame)?;
        let call = self.reading.object(node, "`tool_call`").ok_or(())?;
        let known = ["id", "recipient", "content_type", "arguments"];
        self.reading.note_unknown(&call, &known);
        if let Some(id) = self.reading.text(&call, "id")? {
            frame.call_id = Some(id);
        }
        frame.to = Some(self.reading.required(&call, "recipient")?);
        if let Some(constrain) = self.reading.text(&call, "content_type")? {
            frame.constrain = Some(constrain);
        }
        frame.body = self.reading.required(&call, "arguments")?;
        frame.terminator = Terminator::Call;
        Ok(())
    }

    /// The calls of 2.0 §10.
    fn calls(&mut self, node: Node<'_>, frame: &FrameBuf) -> Result<(), ()> {
        self.callable(node, frame)?;
        let calls = read_calls(node, &mut self.reading)?;
        self.note_place(frame);
        for call in calls {
            let (constrain, content_type) = types_of(call.kind, call.arguments.as_str());
            self.list.push(FrameBuf {
                call_id: Some(call.id).filter(|id| !id.is_empty()),
                constrain: constrain.map(str::to_owned),
                content_type: content_type.map(str::to_owned),
                name: frame.name.clone(),
                ..FrameBuf::call(recipient_of(&call.name), "", call.arguments.as_str())
            });
        }
        Ok(())
    }

    /// Notes what calls of 2.0 do not take from their message: they are on `commentary`, with ids of
    /// their own.
    fn note_place(&mut self, frame: &FrameBuf) {
        let elsewhere = frame
            .channel
            .is_some_and(|word| word != Channel::Commentary);
        let lost = [
            ("channel", LossKind::ChannelChanged, elsewhere),
            ("call_id", LossKind::IdDropped, frame.call_id.is_some()),
            ("intent", LossKind::IntentDropped, frame.intent.is_some()),
            (
                "content_type",
                LossKind::TypeChanged,
                frame.content_type.is_some(),
            ),
            (
                "constrain",
                LossKind::TypeChanged,
                frame.constrain.is_some(),
            ),
            (
                "attributes",
                LossKind::AttributeDropped,
                !frame.attributes.is_empty(),
            ),
        ];
        for (what, kind, _) in lost.into_iter().filter(|(_, _, lost)| *lost) {
            self.reading.note(
                kind,
                format!("`{what}` of a message with `tool_calls` dropped"),
            );
        }
    }

    fn terminator(&mut self, object: &Object<'_>, frame: &FrameBuf) -> Result<Terminator, ()> {
        let Some(node) = object.get("terminator") else {
            return Ok(frame.terminator);
        };
        Ok(match node.string().as_deref() {
            Some("end") => Terminator::End,
            Some("call") => Terminator::Call,
            Some("return") => Terminator::Return,
            Some("none") => Terminator::None,
            _ => {
                self.reading.wrong(
                    node.span(),
                    "this is not a terminator",
                    "`end`, `call`, `return` or `none`",
                );
                return Err(());
            }
        })
    }
}
