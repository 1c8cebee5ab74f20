//! The file with the prompts that the user trusts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use logue_harness::Timestamp;
use logue_tools::{FileOwners, FolderHandle, ServerAccess, private_folder};
use serde::{Deserialize, Serialize};

use crate::files::atomic_file::temporary;
use crate::trust::folder_trust::TrustedFolder;
use crate::trust::form::path_text;
use crate::trust::grant::Grant;

/// The prompts, and the configuration files of directories, that the user trusts.
///
/// The file is private and replaced as a whole, under a lock of the operating system on a file
/// beside it. A damaged file is an error instead of an empty list, so that no entry is lost
/// unnoticed. So is a file that another user could have written.
#[derive(Clone, Debug)]
pub struct TrustFile {
    path: PathBuf,
    owners: FileOwners,
}

/// A trusted prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trusted {
    /// The path at the time.
    pub path: String,
    /// The id of the grant ([`Grant::id`]).
    pub grant: String,
    /// The lines of the grant.
    pub declares: Vec<String>,
    /// The covered files with `sha256:` and the hash of their content, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The access of its server programs, by address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, ServerAccess>,
    /// The time of the decision.
    pub at: u64,
}

/// The entries of a trust file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustEntries {
    version: u32,
    /// The prompts, the oldest first.
    pub prompts: Vec<Trusted>,
    /// The directories whose configuration file is trusted, the oldest first.
    #[serde(default)]
    pub folders: Vec<TrustedFolder>,
}

impl TrustEntries {
    /// Parses the text of a trust file.
    ///
    /// A file of an earlier version has no entries, because its grants do not cover files.
    ///
    /// # Errors
    /// Returns an error if the text is damaged or of a later version.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        let entries: Self = serde_json::from_slice(text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if entries.version == FIRST {
            return Ok(Self::default());
        }
        if entries.version != VERSION {
            let message = format!("it has the version {}", entries.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(entries)
    }

    /// Returns the text of a trust file with these entries.
    ///
    /// # Errors
    /// Returns an error if the entries cannot be written as JSON.
    pub fn to_text(&self) -> io::Result<Vec<u8>> {
        let mut entries = self.clone();
        entries.version = VERSION;
        let mut text = serde_json::to_vec_pretty(&entries)?;
        text.push(b'\n');
        Ok(text)
    }
}

impl TrustFile {
    /// Names the file, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            owners: FileOwners::default(),
        }
    }

    /// Sets the users whose file is obeyed.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn owners(&self) -> FileOwners {
        self.owners
    }

    /// Returns every trusted prompt, the oldest first.
    ///
    /// # Errors
    /// Returns an error if the file exists and cannot be read or parsed.
    pub fn list(&self) -> io::Result<Vec<Trusted>> {
        Ok(self.content()?.prompts)
    }

    /// Returns every directory whose configuration file is trusted, the oldest first.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn folders(&self) -> io::Result<Vec<TrustedFolder>> {
        Ok(self.content()?.folders)
    }

    fn content(&self) -> io::Result<TrustEntries> {
        let mut text = Vec::new();
        let opened = self.owners.open(&self.path);
        match opened.and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => TrustEntries::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TrustEntries::default()),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a grant is trusted.
    ///
    /// A grant with a file that cannot be hashed is not.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn trusts(&self, grant: &Grant) -> io::Result<bool> {
        Ok(self.entry(grant)?.is_some())
    }

    /// Returns the entry with which a grant is trusted; `None` if it is not.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn entry(&self, grant: &Grant) -> io::Result<Option<Trusted>> {
        if grant.not_coverable().is_some() {
            return Ok(None);
        }
        let id = grant.id();
        Ok(self.list()?.into_iter().rfind(|one| one.grant == id))
    }

    /// Returns the latest trusted grant of the prompt at `path`.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn known(&self, path: &Path) -> io::Result<Option<Trusted>> {
        let path = path_text(path);
        Ok(self.list()?.into_iter().rfind(|one| one.path == path))
    }

    /// Trusts the grant of the prompt at `path` instead of its previous one.
    ///
    /// # Errors
    /// Returns an error, without a change, if the file cannot be read or written.
    pub fn add(&self, path: &Path, grant: &Grant, now: Timestamp) -> io::Result<()> {
        self.add_with_servers(path, grant, BTreeMap::new(), now)
    }

    /// Trusts the grant of a prompt, and gives access to its server programs.
    ///
    /// `servers` is the access of its server programs, by address.
    ///
    /// # Errors
    /// Returns an error, without a change, if the file cannot be read or written.
    pub fn add_with_servers(
        &self,
        path: &Path,
        grant: &Grant,
        servers: BTreeMap<String, ServerAccess>,
        now: Timestamp,
    ) -> io::Result<()> {
        let path = path_text(path);
        let files = grant.files().into_iter();
        let files = files.map(|file| (file.name, file.content.label()));
        self.keep_texts(grant);
        self.change(|prompts| {
            prompts.retain(|one| one.path != path);
            prompts.push(Trusted {
                path,
                grant: grant.id(),
                declares: grant.lines(),
                files: files.collect(),
                servers,
                at: now.0,
            });
        })
    }

    /// Removes the grants of the prompt at `path`, or the grant with this id.
    ///
    /// Returns the number of removed entries.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn remove(&self, path: &Path, grant: &str) -> io::Result<usize> {
        let path = path_text(path);
        self.change(|prompts| {
            let before = prompts.len();
            prompts.retain(|one| one.path != path && one.grant != grant);
            before - prompts.len()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Trusted>) -> T) -> io::Result<T> {
        self.change_content(|content| change(&mut content.prompts))
    }

    pub(crate) fn change_folders<T>(
        &self,
        change: impl FnOnce(&mut Vec<TrustedFolder>) -> T,
    ) -> io::Result<T> {
        self.change_content(|content| change(&mut content.folders))
    }

    fn change_content<T>(&self, change: impl FnOnce(&mut TrustEntries) -> T) -> io::Result<T> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_folder(folder)?;
        let _lock = self.lock()?;
        let mut content = self.content()?;
        let changed = change(&mut content);
        let text = content.to_text()?;
        let folder = FolderHandle::open(folder)?;
        let name = self.path.file_name().unwrap_or_default();
        let (unfinished, mut file) = temporary(&folder, name, true)?;
        file.write_all(&text)?;
        file.sync_all()?;
        folder.rename(&unfinished, name)?;
        folder.sync()?;
        self.prune_texts(content.prompts.iter());
        Ok(changed)
    }

    /// Held until dropped. The file stays: a new file would be another lock.
    fn lock(&self) -> io::Result<File> {
        let path = self.path.with_extension("lock");
        let (file, _) = self.owners.open_to_append(&path)?;
        file.lock()?;
        Ok(file)
    }
}

/// The version whose grants have no files.
const FIRST: u32 = 1;
const VERSION: u32 = 2;
