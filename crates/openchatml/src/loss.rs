//! What a mapping or a conversion could not keep.

/// What a [`Loss`] is about, by its index in the input.
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

/// Something that a mapping or a conversion could not keep, or had to read in a certain way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What it is about.
    pub target: LossTarget,
    /// What happened to it. Holds nothing of what was said.
    pub message: String,
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
