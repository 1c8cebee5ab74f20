//! Harmony and [`Transcript`](crate::Transcript), both ways.
//!
//! Harmony has no ids of calls, no intents and no document header; a transcript has no channel that
//! unknown. Content that one side cannot hold is reported as a [`Loss`]. No mapping shows what
//! was hidden, raises an authority, or creates a call.

mod assign;
mod reading;
mod writing;

use crate::loss::{Loss, LossKind, LossTarget};

/// Losses so far.
#[derive(Default)]
struct Losses(Vec<Loss>);

impl Losses {
    fn frame(&mut self, index: usize, kind: LossKind, text: impl Into<String>) {
        self.note(LossTarget::Frame(index), kind, text);
    }

    fn message(&mut self, index: usize, kind: LossKind, text: impl Into<String>) {
        self.note(LossTarget::Message(index), kind, text);
    }

    fn note(&mut self, target: LossTarget, kind: LossKind, message: impl Into<String>) {
        self.0.push(Loss::new(target, kind, message));
    }
}
