//! Ids for calls and replies that have none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Losses;
use crate::document::owned::FrameBuf;
use crate::loss::LossKind;
use crate::syntax::vocabulary::{FUNCTIONS, FrameRole};

/// Assigns ids to calls and replies that have none.
///
/// A call receives the next free id of `call_1`, `call_2`, …. A reply receives the id of the first
/// call of its tool that waits for a reply. A reply that names no tool receives that of the first
/// call that no named reply after it is for. Linear in the frames, but for replies without a tool:
/// each costs the number of calls that wait.
pub(super) fn assign_ids(frames: &mut [FrameBuf], losses: &mut Losses) {
    let given = frames.iter().filter_map(|frame| frame.call_id.clone());
    let mut ids = Ids {
        given: given.collect(),
        last: 0,
    };
    let mut waiting = Waiting::default();
    for index in 0..frames.len() {
        if frames.get(index).is_some_and(is_unnamed) && waiting.free.is_none() {
            let named = named_replies(frames.get(index..).unwrap_or_default());
            waiting.set_free(&named);
        }
        let Some(frame) = frames.get_mut(index) else {
            break;
        };
        if frame.role != FrameRole::Tool {
            waiting.free = None;
        }
        if frame.role == FrameRole::User {
            waiting.all.clear();
        }
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
            waiting.add(tool, id);
        } else if frame.role == FrameRole::Tool {
            if let Some(id) = &frame.call_id {
                waiting.answered.insert(id.clone());
                continue;
            }
            let call = match frame.name.as_deref() {
                Some(name) => waiting.take_of(tool(name)),
                None => waiting.take_free(),
            };
            let text = match (&call, &frame.name) {
                (Some(_), Some(_)) => {
                    "it has got the id of the first call of its tool without a reply"
                }
                (Some(_), None) => {
                    "it names no tool; it has got the id of the first call without a reply"
                }
                (None, _) => "no call of its tool waits for it; it has got an id of its own",
            };
            losses.message(index, LossKind::Assigned, text);
            frame.call_id = Some(call.unwrap_or_else(|| ids.next()));
        }
    }
}

/// Returns whether a frame is a reply that has neither a tool nor an id.
fn is_unnamed(frame: &FrameBuf) -> bool {
    frame.role == FrameRole::Tool && frame.name.is_none() && frame.call_id.is_none()
}

/// Counts the tools named by the replies at the start of some frames.
fn named_replies(frames: &[FrameBuf]) -> BTreeMap<String, usize> {
    let mut named = BTreeMap::new();
    let replies = frames.iter();
    for frame in replies.take_while(|frame| frame.role == FrameRole::Tool) {
        if let (Some(name), None) = (&frame.name, &frame.call_id) {
            *named.entry(tool(name).to_owned()).or_default() += 1;
        }
    }
    named
}

/// The calls without a reply.
#[derive(Default)]
struct Waiting {
    /// Tools and ids since the last user message, in the order of the calls.
    all: Vec<(String, String)>,
    of_tool: BTreeMap<String, VecDeque<String>>,
    answered: BTreeSet<String>,
    /// Calls for replies without a tool, until the next other message.
    free: Option<VecDeque<String>>,
}

impl Waiting {
    fn add(&mut self, tool: &str, id: &str) {
        self.all.push((tool.to_owned(), id.to_owned()));
        let calls = self.of_tool.entry(tool.to_owned()).or_default();
        calls.push_back(id.to_owned());
    }

    /// Takes the first call of a tool.
    fn take_of(&mut self, tool: &str) -> Option<String> {
        let calls = self.of_tool.get_mut(tool)?;
        while let Some(id) = calls.pop_front() {
            if self.answered.insert(id.clone()) {
                return Some(id);
            }
        }
        None
    }

    /// Finds the calls that are left for replies without a tool, beside these named ones.
    fn set_free(&mut self, named: &BTreeMap<String, usize>) {
        let answered = &self.answered;
        self.all.retain(|(_, id)| !answered.contains(id));
        let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
        let free = self.all.iter().filter(|(tool, _)| {
            let kept = kept.entry(tool).or_default();
            *kept += 1;
            *kept > named.get(tool).copied().unwrap_or_default()
        });
        self.free = Some(free.map(|(_, id)| id.clone()).collect());
    }

    /// Takes the first call that is left for a reply without a tool.
    fn take_free(&mut self) -> Option<String> {
        let free = self.free.as_mut()?;
        while let Some(id) = free.pop_front() {
            if self.answered.insert(id.clone()) {
                return Some(id);
            }
        }
        None
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
