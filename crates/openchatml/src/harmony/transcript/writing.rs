//! Transcripts to Harmony.

use std::collections::{BTreeMap, BTreeSet};

use super::Losses;
use crate::convert::{COMPLETED, MOVED, Pairing, answered_at_rest, call_order, completed};
use crate::document::owned::{FrameBuf, Transcript};
use crate::harmony::render::{Conversation, RenderMessage};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::{PREAMBLE, Unpictured, recipient_of};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator, is_tool_recipient};

impl Conversation {
    /// Converts a transcript to a conversation with one message for each supported frame.
    ///
    /// Adds a note for each part that a message cannot hold. Linear in the transcript.
    ///
    /// Left out are frames with an unknown role or channel, and replies of unknown tools. What
    /// is addressed to a tool and was not called becomes reasoning, because Harmony writes no other
    /// way to address a tool than a call.
    ///
    /// ```
    /// use openchatml::harmony::{RenderMessage, Conversation};
    /// use openchatml::{FrameBuf, Transcript};
    ///
    /// let frames = vec![
    ///     FrameBuf::call("functions.lamp", "call_1", "{}"),
    ///     FrameBuf::reply("functions.lamp", "call_1", "on"),
    /// ];
    /// let (conversation, losses) = Conversation::from_transcript(&Transcript::new(frames));
    /// assert_eq!(conversation.messages, [
    ///     RenderMessage::call("functions.lamp", "{}"),
    ///     RenderMessage::tool("functions.lamp", "on"),
    /// ]);
    /// assert_eq!(losses.len(), 2); // the ids
    /// ```
    pub fn from_transcript(transcript: &Transcript) -> (Self, Vec<Loss>) {
        let mut losses = Losses::default();
        if transcript.header.is_some() {
            losses.note(
                LossTarget::Transcript,
                LossKind::HeaderDropped,
                "Harmony has no document header",
            );
        }
        if !transcript.tools.is_empty() {
            let text = "the declarations of the tools dropped";
            losses.note(LossTarget::Transcript, LossKind::DeclarationDropped, text);
        }
        let unpictured = Unpictured::new(transcript);
        let frames = &unpictured.transcript.frames;
        let mut writing = Writing {
            answered: answered_at_rest(frames).into_iter().collect(),
            tools: BTreeMap::new(),
            losses,
        };
        // Harmony has no ids: a reply is paired with its call by order and name.
        let order = call_order(&completed(frames), Pairing::Name);
        let places = 0..frames.len();
        let messages = places.filter_map(|place| {
            let index = order.as_ref().and_then(|order| order.get(place));
            let index = index.copied().unwrap_or(place);
            if index != place {
                writing.losses.frame(index, LossKind::OrderChanged, MOVED);
            }
            writing.frame(index, frames.get(index)?)
        });
        let conversation = messages.collect();
        let mut losses = writing.losses.0;
        unpictured.finish(&mut losses);
        (conversation, losses)
    }
}

struct Writing<'f> {
    /// The places of the calls that only their replies show.
    answered: BTreeSet<usize>,
    /// The tools of the calls so far, by id.
    tools: BTreeMap<&'f str, &'f str>,
    losses: Losses,
}

impl<'f> Writing<'f> {
    fn frame(&mut self, index: usize, frame: &'f FrameBuf) -> Option<RenderMessage> {
        if frame.role == FrameRole::Other || frame.channel == Some(Channel::Unknown) {
            let what = if frame.role == FrameRole::Other {
                "role"
            } else {
                "channel"
            };
            let text = format!("left out, because its {what} is not known");
            self.losses.frame(index, LossKind::MessageDropped, text);
            return None;
        }
        let mut message = RenderMessage::new(frame.role, frame.body.as_str());
        message.name.clone_from(&frame.name);
        message.recipient.clone_from(&frame.to);
        message.channel = match (frame.role, frame.channel) {
            (FrameRole::Assistant, None) => Some(Channel::Final),
            (FrameRole::User | FrameRole::System | FrameRole::Developer, Some(Channel::Final)) => {
                None
            }
            (_, channel) => channel,
        }
        .and_then(Channel::as_str)
        .map(str::to_owned);
        self.types(index, frame, &mut message);
        match frame.role {
            FrameRole::Assistant => {
                self.calls(index, frame, &mut message);
                self.hide(index, frame, &mut message);
            }
            FrameRole::Tool => {
                let asked = || self.tools.get(frame.call_id.as_deref()?).copied();
                let name = frame.name.as_deref().or_else(asked);
                let Some(name) = name else {
                    self.losses.frame(
                        index,
                        LossKind::MessageDropped,
                        "left out, because its tool is not known",
                    );
                    return None;
                };
                // A name without a namespace would be read as a role.
                let is_bare = !name.contains('.');
                let written = if is_bare {
                    recipient_of(name)
                } else {
                    name.to_owned()
                };
                if written != name {
                    self.losses.frame(
                        index,
                        LossKind::ToolRenamed,
                        "its tool is written as a function of that name",
                    );
                }
                message.name = Some(written);
            }
            _ => {}
        }
        self.lost(index, frame);
        Some(message)
    }

    fn types(&mut self, index: usize, frame: &FrameBuf, message: &mut RenderMessage) {
        message.content_type.clone_from(&frame.content_type);
        let Some(constrain) = &frame.constrain else {
            return;
        };
        if frame
            .content_type
            .as_ref()
            .is_some_and(|content_type| content_type != constrain)
        {
            let text = "its content type is lost, because the one of its body takes its place";
            self.losses.frame(index, LossKind::TypeChanged, text);
        }
        *message = std::mem::replace(message, RenderMessage::user("")).with_constrain(constrain);
    }

    /// Prevents that a message without a call is read as one.
    fn calls(&mut self, index: usize, frame: &'f FrameBuf, message: &mut RenderMessage) {
        let Some(to) = frame.to.as_deref() else {
            return;
        };
        let is_completed = self.answered.contains(&index);
        if is_completed {
            self.losses
                .frame(index, LossKind::TerminatorChanged, COMPLETED);
        }
        if frame.is_call() || is_completed {
            if let Some(id) = frame.call_id.as_deref() {
                self.tools.insert(id, to);
            }
            return;
        }
        message.recipient = None;
        if is_tool_recipient(to.as_bytes()) {
            message.channel = Channel::Analysis.as_str().map(str::to_owned);
            let text = "it addresses a tool and was not called; it is kept as reasoning";
            self.losses.frame(index, LossKind::ChannelChanged, text);
        } else {
            let text = "its recipient is lost, because Harmony would write a call";
            self.losses.frame(index, LossKind::RecipientDropped, text);
        }
    }

    /// Prevents that hidden commentary is read as a preamble, which is shown.
    fn hide(&mut self, index: usize, frame: &FrameBuf, message: &mut RenderMessage) {
        let is_commentary = message.channel.as_deref() == Channel::Commentary.as_str();
        let is_preamble = frame.intent.as_deref() == Some(PREAMBLE);
        let is_read_so =
            is_commentary && message.recipient.is_none() && message.content_type.is_none();
        if is_read_so && !is_preamble {
            message.channel = Channel::Analysis.as_str().map(str::to_owned);
            let text = "commentary that is not a preamble is kept as reasoning";
            self.losses.frame(index, LossKind::ChannelChanged, text);
        }
    }

    /// The parts that a message has no place for.
    fn lost(&mut self, index: usize, frame: &FrameBuf) {
        // Reading marks it again.
        let is_preamble = frame.role == FrameRole::Assistant
            && frame.channel == Some(Channel::Commentary)
            && frame.to.is_none()
            && (frame.content_type.is_none() && frame.constrain.is_none())
            && frame.intent.as_deref() == Some(PREAMBLE);
        let lost = [
            (
                frame.call_id.is_some(),
                LossKind::IdDropped,
                "`call_id` is lost; replies are told apart by order and name",
            ),
            (
                frame.intent.is_some() && !is_preamble,
                LossKind::IntentDropped,
                "`intent` is lost",
            ),
            (
                !frame.attributes.is_empty(),
                LossKind::AttributeDropped,
                "its other attributes are lost",
            ),
            (
                frame.terminator == Terminator::None,
                LossKind::CutCompleted,
                "it was cut, and reads as if it was whole",
            ),
        ];
        for (_, kind, text) in lost.into_iter().filter(|(lost, _, _)| *lost) {
            self.losses.frame(index, kind, text);
        }
    }
}
