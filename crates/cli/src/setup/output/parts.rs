//! The parts of the model's text: each text before a tool call, and the answer.

/// The state of the part that is printed.
#[derive(Debug, Default)]
pub(super) struct TextParts {
    /// The white space with which the part begins; it is printed before visible text only.
    leading: String,
    /// Whether visible text of the part was printed.
    is_open: bool,
    /// The number of parts that were printed before.
    ended: usize,
}

/// A piece to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextPiece {
    /// The first visible piece of a part, with the white space before it.
    First {
        /// The text.
        text: String,
        /// Whether another part was printed before.
        follows_part: bool,
    },
    /// A later piece, which is printed as it was received.
    Next,
}

impl TextParts {
    /// Adds a received piece; returns what is printed now, if anything.
    pub(super) fn piece(&mut self, text: &str) -> Option<TextPiece> {
        if self.is_open {
            return Some(TextPiece::Next);
        }
        self.leading.push_str(text);
        if self.leading.trim().is_empty() {
            return None;
        }
        self.is_open = true;
        Some(TextPiece::First {
            text: std::mem::take(&mut self.leading),
            follows_part: self.ended > 0,
        })
    }

    /// Ends the part.
    pub(super) fn end(&mut self) {
        self.ended += usize::from(std::mem::take(&mut self.is_open));
        self.leading.clear();
    }
}
