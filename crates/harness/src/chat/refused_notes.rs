//! Notes that the store refused, of turns that this process left.
//!
//! The next attempt of such a turn in this process makes them before it runs anything. So a response
//! of the model that was received is not requested again, and the result of a call is not lost, while
//! the store refuses changes. They end with the process.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The limit of turns; the oldest one beyond it is removed.
const MAX_TURNS: usize = 256;
/// The limit of the text of all notes, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The notes of a turn that the store refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RefusedTurn {
    invocation_id: String,
    /// The messages in order, each as a note.
    pub(super) notes: Vec<Value>,
    /// The number of messages that the journal contained before them.
    pub(super) noted: usize,
    bytes: usize,
}

/// The turns that this process left, with their refused notes.
#[derive(Debug, Default)]
pub(super) struct RefusedNotes {
    turns: Mutex<VecDeque<RefusedTurn>>,
}

impl RefusedNotes {
    /// Keeps a message of a turn whose journal contains `noted` messages.
    pub(super) fn keep(&self, invocation_id: &str, noted: usize, note: &Value) {
        let bytes = note.to_string().len();
        if bytes > MAX_BYTES {
            return;
        }
        self.change(invocation_id, |turn| {
            // Messages before a later one that was stored are not in order any more.
            if turn.noted != noted {
                turn.notes.clear();
                turn.bytes = 0;
            }
            turn.noted = noted;
            turn.notes.push(note.clone());
            turn.bytes += bytes;
        });
    }

    /// Keeps that the note about leaving a turn was refused.
    pub(super) fn leave(&self, invocation_id: &str) {
        self.change(invocation_id, |_| {});
    }

    /// Returns what is kept of a turn.
    pub(super) fn of_turn(&self, invocation_id: &str) -> Option<RefusedTurn> {
        let turns = self.lock();
        let mut turns = turns.iter();
        turns
            .find(|turn| turn.invocation_id == invocation_id)
            .cloned()
    }

    /// Removes a turn.
    pub(super) fn remove(&self, invocation_id: &str) {
        let mut turns = self.lock();
        turns.retain(|turn| turn.invocation_id != invocation_id);
    }

    fn change(&self, invocation_id: &str, change: impl FnOnce(&mut RefusedTurn)) {
        let mut turns = self.lock();
        let known = turns
            .iter()
            .position(|turn| turn.invocation_id == invocation_id);
        let known = known.and_then(|at| turns.remove(at));
        let mut turn = known.unwrap_or_else(|| RefusedTurn {
            invocation_id: invocation_id.to_owned(),
            ..RefusedTurn::default()
        });
        change(&mut turn);
        turns.push_back(turn);
        let mut bytes: usize = turns.iter().map(|turn| turn.bytes).sum();
        while turns.len() > MAX_TURNS || bytes > MAX_BYTES {
            bytes -= turns.pop_front().map_or(0, |oldest| oldest.bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RefusedTurn>> {
        // The data is whole after each change.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_turns_are_removed_beyond_the_limits() {
        let refused = RefusedNotes::default();
        for turn in 0..=MAX_TURNS {
            refused.leave(&turn.to_string());
        }
        assert_eq!(refused.lock().len(), MAX_TURNS);
        assert_eq!(refused.of_turn("0"), None);
        let long = json!("x".repeat(MAX_BYTES / 2));
        for turn in ["a", "b", "c"] {
            refused.keep(turn, 0, &long);
        }
        assert_eq!(refused.lock().len(), 1);
        assert_eq!(refused.of_turn("c").map(|turn| turn.notes.len()), Some(1));
    }

    #[test]
    fn a_message_that_was_stored_ends_the_earlier_ones() {
        let refused = RefusedNotes::default();
        refused.keep("turn", 1, &json!("first"));
        refused.keep("turn", 1, &json!("second"));
        assert_eq!(
            refused.of_turn("turn").map(|turn| turn.notes.len()),
            Some(2)
        );
        refused.keep("turn", 2, &json!("third"));
        let notes = refused.of_turn("turn").map(|turn| turn.notes);
        assert_eq!(notes, Some(vec![json!("third")]));
        refused.remove("turn");
        assert_eq!(refused.of_turn("turn"), None);
    }
}
