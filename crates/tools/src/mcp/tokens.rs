//! OAuth tokens in files that only their owner can read.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::catalog::private;
use crate::private_folder;

/// A directory with one private token file per server.
#[derive(Clone, Debug)]
pub struct TokenStore {
    folder: PathBuf,
}

impl TokenStore {
    /// Creates a store in `folder`, which is created on first use.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the token file of a server.
    pub fn file(&self, url: &str) -> PathBuf {
        self.folder.join(format!("{:x}.json", Sha256::digest(url)))
    }

    pub(crate) fn get(&self, url: &str) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.file(url)).ok()?).ok()
    }

    pub(crate) fn put(&self, url: &str, grant: &Value) -> std::io::Result<()> {
        private_folder(&self.folder)?;
        let file = self.file(url);
        let unfinished = file.with_extension(std::process::id().to_string());
        // An older file may have other permissions.
        drop(fs::remove_file(&unfinished));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        let mut stream = private(&mut options).open(&unfinished)?;
        stream.write_all(grant.to_string().as_bytes())?;
        fs::rename(unfinished, file)
    }
}
