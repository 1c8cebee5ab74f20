//! Payload files: tool arguments and results beside a transcript (ChatMD §7.3).

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::durable::{private, sync_folder};
use crate::world::PAYLOAD_FOLDER;

/// Characters of a call id that a file name keeps.
const ID_LENGTH: usize = 48;

/// The `.chatmd` folder of one transcript's folder.
#[derive(Debug)]
pub(crate) struct PayloadFolder {
    path: PathBuf,
    next: u32,
}

impl PayloadFolder {
    pub(crate) fn beside(folder: &Path) -> Self {
        Self {
            path: folder.join(PAYLOAD_FOLDER),
            next: 0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a payload durably under a name that nothing has yet and gives the reference to it,
    /// relative to the transcript's folder.
    pub(crate) fn write(&mut self, kind: &str, id: &str, text: &str) -> io::Result<String> {
        self.make_folder()?;
        let id = file_name_of(id);
        loop {
            let name = format!("{}.{kind}.{id}.json", self.next);
            let path = self.path.join(&name);
            match private(OpenOptions::new().write(true).create_new(true)).open(&path) {
                Ok(mut file) => {
                    self.next += 1;
                    file.write_all(text.as_bytes())?;
                    file.sync_all()?;
                    sync_folder(&path)?;
                    return Ok(format!("./{PAYLOAD_FOLDER}/{name}"));
                }
                // Of an earlier run, or of another transcript in the same folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.next += 1,
                Err(error) => return Err(error),
            }
        }
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

/// An id that a model made up, as a part of a file name: it can neither leave the folder nor be
/// too long.
fn file_name_of(id: &str) -> String {
    let safe = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    id.chars().take(ID_LENGTH).map(safe).collect()
}
