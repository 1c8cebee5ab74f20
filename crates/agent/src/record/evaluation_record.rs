//! The record of the things that the evaluation of a conversation obtained.
//!
//! Agents, pages and rewritten prompts can differ each time. A record keeps what the latest run sent,
//! so that the next run sends the same history. An entry is used only for an equal request. The
//! record is bound by a key of the user, so that a checkout cannot contain answers.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chatmd::DocumentText;
use logue_tools::FolderHandle;
use serde_json::Value;

use crate::files::atomic_file::{folder_of, temporary};
use crate::prepare::source::PromptLanguage;
use crate::prompt::file_loader::PAYLOAD_FOLDER;
use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::record::entry::{Entries, RecordEntry, RecordKind, RecordText, entry_key};
use crate::record::origin::{OriginRefusal, RecordedOrigin};
use crate::record::record_key::RecordKey;
use crate::transcript::redaction::Redaction;

/// The end of the name of a record beside a transcript.
const ENDING: &str = ".evaluated.json";

/// The things that the evaluation of one conversation obtained.
#[derive(Debug)]
pub struct EvaluationRecord {
    /// The entries of the latest run.
    stored: Entries,
    /// Whether they may be used.
    is_reused: bool,
    /// Whether an agent's only answer is used for any request to it.
    is_resumed: bool,
    /// The reason why the stored record is not used.
    unused: Option<String>,
    /// The entries that this run used or obtained.
    current: Mutex<Entries>,
    key: RecordKey,
    redaction: Redaction,
    /// The transcript; `None` for a record of a session.
    transcript: Option<PathBuf>,
    stored_origin: Option<RecordedOrigin>,
    origin: Option<RecordedOrigin>,
    refused_origin: Option<OriginRefusal>,
}

impl EvaluationRecord {
    /// Reads the record beside a transcript: `.chatmd/NAME.evaluated.json`.
    ///
    /// A record that cannot be used is as good as none; see [`unused`](Self::unused).
    pub fn beside(transcript: &Path, key: RecordKey) -> Self {
        let read = read_beside(transcript);
        let mut record = Self::read(read, key, &shown_name(transcript));
        record.transcript = Some(transcript.to_owned());
        record
    }

    /// Reads the record of a session from its stored value.
    pub fn stored(value: Option<&Value>, key: RecordKey) -> Self {
        let read = Ok(value.map(|value| value.to_string().into_bytes()));
        Self::read(read, key, "the record of the session")
    }

    fn read(read: io::Result<Option<Vec<u8>>>, key: RecordKey, name: &str) -> Self {
        let (stored, origin, unused) = match read.and_then(|bytes| verified(bytes, &key)) {
            Ok((stored, origin, true)) => (stored, origin, None),
            Ok((stored, _, false)) => {
                let reason = format!(
                    "{name} is not used: it was not written on this machine by you, or was changed"
                );
                (stored, None, Some(reason))
            }
            Err(error) => {
                let reason = format!("{name} is not used: {error}");
                (Entries::new(), None, Some(reason))
            }
        };
        Self {
            is_reused: unused.is_none(),
            is_resumed: false,
            stored,
            unused,
            current: Mutex::default(),
            key,
            redaction: Redaction::default(),
            transcript: None,
            stored_origin: origin,
            origin: None,
            refused_origin: None,
        }
    }

    /// Excludes texts that match a pattern.
    #[must_use]
    pub fn without(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Uses no stored entry: everything is obtained again.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.is_reused = false;
        self
    }

    /// Continues a turn: the only stored answer of an agent is used for any request to it.
    ///
    /// The conversation is that of the turn, while the model or its address may be another one.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        self.is_resumed = true;
        self
    }

    /// The reason why the stored record is not used, if there is one.
    pub fn unused(&self) -> Option<&str> {
        self.unused.as_deref()
    }

    /// The stored entries, also those of a record that is not used.
    pub fn entries(&self) -> Vec<RecordEntry> {
        RecordText::new(&self.stored, None).entries
    }

    /// Uses the recorded origin if it was recorded for this transcript.
    ///
    /// It is used for a transcript at the same place whose text continues that of the time when the
    /// origin was recorded. The added text must not name files or declare tools. The prompt
    /// must exist in the same directory.
    #[must_use]
    pub fn with_text(mut self, text: &str, language: PromptLanguage) -> Self {
        let (Some(origin), Some(transcript)) = (&self.stored_origin, &self.transcript) else {
            return self;
        };
        match origin.verify(transcript, text, language) {
            Ok(()) => self.origin = Some(origin.clone()),
            Err(refusal) => self.refused_origin = Some(refusal),
        }
        self
    }

    /// The prompt in another directory that the transcript began with, if it is used.
    ///
    /// Paths of the transcript count from it.
    pub fn origin(&self) -> Option<&Path> {
        let origin = self.origin.as_ref()?;
        Some(Path::new(&origin.prompt))
    }

    /// The recorded prompt, also if it is not used.
    pub fn recorded_origin(&self) -> Option<&Path> {
        let origin = self.stored_origin.as_ref()?;
        Some(Path::new(&origin.prompt))
    }

    /// The reason why the recorded origin is not used.
    pub fn refused_origin(&self) -> Option<&OriginRefusal> {
        self.refused_origin.as_ref()
    }

    /// Sets the prompt in another directory that a transcript begins with.
    ///
    /// `text` is the text of the transcript, to which the origin is bound. Both paths must be absolute
    /// and UTF-8; another path is not recorded.
    #[must_use]
    pub fn with_origin(mut self, prompt: Option<&Path>, text: &str) -> Self {
        let paths = prompt.zip(self.transcript.as_deref());
        self.origin =
            paths.and_then(|(prompt, transcript)| RecordedOrigin::new(prompt, transcript, text));
        self.refused_origin = None;
        self
    }

    /// Returns the page at an address as the latest run fetched it.
    pub fn page(&self, src: &str) -> Option<DocumentText> {
        let key = entry_key(RecordKind::Document, &[src]);
        Some(self.find(&key)?.into_page())
    }

    /// Returns the entry with a key, of this run or of the latest one.
    pub(crate) fn find(&self, key: &str) -> Option<RecordEntry> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = current.get(key) {
            return Some(entry.clone());
        }
        let entry = self.stored.get(key).filter(|_| self.is_reused)?.clone();
        current.insert(key.to_owned(), entry.clone());
        Some(entry)
    }

    /// Returns the answer of an agent to a request with this key.
    ///
    /// In a resumed turn, it may be the answer to another request.
    pub(crate) fn answer(&self, key: &str, src: &str) -> Option<RecordEntry> {
        self.find(key).or_else(|| {
            let is_answer =
                |entry: &&RecordEntry| entry.kind == RecordKind::Agent && entry.src == src;
            let mut answers = self.stored.values().filter(is_answer);
            let only = answers.next().filter(|_| self.is_resumed)?;
            answers.next().is_none().then(|| self.find(&only.key))?
        })
    }

    /// Keeps an entry and returns it, or an equal request's that was faster.
    pub(crate) fn keep(&self, entry: RecordEntry) -> RecordEntry {
        if self.redaction.finds(&entry.text) || self.redaction.finds(&entry.src) {
            return entry;
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let key = entry.key.clone();
        current.entry(key).or_insert(entry).clone()
    }

    /// Returns the text of the record, or `None` if it is stored already.
    fn changed(&self) -> io::Result<Option<RecordText>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = *current == self.stored && self.origin == self.stored_origin;
        let is_empty = current.is_empty() && self.origin.is_none();
        // A record that is not used stays until there is another one.
        if (self.unused.is_none() && is_same) || (self.unused.is_some() && is_empty) {
            return Ok(None);
        }
        let mut text = RecordText::new(&current, self.origin.clone());
        drop(current);
        text.binding = self.key.binding(&text.covered()?)?;
        Ok(Some(text))
    }

    /// Returns the new value of a session's record, or `None` if it is stored already.
    ///
    /// # Errors
    /// Returns an error if the key cannot be read or created.
    pub fn changed_value(&self) -> io::Result<Option<Value>> {
        let changed = self.changed()?;
        let value = changed.map(serde_json::to_value).transpose()?;
        Ok(value)
    }

    /// Writes the record beside the transcript, whose lock must be held, if it has changed.
    ///
    /// # Errors
    /// Returns an error if the file or the key cannot be written.
    pub fn save(&self) -> io::Result<()> {
        let Some(transcript) = &self.transcript else {
            return Ok(());
        };
        let Some(text) = self.changed()? else {
            return Ok(());
        };
        let beside = FolderHandle::open(folder_of(transcript))?;
        let folder = OsStr::new(PAYLOAD_FOLDER);
        match beside.create_folder(folder, true) {
            Ok(()) => beside.sync()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let folder = beside.enter(folder)?;
        let name = file_name(transcript);
        if text.entries.is_empty() && text.origin.is_none() {
            return match folder.remove_file(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
        }
        let mut bytes = serde_json::to_vec_pretty(&text)?;
        bytes.push(b'\n');
        let (unfinished, mut file) = temporary(&folder, &name, true)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        folder.rename(&unfinished, &name)?;
        folder.sync()
    }
}

/// The content of a record, and whether the key binds it.
type Verified = (Entries, Option<RecordedOrigin>, bool);

/// Reads the content of a record.
fn verified(bytes: Option<Vec<u8>>, key: &RecordKey) -> io::Result<Verified> {
    let Some(bytes) = bytes else {
        return Ok((Entries::new(), None, true));
    };
    let text = RecordText::parse(&bytes).map_err(|error| {
        let message = format!("it is damaged: {error}");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    let is_bound = key.binds(&text.covered()?, &text.binding);
    let is_bound = is_bound.map_err(|error| {
        let message = format!("{}: {error}", key.path().display());
        io::Error::new(error.kind(), message)
    })?;
    let origin = text.origin.clone();
    Ok((text.into_entries(), origin, is_bound))
}

/// Reads the file of a record; a link in its place is not followed.
fn read_beside(transcript: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = FolderHandle::open(folder_of(transcript))
        .and_then(|beside| beside.enter(OsStr::new(PAYLOAD_FOLDER)))
        .and_then(|folder| folder.open_file(&file_name(transcript)));
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if metadata.len() > MAX_SOURCE_BYTES {
        let message = "it is too large";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn file_name(transcript: &Path) -> OsString {
    let mut name = transcript.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    name
}

fn shown_name(transcript: &Path) -> String {
    let name = file_name(transcript);
    format!("{PAYLOAD_FOLDER}/{}", name.to_string_lossy())
}
