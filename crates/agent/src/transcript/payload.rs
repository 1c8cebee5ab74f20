//! Payload files: tool arguments and results beside a transcript (ChatMD §7.3).
//!
//! A small payload gets the name in its reference, `N.tool-call.ID.json`, with an unused `N`, so
//! nothing is ever overwritten. A large one is named by its content, `sha256-HEX.txt` or `.json`:
//! equal payloads share one file, and readers can verify the content.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::{folder_of, private, sync_folder, temporary};
use crate::prompt::file_loader::PAYLOAD_FOLDER;

/// The maximum number of characters of a call id in a file name.
const ID_LENGTH: usize = 48;

/// The prefix of names that are derived from the content.
const BY_CONTENT: &str = "sha256-";

/// The `.chatmd` directory of one transcript's directory.
#[derive(Debug)]
pub(crate) struct PayloadFolder {
    path: PathBuf,
    next: u32,
    /// Numbers reserved for the results of calls, by call id.
    kept: BTreeMap<String, u32>,
    /// The transcript's name inside the directory; temporary files are named after it.
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
    pub(crate) fn write_call(&mut self, id: &str, text: &str) -> io::Result<String> {
        self.write("tool-call", id, text)
    }

    /// Writes the result of a call, under its reserved number if there is one.
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

    /// Writes a payload durably under an unused name.
    ///
    /// Returns the reference to it, relative to the transcript's directory.
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

    /// Writes a payload unless its name is taken by an earlier run or another transcript.
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

    /// Writes a payload durably under a name derived from its content, and returns the reference.
    ///
    /// An existing file with other content is replaced: a crash or a change damaged it, and no
    /// transcript that names it can be read until it is restored.
    ///
    /// `held` states whether the lock on the transcript is held.
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

/// Returns whether a payload matches the digest in its name, if there is one.
pub(crate) fn is_as_named(name: &str, payload: &[u8]) -> bool {
    digest_in(name).is_none_or(|digest| digest == hex_digest(payload))
}

/// The digest in a name.
fn digest_in(name: &str) -> Option<&str> {
    let (digest, ending) = name.strip_prefix(BY_CONTENT)?.split_once('.')?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let whole = digest.len() == 64 && digest.bytes().all(is_hex);
    (whole && matches!(ending, "json" | "txt")).then_some(digest)
}

fn name_by_content(text: &str) -> String {
    // Derived from the content alone, so that equal payloads have one name.
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

/// Returns whether the file exists with that content, and makes it durable.
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
