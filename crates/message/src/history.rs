//! A history that every provider accepts.
//!
//! Providers refuse a request in which a tool call has no result directly behind it, or a result
//! has no call. Transcripts get into that state: a crash between a call and its result, a hand
//! edit, results written in the order in which they came. [`repair_history`] gives the request
//! form of such a transcript and says what it changed, and never touches the transcript.

use std::collections::BTreeMap;

use crate::{ChatMessage, Role};

/// What the history needed to be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryRepair {
    /// A call had no result: one was made that says that the outcome is unknown.
    Cancelled {
        /// The call.
        call_id: String,
        /// Its tool.
        name: String,
    },
    /// A result had no call before it, and was left out.
    Orphan {
        /// The call that it names.
        call_id: String,
    },
}

/// The text of the synthetic result of a call whose outcome is unknown (`E-TOOL-CANCELLED`,
/// OpenChatML 2.2 §14).
pub(crate) const CANCELLED: &str = "E-TOOL-CANCELLED: the run was interrupted before this call's \
     result was recorded. Its outcome is unknown: it may have run or not.";

/// Puts each tool result directly behind the message that calls it, in call order, gives a
/// synthetic `E-TOOL-CANCELLED` result to a call without one, and leaves out results without a
/// call. Linear in the number of messages.
pub fn repair_history(messages: Vec<ChatMessage>) -> (Vec<ChatMessage>, Vec<HistoryRepair>) {
    // Ids may repeat across turns, so results are claimed by the nearest earlier call: each id
    // holds a queue of the results that come before the next call with the same id.
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    let mut results: BTreeMap<usize, BTreeMap<String, ChatMessage>> = BTreeMap::new();
    let mut repairs = Vec::new();
    let mut kept: Vec<(usize, ChatMessage)> = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        if message.role == Role::Tool {
            let id = message.tool_call_id.clone().unwrap_or_default();
            match open.remove(&id) {
                Some(caller) => {
                    results.entry(caller).or_default().insert(id, message);
                }
                None => repairs.push(HistoryRepair::Orphan { call_id: id }),
            }
            continue;
        }
        for call in &message.tool_calls {
            open.insert(call.id.clone(), index);
        }
        kept.push((index, message));
    }
    let mut history = Vec::with_capacity(kept.len());
    for (index, message) in kept {
        let mut answers = results.remove(&index).unwrap_or_default();
        let calls = message.tool_calls.clone();
        history.push(message);
        for call in calls {
            let answer = answers.remove(&call.id).unwrap_or_else(|| {
                repairs.push(HistoryRepair::Cancelled {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                });
                ChatMessage::tool(call.id.clone(), CANCELLED).with_name(call.name.clone())
            });
            history.push(answer);
        }
    }
    (history, repairs)
}
