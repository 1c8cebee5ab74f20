//! Where a conversion goes: standard output, or a file that appears as a whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::terminal::{print, write_failed};

/// A destination.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard output; once its reader went away, nothing more is written.
    Stdout { closed: bool },
    /// Nowhere: the text goes into the report.
    Report,
    /// A file.
    File(NewFile),
}

/// A file that is written beside its place and put there when it is whole.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Sink {
    /// A file at `path`, which may exist: it is replaced.
    pub(super) fn file(path: &Path) -> Result<Self, Failure> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|error| cannot_write(path, &error))?;
        }
        if path.is_dir() {
            return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()));
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.logue-tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File(NewFile {
            path: path.to_owned(),
            temporary,
            file: Some(BufWriter::new(file)),
        }))
    }

    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Report | Self::Stdout { closed: true } => Ok(()),
            Self::Stdout { closed } => match print(text) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    *closed = true;
                    Ok(())
                }
                written => written.map_err(|error| write_failed(&error)),
            },
            Self::File(new) => {
                let path = &new.path;
                let Some(file) = &mut new.file else {
                    return Ok(());
                };
                file.write_all(text.as_bytes())
                    .map_err(|error| cannot_write(path, &error))
            }
        }
    }

    /// Puts a file in its place, durably. A sink that is dropped without this leaves nothing.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self::File(mut new) = self else {
            return Ok(());
        };
        let placed = new.place();
        placed.map_err(|error| cannot_write(&new.path, &error))
    }

    /// Whether the report has the text.
    pub(super) const fn is_report(&self) -> bool {
        matches!(self, Self::Report)
    }

    /// Whether nobody reads any more.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self, Self::Stdout { closed: true })
    }
}

impl NewFile {
    fn place(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Ok(old) = std::fs::metadata(&self.path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        // A link stays one: the file that it leads to is replaced.
        let target = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        std::fs::rename(&self.temporary, target)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.temporary));
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Exit::UserCorrectable,
        "output_failed",
        format!("`{}` cannot be written: {error}", path.display()),
    )
    .with_help("name a file that may be written, or a folder for several files")
}
