//! The order of replies where a form pairs them with calls by their order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::vocabulary::{FUNCTIONS, FrameRole};

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
            FrameRole::Assistant => {
                if let Some(to) = frame.to.as_deref() {
                    calls.insert(id, (to, index));
                }
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

/// A transcript with its replies in the order of their calls.
pub(crate) struct Ordered<'t> {
    pub(crate) transcript: Cow<'t, Transcript>,
    order: Option<Vec<usize>>,
}

impl<'t> Ordered<'t> {
    pub(crate) fn new(transcript: &'t Transcript, pairing: Pairing) -> Self {
        let order = call_order(&transcript.frames, pairing);
        let transcript = match &order {
            None => Cow::Borrowed(transcript),
            Some(order) => {
                let frames = order.iter().filter_map(|at| transcript.frames.get(*at));
                Cow::Owned(Transcript {
                    header: transcript.header.clone(),
                    frames: frames.cloned().collect(),
                    ..Transcript::default()
                })
            }
        };
        Self { transcript, order }
    }

    /// Names the frames of the original in losses, and adds those that were moved.
    pub(crate) fn finish(&self, losses: &mut Vec<Loss>) {
        let Some(order) = &self.order else {
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
    }
}
