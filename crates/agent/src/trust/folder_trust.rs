//! Trust in the configuration files of directories.
//!
//! An entry covers one content of one file: the hash of its bytes, and the effects that the user was
//! shown.

use std::io;
use std::path::Path;

use logue_harness::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::trust::changes::GrantChange;
use crate::trust::form::path_text;
use crate::trust::trust_file::TrustFile;

/// A directory whose configuration file the user trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustedFolder {
    /// The real path of the directory.
    pub folder: String,
    /// The hash of the file ([`content_id`]).
    pub content: String,
    /// The effects that the user was shown.
    pub grants: Vec<String>,
    /// The time of the decision.
    pub at: u64,
}

impl TrustedFolder {
    /// Returns the differences of the file with these effects from the one that was trusted.
    ///
    /// `file` is the name of the file for people.
    pub fn changes_to(&self, file: &str, content: &str, grants: &[String]) -> Vec<GrantChange> {
        let mut changes = GrantChange::between(&self.grants, grants);
        if self.content != content {
            let path = file.to_owned();
            changes.push(GrantChange::FileChanged { path });
        }
        changes
    }
}

/// Returns the hash of a content: `sha256:` and 64 digits.
pub fn content_id(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

impl TrustFile {
    /// Returns the entry of a directory.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn known_folder(&self, folder: &Path) -> io::Result<Option<TrustedFolder>> {
        let folder = path_text(folder);
        let mut folders = self.folders()?.into_iter();
        Ok(folders.find(|one| one.folder == folder))
    }

    /// Trusts a content of the file in a directory instead of its previous one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_folder(
        &self,
        folder: &Path,
        content: String,
        grants: Vec<String>,
        now: Timestamp,
    ) -> io::Result<()> {
        let folder = path_text(folder);
        self.change_folders(|folders| {
            folders.retain(|one| one.folder != folder);
            folders.push(TrustedFolder {
                folder,
                content,
                grants,
                at: now.0,
            });
        })
    }

    /// Removes the entry of a directory, or the entries with this hash.
    ///
    /// Returns the number of removed entries.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn remove_folder(&self, folder: &Path, content: &str) -> io::Result<usize> {
        let folder = path_text(folder);
        self.change_folders(|folders| {
            let before = folders.len();
            folders.retain(|one| one.folder != folder && one.content != content);
            before - folders.len()
        })
    }
}
