//! Buffers with a size limit.

/// Collects bytes up to a limit and counts the remaining ones.
#[derive(Debug)]
pub(crate) struct BoundedBuffer {
    limit: usize,
    kept: Vec<u8>,
    dropped: u64,
}

impl BoundedBuffer {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = self.limit - self.kept.len().min(self.limit);
        let (kept, dropped) = bytes.split_at(bytes.len().min(room));
        self.kept.extend_from_slice(kept);
        self.dropped = self.dropped.saturating_add(dropped.len() as u64);
    }

    /// Returns the number of bytes dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of bytes kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Lowers the limit and drops the bytes above it.
    pub(crate) fn shorten(&mut self, limit: usize) {
        let gone = self.kept.len().saturating_sub(limit);
        self.kept.truncate(limit);
        self.dropped = self.dropped.saturating_add(gone as u64);
        self.limit = self.limit.min(limit);
    }

    /// Decodes the bytes and appends a note for each change.
    ///
    /// Notes report bytes that are not UTF-8 (`U+FFFD`), NUL characters (`U+2400`) and dropped
    /// bytes. A character or a word divided by the limit is dropped.
    pub(crate) fn into_text(mut self) -> String {
        if self.dropped > 0
            && let Err(error) = std::str::from_utf8(&self.kept)
            && error.error_len().is_none()
        {
            self.kept.truncate(error.valid_up_to());
        }
        // A part of a secret would not be found by a pattern for all of it.
        if self.dropped > 0 {
            let whole = logue_source::whole_words(&self.kept);
            self.dropped += (self.kept.len() - whole) as u64;
            self.limit = whole;
            self.kept.truncate(whole);
        }
        let invalid: usize = self
            .kept
            .utf8_chunks()
            .map(|chunk| chunk.invalid().len())
            .sum();
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        let nuls = text.matches('\0').count();
        if nuls > 0 {
            text = text.replace('\0', "\u{2400}");
        }
        let mut note = |line: String| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&line);
        };
        if invalid > 0 {
            note(format!(
                "[{invalid} bytes are not UTF-8 and are shown as \u{FFFD}]"
            ));
        }
        if nuls > 0 {
            note(format!("[{nuls} NUL bytes are shown as \u{2400}]"));
        }
        if self.dropped > 0 {
            note(format!(
                "[output cut at {} bytes; {} more bytes were dropped]",
                self.limit, self.dropped
            ));
        }
        text
    }
}
