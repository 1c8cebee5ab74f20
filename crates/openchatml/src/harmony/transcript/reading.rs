//! Harmony to transcripts.

use super::Losses;
use super::assign::assign_ids;
use crate::ControlToken;
use crate::document::owned::{FrameBuf, Transcript};
use crate::harmony::render::{Content, Conversation, RenderMessage, RendererCompat, layout};
use crate::harmony::{End, HarmonyDocument, Message};
use crate::loss::{Loss, LossKind};
use crate::messages::PREAMBLE;
use crate::syntax::json::is_json;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator, is_tool_recipient};

impl HarmonyDocument {
    /// The messages as a transcript, one frame each.
    ///
    /// There is a note for everything that it cannot hold. Linear in the text.
    ///
    /// Stray text is kept, as a frame of no role. A message of an unknown channel, or of none where
    /// one is needed, has an unknown one, so that it stays hidden. Calls get the ids `call_1`,
    /// `call_2`, … unless the text has some, and replies those of the calls of their tool, in order.
    ///
    /// ```
    /// use openchatml::harmony::{HarmonyReadOptions, read};
    ///
    /// let text = b"<|start|>assistant to=functions.lamp<|channel|>commentary<|message|>{}<|call|>\
    ///     <|start|>functions.lamp to=assistant<|channel|>commentary<|message|>on<|end|>";
    /// let (transcript, losses) = read(text, &HarmonyReadOptions::default()).to_transcript();
    /// let ids: Vec<_> = transcript.frames.iter().map(|frame| frame.call_id.as_deref()).collect();
    /// assert_eq!(ids, [Some("call_1"), Some("call_1")]);
    /// assert_eq!(losses.len(), 2); // which say where the ids come from
    /// ```
    pub fn to_transcript(&self) -> (Transcript, Vec<Loss>) {
        let mut losses = Losses::default();
        let messages = self.messages.iter().enumerate();
        let frames = messages.map(|(index, message)| from_read(message, index, &mut losses));
        finish(frames.collect(), losses)
    }
}

impl Conversation {
    /// Converts the conversation to a transcript with one frame for each message.
    ///
    /// Adds a note for each part that a transcript cannot hold. Linear in the conversation.
    ///
    /// As [`HarmonyDocument::to_transcript`]; the contents of a system's and a developer's message become
    /// the prompt text of a model. Every frame but a call ends in `<|end|>`.
    pub fn to_transcript(&self) -> (Transcript, Vec<Loss>) {
        self.to_transcript_with_ids(&[])
    }

    /// As [`Self::to_transcript`], with the ids of the messages that have one.
    pub(crate) fn to_transcript_with_ids(&self, ids: &[Option<String>]) -> (Transcript, Vec<Loss>) {
        let mut losses = Losses::default();
        let functions = self.declares_functions();
        let messages = self.messages.iter().enumerate();
        let frames = messages.map(|(index, message)| {
            let mut frame = from_conversation(message, index, functions, &mut losses);
            frame.call_id = ids.get(index).cloned().flatten();
            frame
        });
        finish(frames.collect(), losses)
    }
}

fn finish(mut frames: Vec<FrameBuf>, mut losses: Losses) -> (Transcript, Vec<Loss>) {
    assign_ids(&mut frames, &mut losses);
    (Transcript::new(frames), losses.0)
}

fn from_read(message: &Message, index: usize, losses: &mut Losses) -> FrameBuf {
    let head = &message.head;
    if head.stray {
        return FrameBuf::new(FrameRole::Other, message.content.as_str())
            .with_channel(Channel::Unknown)
            .with_terminator(Terminator::None);
    }
    let mut frame = FrameBuf::new(head.role, message.content.as_str());
    frame.to.clone_from(&head.recipient);
    frame.name.clone_from(&head.name);
    frame.call_id.clone_from(&head.call_id);
    frame.intent.clone_from(&head.intent);
    frame.channel = channel(head.role, head.channel.as_deref(), index, losses);
    if !head.sound {
        frame.channel = Some(Channel::Unknown);
    }
    let content_type = head.content_type.clone();
    // The reader does not distinguish the two spellings of a type.
    if content_type.as_deref() == Some("json") && is_json(&message.content) {
        frame.constrain = content_type;
    } else {
        frame.content_type = content_type;
    }
    frame.terminator = match message.end {
        End::End => Terminator::End,
        End::Call => Terminator::Call,
        End::Return => Terminator::Return,
        End::Eos | End::Implicit => Terminator::None,
    };
    let answer = frame.role == FrameRole::Assistant && frame.effective_channel() == Channel::Final;
    let out_of_place = match frame.terminator {
        Terminator::Call => !frame.is_call(),
        Terminator::Return => !answer,
        Terminator::End | Terminator::None => false,
    };
    if out_of_place {
        losses.message(
            index,
            LossKind::TerminatorChanged,
            "its last token is invalid for such a message; it ends in `<|end|>`",
        );
        frame.terminator = Terminator::End;
    }
    if message.is_preamble() {
        frame.intent = Some(PREAMBLE.to_owned());
    }
    frame
}

fn from_conversation(
    message: &RenderMessage,
    index: usize,
    functions: bool,
    losses: &mut Losses,
) -> FrameBuf {
    let mut body = String::new();
    for part in &message.content {
        match part {
            Content::Text(text) => body.push_str(text),
            Content::System(content) => {
                layout::system(content, functions, RendererCompat::Meant, &mut body);
            }
            Content::Developer(content) => {
                layout::developer(content, RendererCompat::Meant, &mut body);
            }
        }
    }
    let mut frame = FrameBuf::new(message.role, body);
    frame.name.clone_from(&message.name);
    frame.to = message.recipient.clone().filter(|to| to != "all");
    frame.channel = channel(message.role, message.channel.as_deref(), index, losses);
    if let Some(content_type) = &message.content_type {
        match content_type.strip_prefix(ControlToken::Constrain.as_str()) {
            // The examples of the format have a space there.
            Some(constrained) => {
                let word = constrained.trim_start_matches(' ');
                if word != constrained {
                    losses.message(
                        index,
                        LossKind::SpellingChanged,
                        "the space before the type of its content dropped",
                    );
                }
                frame.constrain = Some(word.to_owned());
            }
            None => frame.content_type = Some(content_type.clone()),
        }
    }
    let to_tool = frame
        .to
        .as_deref()
        .is_some_and(|to| is_tool_recipient(to.as_bytes()));
    if frame.role == FrameRole::Assistant && to_tool {
        frame.terminator = Terminator::Call;
    }
    let is_preamble = frame.role == FrameRole::Assistant
        && frame.channel == Some(Channel::Commentary)
        && frame.to.is_none()
        && message.content_type.is_none();
    if is_preamble {
        frame.intent = Some(PREAMBLE.to_owned());
    }
    frame
}

/// The channel of a frame. Without one a frame is shown, a message of the assistant's is not.
///
/// A tool's reply without one is on `commentary`, as the shortest form of a reply has none.
fn channel(
    role: FrameRole,
    name: Option<&str>,
    index: usize,
    losses: &mut Losses,
) -> Option<Channel> {
    let Some(name) = name else {
        if role == FrameRole::Tool {
            losses.message(
                index,
                LossKind::ChannelChanged,
                "it has no channel, and is read as on `commentary`",
            );
            return Some(Channel::Commentary);
        }
        let needs_one = matches!(role, FrameRole::Assistant | FrameRole::Other);
        if needs_one {
            losses.message(
                index,
                LossKind::ChannelChanged,
                "it has no channel, and is hidden",
            );
        }
        return needs_one.then_some(Channel::Unknown);
    };
    let channel = Channel::parse(name.as_bytes());
    if channel == Channel::Unknown {
        losses.message(
            index,
            LossKind::ChannelChanged,
            "its channel is not known, and its name is lost",
        );
    }
    Some(channel)
}
