//! Payload files: tool arguments and results beside a transcript (ChatMD §7.3).
//!
//! A small payload gets the name that the reference shows, `N.tool-call.ID.json`, with an `N` that
//! no file has yet, so nothing is ever overwritten. A large one is named by what it holds,
//! `sha256-HEX.txt` or `.json`: equal payloads are one file, whoever wrote it first, and whoever reads
//! it can tell that it still holds what the transcript meant.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::{folder_of, private, sync_folder, temporary};
use crate::prompt::file_loader::PAYLOAD_FOLDER;

/// Characters of a call id that a file name keeps.
const ID_LENGTH: usize = 48;

/// What the name of a payload begins with that is named by what it holds.
const BY_CONTENT: &str = "sha256-";

/// The `.chatmd` folder of one transcript's folder.
#[derive(Debug)]
pub(crate) struct PayloadFolder {
    path: PathBuf,
    next: u32,
    /// Numbers that are kept for the results of calls, by the ids of the calls.
    kept: BTreeMap<String, u32>,
    /// The transcript's name, moved into the folder: unfinished files stand beside it.
    unfinished: PathBuf,
}

impl PayloadFolder {
    pub(crate) fn beside(transcript: &Path) -> Self {
        let path = folder_of(transcript).join(PAYLOAD_FOLDER);
        Self {
            unfinished: path.join(transcript.file_name().unwrap_or_default()),
            path,
            next: 0,
            kept: BTreeMap::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the next numbers for the results of calls, so that their names do not depend on which
    /// call ends first.
    pub(crate) fn keep_for<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        self.kept.clear();
        for id in ids {
            self.kept.insert(id.to_owned(), self.next);
            self.next += 1;
        }
    }

    /// Writes the arguments of a call as [`write`](Self::write) does.
    pub(crate) fn write_call(&mut self, id: &str, text: &str) -> io::Result<String> {
        self.write("tool-call", id, text)
    }

    /// Writes the result of a call, under the number that is kept for it if there is one.
    pub(crate) fn write_result(&mut self, id: &str, text: &str) -> io::Result<String> {
        const KIND: &str = "tool-call-result";
        if let Some(number) = self.kept.remove(id) {
            self.make_folder()?;
            if let Some(reference) = self.create(number, KIND, id, text)? {
                return Ok(reference);
            }
        }
        self.write(KIND, id, text)
    }

    /// Writes a payload durably under a name that nothing has yet and gives the reference to it,
    /// relative to the transcript's folder.
    fn write(&mut self, kind: &str, id: &str, text: &str) -> io::Result<String> {
        self.make_folder()?;
        loop {
            let created = self.create(self.next, kind, id, text)?;
            self.next += 1;
            if let Some(reference) = created {
                return Ok(reference);
            }
        }
    }

    /// Writes a payload unless something has its name: it is of an earlier run, or of another
    /// transcript in the same folder.
    fn create(&self, number: u32, kind: &str, id: &str, text: &str) -> io::Result<Option<String>> {
        let name = format!("{number}.{kind}.{}.json", file_name_of(id));
        let path = self.path.join(&name);
        match private(OpenOptions::new().write(true).create_new(true)).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                sync_folder(&path)?;
                Ok(Some(reference(&name)))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a payload durably under the name of what it holds, unless it is there, and gives the
    /// reference to it. A file of that name that holds something else is replaced: it was cut by a
    /// crash or changed, and nothing that names it can be read before it is whole again.
    ///
    /// `held` says whether the lock on the transcript is held.
    pub(crate) fn store(&self, text: &str, held: bool) -> io::Result<String> {
        self.make_folder()?;
        let name = name_by_content(text);
        let path = self.path.join(&name);
        if !is_stored(&path, text)? {
            let (unfinished, mut file) = temporary(&self.unfinished, held)?;
            let written = file
                .write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
                .and_then(|()| std::fs::rename(&unfinished, &path));
            if written.is_err() {
                drop(std::fs::remove_file(&unfinished));
            }
            written?;
        }
        sync_folder(&path)?;
        Ok(reference(&name))
    }

    fn make_folder(&self) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700);
        }
        match builder.create(&self.path) {
            Ok(()) => sync_folder(&self.path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a payload is what its name says; true of every name that says nothing about it.
pub(crate) fn is_as_named(name: &str, payload: &[u8]) -> bool {
    digest_in(name).is_none_or(|digest| digest == hex_digest(payload))
}

/// The digest in a name, where it has one.
fn digest_in(name: &str) -> Option<&str> {
    let (digest, ending) = name.strip_prefix(BY_CONTENT)?.split_once('.')?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let whole = digest.len() == 64 && digest.bytes().all(is_hex);
    (whole && matches!(ending, "json" | "txt")).then_some(digest)
}

fn name_by_content(text: &str) -> String {
    // By the content alone, so that equal payloads have one name.
    let ending = if serde_json::from_str::<&RawValue>(text).is_ok() {
        "json"
    } else {
        "txt"
    };
    format!("{BY_CONTENT}{}.{ending}", hex_digest(text.as_bytes()))
}

fn hex_digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Whether the file is there with that content, and makes sure that it stays.
fn is_stored(path: &Path, text: &str) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() == text.len() as u64 => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let mut file = File::open(path)?;
    let mut content = Vec::with_capacity(text.len());
    (&mut file)
        .take(text.len() as u64 + 1)
        .read_to_end(&mut content)?;
    if content != text.as_bytes() {
        return Ok(false);
    }
    // Whoever wrote it may have been killed before it was on the disk.
    file.sync_all()?;
    Ok(true)
}

fn reference(name: &str) -> String {
    format!("./{PAYLOAD_FOLDER}/{name}")
}

/// An id that a model made up, as a part of a file name: it can neither leave the folder nor be
/// too long.
fn file_name_of(id: &str) -> String {
    let safe = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    id.chars().take(ID_LENGTH).map(safe).collect()
}
