//! Messages to frames.

use std::collections::{BTreeMap, VecDeque};

use logue_message::{ChatMessage, Content, ContentBlock, Role, ToolCall};

use super::{pictures, recipient_of, tool_of, types_of};
use crate::document::owned::FrameBuf;
use crate::limits::MAX_FRAME_HEADER;
use crate::loss::{Loss, LossKind, LossTarget};
use crate::read::attributes::{
    CONTINUES, ENCRYPTED, INTERRUPTED, PHASE, REASONING_ID, SIGNATURE, STATUS,
};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};
use crate::write::frame::is_safe;

/// The frames that messages make, with a note for whatever a frame cannot hold. The module's
/// introduction has the normal forms. Linear in the messages, with a logarithm for the ids.
///
/// Answers end in `<|end|>`, as in a history; only one that is the very last frame ends
/// in `<|return|>`. Names and ids are taken as they are: one that is invalid in a header is
/// refused by [`write_frame`](crate::write_frame).
///
/// ```
/// use logue_message::{ChatMessage, ToolCall};
/// use openchatml::{frames_from_messages, write_frame};
///
/// let call = ToolCall::new("wx1", "weather", r#"{"city":"Tokyo"}"#);
/// let messages = [
///     ChatMessage::user("How is Tokyo?"),
///     ChatMessage::assistant("I will look.").with_tool_calls(vec![call]),
/// ];
/// let (frames, losses) = frames_from_messages(&messages);
/// let mut text = String::new();
/// for frame in &frames {
///     write_frame(&mut text, frame)?;
/// }
/// assert!(losses.is_empty());
/// assert_eq!(text, r#"<|start|>user<|message|>How is Tokyo?<|end|>
/// <|start|>assistant intent=preamble<|channel|>commentary<|message|>I will look.<|end|>
/// <|start|>assistant to=functions.weather call_id=wx1<|channel|>commentary<|constrain|>json<|message|>{"city":"Tokyo"}<|call|>
/// "#);
/// # Ok::<(), openchatml::WriteError>(())
/// ```
pub fn frames_from_messages(messages: &[ChatMessage]) -> (Vec<FrameBuf>, Vec<Loss>) {
    let mut writing = Writing::default();
    for (index, message) in messages.iter().enumerate() {
        writing.index = index;
        writing.message(message);
    }
    let answered = messages
        .last()
        .is_some_and(|last| last.role == Role::Assistant && !last.interrupted);
    if let Some(last) = writing.frames.last_mut()
        && answered
        && last.role == FrameRole::Assistant
        && last.channel == Some(Channel::Final)
    {
        last.terminator = Terminator::Return;
    }
    (writing.frames, writing.losses)
}

/// The note about a reply without a tool name.
pub(crate) const NAMELESS: &str = "the tool's name is not known, so its reply cannot be written";

/// The attribute of a later part of a message.
fn continues_message() -> (String, Option<String>) {
    (CONTINUES.to_owned(), Some("message".to_owned()))
}

/// Bytes of a proof that a header holds beside everything else.
const MAX_PROOF: usize = MAX_FRAME_HEADER / 4 * 3;

#[derive(Default)]
struct Writing<'m> {
    frames: Vec<FrameBuf>,
    losses: Vec<Loss>,
    /// The message being written.
    index: usize,
    /// The tools of the calls so far, by id.
    tools: BTreeMap<&'m str, Tools<'m>>,
    /// The number of user messages so far.
    turn: usize,
}

/// The tools of the calls that share an id.
#[derive(Default)]
struct Tools<'m> {
    turn: usize,
    /// Those without a reply.
    waiting: VecDeque<&'m str>,
    /// The one of the last call.
    last: Option<&'m str>,
}

impl<'m> Tools<'m> {
    fn call(&mut self, tool: &'m str, turn: usize) {
        if self.turn != turn {
            self.waiting.clear();
        }
        self.turn = turn;
        self.waiting.push_back(tool);
        self.last = Some(tool);
    }

    /// Returns the tool of a reply, which may name it.
    fn reply(&mut self, name: Option<&str>) -> Option<&'m str> {
        let named = name.map(tool_of);
        let mut waiting = self.waiting.iter();
        let place = named.and_then(|name| waiting.position(|tool| *tool == name));
        self.waiting.remove(place.unwrap_or(0)).or(self.last)
    }
}

impl<'m> Writing<'m> {
    fn message(&mut self, message: &'m ChatMessage) {
        let role = match message.role {
            Role::Assistant => return self.assistant(message),
            Role::Tool => return self.reply(message),
            Role::System if message.developer => FrameRole::Developer,
            Role::System => FrameRole::System,
            Role::User => {
                self.turn += 1;
                FrameRole::User
            }
        };
        if !message.tool_calls.is_empty() || message.tool_call_id.is_some() {
            self.note(
                LossKind::CallDropped,
                "tool calls of a non-assistant message dropped",
            );
        }
        if role == FrameRole::User && self.parts(message) {
            return;
        }
        if let Some(text) = self.plain_text(message) {
            self.frames.push(FrameBuf {
                name: message.name.clone(),
                ..FrameBuf::new(role, text)
            });
        }
    }

    fn reply(&mut self, message: &'m ChatMessage) {
        let id = message.tool_call_id.as_deref();
        let name = message.name.as_deref();
        let known = id.and_then(|id| self.tools.get_mut(id)?.reply(name));
        let tool = name.or(known);
        if tool.is_none() {
            self.note(LossKind::PairingLost, NAMELESS);
        }
        let name = tool.map(recipient_of);
        let has_image = message.content.has_image();
        let body = if has_image {
            String::new()
        } else {
            self.plain_text(message).unwrap_or_default()
        };
        let reply = FrameBuf {
            name,
            call_id: message.tool_call_id.clone(),
            ..FrameBuf::reply("", "", body)
        };
        if has_image {
            self.reply_parts(message, &reply);
        } else {
            self.frames.push(reply);
        }
    }

    /// Writes a reply with images, which begins with a text.
    fn reply_parts(&mut self, message: &ChatMessage, reply: &FrameBuf) {
        let Content::Blocks(blocks) = &message.content else {
            return;
        };
        let begins_with_text = matches!(blocks.first(), Some(ContentBlock::Text { .. }));
        let mut is_first = true;
        if !begins_with_text {
            self.frames.push(reply.clone());
            is_first = false;
        }
        for block in blocks {
            let Some(part) = self.part(FrameRole::Tool, block) else {
                continue;
            };
            let mut frame = FrameBuf {
                body: part.body,
                content_type: part.content_type,
                attributes: part.attributes,
                ..reply.clone()
            };
            if !is_first {
                frame.attributes.push(continues_message());
            }
            is_first = false;
            self.frames.push(frame);
        }
    }

    fn assistant(&mut self, message: &'m ChatMessage) {
        let calls = !message.tool_calls.is_empty();
        let first = self.frames.len();
        match &message.content {
            Content::Absent if !calls => {
                self.note(LossKind::EmptyDropped, "an empty message left out");
            }
            Content::Absent => {}
            Content::Text(text) if text.is_empty() && calls => {}
            Content::Text(text) => self.text(text, calls),
            Content::Blocks(blocks) => self.blocks(blocks, calls),
        }
        if message.interrupted {
            let frames = self.frames.iter_mut().skip(first);
            let answer = |frame: &&mut FrameBuf| frame.channel == Some(Channel::Final);
            if let Some(last) = frames.rev().find(answer) {
                let mark = (STATUS.to_owned(), Some(INTERRUPTED.to_owned()));
                last.attributes.push(mark);
            }
        }
        self.phase(message, first);
        for call in &message.tool_calls {
            self.call(call);
        }
        if let Some(name) = &message.name {
            let frames = self.frames.iter_mut().skip(first);
            frames.for_each(|frame| frame.name = Some(name.clone()));
        }
    }

    /// Marks the last text of a message with its phase.
    fn phase(&mut self, message: &ChatMessage, first: usize) {
        let Some(phase) = &message.phase else {
            return;
        };
        let frames = self.frames.iter_mut().skip(first);
        let is_text = |frame: &&mut FrameBuf| frame.channel != Some(Channel::Analysis);
        match frames.rev().find(is_text) {
            Some(last) if is_safe(phase) => {
                last.attributes
                    .push((PHASE.to_owned(), Some(phase.clone())));
            }
            _ => self.note(LossKind::AttributeDropped, "the phase of an answer dropped"),
        }
    }

    fn text(&mut self, text: &str, preamble: bool) {
        self.frames.push(if preamble {
            FrameBuf::preamble(text)
        } else {
            FrameBuf::answer(text)
        });
    }

    fn blocks(&mut self, blocks: &[ContentBlock], calls: bool) {
        // Whether the last frame is an answer that a neighbouring text joins.
        let mut joins = false;
        for block in blocks {
            match block {
                ContentBlock::Text {
                    text,
                    signature,
                    preamble,
                } => {
                    self.note_if(
                        signature.is_some(),
                        LossKind::SignatureDropped,
                        "a signature dropped",
                    );
                    if text.is_empty() {
                        continue;
                    }
                    let answer = !(*preamble || calls);
                    match self.frames.last_mut().filter(|_| joins && answer) {
                        Some(last) => last.body.push_str(text),
                        None => self.text(text, !answer),
                    }
                    joins = answer;
                    continue;
                }
                ContentBlock::Thinking {
                    text,
                    signature,
                    id,
                } => {
                    let mut frame = FrameBuf::analysis(text.as_str());
                    let proofs = [
                        (SIGNATURE, signature, "a signature dropped"),
                        (REASONING_ID, id, "the id of a reasoning item dropped"),
                    ];
                    for (key, value, loss) in proofs {
                        if let Some(value) = value {
                            self.proof(&mut frame, key, value, loss);
                        }
                    }
                    let signed = frame.attributes.iter().any(|(key, _)| key == SIGNATURE);
                    if !text.is_empty() || signed {
                        self.frames.push(frame);
                    }
                }
                ContentBlock::RedactedThinking { data } => {
                    let mut frame = FrameBuf::analysis("");
                    let loss = "reasoning that only its provider can read dropped";
                    self.proof(&mut frame, ENCRYPTED, data, loss);
                    if !frame.attributes.is_empty() {
                        self.frames.push(frame);
                    }
                }
                ContentBlock::Image { .. } => self.note(LossKind::ImageDropped, "an image dropped"),
                _ => self.note(LossKind::PartDropped, "content of an unknown kind dropped"),
            }
            joins = false;
        }
    }

    /// Writes the proof of reasoning into a header, if it is a valid value.
    fn proof(&mut self, frame: &mut FrameBuf, key: &str, value: &str, loss: &str) {
        if is_safe(value) && value.len() <= MAX_PROOF {
            let attribute = (key.to_owned(), Some(value.to_owned()));
            frame.attributes.push(attribute);
        } else {
            self.note(LossKind::SignatureDropped, loss);
        }
    }

    fn call(&mut self, call: &'m ToolCall) {
        self.note_if(
            call.signature.is_some(),
            LossKind::SignatureDropped,
            "a signature dropped",
        );
        let tools = self.tools.entry(&call.id).or_default();
        tools.call(&call.name, self.turn);
        self.note_if(
            call.name.is_empty(),
            LossKind::NameDropped,
            "a tool without a name cannot be called",
        );
        let arguments = call.arguments.as_str();
        let (constrain, content_type) = types_of(call.kind, arguments);
        self.frames.push(FrameBuf {
            constrain: constrain.map(str::to_owned),
            content_type: content_type.map(str::to_owned),
            ..FrameBuf::call(recipient_of(&call.name), call.id.as_str(), arguments)
        });
    }

    /// Writes a message with images; returns whether it is one.
    fn parts(&mut self, message: &ChatMessage) -> bool {
        let Content::Blocks(blocks) = &message.content else {
            return false;
        };
        if !message.content.has_image() {
            return false;
        }
        let first = self.frames.len();
        for block in blocks {
            if let Some(mut frame) = self.part(FrameRole::User, block) {
                frame.name.clone_from(&message.name);
                if self.frames.len() > first {
                    frame.attributes.push(continues_message());
                }
                self.frames.push(frame);
            }
        }
        true
    }

    /// Returns the frame of a text or an image of a message with images.
    fn part(&mut self, role: FrameRole, block: &ContentBlock) -> Option<FrameBuf> {
        match block {
            ContentBlock::Text {
                text, signature, ..
            } => {
                self.note_if(
                    signature.is_some(),
                    LossKind::SignatureDropped,
                    "a signature dropped",
                );
                (!text.is_empty()).then(|| FrameBuf::new(role, text.as_str()))
            }
            ContentBlock::Image {
                source,
                media_type,
                detail,
            } => {
                let frame = pictures::frame(role, source, media_type.as_deref(), *detail);
                self.note_if(frame.is_none(), LossKind::ImageDropped, "an image dropped");
                frame
            }
            _ => {
                self.note(
                    LossKind::TextDropped,
                    "reasoning of a non-assistant message dropped",
                );
                None
            }
        }
    }

    /// The text of a text-only message; `None` if it is empty.
    fn plain_text(&mut self, message: &ChatMessage) -> Option<String> {
        let Content::Blocks(blocks) = &message.content else {
            return Some(message.text());
        };
        let mut held = false;
        for block in blocks {
            match block {
                ContentBlock::Text { signature, .. } => {
                    held = true;
                    self.note_if(
                        signature.is_some(),
                        LossKind::SignatureDropped,
                        "a signature dropped",
                    );
                }
                ContentBlock::Image { .. } => self.note(LossKind::ImageDropped, "an image dropped"),
                _ => self.note(
                    LossKind::TextDropped,
                    "reasoning of a non-assistant message dropped",
                ),
            }
        }
        held.then(|| message.text())
    }

    fn note_if(&mut self, condition: bool, kind: LossKind, text: &str) {
        if condition {
            self.note(kind, text);
        }
    }

    fn note(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Message(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }
}
