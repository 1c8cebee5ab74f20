//! The progress of a run in a file, from which a later run continues.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::partial::{is_stream, with_suffix};
use crate::batch::Position;
use crate::columns::Columns;
use crate::error::DataError;
use crate::tally::Tally;

/// The format of the file.
const VERSION: u32 = 3;

/// The state of a run after a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    version: u32,
    /// The hash of the command, its options and its inputs.
    run: String,
    /// The position after the last batch.
    pub(crate) next: Position,
    /// The length of the output.
    pub(crate) output: u64,
    /// The length of the quarantine.
    pub(crate) quarantine: u64,
    /// The counts up to the position.
    pub(crate) tally: Tally,
    /// The columns up to the position, if the output has columns.
    pub(crate) columns: Columns,
}

/// The file with the progress of a run.
pub(crate) struct ProgressFile {
    path: PathBuf,
    run: String,
}

impl ProgressFile {
    /// Names the progress of a run that writes `target`.
    ///
    /// `command` contains everything that determines the output, except the inputs.
    pub(crate) fn new(target: &Path, command: &str, inputs: &[PathBuf]) -> Option<Self> {
        if is_stream(target) || inputs.iter().any(|path| is_stream(path)) {
            return None;
        }
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(env!("CARGO_PKG_VERSION").as_bytes());
        add(command.as_bytes());
        for input in inputs {
            let path = std::fs::canonicalize(input).ok()?;
            let metadata = std::fs::metadata(&path).ok()?;
            let changed = metadata.modified().ok()?;
            let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            add(path.as_os_str().as_encoded_bytes());
            add(&metadata.len().to_le_bytes());
            add(&since.as_nanos().to_le_bytes());
        }
        Some(Self {
            path: with_suffix(&target, ".progress"),
            run: format!("{:x}", hash.finalize()),
        })
    }

    /// Reads the progress of an earlier run of the same command over the same inputs.
    pub(crate) fn read(&self) -> Option<Saved> {
        let text = std::fs::read(&self.path).ok()?;
        let saved: Saved = serde_json::from_slice(&text).ok()?;
        (saved.version == VERSION && saved.run == self.run).then_some(saved)
    }

    /// Replaces the progress durably. What it refers to must be on disk before.
    pub(crate) fn save(
        &self,
        next: Position,
        (output, quarantine): (u64, u64),
        tally: &Tally,
        columns: &Columns,
    ) -> Result<(), DataError> {
        let saved = Saved {
            version: VERSION,
            run: self.run.clone(),
            next,
            output,
            quarantine,
            tally: tally.clone(),
            columns: columns.clone(),
        };
        let replaced = || -> io::Result<()> {
            let new = with_suffix(&self.path, ".new");
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(&saved)?)?;
            file.sync_data()?;
            std::fs::rename(&new, &self.path)
        };
        replaced().map_err(DataError::write(&self.path))
    }

    pub(crate) fn remove(&self) {
        // It is removed again by the next run.
        drop(std::fs::remove_file(&self.path));
    }
}
