//! What a writer has so far.

use crate::loss::{Loss, Subject};

/// A text that is being written, and what it could not hold.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    pub(crate) text: String,
    pub(crate) losses: Vec<Loss>,
    /// The frame that is being written.
    pub(crate) index: usize,
}

impl Writing {
    /// Notes a loss of the frame that is being written.
    pub(crate) fn note(&mut self, text: &str) {
        self.losses.push(Loss {
            subject: Subject::Frame(self.index),
            text: text.to_owned(),
        });
    }

    /// Notes a loss of the transcript as a whole.
    pub(crate) fn note_whole(&mut self, text: &str) {
        self.losses.push(Loss {
            subject: Subject::Transcript,
            text: text.to_owned(),
        });
    }
}
