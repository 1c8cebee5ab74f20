//! The key of the user that binds records of evaluations.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use logue_graph::IdSource as _;
use logue_harness::RandomIds;
use logue_tools::{FileOwners, FolderHandle, private_folder};
use sha2::{Digest as _, Sha256};

use crate::files::atomic_file::{folder_of, link_new, temporary};

/// The length of a block of SHA-256, in bytes.
const BLOCK: usize = 64;
/// The minimum length of a key, in bytes.
const MIN_LENGTH: usize = 32;

/// A file with a secret key, which binds records to the user of this machine.
///
/// A record from another place, such as a checkout, has no valid binding.
#[derive(Clone, Debug)]
pub struct RecordKey {
    path: PathBuf,
    owners: FileOwners,
}

impl RecordKey {
    /// Names the file, which is created when the first record is written.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            owners: FileOwners::default(),
        }
    }

    /// Sets the users whose file is used.
    #[must_use]
    pub fn with_owners(self, owners: FileOwners) -> Self {
        Self { owners, ..self }
    }

    /// Returns whether `binding` is that of `text` under the key. Without a key it is not.
    pub(crate) fn binds(&self, text: &[u8], binding: &str) -> io::Result<bool> {
        Ok(match self.read()? {
            Some(key) => authentication_code(&key, text) == binding,
            None => false,
        })
    }

    /// Returns the binding of `text`. The key is created if it is missing.
    pub(crate) fn binding(&self, text: &[u8]) -> io::Result<String> {
        let key = match self.read()? {
            Some(key) => key,
            None => self.create()?,
        };
        Ok(authentication_code(&key, text))
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let mut key = Vec::new();
        let opened = self.owners.open(&self.path);
        match opened.and_then(|file| file.take(4096).read_to_end(&mut key)) {
            Ok(_) if key.len() >= MIN_LENGTH => Ok(Some(key)),
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the key is too short; remove the file for a new one",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the key, unless another process was faster.
    fn create(&self) -> io::Result<Vec<u8>> {
        let folder = folder_of(&self.path);
        private_folder(folder)?;
        let folder = FolderHandle::open(folder)?;
        let name = self.path.file_name().unwrap_or(OsStr::new("key"));
        let random = [RandomIds.new_id(), RandomIds.new_id(), RandomIds.new_id()];
        let key = format!("{:x}", Sha256::digest(random.concat()));
        let (unfinished, mut file) = temporary(&folder, name, false)?;
        file.write_all(key.as_bytes())?;
        file.sync_all()?;
        match link_new(&folder, &unfinished, name) {
            Ok(()) => folder.sync()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                folder.remove_file(&unfinished)?;
            }
            Err(error) => return Err(error),
        }
        self.read()?.ok_or_else(|| self.missing())
    }

    fn missing(&self) -> io::Error {
        let message = format!("{} disappeared", self.path.display());
        io::Error::new(io::ErrorKind::NotFound, message)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the HMAC-SHA256 (RFC 2104) of a text, in hexadecimal.
fn authentication_code(key: &[u8], text: &[u8]) -> String {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text)
        .finalize();
    let outer = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner);
    format!("{:x}", outer.finalize())
}

#[cfg(test)]
mod tests {
    use super::authentication_code;

    /// The cases 2 and 6 of RFC 4231.
    #[test]
    fn the_code_is_that_of_the_rfc() {
        assert_eq!(
            authentication_code(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            authentication_code(
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            ),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
