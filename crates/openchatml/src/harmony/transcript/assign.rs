//! Ids for calls and replies that have none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Losses;
use crate::document::owned::FrameBuf;
use crate::loss::LossKind;
use crate::syntax::vocabulary::{FUNCTIONS, FrameRole};

/// Assigns ids to calls and replies that have none.
///
/// A call receives the next free id of `call_1`, `call_2`, …. A reply receives the id of the first
/// call of its tool that waits for a reply. Linear in the frames.
pub(super) fn assign_ids(frames: &mut [FrameBuf], losses: &mut Losses) {
    let given = frames.iter().filter_map(|frame| frame.call_id.clone());
    let mut ids = Ids {
        given: given.collect(),
        last: 0,
    };
    let mut answered = BTreeSet::new();
    let mut waiting: BTreeMap<String, VecDeque<String>> = BTreeMap::new();
    for (index, frame) in frames.iter_mut().enumerate() {
        if frame.is_call() {
            let id = frame.call_id.get_or_insert_with(|| {
                losses.message(
                    index,
                    LossKind::Assigned,
                    "its call has got an id, because Harmony has none",
                );
                ids.next()
            });
            let tool = frame.to.as_deref().map(tool).unwrap_or_default();
            let calls = waiting.entry(tool.to_owned()).or_default();
            calls.push_back(id.clone());
        } else if frame.role == FrameRole::Tool {
            if let Some(id) = &frame.call_id {
                answered.insert(id.clone());
                continue;
            }
            let calls = frame
                .name
                .as_deref()
                .and_then(|name| waiting.get_mut(tool(name)));
            let mut open = calls
                .into_iter()
                .flat_map(|calls| std::iter::from_fn(|| calls.pop_front()));
            let call = open.find(|id| !answered.contains(id));
            losses.message(
                index,
                LossKind::Assigned,
                match call {
                    Some(_) => "it has got the id of the first call of its tool without a reply",
                    None => "no call of its tool waits for it; it has got an id of its own",
                },
            );
            frame.call_id = Some(call.unwrap_or_else(|| ids.next()));
        }
    }
}

/// A tool's name without its namespace, since replies leave it out at times.
fn tool(name: &str) -> &str {
    name.strip_prefix(FUNCTIONS).unwrap_or(name)
}

struct Ids {
    given: BTreeSet<String>,
    last: usize,
}

impl Ids {
    fn next(&mut self) -> String {
        loop {
            self.last += 1;
            let id = format!("call_{}", self.last);
            if !self.given.contains(&id) {
                return id;
            }
        }
    }
}
