//! Repair of histories that providers reject.
//!
//! Providers reject a request in which a tool call lacks a result immediately after it, or a result
//! lacks a call. A crash between call and result, an edit by hand, or results in order of arrival
//! bring a transcript into that state. [`repair_history`] returns the request form of such a
//! transcript with a list of changes. The transcript itself stays unchanged.

use std::collections::BTreeMap;

use crate::{ChatMessage, Role, ToolCall};

/// A change that makes a history valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryRepair {
    /// A call had no result; a synthetic result reports an unknown outcome.
    Cancelled {
        /// The id of the call.
        call_id: String,
        /// The name of its tool.
        name: String,
    },
    /// A result had no earlier call and was removed.
    Orphan {
        /// The id of the missing call.
        call_id: String,
    },
}

/// The result text of a call with unknown outcome (`E-TOOL-CANCELLED`, OpenChatML 2.2 §14).
pub(crate) const CANCELLED: &str = "E-TOOL-CANCELLED: the run was interrupted before this call's \
     result was recorded. Its outcome is unknown: it may have run or not.";

/// The result text of a call that was not started.
const UNSTARTED: &str = "E-TOOL-CANCELLED: the run was interrupted before this call was started. It \
     did not run.";

/// The result of a call with an unknown outcome.
pub fn cancelled_result(call: &ToolCall) -> ChatMessage {
    ChatMessage::tool(call.id.clone(), CANCELLED).with_name(call.name.clone())
}

/// The result of a call that was not started before its run ended.
pub fn unstarted_result(call: &ToolCall) -> ChatMessage {
    ChatMessage::tool(call.id.clone(), UNSTARTED).with_name(call.name.clone())
}

/// Returns a history in which every call is followed by its result.
///
/// Moves each tool result to the position after its call, in call order. Adds a synthetic
/// `E-TOOL-CANCELLED` result to a call without one, and removes results without a call. Linear in
/// the number of messages, except for a logarithmic factor.
pub fn repair_history(messages: Vec<ChatMessage>) -> (Vec<ChatMessage>, Vec<HistoryRepair>) {
    // Ids may repeat across turns, so a result belongs to the nearest earlier call with its id.
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
                cancelled_result(&call)
            });
            history.push(answer);
        }
    }
    (history, repairs)
}
