//! Recovery of turns that did not end: the owner died, or a request ended them.
//!
//! The journal of a turn holds messages that happened in it, each noted before anything that
//! depends on it. So everything in the journal may have had effects, and nothing outside it had any
//! that was reported. A tool call without a result has an unknown outcome; it gets a result that
//! says so, and is never run again.

use logue_message::{ChatMessage, repair_history};
use serde_json::{Value, json};

use super::failure::Failure;
use super::open::message_from_json;

const CONTINUES: &str = "continues";

/// A note of a turn's journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnNote {
    /// A message that happened in the turn.
    Message(ChatMessage),
    /// The calls of the history with which the turn continues.
    ///
    /// A node notes them before it runs them. Without the note, a crash would hide that they were
    /// begun.
    Continuation(ChatMessage),
    /// A note of another kind, which recovery skips.
    Other,
}

impl TurnNote {
    /// Returns the JSON form of a continuation with `calls`.
    pub fn continuation(calls: &ChatMessage) -> Value {
        json!({ CONTINUES: calls.to_json() })
    }

    /// Reads a note: an object with `continues` or `role` holds a message.
    ///
    /// # Errors
    /// Returns the cause if the message is invalid.
    pub fn from_json(note: &Value) -> Result<Self, String> {
        if let Some(calls) = note.get(CONTINUES) {
            return message_from_json(calls).map(Self::Continuation);
        }
        if note.get("role").is_some() {
            return message_from_json(note).map(Self::Message);
        }
        Ok(Self::Other)
    }
}

/// The messages that an unfinished turn adds to the history.
///
/// These are the message that began it, the messages in its journal, and a result for each call
/// that has none, including the calls with which it continued.
pub(super) fn completed_messages(
    first: Option<&Value>,
    notes: &[Value],
) -> Result<Vec<Value>, Failure> {
    let invalid = |what: &str, cause| {
        Failure::new("session_load_failed", format!("{what} is invalid: {cause}"))
    };
    if let Some(first) = first {
        message_from_json(first).map_err(|cause| invalid("the stored entry's message", cause))?;
    }
    let mut noted = Vec::new();
    let mut is_continuation = false;
    for (at, note) in notes.iter().enumerate() {
        match TurnNote::from_json(note) {
            Ok(TurnNote::Message(message)) => noted.push(message),
            Ok(TurnNote::Continuation(calls)) => {
                is_continuation |= at == 0;
                noted.push(calls);
            }
            Ok(TurnNote::Other) => {}
            Err(cause) => {
                return Err(invalid(&format!("note {at} of the turn's journal"), cause));
            }
        }
    }
    let (noted, _) = repair_history(noted);
    // The continued calls are history already, and only their results are new.
    let noted = noted.iter().skip(usize::from(is_continuation));
    let first = first.cloned().into_iter();
    Ok(first.chain(noted.map(ChatMessage::to_json)).collect())
}

/// Returns whether the turn can start anew because nothing of it has happened.
pub(super) fn is_untouched(notes: &[Value]) -> bool {
    notes.is_empty()
}
