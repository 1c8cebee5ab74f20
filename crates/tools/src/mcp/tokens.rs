//! OAuth tokens in files that only their owner can read.

use std::io::Read as _;
use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{FileOwners, private_folder, replace_private_file};

/// A directory with one private token file per server.
#[derive(Clone, Debug)]
pub struct TokenStore {
    folder: PathBuf,
    owners: FileOwners,
}

impl TokenStore {
    /// Creates a store in `folder`, which is created on first use.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            owners: FileOwners::default(),
        }
    }

    /// Sets the users whose tokens are used.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// Returns the token file of a server.
    pub fn file(&self, url: &str) -> PathBuf {
        self.folder.join(format!("{:x}.json", Sha256::digest(url)))
    }

    pub(crate) fn get(&self, url: &str) -> Option<Value> {
        let mut file = self.owners.open(&self.file(url)).ok()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn put(&self, url: &str, grant: &Value) -> std::io::Result<()> {
        private_folder(&self.folder)?;
        replace_private_file(&self.file(url), grant.to_string().as_bytes())
    }
}
