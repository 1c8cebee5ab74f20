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

use chatmd::write;
use logue_message::CallKind;

use crate::element::{Element, Transcript, TranscriptError};
use crate::payload::PayloadFolder;
use crate::source_file::MAX_SOURCE_BYTES;

/// How often a waiting run looks whether the file is free.
const POLL: Duration = Duration::from_millis(50);

/// A locked transcript.
#[derive(Debug)]
pub struct TranscriptFile {
    path: PathBuf,
    /// Holds the lock on what `path` leads to.
    file: File,
    content: Vec<u8>,
    /// The file as it was when `content` was its content.
    seen: Identity,
    payloads: Option<PayloadFolder>,
    reasoning_count: usize,
}

/// What tells a changed file from an unchanged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    file: (u64, u64),
    len: u64,
    modified: Option<std::time::SystemTime>,
}

impl TranscriptFile {
    /// Locks an existing file and reads it. While another run holds it, `waiting` is called once
    /// and the lock is tried again until `patience` is over.
    ///
    /// # Errors
    /// The file is busy for longer than that, or cannot be read.
    pub fn open(
        path: &Path,
        patience: Duration,
        mut waiting: impl FnMut(),
    ) -> Result<Self, TranscriptError> {
        // A link is followed here once, so that its target is replaced and not the link.
        let real = path
            .canonicalize()
            .map_err(|error| io_error(path, "opened", error))?;
        let started = Instant::now();
        let mut told = false;
        loop {
            let file = File::open(&real).map_err(|error| io_error(path, "opened", error))?;
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

    /// Makes a new transcript that begins with `content`, readable by its owner only.
    ///
    /// # Errors
    /// Something is at the path already, or it cannot be written.
    pub fn create(path: &Path, content: &[u8]) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(path, "created", error);
        let mut file = private(OpenOptions::new().write(true).read(true).create_new(true))
            .open(path)
            .map_err(failed)?;
        file.try_lock().map_err(|error| failed(error.into()))?;
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        sync_folder(path).map_err(failed)?;
        let real = path.canonicalize().map_err(failed)?;
        let seen = Identity::of(&file.metadata().map_err(failed)?);
        Ok(Self {
            path: real,
            file,
            content: content.to_vec(),
            seen,
            payloads: None,
            reasoning_count: 0,
        })
    }

    fn locked(path: PathBuf, mut file: File) -> Result<Self, TranscriptError> {
        let failed = |error| io_error(&path, "read", error);
        let (content, seen) = read_locked(&mut file).map_err(failed)?;
        Ok(Self {
            path,
            file,
            content,
            seen,
            payloads: None,
            reasoning_count: 0,
        })
    }

    /// The content as it is on the disk.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// The file, with links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the payloads of tool calls and results into files of their own (ChatMD §7.3) instead of
    /// into the transcript (§7.2).
    pub fn externalise_payloads(&mut self) {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.payloads = Some(PayloadFolder::beside(folder));
    }

    /// How many reasoning elements the transcript has already: their ids count on from there.
    pub fn set_reasoning_count(&mut self, count: usize) {
        self.reasoning_count = count;
    }

    fn text_of(&mut self, element: &Element) -> Result<String, TranscriptError> {
        Ok(match element {
            Element::User(text) => write::user(text),
            Element::Assistant(text) => write::assistant(text, None),
            Element::Reasoning { id, text } => {
                self.reasoning_count += 1;
                let id = id
                    .clone()
                    .unwrap_or_else(|| format!("reasoning_{}", self.reasoning_count));
                write::reasoning(&id, &[text.as_str()])
            }
            Element::ToolCall(call) => {
                let payload = self.payload("tool-call", &call.id, call.arguments.as_str())?;
                write::tool_call(&write::ToolCall {
                    id: None,
                    tool_call_id: &call.id,
                    function_name: &call.name,
                    custom: call.kind == CallKind::Custom,
                    payload: payload.as_write(call.arguments.as_str()),
                })
            }
            Element::ToolResponse { call, text } => {
                let payload = self.payload("tool-call-result", &call.id, text)?;
                write::tool_response(&write::ToolResponse {
                    id: None,
                    tool_call_id: &call.id,
                    custom: call.kind == CallKind::Custom,
                    payload: payload.as_write(text),
                })
            }
        })
    }

    fn payload(&mut self, kind: &str, id: &str, text: &str) -> Result<Place, TranscriptError> {
        let Some(folder) = &mut self.payloads else {
            return Ok(Place::Inline);
        };
        folder
            .write(kind, id, text)
            .map(Place::File)
            .map_err(|error| io_error(folder.path(), "written", error))
    }

    /// Takes in what another program made of the file since it was read: an editor, say. What is
    /// added goes behind whatever is there.
    fn refresh(&mut self) -> Result<(), TranscriptError> {
        let now = std::fs::metadata(&self.path);
        if now.as_ref().is_ok_and(|now| Identity::of(now) == self.seen) {
            return Ok(());
        }
        let failed = |error| io_error(&self.path, "read again after it was changed", error);
        match File::open(&self.path) {
            Ok(mut file) => {
                let same = identity_of(&file).map_err(failed)?.file == self.seen.file;
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
                self.seen = seen;
                if !same {
                    self.file = file;
                }
                Ok(())
            }
            // It was removed: what this run knows of it is all there is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Replaces the file by `content`, durably, and holds the lock on the replacement.
    fn replace(&mut self, content: &[u8]) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".logue-tmp");
        let temporary = self.path.with_file_name(name);
        // Left behind by a run that was killed; the lock says that nobody is using it.
        match std::fs::remove_file(&temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut file =
            private(OpenOptions::new().write(true).read(true).create_new(true)).open(&temporary)?;
        let written = (|| {
            file.try_lock()?;
            file.set_permissions(self.file.metadata()?.permissions())?;
            file.write_all(content)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.path)
        })();
        if let Err(error) = written {
            drop(std::fs::remove_file(&temporary));
            return Err(error);
        }
        self.seen = Identity::of(&file.metadata()?);
        self.file = file;
        sync_folder(&self.path)
    }
}

impl Transcript for TranscriptFile {
    fn append(&mut self, elements: &[Element]) -> Result<(), TranscriptError> {
        if elements.is_empty() {
            return Ok(());
        }
        let mut added = String::new();
        for element in elements {
            added.push_str(&self.text_of(element)?);
        }
        self.refresh()?;
        let mut content = self.content.clone();
        if !content.is_empty() && !content.ends_with(b"\n") {
            content.push(b'\n');
        }
        content.extend_from_slice(added.as_bytes());
        self.replace(&content)
            .map_err(|error| io_error(&self.path, "written", error))?;
        self.content = content;
        Ok(())
    }
}

/// Where a payload stands.
enum Place {
    Inline,
    File(String),
}

impl Place {
    fn as_write<'a>(&'a self, text: &'a str) -> write::Payload<'a> {
        match self {
            Self::Inline => write::Payload::Inline(text),
            Self::File(path) => write::Payload::External(path),
        }
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let file = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let file = (0, 0);
        Self {
            file,
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

fn identity_of(file: &File) -> io::Result<Identity> {
    Ok(Identity::of(&file.metadata()?))
}

/// Whether the name leads to this very file.
fn leads_to(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(held)) = (std::fs::metadata(path), identity_of(file)) else {
        return false;
    };
    Identity::of(&named).file == held.file
}

fn read_locked(file: &mut File) -> io::Result<(Vec<u8>, Identity)> {
    let seen = identity_of(file)?;
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

/// Makes a rename or a new name in the file's folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// New files are for their owner only: transcripts hold what is hidden from users.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

fn io_error(path: &Path, action: &'static str, error: io::Error) -> TranscriptError {
    TranscriptError::Io {
        path: path.display().to_string(),
        action,
        error,
    }
}
