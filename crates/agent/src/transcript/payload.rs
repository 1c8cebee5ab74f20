//! Payload files: tool arguments, results and their images beside a transcript (ChatMD §7.3).
//!
//! A small payload gets the name in its reference, `N.tool-call.ID.json`, with an unused `N`, so
//! nothing is ever overwritten. A large one is named by its content, `sha256-HEX.txt` or `.json`,
//! and so is every image: equal payloads share one file, and readers can verify the content.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use chatmd::{Document, ReferenceKind};
use logue_message::image_media_type;
use logue_tools::{EntryKind, FolderHandle};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::{link_new, temporary};
use crate::prompt::file_loader::{PAYLOAD_FOLDER, payload_name};
use crate::prompt::source_file::MAX_SOURCE_BYTES;

/// The maximum number of characters of a call id in a file name.
const ID_LENGTH: usize = 48;

/// The prefix of names that are derived from the content.
const BY_CONTENT: &str = "sha256-";

/// The extensions of such names.
const ENDINGS: [&str; 6] = ["json", "txt", "png", "jpg", "gif", "webp"];

/// The `.chatmd` directory of one transcript's directory.
#[derive(Debug)]
pub(crate) struct PayloadFolder {
    path: PathBuf,
    /// The directory of the transcript.
    beside: FolderHandle,
    next: u32,
    /// Numbers reserved for the results of calls, by call id.
    kept: BTreeMap<String, u32>,
    /// The name of the transcript; temporary files are named after it.
    transcript: OsString,
    /// The payloads of another transcript that this one begins with.
    adopted: Option<AdoptedPayloads>,
}

/// Payload files of another transcript.
#[derive(Debug)]
struct AdoptedPayloads {
    folder: FolderHandle,
    names: BTreeSet<OsString>,
}

/// An error of writing a payload file.
#[derive(Debug)]
pub(crate) enum PayloadError {
    /// `.chatmd` is a link or a file.
    NotFolder,
    /// A file with other content has the name of an adopted payload.
    Taken(String),
    /// The operating system reported an error.
    Io(io::Error),
}

impl From<io::Error> for PayloadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl PayloadFolder {
    /// Creates the directory of the transcript `name` in `folder`.
    pub(crate) fn beside(folder: &FolderHandle, name: &OsStr) -> Self {
        Self {
            path: folder.path().join(PAYLOAD_FOLDER),
            beside: folder.clone(),
            next: 0,
            kept: BTreeMap::new(),
            transcript: name.to_owned(),
            adopted: None,
        }
    }

    /// Finds the payloads that a text names beside another transcript, to copy them later.
    ///
    /// A payload that cannot be read is omitted, because the evaluation of the text reports it.
    pub(crate) fn adopt(&mut self, from: &FolderHandle, text: &str) -> Result<(), PayloadError> {
        if from.path() == self.beside.path() {
            return Ok(());
        }
        let Ok(folder) = from.enter(OsStr::new(PAYLOAD_FOLDER)) else {
            return Ok(());
        };
        let (document, _) = Document::from_tree(&chatmd::parse(text));
        let names = document
            .references()
            .filter(|reference| {
                let kinds = [ReferenceKind::Document, ReferenceKind::Image];
                reference.local && kinds.contains(&reference.kind)
            })
            .filter_map(|reference| payload_name(reference.src));
        let mut adopted = BTreeSet::new();
        for name in names.collect::<BTreeSet<&str>>() {
            let Some(payload) = read_payload(&folder, name) else {
                continue;
            };
            let here = self.beside.enter(OsStr::new(PAYLOAD_FOLDER));
            let here = here.ok().filter(|_| digest_in(name).is_none());
            if let Some(here) = here
                && here.kind(OsStr::new(name)).is_ok()
                && !is_stored(&here, OsStr::new(name), &payload)?
            {
                return Err(PayloadError::Taken(reference(name)));
            }
            adopted.insert(OsString::from(name));
        }
        self.adopted = Some(AdoptedPayloads {
            folder,
            names: adopted,
        });
        Ok(())
    }

    /// Copies the adopted payloads durably.
    pub(crate) fn copy_adopted(&mut self) -> Result<(), PayloadError> {
        let Some(adopted) = self.adopted.take().filter(|found| !found.names.is_empty()) else {
            return Ok(());
        };
        let folder = self.open()?;
        for name in &adopted.names {
            let shown = name.to_string_lossy();
            let payload = read_payload(&adopted.folder, &shown)
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, reference(&shown)))?;
            if is_stored(&folder, name, &payload)? {
                continue;
            }
            let (unfinished, mut file) = temporary(&folder, &self.transcript, false)?;
            let written = file.write_all(&payload).and_then(|()| file.sync_all());
            let placed = written.and_then(|()| match digest_in(&shown) {
                Some(_) => folder.rename(&unfinished, name),
                None => link_new(&folder, &unfinished, name),
            });
            if let Err(error) = placed {
                drop(folder.remove_file(&unfinished));
                return Err(match error.kind() {
                    io::ErrorKind::AlreadyExists => PayloadError::Taken(reference(&shown)),
                    _ => error.into(),
                });
            }
        }
        Ok(folder.sync()?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that payload files can be created: `.chatmd` is a directory or missing.
    pub(crate) fn check(&self) -> Result<(), PayloadError> {
        match self.beside.kind(OsStr::new(PAYLOAD_FOLDER)) {
            Ok(EntryKind::Folder) => Ok(()),
            Ok(_) => Err(PayloadError::NotFolder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves the next numbers for the results of calls.
    ///
    /// So their names do not depend on the order in which the calls end.
    pub(crate) fn keep_for<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        self.kept.clear();
        for id in ids {
            self.kept.insert(id.to_owned(), self.next);
            self.next += 1;
        }
    }

    /// Writes the arguments of a call as [`write`](Self::write) does.
    pub(crate) fn write_call(&mut self, id: &str, text: &str) -> Result<String, PayloadError> {
        self.write("tool-call", id, text)
    }

    /// Writes the result of a call, under its reserved number if there is one.
    pub(crate) fn write_result(&mut self, id: &str, text: &str) -> Result<String, PayloadError> {
        const KIND: &str = "tool-call-result";
        if let Some(number) = self.kept.remove(id) {
            let folder = self.open()?;
            if let Some(reference) = create(&folder, number, KIND, id, text)? {
                return Ok(reference);
            }
        }
        self.write(KIND, id, text)
    }

    /// Writes a payload durably under an unused name.
    ///
    /// Returns the reference to it, relative to the transcript's directory.
    fn write(&mut self, kind: &str, id: &str, text: &str) -> Result<String, PayloadError> {
        let folder = self.open()?;
        loop {
            let created = create(&folder, self.next, kind, id, text)?;
            self.next += 1;
            if let Some(reference) = created {
                return Ok(reference);
            }
        }
    }

    /// Writes a payload durably under a name derived from its content, and returns the reference.
    ///
    /// An existing file with other content is replaced: a crash or a change damaged it, and no
    /// transcript that names it can be read until it is restored.
    ///
    /// `held` states whether the lock on the transcript is held.
    pub(crate) fn store(&self, text: &str, held: bool) -> Result<String, PayloadError> {
        // The name is derived from the content alone, so that equal payloads have one name.
        let ending = if serde_json::from_str::<&RawValue>(text).is_ok() {
            "json"
        } else {
            "txt"
        };
        self.store_bytes(text.as_bytes(), ending, held)
    }

    /// Writes an image durably as [`store`](Self::store) does.
    pub(crate) fn store_image(&self, image: &[u8], held: bool) -> Result<String, PayloadError> {
        let ending = match image_media_type(image) {
            Some("image/png") => "png",
            Some("image/jpeg") => "jpg",
            Some("image/gif") => "gif",
            _ => "webp",
        };
        self.store_bytes(image, ending, held)
    }

    fn store_bytes(
        &self,
        payload: &[u8],
        ending: &str,
        held: bool,
    ) -> Result<String, PayloadError> {
        let folder = self.open()?;
        let name = format!("{BY_CONTENT}{}.{ending}", hex_digest(payload));
        if !is_stored(&folder, OsStr::new(&name), payload)? {
            let (unfinished, mut file) = temporary(&folder, &self.transcript, held)?;
            let written = file
                .write_all(payload)
                .and_then(|()| file.sync_all())
                .and_then(|()| folder.rename(&unfinished, OsStr::new(&name)));
            if written.is_err() {
                drop(folder.remove_file(&unfinished));
            }
            written?;
        }
        folder.sync()?;
        Ok(reference(&name))
    }

    /// Opens the directory, which is created if it is missing. A link is not followed.
    fn open(&self) -> Result<FolderHandle, PayloadError> {
        let beside = &self.beside;
        let name = OsStr::new(PAYLOAD_FOLDER);
        match beside.create_folder(name, true) {
            Ok(()) => beside.sync()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.check()?,
            Err(error) => return Err(error.into()),
        }
        Ok(beside.enter(name)?)
    }
}

/// Writes a payload unless its name is taken by an earlier run or another transcript.
fn create(
    folder: &FolderHandle,
    number: u32,
    kind: &str,
    id: &str,
    text: &str,
) -> io::Result<Option<String>> {
    let name = format!("{number}.{kind}.{}.json", file_name_of(id));
    match folder.create_file(OsStr::new(&name), true) {
        Ok(mut file) => {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            folder.sync()?;
            Ok(Some(reference(&name)))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a payload that can be read as its name states.
fn read_payload(folder: &FolderHandle, name: &str) -> Option<Vec<u8>> {
    let (file, _) = folder.open_file(OsStr::new(name)).ok()?;
    let mut payload = Vec::new();
    file.take(MAX_SOURCE_BYTES + 1)
        .read_to_end(&mut payload)
        .ok()?;
    let is_small = payload.len() as u64 <= MAX_SOURCE_BYTES;
    (is_small && is_as_named(name, &payload)).then_some(payload)
}

/// Returns whether a payload matches the digest in its name, if there is one.
pub(crate) fn is_as_named(name: &str, payload: &[u8]) -> bool {
    digest_in(name).is_none_or(|digest| digest == hex_digest(payload))
}

/// The digest in a name.
fn digest_in(name: &str) -> Option<&str> {
    let (digest, ending) = name.strip_prefix(BY_CONTENT)?.split_once('.')?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let whole = digest.len() == 64 && digest.bytes().all(is_hex);
    (whole && ENDINGS.contains(&ending)).then_some(digest)
}

fn hex_digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Returns whether the file exists with that content, and makes it durable.
fn is_stored(folder: &FolderHandle, name: &OsStr, payload: &[u8]) -> io::Result<bool> {
    match folder.kind(name) {
        Ok(EntryKind::File) => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let (mut file, metadata) = folder.open_file(name)?;
    if metadata.len() != payload.len() as u64 {
        return Ok(false);
    }
    let mut content = Vec::with_capacity(payload.len());
    (&mut file)
        .take(payload.len() as u64 + 1)
        .read_to_end(&mut content)?;
    if content != payload {
        return Ok(false);
    }
    // Its writer may have been killed before it was on the disk.
    file.sync_all()?;
    Ok(true)
}

fn reference(name: &str) -> String {
    format!("./{PAYLOAD_FOLDER}/{name}")
}

/// Converts a call id to a part of a file name.
///
/// Ids come from models; the result can neither leave the directory nor be too long.
fn file_name_of(id: &str) -> String {
    let safe = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    id.chars().take(ID_LENGTH).map(safe).collect()
}
