//! UTF-8 that arrives in pieces.

/// At most three bytes of a character whose rest is still to come.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pending: [u8; 4],
    length: usize,
}

/// Decoded text, or an invalid sequence.
pub(crate) enum Piece<'p> {
    /// Text, never empty.
    Text(&'p str),
    /// Invalid bytes: one U+FFFD. Contains the number of bytes.
    Bad(usize),
}

impl Piece<'_> {
    /// Returns the text, or U+FFFD for invalid bytes.
    pub(crate) const fn lossy(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Bad(_) => "\u{FFFD}",
        }
    }
}

impl Decoder {
    /// Gives `bytes` as text, with exactly the replacements that decoding everything at once gives.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut dyn FnMut(Piece<'_>)) {
        while self.length > 0 {
            let Some((first, rest)) = bytes.split_first() else {
                return;
            };
            let mut longer = self.pending;
            if let Some(free) = longer.get_mut(self.length) {
                *free = *first;
            }
            let candidate = longer.get(..=self.length).unwrap_or(&longer);
            match std::str::from_utf8(candidate) {
                Ok(text) => {
                    self.length = 0;
                    bytes = rest;
                    out(Piece::Text(text));
                }
                Err(error) if error.error_len().is_none() => {
                    self.pending = longer;
                    self.length += 1;
                    bytes = rest;
                }
                Err(_) => self.flush(out),
            }
        }
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok("") => return,
                Ok(text) => return out(Piece::Text(text)),
                Err(error) => error,
            };
            let (good, rest) = bytes.split_at(error.valid_up_to());
            if let Ok(text) = std::str::from_utf8(good)
                && !text.is_empty()
            {
                out(Piece::Text(text));
            }
            let Some(bad) = error.error_len() else {
                self.length = rest.len();
                for (free, byte) in self.pending.iter_mut().zip(rest) {
                    *free = *byte;
                }
                return;
            };
            out(Piece::Bad(bad));
            bytes = rest.get(bad..).unwrap_or_default();
        }
    }

    /// Decodes `bytes` and passes each invalid sequence on as U+FFFD.
    pub(crate) fn push_lossy(&mut self, bytes: &[u8], out: &mut impl FnMut(&str)) {
        // Nearly all chunks are whole characters and need no decoder.
        if self.length == 0
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            if !text.is_empty() {
                out(text);
            }
            return;
        }
        self.push(bytes, &mut |piece| out(piece.lossy()));
    }

    /// The number of held bytes of a character.
    pub(crate) const fn held(&self) -> usize {
        self.length
    }

    /// Gives up on the character that has begun.
    pub(crate) fn flush(&mut self, out: &mut dyn FnMut(Piece<'_>)) {
        if self.length > 0 {
            out(Piece::Bad(std::mem::take(&mut self.length)));
        }
    }
}
