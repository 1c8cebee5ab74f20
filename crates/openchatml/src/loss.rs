//! Losses of mappings and conversions.

/// The item that a [`Loss`] refers to, by its index in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossTarget {
    /// The transcript as a whole, or its header.
    Transcript,
    /// A frame.
    Frame(usize),
    /// A message.
    Message(usize),
}

/// A loss of a mapping or a conversion, or an interpretation that it required.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The item that it refers to.
    pub target: LossTarget,
    /// Its description. Contains nothing of the text.
    pub message: String,
}

impl Loss {
    /// Creates a loss of `target`; the message contains nothing of the text.
    pub fn new(target: LossTarget, message: impl Into<String>) -> Self {
        Self {
            target,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.target {
            LossTarget::Transcript => write!(f, "transcript: {}", self.message),
            LossTarget::Frame(index) => write!(f, "frame {}: {}", index + 1, self.message),
            LossTarget::Message(index) => write!(f, "message {}: {}", index + 1, self.message),
        }
    }
}
