//! Frames to messages.

use std::collections::BTreeSet;

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};

use super::{PREAMBLE, pictures, recipient_of, tool_of, types_of};
use crate::convert::answered_at_rest;
use crate::document::owned::FrameBuf;
use crate::loss::{Loss, LossKind, LossTarget};
use crate::read::attributes::{
    CONTINUES, DETAIL, ENCRYPTED, PHASE, REASONING_ID, SIGNATURE, STATUS,
};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator, is_tool_recipient};

/// The messages that frames make, with a note for whatever a message cannot hold. The module's
/// introduction has the normal forms. Linear in the frames.
///
/// Stray text and frames with an unknown role or channel are left out and noted, and so is a call
/// that was cut, because half a call must never run. Neither must a call that does not end in
/// `<|call|>`: unless a later reply answers it, its text is kept as reasoning. Reasoning and
/// preambles between calls, or between a call and a reply, are moved in front of the calls and noted.
///
/// ```
/// use openchatml::{messages_from_frames, parse};
///
/// let text = b"<|start|>user<|message|>What is 2 + 2?<|end|>\n\
///     <|start|>assistant<|channel|>analysis<|message|>Simple.<|end|>\n\
///     <|start|>assistant<|channel|>final<|message|>4.<|return|>\n";
/// let (messages, losses) = messages_from_frames(&parse(text).to_owned_frames());
/// assert_eq!(messages.len(), 2);
/// assert_eq!(messages[1].text(), "4.");
/// assert!(losses.is_empty());
/// ```
pub fn messages_from_frames(frames: &[FrameBuf]) -> (Vec<ChatMessage>, Vec<Loss>) {
    read(frames, false)
}

/// Returns the messages of frames for a form that holds words between calls.
///
/// Words after a call begin another message of the assistant, so that nothing is moved.
pub(crate) fn messages_in_order(frames: &[FrameBuf]) -> (Vec<ChatMessage>, Vec<Loss>) {
    read(frames, true)
}

fn read(frames: &[FrameBuf], keeps_order: bool) -> (Vec<ChatMessage>, Vec<Loss>) {
    let mut reading = Reading {
        answered: answered_at_rest(frames).into_iter().collect(),
        keeps_order,
        ..Reading::default()
    };
    for (index, frame) in frames.iter().enumerate() {
        reading.frame(index, frame);
    }
    reading.flush();
    (reading.messages, reading.losses)
}

/// The value of an attribute, if it has one.
fn proof(frame: &FrameBuf, key: &str) -> Option<String> {
    let mut attributes = frame.attributes.iter();
    let (_, value) = attributes.find(|(name, _)| name == key)?;
    value.clone().filter(|value| !value.is_empty())
}

/// The function of a frame with regard to tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Not addressed to a tool.
    Text,
    /// A call.
    Call,
    /// Addressed to a tool that was not called.
    NotCalled,
    /// A call that was cut.
    Cut,
}

#[derive(Default)]
struct Reading<'f> {
    messages: Vec<ChatMessage>,
    losses: Vec<Loss>,
    open: Option<Open>,
    /// The places of the calls that only their replies show.
    answered: BTreeSet<usize>,
    /// Whether words after a call begin another message.
    keeps_order: bool,
    /// The first frame of the last message, if more parts may follow.
    last_parts: Option<&'f FrameBuf>,
}

/// An assistant message that more frames may join.
#[derive(Default)]
struct Open {
    name: Option<String>,
    blocks: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    /// The reasoning and preambles after a call, with their frames.
    late: Vec<(usize, ContentBlock)>,
    /// Whether an answer was there but empty.
    empty_answer: bool,
    /// Whether the answer was interrupted.
    is_interrupted: bool,
    /// The phase of its text.
    phase: Option<String>,
}

impl Open {
    /// Adds reasoning or a preamble.
    fn add(&mut self, index: usize, block: ContentBlock) {
        if self.calls.is_empty() {
            self.blocks.push(block);
        } else {
            self.late.push((index, block));
        }
    }
}

impl<'f> Reading<'f> {
    fn frame(&mut self, index: usize, frame: &'f FrameBuf) {
        let before = self.last_parts.take();
        if frame.role == FrameRole::Other {
            self.note(
                index,
                LossKind::MessageDropped,
                "left out, because its role is not known",
            );
            return;
        }
        if frame.channel == Some(Channel::Unknown) {
            self.note(
                index,
                LossKind::MessageDropped,
                "left out, because its channel is not known",
            );
            return;
        }
        if frame.role == FrameRole::User && frame.effective_channel() != Channel::Final {
            // A user's message is shown, and this frame is not.
            self.note(
                index,
                LossKind::HiddenOmitted,
                "left out, because a message cannot keep a user's words hidden",
            );
            return;
        }
        let purpose = self.purpose(index, frame);
        let image = pictures::image_of(frame);
        self.note_losses(index, frame, purpose, image.is_some());
        if pictures::continues(frame) {
            let is_one = |first: &FrameBuf| pictures::is_one(first, frame);
            let first = before.filter(|first| self.open.is_none() && is_one(first));
            if first.is_some() && self.join(frame, image.as_ref()) {
                self.last_parts = first;
                return;
            }
            self.note(index, LossKind::AttributeDropped, "it continues no message");
        }
        let mut message = match frame.role {
            FrameRole::Assistant => return self.assistant(index, frame, purpose),
            FrameRole::System | FrameRole::Other => ChatMessage::system(frame.body.as_str()),
            FrameRole::Developer => ChatMessage::developer(frame.body.as_str()),
            FrameRole::User => match image {
                Some(image) => ChatMessage::user(vec![image]),
                None => ChatMessage::user(frame.body.as_str()),
            },
            FrameRole::Tool => {
                if frame.call_id.is_none() {
                    self.note(
                        index,
                        LossKind::PairingLost,
                        "a tool's reply without `call_id` answers no call",
                    );
                }
                let mut reply = match image {
                    Some(image) => ChatMessage::new(Role::Tool, vec![image]),
                    None => ChatMessage::new(Role::Tool, frame.body.as_str()),
                };
                reply.tool_call_id.clone_from(&frame.call_id);
                reply
            }
        };
        message.name = frame.name.as_deref().map(|name| match frame.role {
            FrameRole::Tool => self.tool(index, name).to_owned(),
            _ => name.to_owned(),
        });
        if frame.role == FrameRole::Tool && !self.keeps_order {
            self.move_late();
        }
        self.flush();
        self.messages.push(message);
        self.last_parts = matches!(frame.role, FrameRole::User | FrameRole::Tool).then_some(frame);
    }

    /// Adds a part to the last message.
    fn join(&mut self, part: &FrameBuf, image: Option<&ContentBlock>) -> bool {
        let Some(message) = self.messages.last_mut() else {
            return false;
        };
        let content = std::mem::replace(&mut message.content, Content::Absent);
        let mut blocks = match content {
            Content::Blocks(blocks) => blocks,
            Content::Text(text) if text.is_empty() => Vec::new(),
            Content::Text(text) => vec![ContentBlock::text(text)],
            Content::Absent => Vec::new(),
        };
        blocks.push(
            image
                .cloned()
                .unwrap_or_else(|| ContentBlock::text(part.body.as_str())),
        );
        message.content = Content::Blocks(blocks);
        true
    }

    /// The use of a frame.
    fn purpose(&self, index: usize, frame: &FrameBuf) -> Use {
        let to = frame.to.as_deref();
        let to_tool = to.is_some_and(|to| is_tool_recipient(to.as_bytes()));
        if frame.role != FrameRole::Assistant || !(to_tool || frame.is_call()) {
            return Use::Text;
        }
        match frame.terminator {
            Terminator::Call => Use::Call,
            Terminator::None => Use::Cut,
            Terminator::End | Terminator::Return => {
                if self.answered.contains(&index) {
                    Use::Call
                } else {
                    Use::NotCalled
                }
            }
        }
    }

    fn assistant(&mut self, index: usize, frame: &FrameBuf, purpose: Use) {
        let answer = purpose == Use::Text && frame.effective_channel() == Channel::Final;
        // Calls come last in a message, so an answer after them is a message of its own.
        let is_interrupted = answer && frame.is_interrupted();
        let ends = self
            .open
            .as_ref()
            .is_some_and(|open| open.name != frame.name || (answer && !open.calls.is_empty()));
        if ends {
            let late = self.take_late(frame);
            self.flush();
            self.open = late;
        }
        let text = frame.body.as_str();
        match purpose {
            Use::Text => {}
            Use::Call => {
                let call = self.call(index, frame);
                if self.keeps_order {
                    if let Some(late) = self.take_late(frame) {
                        self.flush();
                        self.open = Some(late);
                    }
                } else {
                    self.move_late();
                }
                self.open(frame).calls.push(call);
                return;
            }
            Use::Cut => {
                self.note(index, LossKind::CallDropped, "a cut tool call is left out");
                return;
            }
            Use::NotCalled => {
                self.note(
                    index,
                    LossKind::ChannelChanged,
                    "a frame to a tool that was not called is kept as reasoning",
                );
                if !text.is_empty() {
                    self.open(frame).add(index, ContentBlock::thinking(text));
                }
                return;
            }
        }
        let open = self.open(frame);
        open.is_interrupted = is_interrupted;
        if frame.effective_channel() != Channel::Analysis {
            open.phase = proof(frame, PHASE).or(open.phase.take());
        }
        match frame.effective_channel() {
            Channel::Final => {
                if text.is_empty() {
                    open.empty_answer = true;
                } else {
                    open.blocks.push(ContentBlock::text(text));
                }
                self.flush();
            }
            Channel::Commentary if frame.intent.as_deref() == Some(PREAMBLE) => {
                if !text.is_empty() {
                    let block = ContentBlock::Text {
                        text: text.to_owned(),
                        signature: None,
                        preamble: true,
                    };
                    open.add(index, block);
                }
            }
            channel => {
                let analysis = channel == Channel::Analysis;
                let proof = |key| analysis.then(|| proof(frame, key)).flatten();
                let (signature, id) = (proof(SIGNATURE), proof(REASONING_ID));
                if !text.is_empty() || signature.is_some() {
                    let text = text.to_owned();
                    let block = ContentBlock::Thinking {
                        text,
                        signature,
                        id,
                    };
                    open.add(index, block);
                }
                if let Some(data) = proof(ENCRYPTED) {
                    open.add(index, ContentBlock::RedactedThinking { data });
                }
                if channel != Channel::Analysis {
                    self.note(
                        index,
                        LossKind::ChannelChanged,
                        "commentary that is not a preamble is kept as reasoning",
                    );
                }
            }
        }
    }

    /// The tool that a recipient, or the name in a reply, stands for.
    fn tool<'n>(&mut self, index: usize, recipient: &'n str) -> &'n str {
        let name = tool_of(recipient);
        if recipient_of(name) != recipient {
            self.note(
                index,
                LossKind::ToolRenamed,
                "the tool is read as a function of that name",
            );
        }
        name
    }

    fn call(&mut self, index: usize, frame: &FrameBuf) -> ToolCall {
        let name = self.tool(index, frame.to.as_deref().unwrap_or_default());
        if frame.terminator != Terminator::Call {
            self.note(
                index,
                LossKind::TerminatorChanged,
                "a frame to a tool that does not end in `<|call|>` is read as a call",
            );
        }
        if frame.call_id.is_none() {
            self.note(
                index,
                LossKind::PairingLost,
                "a tool call without `call_id` has an empty id",
            );
        }
        let (constrain, content_type) = (frame.constrain.as_deref(), frame.content_type.as_deref());
        let kind = match constrain.or(content_type) {
            None | Some("json") => CallKind::Function,
            Some(_) => CallKind::Custom,
        };
        let written = types_of(kind, &frame.body);
        self.note_if(
            index,
            constrain.is_some() && constrain != written.0,
            LossKind::TypeChanged,
            "constrain dropped",
        );
        self.note_if(
            index,
            content_type.is_some() && content_type != written.1,
            LossKind::TypeChanged,
            "content_type dropped",
        );
        ToolCall::new(
            frame.call_id.clone().unwrap_or_default(),
            name,
            frame.body.as_str(),
        )
        .with_kind(kind)
    }

    fn open(&mut self, frame: &FrameBuf) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            name: frame.name.clone(),
            ..Open::default()
        })
    }

    /// Takes the words after the calls as the beginning of the next message.
    fn take_late(&mut self, next: &FrameBuf) -> Option<Open> {
        let open = self.open.as_mut()?;
        if open.late.is_empty() || open.name != next.name {
            return None;
        }
        let late = std::mem::take(&mut open.late);
        Some(Open {
            name: open.name.clone(),
            blocks: late.into_iter().map(|(_, block)| block).collect(),
            ..Open::default()
        })
    }

    /// Moves the words after the calls in front of them.
    fn move_late(&mut self) {
        let Some(open) = self.open.as_mut() else {
            return;
        };
        for (index, block) in std::mem::take(&mut open.late) {
            open.blocks.push(block);
            let text = "moved in front of the calls of its message";
            let target = LossTarget::Frame(index);
            self.losses
                .push(Loss::new(target, LossKind::OrderChanged, text));
        }
    }

    fn flush(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let late = std::mem::take(&mut open.late);
        let name = open.name.clone();
        self.push(open);
        if !late.is_empty() {
            self.push(Open {
                name,
                blocks: late.into_iter().map(|(_, block)| block).collect(),
                ..Open::default()
            });
        }
    }

    fn push(&mut self, mut open: Open) {
        let plain = open.calls.is_empty() && open.blocks.len() == 1;
        let content = match open.blocks.pop() {
            None if open.empty_answer => Content::Text(String::new()),
            None => Content::Absent,
            Some(ContentBlock::Text {
                text,
                preamble: false,
                ..
            }) if plain => Content::Text(text),
            Some(block) => {
                open.blocks.push(block);
                Content::Blocks(open.blocks)
            }
        };
        if content == Content::Absent && open.calls.is_empty() {
            return;
        }
        let mut message = ChatMessage::assistant(content).with_tool_calls(open.calls);
        message.name = open.name;
        message.interrupted = open.is_interrupted;
        message.phase = open.phase;
        self.messages.push(message);
    }

    /// Notes what a message has no place for.
    fn note_losses(&mut self, index: usize, frame: &FrameBuf, purpose: Use, is_image: bool) {
        if purpose == Use::Cut {
            return;
        }
        let call = purpose == Use::Call;
        let to = frame.to.as_deref();
        let reply_home = frame.role == FrameRole::Tool && to == Some("assistant");
        let preamble = purpose == Use::Text
            && frame.role == FrameRole::Assistant
            && frame.effective_channel() == Channel::Commentary
            && frame.intent.as_deref() == Some(PREAMBLE);
        let call_id = call || frame.role == FrameRole::Tool;
        let reasoning = purpose == Use::Text
            && frame.role == FrameRole::Assistant
            && frame.effective_channel() == Channel::Analysis;
        let is_answer = purpose == Use::Text && frame.effective_channel() == Channel::Final;
        let unknown = frame.attributes.iter().any(|(key, _)| {
            let known: &[&str] = match frame.role {
                _ if reasoning => &[SIGNATURE, REASONING_ID, ENCRYPTED],
                FrameRole::User | FrameRole::Tool if is_image => &[CONTINUES, DETAIL],
                FrameRole::User | FrameRole::Tool => &[CONTINUES],
                FrameRole::Assistant if is_answer && frame.is_interrupted() => &[STATUS, PHASE],
                FrameRole::Assistant if is_answer || preamble => &[PHASE],
                _ => &[],
            };
            !known.contains(&key.as_str())
        });
        let ranked = matches!(frame.role, FrameRole::System | FrameRole::Developer);
        if call_id && frame.effective_channel() != Channel::Commentary {
            self.note(
                index,
                LossKind::ChannelChanged,
                "its channel dropped; a call or reply reads as on `commentary`",
            );
        }
        let lost = [
            (
                "channel",
                LossKind::ChannelChanged,
                ranked && frame.channel.is_some(),
            ),
            (
                "to",
                LossKind::RecipientDropped,
                to.is_some() && !call && !reply_home,
            ),
            (
                "call_id",
                LossKind::IdDropped,
                frame.call_id.is_some() && !call_id,
            ),
            (
                "intent",
                LossKind::IntentDropped,
                frame.intent.is_some() && !preamble,
            ),
            (
                "content_type",
                LossKind::TypeChanged,
                frame.content_type.is_some() && !call && !is_image,
            ),
            (
                "constrain",
                LossKind::TypeChanged,
                frame.constrain.is_some() && !call,
            ),
            ("unknown attributes", LossKind::AttributeDropped, unknown),
        ];
        for (what, kind, _) in lost.into_iter().filter(|(_, _, lost)| *lost) {
            self.note(index, kind, &format!("{what} dropped"));
        }
        if frame.terminator == Terminator::None {
            self.note(
                index,
                LossKind::CutCompleted,
                "the frame was cut; the message holds what there is of it",
            );
        }
    }

    fn note_if(&mut self, index: usize, condition: bool, kind: LossKind, text: &str) {
        if condition {
            self.note(index, kind, text);
        }
    }

    fn note(&mut self, index: usize, kind: LossKind, text: &str) {
        let target = LossTarget::Frame(index);
        self.losses.push(Loss::new(target, kind, text));
    }
}
