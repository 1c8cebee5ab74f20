//! A transcript on the disk that survives crashes.
//!
//! The file is only replaced as a whole: the new content is written to a temporary file beside it,
//! synced, and renamed. So the name always leads to a complete transcript, and an acknowledged item
//! is on the disk. Payload files are synced before the transcript names them.
//!
//! One run writes at a time: the operating system's lock is held on the file that the name leads
//! to. The replacement is locked before it is renamed, so during a run the name never leads to an
//! unlocked file, and a lock ends with its process. A waiting run checks, once it has the lock,
//! that the name still leads to the file it locked.
//!
//! The directory is opened once, and the file is reached from that descriptor by its name. A link
//! that replaces the directory or the file during a run is not followed.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logue_message::ToolCall;
use logue_tools::{EntryKind, FolderHandle};

use crate::files::atomic_file::{folder_of, link_new, temporary};
use crate::files::file_stamp::FileStamp;
use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::transcript::format::TranscriptFormat;
use crate::transcript::item::{TranscriptError, TranscriptItem, TranscriptWriter};
use crate::transcript::redaction::Redaction;

/// The interval at which a waiting run tries the lock.
const POLL: Duration = Duration::from_millis(50);

/// The number of attempts to append while another program writes.
const TRIES: usize = 20;

/// A locked transcript.
#[derive(Debug)]
pub struct TranscriptFile {
    /// The directory of the file.
    folder: FolderHandle,
    /// The name of the file in it.
    name: OsString,
    path: PathBuf,
    content: Vec<u8>,
    /// The file on the disk, or `None` before it is created.
    held: Option<Held>,
    writing: TranscriptFormat,
    /// Byte lengths of the last elements of the content, which were appended one by one.
    ///
    /// `None` if they are unknown.
    latest: Option<Vec<usize>>,
    /// Results in the content that are valid only if the process ends.
    provisional: Option<String>,
    /// The text of the part of the answer that is being received.
    part: Option<String>,
}

#[derive(Debug)]
struct Held {
    /// Holds the lock on the file.
    file: File,
    /// The state of the file when `content` was read.
    seen: FileStamp,
}

impl TranscriptFile {
    /// Locks an existing file and reads it.
    ///
    /// While another run holds the lock, `waiting` is called once and the lock is tried again until
    /// `timeout` ends.
    ///
    /// # Errors
    /// Returns an error if the file stays locked, cannot be read and written, or cannot be
    /// replaced: a device, a pipe, or a file with a second name.
    pub fn open(
        path: &Path,
        timeout: Duration,
        mut waiting: impl FnMut(),
    ) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(path, "opened", error);
        // A link is followed here once, so that its target is replaced and not the link.
        let real = path.canonicalize().map_err(failed)?;
        let name = real.file_name().unwrap_or_default().to_owned();
        let folder = FolderHandle::open(folder_of(&real)).map_err(failed)?;
        let started = Instant::now();
        let mut is_reported = false;
        loop {
            if folder.kind(&name).map_err(failed)? != EntryKind::File {
                return Err(unsuitable(path, "it is not a regular file"));
            }
            let (file, metadata) = folder.open_to_write(&name).map_err(failed)?;
            check_names(path, &metadata)?;
            match file.try_lock() {
                Ok(()) if leads_to(&folder, &name, &file) => {
                    return Self::locked(folder, name, file);
                }
                // Another run replaced the file while this one waited for the old one.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(io_error(path, "locked", error)),
            }
            if started.elapsed() >= timeout {
                return Err(TranscriptError::Busy(path.display().to_string()));
            }
            if !is_reported {
                is_reported = true;
                waiting();
            }
            std::thread::sleep(POLL);
        }
    }

    /// Creates a transcript that starts with `content`, readable by its owner only.
    ///
    /// Nothing is written before [`TranscriptWriter::prepare`] or the first append.
    ///
    /// # Errors
    /// Returns an error if the path does not name a file in an existing directory.
    pub fn create(path: &Path, content: &[u8]) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(path, "created", error);
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let named = folder_of(path);
        let folder = FolderHandle::open(named).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TranscriptError::NoDirectory {
                path: path.display().to_string(),
                directory: named.display().to_string(),
            },
            _ => failed(error),
        })?;
        let mut writing = TranscriptFormat::beside(&folder, name);
        writing.follow_line_ends(content);
        Ok(Self {
            writing,
            path: folder.path().join(name),
            name: name.to_owned(),
            folder,
            content: content.to_vec(),
            held: None,
            latest: Some(Vec::new()),
            provisional: None,
            part: None,
        })
    }

    /// Copies the payload files that the content names in the directory of another transcript.
    ///
    /// They are written before the file itself.
    ///
    /// # Errors
    /// Returns an error if the name of a payload is taken by a file with other content.
    pub fn adopt_payloads(&mut self, directory: &Path) -> Result<(), TranscriptError> {
        let (Ok(text), Ok(from)) = (
            std::str::from_utf8(&self.content),
            FolderHandle::open(directory),
        ) else {
            return Ok(());
        };
        self.writing.adopt_payloads(&from, text)
    }

    fn locked(
        folder: FolderHandle,
        name: OsString,
        mut file: File,
    ) -> Result<Self, TranscriptError> {
        let path = folder.path().join(&name);
        let (content, seen) =
            read_locked(&mut file).map_err(|error| io_error(&path, "read", error))?;
        let held = Some(Held { file, seen });
        let mut writing = TranscriptFormat::beside(&folder, &name);
        writing.follow_line_ends(&content);
        Ok(Self {
            writing,
            folder,
            name,
            path,
            content,
            held,
            latest: Some(Vec::new()),
            provisional: None,
            part: None,
        })
    }

    /// The content on the disk.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Records the current content.
    pub(crate) fn set_content(&mut self, content: &[u8]) {
        content.clone_into(&mut self.content);
        self.latest = Some(Vec::new());
    }

    /// The directory of the file.
    pub(crate) fn folder(&self) -> &FolderHandle {
        &self.folder
    }

    /// The path, with links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the payloads of tool calls and results to files of their own (ChatMD §7.3).
    pub fn externalise_payloads(&mut self) {
        self.writing.externalise();
    }

    /// Writes payloads of more than `bytes` to files named by their content.
    ///
    /// This applies whether or not other payloads are inline. The default is
    /// [`crate::DEFAULT_INLINE_BYTES`].
    pub fn set_inline_bytes(&mut self, bytes: usize) {
        self.writing.set_inline_bytes(bytes);
    }

    /// Appends frames of OpenChatML 2.2 instead of ChatMD elements. Payloads are in the frames.
    pub fn write_openchatml(&mut self) {
        self.writing.write_frames(&self.content);
    }

    /// Redacts everything that is appended from now on, payload and rescue files included.
    ///
    /// Existing content does not change.
    pub fn redact(&mut self, redaction: Redaction) {
        self.writing.redact(redaction);
    }

    /// Sets the number of reasoning elements that the transcript contains, from which ids continue.
    pub fn set_reasoning_count(&mut self, count: usize) {
        self.writing.set_reasoning_count(count);
    }

    /// Reads changes that another program, such as an editor, made since the last read.
    ///
    /// New items are appended after them. Returns whether there were changes.
    fn refresh(&mut self) -> Result<bool, TranscriptError> {
        let Some(held) = &mut self.held else {
            return Ok(false);
        };
        if held.is_unchanged(&self.folder, &self.name) {
            return Ok(false);
        }
        let failed = |error| io_error(&self.path, "read again after it was changed", error);
        let mut file = match self.folder.open_to_write(&self.name) {
            Ok((file, _)) => file,
            // The file was removed: the content of this run is all there is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.held = None;
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        };
        let same = FileStamp::from_file(&file)
            .map_err(failed)?
            .is_same_file(held.seen);
        if !same {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(TranscriptError::Busy(self.path.display().to_string()));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let (content, seen) = read_locked(&mut file).map_err(failed)?;
        self.content = content;
        // After content of another program, items can only be appended at the end.
        self.latest = self.latest.take().filter(Vec::is_empty);
        if same {
            held.seen = seen;
        } else {
            *held = Held { file, seen };
        }
        Ok(true)
    }

    /// Writes items to a file beside a transcript that cannot contain them.
    fn rescue(&self, added: &str) -> Result<TranscriptError, TranscriptError> {
        let failed = |error| io_error(&self.path, "rescued from", error);
        for number in 0..1000 {
            let mut name = self.name.clone();
            name.push(format!(".rescue-{number}"));
            match self.folder.create_file(&name, true) {
                Ok(mut file) => {
                    let written = file
                        .write_all(added.as_bytes())
                        .and_then(|()| file.sync_all());
                    written.and_then(|()| self.folder.sync()).map_err(failed)?;
                    return Ok(TranscriptError::Changed {
                        path: self.path.display().to_string(),
                        rescue: self.path.with_file_name(name).display().to_string(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Replaces the file durably by `content` and keeps the lock.
    ///
    /// Returns `false`, without a change, if another program wrote to the file in the meantime.
    pub(crate) fn put(&mut self, content: &[u8]) -> io::Result<bool> {
        let (temporary, mut file) = self.temporary()?;
        let placed = (|| {
            file.try_lock()?;
            if let Some(held) = &self.held {
                held.seen.give_owner_and_mode(&held.file, &file)?;
            }
            file.write_all(content)?;
            file.sync_all()?;
            match &self.held {
                Some(held) if !held.is_unchanged(&self.folder, &self.name) => Ok(false),
                Some(_) => self.folder.rename(&temporary, &self.name).map(|()| true),
                None => link_new(&self.folder, &temporary, &self.name).map(|()| true),
            }
        })();
        if !matches!(placed, Ok(true)) {
            drop(self.folder.remove_file(&temporary));
            return placed;
        }
        let seen = FileStamp::from_file(&file)?;
        self.held = Some(Held { file, seen });
        self.folder.sync()?;
        Ok(true)
    }

    /// Inserts text before the `later` items that were appended last.
    ///
    /// If another program wrote to the file, their position is unknown and the text is appended.
    fn add(&mut self, added: &str, later: usize) -> Result<(), TranscriptError> {
        for _ in 0..TRIES {
            if self.refresh()? && !self.writing.follows(&self.content) {
                return Err(self.rescue(added)?);
            }
            self.check_size(self.content.len() + added.len() + 1)?;
            let kept = self.without_part();
            let behind = self.latest.as_ref().and_then(|sizes| {
                let from = sizes.len().checked_sub(later)?;
                sizes.get(from..)
            });
            let behind: usize = behind.map_or(0, |sizes| sizes.iter().sum());
            let (before, behind) = kept.split_at(kept.len().saturating_sub(behind));
            let mut content = before.to_vec();
            if !content.is_empty() && !content.ends_with(b"\n") {
                content.extend_from_slice(self.writing.line_end().as_bytes());
            }
            content.extend_from_slice(added.as_bytes());
            content.extend_from_slice(behind);
            if self
                .put(&content)
                .map_err(|error| io_error(&self.path, "written", error))?
            {
                self.content = content;
                self.part = None;
                return Ok(());
            }
        }
        Err(self.rescue(added)?)
    }

    /// Removes text that was appended, if another program left it in the file.
    fn remove(&mut self, text: &str) -> Result<(), TranscriptError> {
        for _ in 0..TRIES {
            self.refresh()?;
            let mut windows = self.content.windows(text.len().max(1));
            let Some(at) = windows.rposition(|window| window == text.as_bytes()) else {
                return Ok(());
            };
            let mut content = self.content.clone();
            content.drain(at..at + text.len());
            let is_placed = self.put(&content);
            if is_placed.map_err(|error| io_error(&self.path, "written", error))? {
                self.content = content;
                return Ok(());
            }
        }
        Err(TranscriptError::Busy(self.path.display().to_string()))
    }

    /// Returns the content without the part of the answer that is being received.
    ///
    /// A part that another program changed stays.
    fn without_part(&self) -> Cow<'_, [u8]> {
        let content = self.content.as_slice();
        let Some(part) = &self.part else {
            return Cow::Borrowed(content);
        };
        if let Some(before) = content.strip_suffix(part.as_bytes()) {
            return Cow::Borrowed(before);
        }
        let edited = std::str::from_utf8(content).unwrap_or_default();
        match edited.rsplit_once(part.as_str()) {
            Some((before, after)) => Cow::Owned([before, after].concat().into_bytes()),
            None => Cow::Borrowed(content),
        }
    }

    /// Creates a private file beside the transcript.
    fn temporary(&self) -> io::Result<(OsString, File)> {
        temporary(&self.folder, &self.name, self.held.is_some())
    }

    pub(crate) fn check_size(&self, size: usize) -> Result<(), TranscriptError> {
        if size as u64 > MAX_SOURCE_BYTES {
            return Err(TranscriptError::TooLarge(self.path.display().to_string()));
        }
        Ok(())
    }
}

impl TranscriptWriter for TranscriptFile {
    fn prepare(&mut self) -> Result<(), TranscriptError> {
        self.writing.check_payloads()?;
        self.writing.copy_payloads()?;
        let probed = if self.held.is_some() {
            self.temporary()
                .and_then(|(name, _)| self.folder.remove_file(&name))
        } else {
            let content = self.content.clone();
            self.put(&content).map(drop)
        };
        probed.map_err(|error| {
            if self.held.is_none() && error.kind() == io::ErrorKind::AlreadyExists {
                return TranscriptError::Busy(self.path.display().to_string());
            }
            io_error(&self.path, "written", error)
        })
    }

    fn append(&mut self, elements: &[TranscriptItem]) -> Result<(), TranscriptError> {
        if elements.is_empty() {
            return Ok(());
        }
        let added = self.writing.text_of(elements, self.held.is_some())?;
        self.latest = Some(Vec::new());
        self.add(&added, 0)
    }

    fn append_part(&mut self, text: &str) -> Result<(), TranscriptError> {
        let item = TranscriptItem::Interrupted(text.to_owned());
        let added = self.writing.text_of(&[item], self.held.is_some())?;
        self.latest = Some(Vec::new());
        self.add(&added, 0)?;
        self.part = Some(added);
        Ok(())
    }

    fn expect(&mut self, calls: &[ToolCall]) {
        self.writing.expect(calls);
    }

    fn await_decision(&mut self, calls: &[ToolCall]) -> Result<(), TranscriptError> {
        let results = self.writing.not_run(calls)?;
        self.add(&results, 0)?;
        self.provisional = Some(results);
        Ok(())
    }

    fn decided(&mut self) -> Result<(), TranscriptError> {
        match self.provisional.take() {
            Some(results) => self.remove(&results),
            None => Ok(()),
        }
    }

    fn insert(&mut self, element: &TranscriptItem, later: usize) -> Result<(), TranscriptError> {
        let added = self
            .writing
            .text_of(std::slice::from_ref(element), self.held.is_some())?;
        self.add(&added, later)?;
        self.latest = self.latest.take().and_then(|mut sizes| {
            let at = sizes.len().checked_sub(later)?;
            sizes.insert(at, added.len());
            Some(sizes)
        });
        Ok(())
    }
}

impl Held {
    /// Returns whether the name leads to the unchanged file.
    fn is_unchanged(&self, folder: &FolderHandle, name: &OsStr) -> bool {
        let now = folder.metadata(name);
        now.is_ok_and(|now| FileStamp::from_metadata(&now) == self.seen)
    }
}

/// Checks that a file can be replaced without harm to its other users.
fn check_names(path: &Path, metadata: &Metadata) -> Result<(), TranscriptError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.nlink() > 1 {
            let reason = "it has a second name (a hard link), which would keep the old content";
            return Err(unsuitable(path, reason));
        }
    }
    #[cfg(not(unix))]
    let _ = (path, metadata);
    Ok(())
}

fn unsuitable(path: &Path, reason: &'static str) -> TranscriptError {
    TranscriptError::Unsuitable {
        path: path.display().to_string(),
        reason,
    }
}

/// Returns whether the name leads to this file.
fn leads_to(folder: &FolderHandle, name: &OsStr, file: &File) -> bool {
    let (Ok(named), Ok(held)) = (folder.metadata(name), FileStamp::from_file(file)) else {
        return false;
    };
    FileStamp::from_metadata(&named).is_same_file(held)
}

fn read_locked(file: &mut File) -> io::Result<(Vec<u8>, FileStamp)> {
    let seen = FileStamp::from_file(file)?;
    let mut content = Vec::new();
    file.take(MAX_SOURCE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SOURCE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is over 64 MiB",
        ));
    }
    Ok((content, seen))
}

fn io_error(path: &Path, action: &'static str, error: io::Error) -> TranscriptError {
    TranscriptError::Io {
        path: path.display().to_string(),
        action,
        error,
    }
}
