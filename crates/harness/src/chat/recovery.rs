//! Recovery of turns that did not end: the owner died, or a request ended them.
//!
//! The journal of a turn holds messages that happened in it, each noted before anything that
//! depends on it. So everything in the journal may have had effects, and nothing outside it had any
//! that was reported. A tool call without a result has an unknown outcome; it gets a result that
//! says so, and is never run again.

use logue_message::{ChatMessage, repair_history};
use serde_json::{Value, json};

const CONTINUES: &str = "continues";

/// A note that the turn continues with calls already in the history.
///
/// A node makes it before it runs the calls. Without it, a crash would hide that they were begun.
pub fn continues(calls: &ChatMessage) -> Value {
    json!({ CONTINUES: calls.to_json() })
}

/// The message that a note of [`continues`] holds, if it is one.
pub fn continued(note: &Value) -> Option<ChatMessage> {
    ChatMessage::from_json(note.get(CONTINUES)?).ok()
}

/// The messages that an unfinished turn adds to the history.
///
/// These are the message that began it, the messages in its journal, and a result for each call
/// that has none, including the calls with which it continued. Notes that do not contain a message
/// are skipped.
pub(super) fn completed_messages(first: Option<&Value>, notes: &[Value]) -> Vec<Value> {
    let read = |note: &Value| continued(note).or_else(|| ChatMessage::from_json(note).ok());
    let noted: Vec<ChatMessage> = notes.iter().filter_map(read).collect();
    let (noted, _) = repair_history(noted);
    // The continued calls are history already, and only their results are new.
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

/// Returns whether the turn can start anew because nothing of it has happened.
pub(super) fn is_untouched(notes: &[Value]) -> bool {
    notes.is_empty()
}
