//! Ids for calls that have none.
//!
//! OpenChatML 2.0, Harmony and the 1.x line name no calls; a reply belongs to the earliest call of
//! its tool that has none yet. Reading them gives each call an id in order, `call_1` and on, so
//! that they can be written where ids are required, and says which were given.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::reply_order::{Pairing, call_order, name_replies};
use crate::document::owned::FrameBuf;
use crate::loss::{Loss, LossKind, LossSeverity, LossTarget};
use crate::messages::continues;
use crate::syntax::vocabulary::{FUNCTIONS, FrameRole};

/// Gives each call and each reply without an id one, and notes it. A reply gets the id of the
/// earliest call of its tool that has no reply; one that names no tool answers the earliest call
/// of all and gets that tool's name. A reply to no call gets an id of its own. Ids that the frames
/// have already are left alone and never given again.
///
/// Linear in the frames, with a logarithm for the names.
///
/// ```
/// use openchatml::{FrameBuf, convert::assign_ids};
///
/// let mut call = FrameBuf::call("functions.f", "", "{}");
/// let mut reply = FrameBuf::reply("functions.f", "", "done");
/// (call.call_id, reply.call_id) = (None, None);
/// let mut frames = [call, reply];
/// let notes = assign_ids(&mut frames);
/// assert_eq!(frames[0].call_id.as_deref(), Some("call_1"));
/// assert_eq!(frames[1].call_id.as_deref(), Some("call_1"));
/// assert_eq!(notes[0].to_string(), "frame 1: the id `call_1` was assigned");
/// ```
pub fn assign_ids(frames: &mut [FrameBuf]) -> Vec<Loss> {
    let taken: BTreeSet<String> = frames.iter().filter_map(|f| f.call_id.clone()).collect();
    let mut assigning = Assigning {
        taken,
        count: 0,
        calls: Vec::new(),
        open: BTreeMap::new(),
        order: VecDeque::new(),
        losses: Vec::new(),
    };
    let mut last_reply = None;
    for (index, frame) in frames.iter_mut().enumerate() {
        if frame.role == FrameRole::Tool && frame.call_id.is_none() && continues(frame) {
            frame.call_id.clone_from(&last_reply);
        }
        if frame.is_call() && frame.call_id.is_none() {
            assigning.call(index, frame);
        } else if frame.role == FrameRole::Tool && frame.call_id.is_none() {
            assigning.reply(index, frame);
        }
        if frame.role == FrameRole::Tool {
            last_reply.clone_from(&frame.call_id);
        }
    }
    assigning.losses
}

/// Marks dropped ids and names as notes where reading assigns the same ones.
///
/// `frames` are those that the losses refer to. Lists each reply that reading gives to another call.
/// Nothing is marked if content is lost, as the ids of later calls change with it.
pub(crate) fn note_implied_ids(frames: &[FrameBuf], pairing: Pairing, losses: &mut Vec<Loss>) {
    let is_implied = |kind| {
        kind == LossKind::IdDropped || (kind == LossKind::NameDropped && pairing == Pairing::Order)
    };
    if !losses.iter().any(|loss| is_implied(loss.kind)) {
        return;
    }
    let mut frames = Cow::Borrowed(frames);
    if pairing == Pairing::Name {
        name_replies(frames.to_mut());
    }
    let frames = &*frames;
    let order = call_order(frames, pairing);
    let original = |place: usize| {
        let index = order.as_ref().and_then(|order| order.get(place).copied());
        let index = index.unwrap_or(place);
        frames.get(index).map(|frame| (index, frame))
    };
    let dropped: BTreeSet<usize> = losses.iter().filter_map(dropped_frame).collect();
    let has_id = |index: usize, frame: &FrameBuf| {
        (frame.is_call() || frame.role == FrameRole::Tool) && !dropped.contains(&index)
    };
    let kept = (0..frames.len()).filter_map(original);
    let kept: Vec<(usize, &FrameBuf)> = kept
        .filter(|(index, frame)| has_id(*index, frame))
        .collect();
    let without_id = kept.iter().map(|(_, frame)| FrameBuf {
        to: frame.to.clone(),
        name: frame.name.clone().filter(|_| pairing == Pairing::Name),
        terminator: frame.terminator,
        ..FrameBuf::new(frame.role, "")
    });
    let mut read: Vec<FrameBuf> = without_id.collect();
    assign_ids(&mut read);
    let replies = kept.iter().map(|(_, frame)| *frame);
    let (before, after) = (answered_calls(replies), answered_calls(read.iter()));
    for ((index, _), (was, is)) in kept.iter().zip(before.into_iter().zip(after)) {
        if was.is_some() && was != is {
            let target = LossTarget::Frame(*index);
            let text = "an earlier call without a reply gets this reply, because there are no ids";
            losses.push(Loss::new(target, LossKind::PairingLost, text));
        }
    }
    let same = |(read, (_, kept)): (&FrameBuf, &(usize, &FrameBuf))| {
        read.call_id == kept.call_id && (read.name == kept.name || kept.role != FrameRole::Tool)
    };
    let is_content = |loss: &Loss| loss.is_at_least(LossSeverity::Content);
    if losses.iter().any(is_content) || !read.iter().zip(&kept).all(same) {
        return;
    }
    for loss in losses.iter_mut() {
        if let LossTarget::Frame(index) = loss.target
            && is_implied(loss.kind)
            && frames.get(index).is_some_and(|frame| {
                frame.role == FrameRole::Tool
                    || (frame.is_call() && loss.kind == LossKind::IdDropped)
            })
        {
            loss.kind = LossKind::Implied;
        }
    }
}

/// The frame that a loss reports as left out.
fn dropped_frame(loss: &Loss) -> Option<usize> {
    let is_dropped = matches!(loss.kind, LossKind::MessageDropped | LossKind::CallDropped);
    match loss.target {
        LossTarget::Frame(index) if is_dropped => Some(index),
        _ => None,
    }
}

/// The place of the call that each frame answers.
fn answered_calls<'f>(frames: impl Iterator<Item = &'f FrameBuf>) -> Vec<Option<usize>> {
    let mut calls = BTreeMap::new();
    let mut answered = Vec::new();
    for (place, frame) in frames.enumerate() {
        let id = frame.call_id.as_deref();
        if frame.is_call() {
            calls.insert(id, place);
            answered.push(None);
        } else {
            answered.push(calls.get(&id).copied().filter(|_| id.is_some()));
        }
    }
    answered
}

struct Call {
    id: String,
    to: String,
    answered: bool,
}

struct Assigning {
    taken: BTreeSet<String>,
    count: usize,
    calls: Vec<Call>,
    /// The calls that wait for a reply, by tool.
    open: BTreeMap<String, VecDeque<usize>>,
    /// All of them in order. A call that was answered by name stays here and is skipped.
    order: VecDeque<usize>,
    losses: Vec<Loss>,
}

impl Assigning {
    fn call(&mut self, index: usize, frame: &mut FrameBuf) {
        let id = self.fresh();
        let to = frame.to.clone().unwrap_or_default();
        let number = self.calls.len();
        let waiting = self.open.entry(bare(&to).to_owned()).or_default();
        waiting.push_back(number);
        self.order.push_back(number);
        self.calls.push(Call {
            id: id.clone(),
            to,
            answered: false,
        });
        self.note(index, format!("the id `{id}` was assigned"));
        frame.call_id = Some(id);
    }

    fn reply(&mut self, index: usize, frame: &mut FrameBuf) {
        let calls = &self.calls;
        let waiting = match frame.name.as_deref() {
            Some(name) => self.open.get_mut(bare(name)),
            None => Some(&mut self.order),
        };
        let answers = waiting.and_then(|waiting| {
            while let Some(number) = waiting.pop_front() {
                if calls.get(number).is_some_and(|call| !call.answered) {
                    return Some(number);
                }
            }
            None
        });
        let Some(call) = answers.and_then(|number| self.calls.get_mut(number)) else {
            let id = self.fresh();
            self.note(
                index,
                format!("the id `{id}` was assigned; no call before it has no reply yet"),
            );
            frame.call_id = Some(id);
            return;
        };
        call.answered = true;
        let (id, to) = (call.id.clone(), call.to.clone());
        if frame.name.is_none() {
            self.note(index, format!("the id `{id}` and its tool were assigned"));
            frame.name = Some(to);
        } else {
            self.note(index, format!("the id `{id}` was assigned"));
        }
        frame.call_id = Some(id);
    }

    /// The next id that nothing has.
    fn fresh(&mut self) -> String {
        loop {
            self.count += 1;
            let id = format!("call_{}", self.count);
            if !self.taken.contains(&id) {
                return id;
            }
        }
    }

    fn note(&mut self, index: usize, message: String) {
        let target = LossTarget::Frame(index);
        self.losses
            .push(Loss::new(target, LossKind::Assigned, message));
    }
}

/// The tool without its namespace: a reply may leave it out or add it.
pub(super) fn bare(recipient: &str) -> &str {
    recipient.strip_prefix(FUNCTIONS).unwrap_or(recipient)
}
