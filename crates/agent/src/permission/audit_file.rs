//! The audit of a conversation in a file: an append-only log beside the conversation.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_harness::{BoxFuture, Clock};
use logue_tools::{FileOwners, private_folder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::sync_folder;
use crate::permission::audit::{AuditError, AuditLog, AuditRecord};
use crate::transcript::redaction::Redaction;

/// A log of decisions as JSON lines, each durable before its call runs.
///
/// The log is a file of its own in a directory of the user's, named by a hash of the conversation's
/// path. The operating system's lock is held while lines are added.
#[derive(Clone)]
pub struct AuditFile {
    path: PathBuf,
    owners: FileOwners,
    file: String,
    redaction: Redaction,
    clock: Arc<dyn Clock>,
}

impl AuditFile {
    /// Opens the log of the conversation in `file` below the directory `folder`.
    ///
    /// The directory is created with the first record.
    pub fn new(folder: &Path, file: &Path, redaction: Redaction, clock: Arc<dyn Clock>) -> Self {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let file = file.display().to_string();
        Self {
            path: folder.join(name_of(&file)),
            owners: FileOwners::default(),
            file,
            redaction,
            clock,
        }
    }

    /// Sets the users whose log is continued.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// Reads the log of a conversation, oldest record first.
    ///
    /// Returns no records if there is no log. A line that a crash cut off is left out.
    ///
    /// # Errors
    /// Returns an error if the log exists and cannot be read, or belongs to none of `owners`.
    pub fn read(folder: &Path, file: &Path, owners: FileOwners) -> io::Result<Vec<Value>> {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let path = folder.join(name_of(&file.display().to_string()));
        let mut text = Vec::new();
        let opened = owners.open(&path);
        match opened.and_then(|mut log| log.read_to_end(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    fn add(&self, records: &[AuditRecord]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for record in records {
            let mut line = record.to_json(&self.redaction);
            line["file"] = json!(self.file);
            line["at"] = json!(self.clock.now().0);
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
        if let Some(folder) = self.path.parent() {
            private_folder(folder)?;
        }
        let (mut log, is_new) = self.owners.open_to_append(&self.path)?;
        log.lock()?;
        if !ends_a_line(&mut log)? {
            lines.insert(0, '\n');
        }
        log.write_all(lines.as_bytes())?;
        log.sync_data()?;
        if is_new {
            sync_folder(&self.path)?;
        }
        Ok(())
    }
}

impl AuditLog for AuditFile {
    fn record(&self, records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        let kept = self.add(&records).map_err(|error| {
            let path = self.path.display();
            AuditError(format!("{path}: {error}"))
        });
        Box::pin(std::future::ready(kept))
    }
}

/// Returns whether the log ends at the start of a line.
fn ends_a_line(log: &mut File) -> io::Result<bool> {
    if log.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    log.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    log.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn name_of(file: &str) -> String {
    format!("{:x}.jsonl", Sha256::digest(file))
}
