//! The order of replies where a form pairs them with calls by their order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole, Terminator, is_tool_recipient};

/// The data by which a form without ids pairs replies with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// The name of the tool, and the order among its calls.
    Name,
    /// The order of all calls.
    Order,
}

/// The replies of one tool.
#[derive(Default)]
struct Replies {
    places: Vec<usize>,
    /// The place of the call of each reply, and its own.
    by_call: Vec<(usize, usize)>,
}

/// Returns the order in which the frames are written: the position of each in the transcript.
///
/// Replies take the places of each other until they follow the order of their calls; all other
/// frames keep their places. Where replies have names, only those of one tool do. `None` if nothing
/// moves. O(n log n) in the frames.
///
/// A reply never comes before its call: among the first k replies, the k calls that they answer are
/// before the k-th, and the k earliest calls are not later.
pub(crate) fn call_order(frames: &[FrameBuf], pairing: Pairing) -> Option<Vec<usize>> {
    let mut calls: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut tools: BTreeMap<&str, Replies> = BTreeMap::new();
    for (index, frame) in frames.iter().enumerate() {
        let Some(id) = frame.call_id.as_deref() else {
            continue;
        };
        match frame.role {
            FrameRole::Assistant if frame.is_call() => {
                calls.insert(id, (frame.to.as_deref().unwrap_or_default(), index));
            }
            FrameRole::Tool => {
                if let Some((to, call)) = calls.get(id) {
                    let tool = match pairing {
                        Pairing::Name => to.strip_prefix(FUNCTIONS).unwrap_or(to),
                        Pairing::Order => "",
                    };
                    let replies = tools.entry(tool).or_default();
                    replies.places.push(index);
                    replies.by_call.push((*call, index));
                }
            }
            _ => {}
        }
    }
    tools.retain(|_, replies| !replies.by_call.is_sorted());
    if tools.is_empty() {
        return None;
    }
    let mut order: Vec<usize> = (0..frames.len()).collect();
    for mut replies in tools.into_values() {
        replies.by_call.sort_unstable();
        for (place, (_, reply)) in replies.places.into_iter().zip(replies.by_call) {
            if let Some(slot) = order.get_mut(place) {
                *slot = reply;
            }
        }
    }
    Some(order)
}

/// The note about a reply that is written in another place.
pub(crate) const MOVED: &str =
    "moved into the order of the calls, because replies have no ids there";

/// Returns the places of the frames that are calls only by a later reply.
///
/// Such a frame is addressed to a tool and does not end in `<|call|>`. A reply answers a finished
/// call before it of the same id; without one, the last frame to a tool with that id.
pub(crate) fn answered_at_rest(frames: &[FrameBuf]) -> Vec<usize> {
    let is_at_rest = |frame: &FrameBuf| {
        let to = frame.to.as_deref();
        let is_tool = to.is_some_and(|to| is_tool_recipient(to.as_bytes()));
        let is_ended = matches!(frame.terminator, Terminator::End | Terminator::Return);
        frame.role == FrameRole::Assistant && is_tool && is_ended
    };
    if !frames.iter().any(is_at_rest) {
        return Vec::new();
    }
    let mut finished = BTreeSet::new();
    let mut waiting = BTreeMap::new();
    let mut places = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let Some(id) = frame.call_id.as_deref() else {
            continue;
        };
        if frame.channel == Some(Channel::Unknown) {
            continue;
        }
        if frame.is_call() {
            finished.insert(id);
        } else if is_at_rest(frame) {
            waiting.insert(id, index);
        } else if frame.role == FrameRole::Tool && !finished.contains(id) {
            places.extend(waiting.remove(id));
        }
    }
    places.sort_unstable();
    places
}

/// Returns the frames, with `<|call|>` at the end of each answered call.
pub(crate) fn completed(frames: &[FrameBuf]) -> Cow<'_, [FrameBuf]> {
    let mut frames = Cow::Borrowed(frames);
    for place in answered_at_rest(&frames) {
        if let Some(frame) = frames.to_mut().get_mut(place) {
            frame.terminator = Terminator::Call;
        }
    }
    frames
}

/// Names the tool of each nameless reply after its call.
pub(crate) fn name_replies(frames: &mut [FrameBuf]) {
    let mut tools = BTreeMap::new();
    for frame in frames {
        let Some(id) = frame.call_id.clone() else {
            continue;
        };
        if frame.is_call() {
            tools.insert(id, frame.to.clone());
        } else if frame.role == FrameRole::Tool && frame.name.is_none() {
            frame.name = tools.get(&id).cloned().flatten();
        }
    }
}

/// The note about a call that only its reply shows.
pub(crate) const COMPLETED: &str =
    "a frame to a tool that does not end in `<|call|>` is written as a call";

/// A transcript with replies in the order of calls, and answered calls ended.
pub(crate) struct Ordered<'t> {
    pub(crate) transcript: Cow<'t, Transcript>,
    /// The frames in the original order.
    pub(crate) frames: Cow<'t, [FrameBuf]>,
    order: Option<Vec<usize>>,
    completed: Vec<usize>,
}

impl<'t> Ordered<'t> {
    pub(crate) fn new(transcript: &'t Transcript, pairing: Pairing) -> Self {
        let completed_calls = answered_at_rest(&transcript.frames);
        let frames = completed(&transcript.frames);
        let order = call_order(&frames, pairing);
        let transcript = if order.is_none() && completed_calls.is_empty() {
            Cow::Borrowed(transcript)
        } else {
            let place = |place: usize| {
                let original = order.as_ref().and_then(|order| order.get(place));
                frames.get(original.copied().unwrap_or(place)).cloned()
            };
            Cow::Owned(Transcript {
                header: transcript.header.clone(),
                frames: (0..frames.len()).filter_map(place).collect(),
                tools: transcript.tools.clone(),
            })
        };
        Self {
            transcript,
            frames,
            order,
            completed: completed_calls,
        }
    }

    /// Returns the index in the original of the frame at a place.
    pub(crate) fn original(&self, place: usize) -> usize {
        let order = self.order.as_ref();
        order
            .and_then(|order| order.get(place).copied())
            .unwrap_or(place)
    }

    /// Names the frames of the original in losses, and adds moved and completed ones.
    pub(crate) fn finish(&self, losses: &mut Vec<Loss>) {
        let completed = self.completed.iter().map(|at| {
            let target = LossTarget::Frame(*at);
            Loss::new(target, LossKind::TerminatorChanged, COMPLETED)
        });
        let Some(order) = &self.order else {
            losses.extend(completed);
            return;
        };
        for loss in losses.iter_mut() {
            if let LossTarget::Frame(index) = &mut loss.target
                && let Some(original) = order.get(*index)
            {
                *index = *original;
            }
        }
        let moved = order.iter().enumerate().filter(|(place, at)| place != *at);
        losses.extend(
            moved.map(|(_, at)| Loss::new(LossTarget::Frame(*at), LossKind::OrderChanged, MOVED)),
        );
        losses.extend(completed);
    }
}
