//! What becomes of a turn that did not reach its end: its owner died, or it was asked to end.
//!
//! The journal of a turn holds messages that happened in it, each noted before anything that depends
//! on it. So what is in the journal may have had effects, and what is not had none that anybody was
//! told of. A tool call without a result is one whose outcome nobody knows; it gets a result that
//! says so, and is never run again.

use logue_message::{ChatMessage, repair_history};
use serde_json::{Value, json};

const CONTINUES: &str = "continues";

/// A note that the turn goes on with calls that are in the history already, for a node to make before
/// it runs them: without it nobody could know, after a crash, that they were begun.
pub fn continues(calls: &ChatMessage) -> Value {
    json!({ CONTINUES: calls.to_json() })
}

/// The message that a note of [`continues`] holds, if it is one.
pub fn continued(note: &Value) -> Option<ChatMessage> {
    ChatMessage::from_json(note.get(CONTINUES)?).ok()
}

/// The messages that a broken turn adds to the history: the one that began it, what its journal
/// holds, and a result for each call that has none, also for those that it went on with. A note that
/// is no message is passed over.
pub(super) fn completed_messages(first: Option<&Value>, notes: &[Value]) -> Vec<Value> {
    let read = |note: &Value| continued(note).or_else(|| ChatMessage::from_json(note).ok());
    let noted: Vec<ChatMessage> = notes.iter().filter_map(read).collect();
    let (noted, _) = repair_history(noted);
    // What the turn went on with is history already, and only its results are new.
    let known = notes.first().and_then(continued).is_some();
    let first = first.cloned().into_iter();
    first
        .chain(
            noted
                .iter()
                .skip(usize::from(known))
                .map(ChatMessage::to_json),
        )
        .collect()
}

/// Whether the turn can begin again as if it had never begun: nothing of it has happened.
pub(super) fn is_untouched(notes: &[Value]) -> bool {
    notes.is_empty()
}
