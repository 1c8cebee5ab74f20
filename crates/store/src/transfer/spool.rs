//! A record between two stores: in memory while it is small, and else in a file without a name.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};

use logue_harness::store::{
    RecordDigest, RecordHash, RecordHead, RecordPart, RecordSink, RecordSource, StoreError,
};
use serde::Deserialize as _;

/// The length of a record from which it is in a file.
const IN_MEMORY: usize = 8 << 20;

/// A record that is written once and read any number of times.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    medium: Medium,
    digest: RecordDigest,
    head: Option<RecordHead>,
}

/// The lines of a record, each the JSON of a part.
#[derive(Debug)]
enum Medium {
    Memory(Vec<u8>),
    File(BufWriter<File>),
}

impl Spool {
    /// Creates an empty spool, with its file in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            medium: Medium::Memory(Vec::new()),
            digest: RecordDigest::default(),
            head: None,
        }
    }

    /// Takes the record, and leaves an empty one.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(&self.folder);
        std::mem::replace(self, empty)
    }

    pub(super) const fn head(&self) -> Option<&RecordHead> {
        self.head.as_ref()
    }

    pub(super) fn hash(&self) -> Option<RecordHash> {
        self.digest.hash()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.digest.bytes()
    }

    /// Returns a source of the record.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or read.
    pub(super) fn source(self) -> Result<SpoolSource, StoreError> {
        let lines = match self.medium {
            Medium::Memory(bytes) => Lines::Memory(std::io::Cursor::new(bytes)),
            Medium::File(file) => {
                let file = file.into_inner().map_err(|error| failure(error.error()))?;
                Lines::File(BufReader::new(file))
            }
        };
        Ok(SpoolSource {
            lines,
            line: Vec::new(),
        })
    }

    fn write(&mut self, line: &[u8]) -> Result<(), StoreError> {
        if let Medium::Memory(bytes) = &mut self.medium {
            if bytes.len() + line.len() <= IN_MEMORY {
                bytes.extend_from_slice(line);
                return Ok(());
            }
            let file = tempfile::tempfile_in(&self.folder).map_err(|error| failure(&error))?;
            let mut file = BufWriter::new(file);
            file.write_all(bytes).map_err(|error| failure(&error))?;
            self.medium = Medium::File(file);
        }
        if let Medium::File(file) = &mut self.medium {
            file.write_all(line).map_err(|error| failure(&error))?;
        }
        Ok(())
    }
}

impl RecordSink for Spool {
    fn put(&mut self, part: RecordPart) -> Result<(), StoreError> {
        if let RecordPart::Head(head) = &part {
            let head = head.clone();
            *self = Self::new(&self.folder);
            self.head = Some(head);
        }
        self.digest.add(&part)?;
        let mut line = serde_json::to_vec(&part).map_err(StoreError::unavailable)?;
        line.push(b'\n');
        self.write(&line)
    }
}

/// Reads a record from its spool.
#[derive(Debug)]
pub(super) struct SpoolSource {
    lines: Lines,
    line: Vec<u8>,
}

#[derive(Debug)]
enum Lines {
    Memory(std::io::Cursor<Vec<u8>>),
    File(BufReader<File>),
}

impl RecordSource for SpoolSource {
    fn rewind(&mut self) -> Result<(), StoreError> {
        match &mut self.lines {
            Lines::Memory(bytes) => bytes.rewind(),
            Lines::File(file) => file.rewind(),
        }
        .map_err(|error| failure(&error))
    }

    fn next_part(&mut self) -> Result<Option<RecordPart>, StoreError> {
        self.line.clear();
        let read = match &mut self.lines {
            Lines::Memory(bytes) => bytes.read_until(b'\n', &mut self.line),
            Lines::File(file) => file.read_until(b'\n', &mut self.line),
        };
        if read.map_err(|error| failure(&error))? == 0 {
            return Ok(None);
        }
        let mut deserializer = serde_json::Deserializer::from_slice(&self.line);
        // Stores limit the depth of what they write.
        deserializer.disable_recursion_limit();
        let part = RecordPart::deserialize(&mut deserializer);
        Ok(Some(part.map_err(StoreError::unavailable)?))
    }
}

fn failure(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("the temporary file of a session: {error}"),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use logue_harness::Timestamp;
    use logue_harness::store::{
        RecordDigest, RecordHead, RecordPart, RecordSink as _, RecordSource as _,
    };
    use serde_json::json;

    use super::{IN_MEMORY, Lines, Spool};

    fn head(messages: u64) -> RecordPart {
        RecordPart::Head(RecordHead {
            session: "s\n".to_owned(),
            epoch: 3,
            has_state: true,
            schema_version: None,
            messages,
            entries: 0,
            settled: 0,
            created_at: Timestamp(1),
            updated_at: Timestamp(2),
        })
    }

    /// A large record is in a file, and reads back unchanged.
    #[test]
    fn parts_are_read_back_from_memory_and_file() {
        let folder = tempfile::tempdir().unwrap();
        for (count, is_file) in [(3, false), (3_000, true)] {
            let parts: Vec<RecordPart> = std::iter::once(head(count))
                .chain((0..count).map(|seq| RecordPart::Message {
                    seq,
                    message: json!({ "b": 0.1, "a": "é\n\u{0}".repeat(1_200), "n": null }),
                }))
                .collect();
            let mut spool = Spool::new(folder.path());
            let mut digest = RecordDigest::default();
            // A record that is read a second time takes the place of the first.
            spool.put(head(9)).unwrap();
            for part in &parts {
                spool.put(part.clone()).unwrap();
                digest.add(part).unwrap();
            }
            assert_eq!(spool.hash(), digest.hash());
            assert_eq!(spool.bytes() > IN_MEMORY as u64, is_file);
            let mut source = spool.take().source().unwrap();
            assert_eq!(matches!(source.lines, Lines::File(_)), is_file);
            assert_eq!(spool.hash(), None);
            for _ in 0..2 {
                source.rewind().unwrap();
                for part in &parts {
                    assert_eq!(source.next_part().unwrap().as_ref(), Some(part));
                }
                assert_eq!(source.next_part().unwrap(), None);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
