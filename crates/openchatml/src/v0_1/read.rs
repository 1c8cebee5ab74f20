//! From 0.1 to the frames that all dialects share.
//!
//! | in 0.1 | frames |
//! |---|---|
//! | system, user | one frame; its body is the content verbatim, tokens that are text included |
//! | a block of `reason` | `analysis` |
//! | another block of thought | the same; the body begins with the block's opening token, as 2.x marks it |
//! | what an assistant says | a frame without a channel, so `final` |
//! | a call | `to=functions.<name>` on `commentary`, the arguments as JSON |
//! | a gap to fill, files | a user's frame with the tokens, and what fills the gap as the answer |
//! | an output | `tool name=functions.<name>`; a `content` that is a string is the body, other JSON verbatim |
//!
//! Calls have no ids in 0.1: they get some in order, outputs by order and name, and each is listed.

use serde_json::from_slice;

use super::document::{Item, LegacyDocument, Message};
use super::event::Function;
use super::json::{Call, Output};
use super::marker::Thought;
use super::task::{Fim, Task};
use crate::convert::assign_ids;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::recipient_of;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

/// Converts a document to frames and reports losses and additions.
///
/// Losses are parts of the document that the frames do not hold; additions are parts that they
/// gained. Linear in the document, with a logarithm for the ids.
///
/// ```
/// use openchatml::v0_1::{LegacyReadOptions, parse, to_transcript};
///
/// let text = b"<|im_start|>assistant\n<|start_reflect|>Hm.<|end_reflect|>\nYes.<|im_end|>";
/// let (transcript, losses) = to_transcript(&parse(text, &LegacyReadOptions::default()));
/// assert_eq!(transcript.frames[0].body, "<|start_reflect|>Hm.");
/// assert_eq!(transcript.frames[1].body, "Yes.");
/// assert!(losses.is_empty());
/// ```
pub fn to_transcript(document: &LegacyDocument<'_>) -> (Transcript, Vec<Loss>) {
    let mut reading = Reading {
        document,
        frames: Vec::new(),
        losses: Vec::new(),
    };
    for message in document.messages() {
        reading.message(message);
    }
    let Reading {
        mut frames,
        mut losses,
        ..
    } = reading;
    if let Some(task) = document.task() {
        frames = task_frames(&task);
        losses.extend(task_losses(document.source()));
    }
    losses.extend(assign_ids(&mut frames));
    (Transcript::new(frames), losses)
}

/// A task as a message of the user; what fills a gap is the answer.
fn task_frames(task: &Task<'_>) -> Vec<FrameBuf> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let user = |bytes: &[u8]| FrameBuf::new(FrameRole::User, text(bytes));
    match task {
        Task::Files(files) => vec![user(&files.write())],
        Task::Fim(gap) => {
            let open = Fim {
                middle: b"",
                ..*gap
            };
            let mut frames = vec![user(&open.write())];
            if !gap.middle.is_empty() {
                frames.push(FrameBuf::new(FrameRole::Assistant, text(gap.middle)));
            }
            frames
        }
    }
}

fn task_losses(source: &[u8]) -> Vec<Loss> {
    let whole = |kind, message: &str| Loss::new(LossTarget::Transcript, kind, message);
    let mut losses = vec![whole(
        LossKind::Regrouped,
        "a gap to fill, or files, become a message of the user",
    )];
    if std::str::from_utf8(source).is_err() {
        let message = "bytes that are not UTF-8 replaced";
        losses.push(whole(LossKind::BytesReplaced, message));
    }
    losses
}

struct Reading<'d, 's> {
    document: &'d LegacyDocument<'s>,
    frames: Vec<FrameBuf>,
    losses: Vec<Loss>,
}

impl Reading<'_, '_> {
    fn message(&mut self, message: &Message) {
        let before = self.frames.len();
        match message.head.role {
            FrameRole::Assistant if message.head.sound => self.assistant(message),
            FrameRole::Tool if message.head.sound => self.tool(message),
            _ => self.verbatim(message),
        }
        let made = self.frames.get_mut(before..).unwrap_or_default();
        for frame in made.iter_mut() {
            if frame.name.is_none() && frame.role != FrameRole::Tool {
                frame.name.clone_from(&message.head.name);
            }
            if !message.head.sound {
                frame.channel = Some(Channel::Unknown);
            }
        }
        if let Some(last) = made.last_mut()
            && !message.complete
        {
            last.terminator = Terminator::None;
        }
        let bytes = message.span.bytes(self.document.source());
        if std::str::from_utf8(bytes).is_err() {
            self.losses.extend((before..self.frames.len()).map(|index| {
                Loss::new(
                    LossTarget::Frame(index),
                    LossKind::BytesReplaced,
                    "bytes that are not UTF-8 replaced",
                )
            }));
        }
    }

    /// A message whose content is one body.
    fn verbatim(&mut self, message: &Message) {
        let content = self.document.text(message.content);
        // One newline before the end of a message is layout.
        let layout = content.strip_suffix('\n').filter(|_| !message.head.stray);
        let body = layout.unwrap_or(&content);
        self.frames.push(FrameBuf::new(message.head.role, body));
    }

    fn assistant(&mut self, message: &Message) {
        if message.items.is_empty() {
            self.frames.push(FrameBuf::new(FrameRole::Assistant, ""));
        }
        for item in &message.items {
            let frame = match *item {
                Item::Text(span) | Item::Flag(_, span) => {
                    FrameBuf::new(FrameRole::Assistant, self.document.text(span))
                }
                Item::Thought(thought, span) => {
                    let text = self.document.text(span);
                    FrameBuf::analysis(match thought {
                        Thought::Reason => text.into_owned(),
                        Thought::Reflect | Thought::Introspect => {
                            format!("{}{text}", thought.opener())
                        }
                    })
                }
                Item::Unfinished(_, span) => {
                    FrameBuf::new(FrameRole::Assistant, self.document.text(span))
                        .with_channel(Channel::Commentary)
                }
                Item::Function(function, span) => {
                    let json = span.bytes(self.document.source());
                    match from_slice::<Call<'_>>(json) {
                        Ok(call) if function == Function::Call => FrameBuf {
                            call_id: None,
                            ..FrameBuf::call(recipient_of(&call.name), "", call.arguments.get())
                        },
                        _ => FrameBuf::new(FrameRole::Assistant, self.document.text(span))
                            .with_channel(Channel::Commentary),
                    }
                }
            };
            self.frames.push(frame);
        }
    }

    fn tool(&mut self, message: &Message) {
        let name = message.head.name.as_deref().map(recipient_of);
        if message.items.is_empty() {
            self.reply(name.clone(), String::new());
        }
        for item in &message.items {
            match *item {
                Item::Function(Function::Output, span) => {
                    let json = span.bytes(self.document.source());
                    let Ok(output) = from_slice::<Output<'_>>(json) else {
                        self.reply(name.clone(), self.document.text(span).into_owned());
                        continue;
                    };
                    let content = output.content.get();
                    let decoded = serde_json::from_str::<String>(content);
                    let body = decoded.unwrap_or_else(|_| content.to_owned());
                    self.reply(Some(recipient_of(&output.name)), body);
                    self.note_other_keys(json);
                }
                Item::Text(span)
                | Item::Flag(_, span)
                | Item::Thought(_, span)
                | Item::Function(_, span)
                | Item::Unfinished(_, span) => {
                    self.reply(name.clone(), self.document.text(span).into_owned());
                }
            }
        }
    }

    fn reply(&mut self, name: Option<String>, body: String) {
        self.frames.push(FrameBuf {
            name,
            call_id: None,
            ..FrameBuf::reply("", "", body)
        });
    }

    /// An output may hold more than its name and content; frames do not.
    fn note_other_keys(&mut self, json: &[u8]) {
        let keys = from_slice::<serde_json::Map<String, serde_json::Value>>(json);
        let other = keys.is_ok_and(|keys| keys.len() > 2);
        if other {
            self.losses.push(Loss::new(
                LossTarget::Frame(self.frames.len() - 1),
                LossKind::TextDropped,
                "what an output holds besides its name and content is dropped",
            ));
        }
    }
}
