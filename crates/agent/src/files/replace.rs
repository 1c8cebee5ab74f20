//! Replaces the content of a transcript.

use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::transcript::file::TranscriptFile;
use crate::transcript::item::TranscriptError;

/// The maximum number of copies beside one transcript.
const COPIES: usize = 1000;

impl TranscriptFile {
    /// Replaces the content as a whole and durably.
    ///
    /// Mode, owner and lock stay.
    ///
    /// # Errors
    /// Returns an error, without a change, if the content is too large, the file was changed or
    /// removed since it was read, or the operating system reports an error.
    pub fn replace(&mut self, content: &[u8]) -> Result<(), TranscriptError> {
        self.check_size(content.len())?;
        let placed = self.put(content);
        let placed = placed.and_then(|placed| {
            let changed = || io::Error::other("another program changed it in the meantime");
            placed.then_some(()).ok_or_else(changed)
        });
        placed.map_err(|error| self.failed("written", error))?;
        self.set_content(content);
        Ok(())
    }

    /// Copies the content to a file beside the transcript and returns its path.
    ///
    /// The name is `NAME.orig`, or `NAME.orig.2` and so on if that exists. The copy is readable by
    /// its owner only.
    ///
    /// # Errors
    /// Returns an error if no copy can be created.
    pub fn keep_copy(&self) -> Result<PathBuf, TranscriptError> {
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 1..=COPIES {
            let mut name = self.path().file_name().unwrap_or_default().to_owned();
            name.push(".orig");
            if number > 1 {
                name.push(format!(".{number}"));
            }
            match self.folder().create_file(&name, true) {
                Ok(mut file) => {
                    file.write_all(self.content())
                        .and_then(|()| file.sync_all())
                        .and_then(|()| self.folder().sync())
                        .map_err(|error| self.failed("copied", error))?;
                    return Ok(self.path().with_file_name(name));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(self.failed("copied", error)),
            }
        }
        Err(self.failed("copied", taken))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> TranscriptError {
        TranscriptError::Io {
            path: self.path().display().to_string(),
            action,
            error,
        }
    }
}
