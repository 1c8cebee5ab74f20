//! Distinct ids for calls of a conversation that share one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ids::bare;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::messages::continues;
use crate::syntax::vocabulary::FrameRole;

/// Gives new ids to calls that share one with an earlier call.
///
/// A reply gets the id of its call: the first open call with its id and tool, else the first open
/// call with its id, else the last call with its id. Each new id is listed. O(n log n) in the
/// frames; borrows if nothing changes.
///
/// ```
/// use openchatml::{FrameBuf, Transcript, convert::distinct_ids};
///
/// let frames = vec![
///     FrameBuf::call("functions.f", "a", "{}"),
///     FrameBuf::call("functions.g", "a", "{}"),
///     FrameBuf::reply("functions.g", "a", "of g"),
///     FrameBuf::reply("functions.f", "a", "of f"),
/// ];
/// let transcript = Transcript::new(frames);
/// let (distinct, losses) = distinct_ids(&transcript);
/// let ids: Vec<_> = distinct.frames.iter().filter_map(|frame| frame.call_id.as_deref()).collect();
/// assert_eq!(ids, ["a", "a_2", "a_2", "a"]);
/// assert_eq!(losses.len(), 2);
/// ```
pub fn distinct_ids(transcript: &Transcript) -> (Cow<'_, Transcript>, Vec<Loss>) {
    if !has_shared_id(&transcript.frames) {
        return (Cow::Borrowed(transcript), Vec::new());
    }
    let pairs = Pairs::new(&transcript.frames);
    let ids = new_ids(&transcript.frames, &pairs.sharing);
    let mut distinct = transcript.clone();
    let mut losses = Vec::new();
    for (index, frame) in distinct.frames.iter_mut().enumerate() {
        let call = pairs.answers.get(&index).copied().unwrap_or(index);
        if let Some(id) = ids.get(&call) {
            frame.call_id = Some(id.clone());
            let target = LossTarget::Frame(index);
            let text = "an earlier call has its id, so it gets one of its own";
            losses.push(Loss::new(target, LossKind::IdDropped, text));
        }
    }
    (Cow::Owned(distinct), losses)
}

/// Returns whether two calls have the same id.
fn has_shared_id(frames: &[FrameBuf]) -> bool {
    let mut ids: Vec<&str> = frames
        .iter()
        .filter(|frame| frame.is_call())
        .filter_map(|frame| frame.call_id.as_deref())
        .collect();
    ids.sort_unstable();
    ids.array_windows().any(|[one, next]| one == next)
}

/// A new id for each of the calls, by their place.
fn new_ids(frames: &[FrameBuf], calls: &[usize]) -> BTreeMap<usize, String> {
    let ids = frames.iter().filter_map(|frame| frame.call_id.clone());
    let mut taken: BTreeSet<String> = ids.collect();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut new_ids = BTreeMap::new();
    for call in calls {
        let frame = frames.get(*call);
        let id = frame.and_then(|frame| frame.call_id.as_deref());
        let id = id.unwrap_or_default();
        let number = numbers.entry(id).or_insert(1);
        loop {
            *number += 1;
            let new = format!("{id}_{number}");
            if taken.insert(new.clone()) {
                new_ids.insert(*call, new);
                break;
            }
        }
    }
    new_ids
}

/// The calls that replies answer, as places of frames.
#[derive(Default)]
pub(super) struct Pairs {
    /// The call of each reply.
    pub(super) answers: BTreeMap<usize, usize>,
    /// The calls whose id an earlier call has.
    sharing: Vec<usize>,
}

impl Pairs {
    pub(super) fn new(frames: &[FrameBuf]) -> Self {
        let mut pairs = Self::default();
        let mut open = Open::default();
        let mut last_answer = None;
        for (index, frame) in frames.iter().enumerate() {
            if frame.role == FrameRole::Tool && continues(frame) {
                // A part of a reply answers its call.
                if let Some(call) = last_answer {
                    pairs.answers.insert(index, call);
                    continue;
                }
            }
            match (frame.role, frame.call_id.as_deref()) {
                (FrameRole::User, _) => open.end(),
                (FrameRole::Assistant, Some(id))
                    if frame.to.is_some()
                        && open.call(index, id, tool(frame.to.as_ref()), frame.is_call()) =>
                {
                    pairs.sharing.push(index);
                }
                (FrameRole::Tool, Some(id)) => {
                    last_answer = open.reply(id, tool(frame.name.as_ref()));
                    if let Some(call) = last_answer {
                        pairs.answers.insert(index, call);
                    }
                }
                _ => {}
            }
        }
        pairs
    }
}

fn tool(name: Option<&String>) -> &str {
    bare(name.map_or("", String::as_str))
}

/// The calls of a turn that wait for a reply.
#[derive(Default)]
struct Open<'f> {
    answered: BTreeSet<usize>,
    /// The calls of each id in order. An answered one stays until it is skipped.
    by_id: BTreeMap<&'f str, VecDeque<usize>>,
    by_tool: BTreeMap<(&'f str, &'f str), VecDeque<usize>>,
    /// The last call of each id, and whether it is finished.
    last: BTreeMap<&'f str, (usize, bool)>,
}

impl<'f> Open<'f> {
    fn end(&mut self) {
        self.by_id.clear();
        self.by_tool.clear();
    }

    /// Opens a finished call; returns whether an earlier one has its id.
    fn call(&mut self, index: usize, id: &'f str, tool: &'f str, is_finished: bool) -> bool {
        let is_shared = self
            .last
            .get(id)
            .is_some_and(|(_, is_finished)| *is_finished);
        let last = self.last.entry(id).or_insert((index, is_finished));
        if is_finished || !last.1 {
            *last = (index, is_finished);
        }
        if !is_finished {
            return false;
        }
        let waiting = self.by_id.entry(id).or_default();
        waiting.push_back(index);
        self.by_tool.entry((id, tool)).or_default().push_back(index);
        is_shared
    }

    /// Returns the call that a reply answers.
    fn reply(&mut self, id: &'f str, tool: &'f str) -> Option<usize> {
        let answered = &self.answered;
        let named = self.by_tool.get_mut(&(id, tool));
        let named = named.and_then(|waiting| first_open(answered, waiting));
        let open = named.or_else(|| first_open(answered, self.by_id.get_mut(id)?));
        self.answered.extend(open);
        open.or_else(|| Some(self.last.get(id)?.0))
    }
}

/// Returns the first call that waits for a reply; forgets those before it.
fn first_open(answered: &BTreeSet<usize>, waiting: &mut VecDeque<usize>) -> Option<usize> {
    while let Some(call) = waiting.front().copied() {
        if !answered.contains(&call) {
            return Some(call);
        }
        waiting.pop_front();
    }
    None
}
