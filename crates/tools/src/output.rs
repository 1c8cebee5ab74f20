//! Output that is cut at a limit and says so.

/// Collects bytes up to a limit and counts the rest.
#[derive(Debug)]
pub(crate) struct Capped {
    limit: usize,
    kept: Vec<u8>,
    dropped: u64,
}

impl Capped {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = self.limit - self.kept.len().min(self.limit);
        let take = bytes.len().min(room);
        self.kept.extend_from_slice(&bytes[..take]);
        self.dropped = self.dropped.saturating_add((bytes.len() - take) as u64);
    }

    /// The text, with replacement characters for what is not UTF-8 and a last line that says how
    /// much is missing. A character that the limit cuts in two is left out.
    pub(crate) fn into_text(mut self) -> String {
        if self.dropped > 0
            && let Err(error) = std::str::from_utf8(&self.kept)
            && error.error_len().is_none()
        {
            self.kept.truncate(error.valid_up_to());
        }
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.dropped > 0 {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!(
                "[output cut at {} bytes; {} more bytes were dropped]",
                self.limit, self.dropped
            ));
        }
        text
    }
}
