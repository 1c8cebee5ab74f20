//! What of a history goes into the next sampling.
//!
//! Private reasoning serves the turn in which it was made. Once the turn has its answer, the
//! reasoning is dropped; while calls of the turn have no replies, the model still needs it
//! (OpenChatML 2.2 §7, HIP-1 §7).

use std::collections::HashSet;

use crate::owned::FrameBuf;
use crate::words::{Channel, Role, Terminator};

/// Which finished turns lose their reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Keep {
    /// All: reasoning before the last answer is dropped. What the specification says.
    #[default]
    OpenTurn,
    /// Only what stands before the *first* answer, and only if the assistant's last frame is an
    /// answer: what openai-harmony 0.0.8 does.
    FirstFinal,
}

/// The frames that the next sampling is given, by the rule of the specification
/// ([`Keep::OpenTurn`]).
///
/// Reasoning before the last answer is dropped, except that which led to a call that has no reply
/// yet, wherever it stands. A `<|return|>`, which only ends a sampling, becomes `<|end|>`. Every
/// other frame is kept as it is. Doing it again changes nothing. Linear in the frames.
///
/// ```
/// use openchatml::sampling::for_next_sampling;
/// use openchatml::{FrameBuf, Terminator};
///
/// let history = [
///     FrameBuf::user("2 + 2?"),
///     FrameBuf::analysis("Easy."),
///     FrameBuf::answer("4.").with_terminator(Terminator::Return),
///     FrameBuf::user("And 3 + 3?"),
/// ];
/// let next = for_next_sampling(&history);
/// let bodies: Vec<_> = next.iter().map(|frame| frame.body.as_str()).collect();
/// assert_eq!(bodies, ["2 + 2?", "4.", "And 3 + 3?"]);
/// assert_eq!(next[1].terminator, Terminator::End);
/// ```
pub fn for_next_sampling(frames: &[FrameBuf]) -> Vec<FrameBuf> {
    for_next_sampling_with(frames, Keep::OpenTurn)
}

/// The same by another rule.
pub fn for_next_sampling_with(frames: &[FrameBuf], keep: Keep) -> Vec<FrameBuf> {
    let end = match keep {
        Keep::OpenTurn => frames.iter().rposition(is_answer),
        Keep::FirstFinal => {
            let last = frames.iter().rfind(|frame| frame.role == Role::Assistant);
            let is_answered = last.is_some_and(is_on_final);
            let first = frames.iter().position(is_on_final);
            first.filter(|_| is_answered)
        }
    };
    let end = end.unwrap_or(0);
    let pending = match keep {
        Keep::OpenTurn => before_pending_calls(frames),
        Keep::FirstFinal => vec![false; frames.len()],
    };
    let frames = frames.iter().zip(pending).enumerate();
    frames
        .filter(|(index, (frame, pending))| *index >= end || *pending || !is_reasoning(frame))
        .map(|(_, (frame, _))| in_history(frame))
        .collect()
}

fn in_history(frame: &FrameBuf) -> FrameBuf {
    let mut frame = frame.clone();
    if frame.terminator == Terminator::Return {
        frame.terminator = Terminator::End;
    }
    frame
}

/// Whether a frame closes a turn. One that was cut does not.
fn is_answer(frame: &FrameBuf) -> bool {
    frame.role == Role::Assistant
        && frame.effective_channel() == Channel::Final
        && frame.to.is_none()
        && matches!(frame.terminator, Terminator::End | Terminator::Return)
}

/// What openai-harmony takes for an answer.
fn is_on_final(frame: &FrameBuf) -> bool {
    frame.role == Role::Assistant && frame.channel == Some(Channel::Final)
}

/// Reasoning that leads somewhere; a call from `analysis` is no reasoning.
fn is_reasoning(frame: &FrameBuf) -> bool {
    frame.role == Role::Assistant
        && frame.effective_channel() == Channel::Analysis
        && !frame.is_call()
}

/// For each frame, whether a call without a reply follows it in the same turn. A turn ends where
/// somebody else than the assistant or a tool speaks, and at its answer.
fn before_pending_calls(frames: &[FrameBuf]) -> Vec<bool> {
    let mut marks = vec![false; frames.len()];
    let mut replies = Replies::default();
    let mut is_pending = false;
    for (frame, mark) in frames.iter().zip(&mut marks).rev() {
        if !matches!(frame.role, Role::Assistant | Role::Tool) || is_answer(frame) {
            is_pending = false;
        }
        if frame.role == Role::Tool {
            replies.add(frame);
        } else if frame.is_call() {
            is_pending |= !replies.take(frame);
        }
        *mark = is_pending;
    }
    marks
}

/// Replies that were seen, from the end of the history on.
#[derive(Default)]
struct Replies<'f> {
    ids: HashSet<&'f str>,
    /// How many without an id, which are taken in order.
    nameless: usize,
}

impl<'f> Replies<'f> {
    fn add(&mut self, frame: &'f FrameBuf) {
        match &frame.call_id {
            Some(id) => {
                self.ids.insert(id);
            }
            None => self.nameless += 1,
        }
    }

    /// Whether a call has a reply.
    fn take(&mut self, call: &FrameBuf) -> bool {
        if let Some(id) = &call.call_id {
            return self.ids.contains(id.as_str());
        }
        let is_there = self.nameless > 0;
        self.nameless = self.nameless.saturating_sub(1);
        is_there
    }
}
