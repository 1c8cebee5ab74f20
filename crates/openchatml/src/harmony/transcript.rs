//! Harmony and [`Transcript`](crate::Transcript), both ways.
//!
//! Harmony has no ids of calls, no intents and no document header; a transcript has no channel that
//! unknown. Content that one side cannot hold is reported as a [`Loss`]. No mapping shows what
//! was hidden, raises an authority, or creates a call.

mod assign;
mod reading;
mod writing;

use crate::loss::{Loss, LossTarget};

/// Losses so far.
#[derive(Default)]
struct Losses(Vec<Loss>);

impl Losses {
    fn frame(&mut self, index: usize, text: impl Into<String>) {
        self.note(LossTarget::Frame(index), text);
    }

    fn message(&mut self, index: usize, text: impl Into<String>) {
        self.note(LossTarget::Message(index), text);
    }

    fn note(&mut self, target: LossTarget, message: impl Into<String>) {
        let message = message.into();
        self.0.push(Loss { target, message });
    }
}
