//! Which prompts the user trusts.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use logue_harness::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::atomic_file::{private, private_folder, sync_folder, temporary};
use crate::trust::grant::Grant;

/// The prompts that the user trusts, in a file of their own.
///
/// The file is the user's alone and replaced as a whole, under a lock of the operating system on a
/// file beside it. A damaged file is an error and not an empty one, so that nothing is lost unseen.
#[derive(Clone, Debug)]
pub struct TrustFile {
    path: PathBuf,
}

/// A prompt that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// Where it was when it was trusted.
    pub path: String,
    /// What it grants is known by ([`Grant::id`]).
    pub grant: String,
    /// What it grants, a line each.
    pub declares: Vec<String>,
    /// Since when.
    pub at: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    prompts: Vec<Trusted>,
}

impl TrustFile {
    /// The file at this path, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every prompt that is trusted, the oldest first.
    ///
    /// # Errors
    /// The file is there and cannot be read, or is none of ours.
    pub fn list(&self) -> io::Result<Vec<Trusted>> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let content: Content = serde_json::from_slice(&text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if content.version != VERSION {
            let message = format!("it has the version {}", content.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(content.prompts)
    }

    /// Whether what a prompt grants is trusted.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn trusts(&self, grant: &Grant) -> io::Result<bool> {
        let id = grant.id();
        Ok(self.list()?.iter().any(|one| one.grant == id))
    }

    /// What was trusted of the prompt at `path` last.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn known(&self, path: &Path) -> io::Result<Option<Trusted>> {
        let path = path.display().to_string();
        Ok(self.list()?.into_iter().rfind(|one| one.path == path))
    }

    /// Trusts what the prompt at `path` grants, and no longer what it granted before.
    ///
    /// # Errors
    /// The file cannot be read or written; nothing is changed then.
    pub fn add(&self, path: &Path, grant: &Grant, now: Timestamp) -> io::Result<()> {
        let path = path.display().to_string();
        self.change(|prompts| {
            prompts.retain(|one| one.path != path);
            prompts.push(Trusted {
                path,
                grant: grant.id(),
                declares: grant.lines(),
                at: now.0,
            });
        })
    }

    /// Trusts no more what was trusted of the prompt at `path`, or what has the id `grant`. How many
    /// were forgotten.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn remove(&self, path: &Path, grant: &str) -> io::Result<usize> {
        let path = path.display().to_string();
        self.change(|prompts| {
            let before = prompts.len();
            prompts.retain(|one| one.path != path && one.grant != grant);
            before - prompts.len()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Trusted>) -> T) -> io::Result<T> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_folder(folder)?;
        let _lock = self.lock()?;
        let mut prompts = self.list()?;
        let changed = change(&mut prompts);
        let content = Content {
            version: VERSION,
            prompts,
        };
        let mut text = serde_json::to_vec_pretty(&content)?;
        text.push(b'\n');
        let (name, mut file) = temporary(&self.path, true)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(name, &self.path)?;
        sync_folder(&self.path)?;
        Ok(changed)
    }

    /// Held until it is dropped. The file stays: another one in its place would be another lock.
    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = private(options).open(self.path.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }
}

const VERSION: u32 = 1;
