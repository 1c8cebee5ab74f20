//! Selection of the history for the next request.
//!
//! Private reasoning serves the turn in which it was made. Once the turn has its answer, the
//! reasoning is dropped; while calls of the turn have no replies, the model still needs it
//! (OpenChatML 2.2 §7, HIP-1 §7).

use std::collections::HashSet;

use crate::document::owned::FrameBuf;
use crate::harmony::{End, Message};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator, is_tool_recipient};

/// The finished turns that lose their reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ReasoningRetention {
    /// All: reasoning before the last answer is dropped. What the specification says.
    #[default]
    OpenTurn,
    /// Reasoning before the *first* message on `final`.
    ///
    /// It is dropped only if the assistant's last message is on `final`: what openai-harmony 0.0.8
    /// does. Everything on `analysis` is reasoning to it, calls of built-in tools and their
    /// replies included.
    FirstFinal,
}

/// The frames that the next sampling is given, by the rule of the specification
/// ([`ReasoningRetention::OpenTurn`]).
///
/// Reasoning before the last answer is dropped, except that which led to a call that has no reply
/// yet, at any position. A `<|return|>`, which only ends a sampling, becomes `<|end|>`. Every
/// other frame is kept as it is. Doing it again changes nothing. Linear in the frames.
///
/// ```
/// use openchatml::sampling::prompt_frames;
/// use openchatml::{FrameBuf, Terminator};
///
/// let history = [
///     FrameBuf::user("2 + 2?"),
///     FrameBuf::analysis("Easy."),
///     FrameBuf::answer("4.").with_terminator(Terminator::Return),
///     FrameBuf::user("And 3 + 3?"),
/// ];
/// let next = prompt_frames(&history);
/// let bodies: Vec<_> = next.iter().map(|frame| frame.body.as_str()).collect();
/// assert_eq!(bodies, ["2 + 2?", "4.", "And 3 + 3?"]);
/// assert_eq!(next[1].terminator, Terminator::End);
/// ```
pub fn prompt_frames(frames: &[FrameBuf]) -> Vec<FrameBuf> {
    prompt_frames_with(frames, ReasoningRetention::OpenTurn)
}

/// Selects the frames by another policy.
pub fn prompt_frames_with(frames: &[FrameBuf], keep: ReasoningRetention) -> Vec<FrameBuf> {
    kept(frames, keep)
}

/// Selects messages that were read as Harmony.
///
/// ```
/// use openchatml::harmony::{HarmonyReadOptions, read};
/// use openchatml::sampling::{ReasoningRetention, prompt_messages};
///
/// let text = b"<|start|>assistant<|channel|>analysis<|message|>Easy.<|end|>\
///     <|start|>assistant<|channel|>final<|message|>4.<|return|>";
/// let document = read(text, &HarmonyReadOptions::default());
/// let next = prompt_messages(&document.messages, ReasoningRetention::OpenTurn);
/// assert_eq!((next.len(), next[0].content.as_str()), (1, "4."));
/// ```
pub fn prompt_messages(messages: &[Message], keep: ReasoningRetention) -> Vec<Message> {
    kept(messages, keep)
}

/// Properties of a frame or message that the policies use.
trait HistoryItem: Clone {
    fn role(&self) -> FrameRole;
    /// The effective channel.
    fn channel(&self) -> Channel;
    /// The channel that is named.
    fn named(&self) -> Option<Channel>;
    fn to(&self) -> Option<&str>;
    fn call_id(&self) -> Option<&str>;
    fn terminator(&self) -> Terminator;
    /// Makes a `<|return|>` an `<|end|>`.
    fn end(&mut self);

    fn is_call(&self) -> bool {
        let calls = self.role() == FrameRole::Assistant && self.terminator() == Terminator::Call;
        calls && self.to().is_some()
    }

    /// Returns whether it closes a turn. What was cut does not, and neither does what a tool gets.
    fn is_answer(&self) -> bool {
        let to_tool = self.to().is_some_and(|to| is_tool_recipient(to.as_bytes()));
        self.role() == FrameRole::Assistant
            && self.channel() == Channel::Final
            && !to_tool
            && matches!(self.terminator(), Terminator::End | Terminator::Return)
    }

    /// Returns whether it only thinks; a call from `analysis` does more.
    fn is_reasoning(&self) -> bool {
        self.role() == FrameRole::Assistant
            && self.channel() == Channel::Analysis
            && !self.is_call()
    }
}

impl HistoryItem for FrameBuf {
    fn role(&self) -> FrameRole {
        self.role
    }

    fn channel(&self) -> Channel {
        self.effective_channel()
    }

    fn named(&self) -> Option<Channel> {
        self.channel
    }

    fn to(&self) -> Option<&str> {
        self.to.as_deref()
    }

    fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    fn terminator(&self) -> Terminator {
        self.terminator
    }

    fn end(&mut self) {
        if self.terminator == Terminator::Return {
            self.terminator = Terminator::End;
        }
    }
}

impl HistoryItem for Message {
    fn role(&self) -> FrameRole {
        self.head.role
    }

    fn channel(&self) -> Channel {
        self.head.known_channel()
    }

    fn named(&self) -> Option<Channel> {
        Some(self.head.known_channel())
    }

    fn to(&self) -> Option<&str> {
        self.head.recipient.as_deref()
    }

    fn call_id(&self) -> Option<&str> {
        self.head.call_id.as_deref()
    }

    fn terminator(&self) -> Terminator {
        match self.end {
            End::End => Terminator::End,
            End::Call => Terminator::Call,
            End::Return => Terminator::Return,
            End::Eos | End::Implicit => Terminator::None,
        }
    }

    fn end(&mut self) {
        if self.end == End::Return {
            self.end = End::End;
        }
    }
}

fn kept<T: HistoryItem>(items: &[T], keep: ReasoningRetention) -> Vec<T> {
    let goes: Vec<bool> = match keep {
        ReasoningRetention::OpenTurn => {
            let end = items.iter().rposition(T::is_answer).unwrap_or(0);
            let pending = before_pending_calls(items).into_iter().enumerate();
            let pairs = items.iter().zip(pending);
            pairs
                .map(|(each, (index, pending))| index < end && !pending && each.is_reasoning())
                .collect()
        }
        ReasoningRetention::FirstFinal => {
            let is_final = |each: &T| each.named() == Some(Channel::Final);
            let last = items
                .iter()
                .rfind(|each| each.role() == FrameRole::Assistant);
            let first = items.iter().position(is_final);
            let end = first.filter(|_| last.is_some_and(is_final)).unwrap_or(0);
            let each = items.iter().enumerate();
            each.map(|(index, each)| index < end && each.named() == Some(Channel::Analysis))
                .collect()
        }
    };
    let stays = items.iter().zip(goes).filter(|(_, goes)| !goes);
    let history = stays.map(|(each, _)| {
        let mut each = each.clone();
        each.end();
        each
    });
    history.collect()
}

/// For each place, whether a call without a reply follows it in the same turn. A turn ends where
/// another speaker than the assistant or a tool follows, and at its answer.
fn before_pending_calls<T: HistoryItem>(items: &[T]) -> Vec<bool> {
    let mut marks = vec![false; items.len()];
    let mut replies = Replies::default();
    let mut is_pending = false;
    for (each, mark) in items.iter().zip(&mut marks).rev() {
        if !matches!(each.role(), FrameRole::Assistant | FrameRole::Tool) || each.is_answer() {
            is_pending = false;
        }
        if each.role() == FrameRole::Tool {
            replies.add(each);
        } else if each.is_call() {
            is_pending |= !replies.take(each);
        }
        *mark = is_pending;
    }
    marks
}

/// Replies that were seen, from the end of the history on.
#[derive(Default)]
struct Replies<'f> {
    ids: HashSet<&'f str>,
    /// The number of replies without an id, which are taken in order.
    nameless: usize,
}

impl<'f> Replies<'f> {
    fn add(&mut self, reply: &'f impl HistoryItem) {
        match reply.call_id() {
            Some(id) => {
                self.ids.insert(id);
            }
            None => self.nameless += 1,
        }
    }

    /// Returns whether a call has a reply.
    fn take(&mut self, call: &impl HistoryItem) -> bool {
        if let Some(id) = call.call_id() {
            return self.ids.contains(id);
        }
        let is_there = self.nameless > 0;
        self.nameless = self.nameless.saturating_sub(1);
        is_there
    }
}
