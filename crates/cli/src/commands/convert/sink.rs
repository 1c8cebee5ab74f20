//! Destinations of a conversion: standard output, or a file that is replaced atomically.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::commands::convert::temporary;
use crate::exit::{CliError, Exit};
use crate::terminal::{ignore_broken_pipe, print, write_failed};

/// The destination of converted text.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard output; nothing is written after its reader has closed it.
    Stdout { closed: bool },
    /// No output of its own: the text becomes part of the report.
    Report,
    /// A file.
    File(NewFile),
    /// Standard output that is held in a temporary file until the conversion has succeeded.
    ///
    /// The length of the text is unlimited.
    Held(NewFile),
}

/// A file that is written beside its target and renamed when it is complete.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Sink {
    /// Opens a file at `path`, which replaces an existing one.
    pub(super) fn file(path: &Path) -> Result<Self, CliError> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|error| cannot_write(path, &error))?;
        }
        // The rename would also replace a device or pipe.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            let what = io::Error::other("it is not a regular file");
            return Err(cannot_write(path, &what));
        }
        // A symbolic link is kept: its target is replaced.
        let target = std::fs::canonicalize(path);
        let path = target.as_deref().unwrap_or(path);
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        let (temporary, file) = temporary::create(&path.with_file_name(name), false)
            .map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File(NewFile {
            path: path.to_owned(),
            temporary,
            file: Some(BufWriter::new(file)),
        }))
    }

    /// Opens standard output that receives nothing before [`Self::finish`].
    pub(super) fn held() -> Result<Self, CliError> {
        let path = std::env::temp_dir().join("logue-convert");
        let (temporary, file) =
            temporary::create(&path, true).map_err(|error| cannot_write(&path, &error))?;
        Ok(Self::Held(NewFile {
            temporary,
            path,
            file: Some(BufWriter::new(file)),
        }))
    }

    pub(super) fn write(&mut self, text: &str) -> Result<(), CliError> {
        match self {
            Self::Report | Self::Stdout { closed: true } => Ok(()),
            Self::Stdout { closed } => match print(text) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    *closed = true;
                    Ok(())
                }
                written => written.map_err(|error| write_failed(&error)),
            },
            Self::File(new) | Self::Held(new) => {
                let path = &new.path;
                let Some(file) = &mut new.file else {
                    return Ok(());
                };
                file.write_all(text.as_bytes())
                    .map_err(|error| cannot_write(path, &error))
            }
        }
    }

    /// Renames a file to its target, durably, or prints the held text.
    ///
    /// A sink that is dropped without this call leaves no file.
    pub(super) fn finish(self) -> Result<(), CliError> {
        match self {
            Self::File(mut new) => {
                let placed = new.place();
                placed.map_err(|error| cannot_write(&new.path, &error))
            }
            Self::Held(mut new) => ignore_broken_pipe(new.show()).map(drop),
            Self::Report | Self::Stdout { .. } => Ok(()),
        }
    }

    /// Returns whether the report contains the text.
    pub(super) const fn is_report(&self) -> bool {
        matches!(self, Self::Report)
    }

    /// Returns whether the reader has closed standard output.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self, Self::Stdout { closed: true })
    }
}

impl NewFile {
    /// Copies the file to standard output, line by line.
    fn show(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut lines = BufReader::new(file);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            print(&line)?;
            line.clear();
        }
        Ok(())
    }

    fn place(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Ok(old) = std::fs::metadata(&self.path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        std::fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        temporary::remove(&self.temporary);
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::new(
        Exit::UserCorrectable,
        "stdout_write_failed",
        format!("cannot write `{}`: {error}", path.display()),
    )
    .with_help("name a writable file, or a directory for several files")
}
