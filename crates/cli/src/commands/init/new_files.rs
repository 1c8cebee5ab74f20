//! Files that are written together or not at all.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::exit::{CliError, Exit};

/// The files of `logue init`.
pub(super) struct NewFiles {
    folder: PathBuf,
    files: Vec<(PathBuf, Cow<'static, str>)>,
}

impl NewFiles {
    /// Creates an empty list for a directory.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            files: Vec::new(),
        }
    }

    /// Adds a file of the directory, or replaces its text.
    pub(super) fn add(&mut self, name: &str, text: impl Into<Cow<'static, str>>) {
        let path = if self.folder == Path::new(".") {
            PathBuf::from(name)
        } else {
            self.folder.join(name)
        };
        self.add_at(path, text);
    }

    /// Adds a file at a path.
    pub(super) fn add_at(&mut self, path: PathBuf, text: impl Into<Cow<'static, str>>) {
        let text = text.into();
        match self.files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) => *known = text,
            None => self.files.push((path, text)),
        }
    }

    /// Returns the paths as text.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.files
            .iter()
            .map(|(path, _)| path.display().to_string())
    }

    /// Returns an error that names each file that exists.
    pub(super) fn refuse_existing(&self) -> Result<(), CliError> {
        let exists = |path: &&PathBuf| fs::symlink_metadata(path).is_ok();
        let paths = self.files.iter().map(|(path, _)| path).filter(exists);
        let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(existing(&names.join(", ")))
    }

    /// Writes the files; `replaces` replaces existing ones.
    ///
    /// After a failure, the files that were created are removed.
    pub(super) fn write(&self, replaces: bool) -> Result<(), CliError> {
        for (at, (path, text)) in self.files.iter().enumerate() {
            let Err(error) = create(path, text, replaces) else {
                continue;
            };
            if !replaces {
                for (created, _) in &self.files[..at] {
                    // The error below is the one to report.
                    drop(fs::remove_file(created));
                }
            }
            let name = path.display().to_string();
            return Err(if error.kind() == io::ErrorKind::AlreadyExists {
                existing(&name)
            } else {
                CliError::new(
                    Exit::UserCorrectable,
                    "init_write_failed",
                    format!("cannot write {name}: {error}"),
                )
                .with_help("check that the directory is writable and that the disk has space")
            });
        }
        Ok(())
    }
}

fn existing(names: &str) -> CliError {
    let message = format!("nothing was written, because these files exist: {names}");
    CliError::user("init_file_exists", message)
        .with_help("name another directory: logue init DIR")
        .with_help("or replace them: --force")
}

fn create(path: &Path, text: &str, replaces: bool) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if !replaces {
        return write_new(path, text);
    }
    // The old file stays until the new one is complete. A link is replaced, not followed.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.logue-tmp", std::process::id()));
    let new = path.with_file_name(name);
    write_new(&new, text)?;
    fs::rename(&new, path).inspect_err(|_| {
        // The error of the rename is the one to report.
        drop(fs::remove_file(&new));
    })
}

/// Writes a file that does not exist, or leaves none.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // The error of writing is the one to report.
        drop(fs::remove_file(path));
    })
}
