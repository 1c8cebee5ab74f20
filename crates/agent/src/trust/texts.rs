//! Copies of the covered text files of trusted prompts.
//!
//! They show what has changed in a file since it was trusted, and decide nothing. A copy is named by
//! the hash of its content, and is used only if its content has this hash.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use logue_tools::{FileContent, private_folder};
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::private;
use crate::trust::grant::Grant;
use crate::trust::trust_file::{TrustFile, Trusted};

/// Maximum size of a file with a copy, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

impl TrustFile {
    /// Returns a covered file as it was trusted and as it is now.
    ///
    /// `name` is that of [`Grant::files`]. Returns `None` if either is not a text of at most 64 KiB,
    /// or if there is no copy.
    pub fn changed_text(
        &self,
        before: &Trusted,
        grant: &Grant,
        name: &str,
    ) -> Option<(String, String)> {
        let digest = before.files.get(name)?.strip_prefix("sha256:")?;
        let copy = self.texts().join(file_name(digest)?);
        let old = text_of(self.owners().open(&copy).ok()?, digest)?;
        let (path, content) = grant.file(name)?;
        let FileContent::Hashed(digest) = content else {
            return None;
        };
        Some((old, text_of(File::open(path).ok()?, digest)?))
    }

    /// Keeps copies of the covered text files of a grant.
    ///
    /// A file that cannot be copied is left out: its change is shown without a difference.
    pub(crate) fn keep_texts(&self, grant: &Grant) {
        let folder = self.texts();
        if private_folder(&folder).is_err() || !is_folder(&folder) {
            return;
        }
        for (path, content) in grant.all_files() {
            if let FileContent::Hashed(digest) = content
                && let Ok(file) = File::open(path)
                && let Some(text) = text_of(file, digest)
                && let Some(name) = file_name(digest)
            {
                drop(write_new(&folder.join(name), &text));
            }
        }
    }

    /// Removes the copies that no entry names.
    pub(crate) fn prune_texts<'a>(&self, entries: impl Iterator<Item = &'a Trusted>) {
        let labels = entries.flat_map(|entry| entry.files.values());
        let used: BTreeSet<&str> = labels
            .filter_map(|label| label.strip_prefix("sha256:"))
            .collect();
        let folder = self.texts();
        let Some(copies) = is_folder(&folder).then(|| std::fs::read_dir(&folder)) else {
            return;
        };
        for copy in copies.into_iter().flatten().flatten() {
            let name = copy.file_name();
            // Other files are not copies.
            let digest = name.to_str().and_then(file_name);
            if digest.is_some_and(|digest| !used.contains(digest)) {
                drop(std::fs::remove_file(copy.path()));
            }
        }
    }

    /// The directory of the copies.
    fn texts(&self) -> PathBuf {
        self.path().with_file_name("trust-files")
    }
}

/// Returns whether the path is a directory; a link could lead to other files.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir())
}

/// Returns a digest as the name of a file; `None` if it is not one.
fn file_name(digest: &str) -> Option<&str> {
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some(digest)
}

/// Reads a text file of limited size; `None` if its content has another hash.
fn text_of(file: File, digest: &str) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let fits = bytes.len() as u64 <= MAX_BYTES;
    let is_it = fits && format!("{:x}", Sha256::digest(&bytes)) == digest;
    is_it.then(|| String::from_utf8(bytes).ok()).flatten()
}

/// Writes a private file unless it exists.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = private(options.write(true).create_new(true)).open(path)?;
    file.write_all(text.as_bytes())
}
