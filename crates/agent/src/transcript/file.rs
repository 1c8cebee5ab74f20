//! A transcript on the disk that no crash can break.
//!
//! The file is only ever replaced as a whole: the new content goes to a temporary file beside it,
//! is synced, and takes the old one's name. So at every instant the name leads to a complete
//! transcript, and a part that was acknowledged is on the disk. Payload files are synced before
//! the transcript names them.
//!
//! One run at a time: the operating system's lock is held on the very file that the name leads to.
//! The replacement is locked before it takes the name, so the name never leads to an unlocked file
//! while a run goes on, and a lock dies with its process. Whoever waits looks again, once it has
//! the lock, whether the name still leads to the file that it locked.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logue_message::ToolCall;

use crate::files::atomic_file::{folder_of, link_new, private, sync_folder, temporary};
use crate::files::file_stamp::Identity;
use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::transcript::format::{Form, Writing};
use crate::transcript::item::{Element, Transcript, TranscriptError};
use crate::transcript::redaction::Redaction;

/// How often a waiting run looks whether the file is free.
const POLL: Duration = Duration::from_millis(50);

/// How often an append begins again because another program wrote in between.
const TRIES: usize = 20;

/// A locked transcript.
#[derive(Debug)]
pub struct TranscriptFile {
    path: PathBuf,
    content: Vec<u8>,
    /// The file on the disk; `None` for a transcript that is not made yet.
    held: Option<Held>,
    writing: Writing,
    /// Bytes of the elements that the content ends with and that were added one by one, in their
    /// order; `None` where that is not known any more.
    latest: Option<Vec<usize>>,
}

#[derive(Debug)]
struct Held {
    /// Holds the lock on what the path leads to.
    file: File,
    /// The file as it was when `content` was its content.
    seen: Identity,
}

impl TranscriptFile {
    /// Locks an existing file and reads it. While another run holds it, `waiting` is called once
    /// and the lock is tried again until `patience` is over.
    ///
    /// # Errors
    /// The file is busy for longer than that, cannot be read and written, or is none that can be
    /// replaced: a device, a pipe, or a file with a second name.
    pub fn open(
        path: &Path,
        patience: Duration,
        mut waiting: impl FnMut(),
    ) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(path, "opened", error);
        // A link is followed here once, so that its target is replaced and not the link.
        let real = path.canonicalize().map_err(failed)?;
        let started = Instant::now();
        let mut told = false;
        loop {
            // Asked before opening: to open a pipe would wait for its other end.
            suitable(path, &std::fs::metadata(&real).map_err(failed)?)?;
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&real)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) if leads_to(&real, &file) => {
                    return Self::locked(real, file);
                }
                // Another run replaced the file while this one waited for the old one.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(io_error(path, "locked", error)),
            }
            if started.elapsed() >= patience {
                return Err(TranscriptError::Busy(path.display().to_string()));
            }
            if !told {
                told = true;
                waiting();
            }
            std::thread::sleep(POLL);
        }
    }

    /// A new transcript that will begin with `content`, readable by its owner only. Nothing is
    /// written before [`Transcript::prepare`] or the first append.
    ///
    /// # Errors
    /// The path names no file in a folder that exists.
    pub fn create(path: &Path, content: &[u8]) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(path, "created", error);
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let folder = folder_of(path).canonicalize().map_err(failed)?;
        let path = folder.join(name);
        Ok(Self {
            writing: Writing::beside(&path),
            path,
            content: content.to_vec(),
            held: None,
            latest: Some(Vec::new()),
        })
    }

    fn locked(path: PathBuf, mut file: File) -> Result<Self, TranscriptError> {
        let (content, seen) =
            read_locked(&mut file).map_err(|error| io_error(&path, "read", error))?;
        let held = Some(Held { file, seen });
        Ok(Self {
            writing: Writing::beside(&path),
            path,
            content,
            held,
            latest: Some(Vec::new()),
        })
    }

    /// The content as it is on the disk.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Notes what the file says now.
    pub(crate) fn set_content(&mut self, content: &[u8]) {
        content.clone_into(&mut self.content);
        self.latest = Some(Vec::new());
    }

    /// The file, with links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the payloads of tool calls and results into files of their own (ChatMD §7.3) instead of
    /// into the transcript (§7.2).
    pub fn externalise_payloads(&mut self) {
        self.writing.externalise();
    }

    /// Puts payloads of more than `bytes` into files that are known by what they hold, whether or
    /// not the others are inline; [`crate::DEFAULT_INLINE_BYTES`] if this is never called.
    pub fn set_inline_bytes(&mut self, bytes: usize) {
        self.writing.set_inline_bytes(bytes);
    }

    /// Appends frames of OpenChatML 2.2 instead of elements of ChatMD. Payloads stand in the frames.
    pub fn write_openchatml(&mut self) {
        self.writing.set_form(Form::OpenChatMl);
    }

    /// Replaces what matches in everything that is appended from now on, in payload and rescue
    /// files too. What the file says already stays.
    pub fn redact(&mut self, redaction: Redaction) {
        self.writing.redact(redaction);
    }

    /// How many reasoning elements the transcript has already: their ids count on from there.
    pub fn set_reasoning_count(&mut self, count: usize) {
        self.writing.set_reasoning_count(count);
    }

    /// Takes in what another program made of the file since it was read: an editor, say. What is
    /// added goes behind whatever is there; says whether there was anything new.
    fn refresh(&mut self) -> Result<bool, TranscriptError> {
        let Some(held) = &mut self.held else {
            return Ok(false);
        };
        if is_unchanged(&self.path, held.seen) {
            return Ok(false);
        }
        let failed = |error| io_error(&self.path, "read again after it was changed", error);
        let mut file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            // It was removed: what this run knows of it is all there is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.held = None;
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        };
        let same = Identity::of_file(&file)
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
        // Behind what another program wrote, nothing has a place any more but the end.
        self.latest = self.latest.take().filter(Vec::is_empty);
        if same {
            held.seen = seen;
        } else {
            *held = Held { file, seen };
        }
        Ok(true)
    }

    /// Keeps what was to be appended, in a file beside a transcript that cannot take it.
    fn rescue(&self, added: &str) -> Result<TranscriptError, TranscriptError> {
        let failed = |error| io_error(&self.path, "rescued from", error);
        for number in 0..1000 {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".rescue-{number}"));
            let path = self.path.with_file_name(name);
            match private(OpenOptions::new().write(true).create_new(true)).open(&path) {
                Ok(mut file) => {
                    let written = file
                        .write_all(added.as_bytes())
                        .and_then(|()| file.sync_all());
                    written.and_then(|()| sync_folder(&path)).map_err(failed)?;
                    return Ok(TranscriptError::Changed {
                        path: self.path.display().to_string(),
                        rescue: path.display().to_string(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Puts the file with `content` in place, durably, and holds the lock on it. `false`: another
    /// program wrote to the file in the meantime, and nothing was done.
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
                Some(held) if !is_unchanged(&self.path, held.seen) => Ok(false),
                Some(_) => std::fs::rename(&temporary, &self.path).map(|()| true),
                None => link_new(&temporary, &self.path).map(|()| true),
            }
        })();
        if !matches!(placed, Ok(true)) {
            drop(std::fs::remove_file(&temporary));
            return placed;
        }
        let seen = Identity::of_file(&file)?;
        self.held = Some(Held { file, seen });
        sync_folder(&self.path)?;
        Ok(true)
    }

    /// Adds text before the `later` elements that were added last, or at the end where they are not
    /// known any more: another program wrote to the file.
    fn add(&mut self, added: &str, later: usize) -> Result<(), TranscriptError> {
        for _ in 0..TRIES {
            if self.refresh()? && !self.writing.follows(&self.content) {
                return Err(self.rescue(added)?);
            }
            self.check_size(self.content.len() + added.len() + 1)?;
            let behind = self.latest.as_ref().and_then(|sizes| {
                let from = sizes.len().checked_sub(later)?;
                sizes.get(from..)
            });
            let behind: usize = behind.map_or(0, |sizes| sizes.iter().sum());
            let (before, behind) = self
                .content
                .split_at(self.content.len().saturating_sub(behind));
            let mut content = before.to_vec();
            if !content.is_empty() && !content.ends_with(b"\n") {
                content.push(b'\n');
            }
            content.extend_from_slice(added.as_bytes());
            content.extend_from_slice(behind);
            if self
                .put(&content)
                .map_err(|error| io_error(&self.path, "written", error))?
            {
                self.content = content;
                return Ok(());
            }
        }
        Err(self.rescue(added)?)
    }

    /// A new private file beside the transcript.
    fn temporary(&self) -> io::Result<(PathBuf, File)> {
        temporary(&self.path, self.held.is_some())
    }

    pub(crate) fn check_size(&self, size: usize) -> Result<(), TranscriptError> {
        if size as u64 > MAX_SOURCE_BYTES {
            return Err(TranscriptError::TooLarge(self.path.display().to_string()));
        }
        Ok(())
    }
}

impl Transcript for TranscriptFile {
    fn prepare(&mut self) -> Result<(), TranscriptError> {
        let probed = if self.held.is_some() {
            self.temporary()
                .and_then(|(path, _)| std::fs::remove_file(path))
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

    fn append(&mut self, elements: &[Element]) -> Result<(), TranscriptError> {
        if elements.is_empty() {
            return Ok(());
        }
        let added = self.writing.text_of(elements, self.held.is_some())?;
        self.latest = Some(Vec::new());
        self.add(&added, 0)
    }

    fn expect(&mut self, calls: &[ToolCall]) {
        self.writing.expect(calls);
    }

    fn insert(&mut self, element: &Element, later: usize) -> Result<(), TranscriptError> {
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

/// Whether something can be replaced by a new file without harm to whoever else uses it.
fn suitable(path: &Path, metadata: &Metadata) -> Result<(), TranscriptError> {
    let refuse = |reason| {
        Err(TranscriptError::Unsuitable {
            path: path.display().to_string(),
            reason,
        })
    };
    if !metadata.is_file() {
        return refuse("it is no regular file");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.nlink() > 1 {
            return refuse("it has a second name (a hard link), which would keep the old content");
        }
    }
    Ok(())
}

/// Whether the name leads to this very file.
fn leads_to(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(held)) = (std::fs::metadata(path), Identity::of_file(file)) else {
        return false;
    };
    Identity::of(&named).is_same_file(held)
}

fn is_unchanged(path: &Path, seen: Identity) -> bool {
    std::fs::metadata(path).is_ok_and(|now| Identity::of(&now) == seen)
}

fn read_locked(file: &mut File) -> io::Result<(Vec<u8>, Identity)> {
    let seen = Identity::of_file(file)?;
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
