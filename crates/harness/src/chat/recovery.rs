//! What becomes of a turn that did not reach its end: its owner died, or it was asked to end.
//!
//! The journal of a turn holds messages that happened in it, each noted before anything that depends
//! on it. So what is in the journal may have had effects, and what is not had none that anybody was
//! told of. A tool call without a result is one whose outcome nobody knows; it gets a result that
//! says so, and is never run again.

use logue_message::{ChatMessage, repair_history};
use serde_json::Value;

/// The messages that a broken turn adds to the history: the one that began it, what its journal
/// holds, and a result for each call that has none. A note that is no message is passed over.
pub(super) fn completed_messages(first: Option<&Value>, notes: &[Value]) -> Vec<Value> {
    let read = |note: &Value| ChatMessage::from_json(note).ok();
    let noted: Vec<ChatMessage> = notes.iter().filter_map(read).collect();
    let (noted, _) = repair_history(noted);
    let first = first.cloned().into_iter();
    first
        .chain(noted.iter().map(ChatMessage::to_json))
        .collect()
}

/// Whether the turn can begin again as if it had never begun: nothing of it has happened.
pub(super) fn is_untouched(notes: &[Value]) -> bool {
    notes.is_empty()
}
