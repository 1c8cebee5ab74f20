//! Frames to messages.

use logue_message::{Arguments, Block, CallKind, ChatMessage, Content, Role as Speaker, ToolCall};

use super::{Note, PREAMBLE, Subject, recipient_of, tool_of};
use crate::owned::FrameBuf;
use crate::words::{Channel, Role, Terminator, is_tool_recipient};

/// The messages that frames make, with a note for whatever a message cannot hold. The module's
/// introduction has the normal forms. Linear in the frames.
///
/// Stray text and frames with an unknown role or channel are left out and noted, and so is a call
/// that was cut, because half a call must never run.
///
/// ```
/// use openchatml::{messages_from_frames, parse};
///
/// let text = b"<|start|>user<|message|>What is 2 + 2?<|end|>\n\
///     <|start|>assistant<|channel|>analysis<|message|>Simple.<|end|>\n\
///     <|start|>assistant<|channel|>final<|message|>4.<|return|>\n";
/// let (messages, notes) = messages_from_frames(&parse(text).to_owned_frames());
/// assert_eq!(messages.len(), 2);
/// assert_eq!(messages[1].text(), "4.");
/// assert!(notes.is_empty());
/// ```
pub fn messages_from_frames(frames: &[FrameBuf]) -> (Vec<ChatMessage>, Vec<Note>) {
    let mut reading = Reading::default();
    for (index, frame) in frames.iter().enumerate() {
        reading.frame(index, frame);
    }
    reading.flush();
    (reading.messages, reading.notes)
}

#[derive(Default)]
struct Reading {
    messages: Vec<ChatMessage>,
    notes: Vec<Note>,
    open: Option<Open>,
}

/// An assistant message that more frames may join.
struct Open {
    name: Option<String>,
    blocks: Vec<Block>,
    calls: Vec<ToolCall>,
    /// Whether an answer was there but empty.
    empty_answer: bool,
}

impl Reading {
    fn frame(&mut self, index: usize, frame: &FrameBuf) {
        if frame.role == Role::Other {
            self.note(index, "left out, because its role is not known");
            return;
        }
        if frame.channel == Some(Channel::Unknown) {
            self.note(index, "left out, because its channel is not known");
            return;
        }
        if frame.role == Role::User && frame.effective_channel() != Channel::Final {
            // A user's message is shown, and this frame is not.
            self.note(
                index,
                "left out, because a message cannot keep a user's words hidden",
            );
            return;
        }
        self.note_losses(index, frame);
        let message = match frame.role {
            Role::Assistant => return self.assistant(index, frame),
            Role::System | Role::Other => ChatMessage::system(frame.body.as_str()),
            Role::Developer => ChatMessage::developer(frame.body.as_str()),
            Role::User => ChatMessage::user(frame.body.as_str()),
            Role::Tool => {
                if frame.call_id.is_none() {
                    self.note(index, "a tool's reply without `call_id` answers no call");
                }
                ChatMessage {
                    tool_call_id: frame.call_id.clone(),
                    ..ChatMessage::new(Speaker::Tool, frame.body.as_str())
                }
            }
        };
        let name = frame.name.as_deref().map(|name| match frame.role {
            Role::Tool => tool_of(name).to_owned(),
            _ => name.to_owned(),
        });
        self.flush();
        self.messages.push(ChatMessage { name, ..message });
    }

    fn assistant(&mut self, index: usize, frame: &FrameBuf) {
        let recipient = frame.to.as_deref();
        let recipient = recipient.filter(|to| is_tool_recipient(to.as_bytes()) || frame.is_call());
        let answer = recipient.is_none() && frame.effective_channel() == Channel::Final;
        // Calls come last in a message, so an answer behind them is a message of its own.
        let ends = self
            .open
            .as_ref()
            .is_some_and(|open| open.name != frame.name || (answer && !open.calls.is_empty()));
        if ends {
            self.flush();
        }
        if let Some(recipient) = recipient {
            if frame.terminator == Terminator::None {
                self.note(index, "a cut tool call is left out");
                return;
            }
            let call = self.call(index, recipient, frame);
            self.open(frame).calls.push(call);
            return;
        }
        let text = frame.body.as_str();
        let open = self.open(frame);
        match frame.effective_channel() {
            Channel::Final => {
                if text.is_empty() {
                    open.empty_answer = true;
                } else {
                    open.blocks.push(Block::text(text));
                }
                self.flush();
            }
            Channel::Commentary if frame.intent.as_deref() == Some(PREAMBLE) => {
                if !text.is_empty() {
                    open.blocks.push(Block::Text {
                        text: text.to_owned(),
                        signature: None,
                        preamble: true,
                    });
                }
            }
            channel => {
                if !text.is_empty() {
                    open.blocks.push(Block::thinking(text));
                }
                if channel != Channel::Analysis {
                    self.note(index, "commentary that is no preamble is kept as reasoning");
                }
            }
        }
    }

    fn call(&mut self, index: usize, recipient: &str, frame: &FrameBuf) -> ToolCall {
        let name = tool_of(recipient);
        if recipient_of(name) != recipient {
            self.note(index, "the recipient is read as a function of that name");
        }
        if frame.terminator != Terminator::Call {
            self.note(
                index,
                "a frame to a tool that does not end in `<|call|>` is read as a call",
            );
        }
        if frame.call_id.is_none() {
            self.note(index, "a tool call without `call_id` has an empty id");
        }
        let kind = frame.constrain.as_deref().or(frame.content_type.as_deref());
        ToolCall {
            id: frame.call_id.clone().unwrap_or_default(),
            name: name.to_owned(),
            arguments: Arguments::from_text(frame.body.as_str()),
            kind: match kind {
                None | Some("json") => CallKind::Function,
                Some(_) => CallKind::Custom,
            },
            signature: None,
        }
    }

    fn open(&mut self, frame: &FrameBuf) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            name: frame.name.clone(),
            blocks: Vec::new(),
            calls: Vec::new(),
            empty_answer: false,
        })
    }

    fn flush(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let plain = open.calls.is_empty() && open.blocks.len() == 1;
        let content = match open.blocks.pop() {
            None if open.empty_answer => Content::Text(String::new()),
            None => Content::Absent,
            Some(Block::Text {
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
        let message = ChatMessage::assistant(content).with_tool_calls(open.calls);
        self.messages.push(ChatMessage {
            name: open.name,
            ..message
        });
    }

    /// Notes what a message has no place for.
    fn note_losses(&mut self, index: usize, frame: &FrameBuf) {
        let assistant = frame.role == Role::Assistant;
        let to = frame.to.as_deref();
        let to_tool = assistant && to.is_some_and(|to| is_tool_recipient(to.as_bytes()));
        let call = to_tool || frame.is_call();
        let reply_home = frame.role == Role::Tool && to == Some("assistant");
        let preamble = assistant
            && frame.effective_channel() == Channel::Commentary
            && frame.intent.as_deref() == Some(PREAMBLE);
        let call_id = call || frame.role == Role::Tool;
        let lost = [
            ("to", to.is_some() && !call && !reply_home),
            ("call_id", frame.call_id.is_some() && !call_id),
            ("intent", frame.intent.is_some() && !preamble),
            ("content_type", frame.content_type.is_some() && !call),
            ("constrain", frame.constrain.is_some() && !call),
            ("unknown attributes", !frame.attributes.is_empty()),
        ];
        for (what, _) in lost.into_iter().filter(|(_, lost)| *lost) {
            self.note(index, &format!("{what} dropped"));
        }
        if frame.terminator == Terminator::None && !call {
            self.note(
                index,
                "the frame was cut; the message holds what there is of it",
            );
        }
    }

    fn note(&mut self, index: usize, text: &str) {
        self.notes.push(Note {
            subject: Subject::Frame(index),
            text: text.to_owned(),
        });
    }
}
