//! Where a conversion goes: standard output, or a file that appears as a whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::terminal::{closed_pipe_is_done, print, write_failed};

/// A destination.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard output; once its reader went away, nothing more is written.
    Stdout { closed: bool },
    /// Nowhere: the text goes into the report.
    Report,
    /// A file.
    File(NewFile),
    /// Standard output, once it is certain that all of it may go there: it waits in a file of its
    /// own, however long it is.
    Held(NewFile),
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
        // A device or pipe would be replaced, too.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            let what = io::Error::other("it is no regular file");
            return Err(cannot_write(path, &what));
        }
        // A link stays one: the file that it leads to is replaced.
        let target = std::fs::canonicalize(path);
        let path = target.as_deref().unwrap_or(path);
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        let (temporary, file) = temporary(&path.with_file_name(name), false)
            .map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File(NewFile {
            path: path.to_owned(),
            temporary,
            file: Some(BufWriter::new(file)),
        }))
    }

    /// Standard output that shows nothing before [`Self::finish`].
    pub(super) fn held() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join("logue-convert");
        let (temporary, file) =
            temporary(&path, true).map_err(|error| cannot_write(&path, &error))?;
        Ok(Self::Held(NewFile {
            temporary,
            path,
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

    /// Puts a file in its place, durably, or shows what was held. A sink that is dropped without
    /// this leaves nothing.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(mut new) => {
                let placed = new.place();
                placed.map_err(|error| cannot_write(&new.path, &error))
            }
            Self::Held(mut new) => closed_pipe_is_done(new.show()).map(drop),
            Self::Report | Self::Stdout { .. } => Ok(()),
        }
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
    /// Writes the file to standard output, a piece at a time that ends where a line does.
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

/// A new file whose name begins with that of `path`. One that a killed run left behind, or that
/// somebody put there, is passed over.
fn temporary(path: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    for number in 0..100 {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{number}.logue-tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (temporary, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.temporary));
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Exit::UserCorrectable,
        "stdout_write_failed",
        format!("`{}` cannot be written: {error}", path.display()),
    )
    .with_help("name a file that may be written, or a folder for several files")
}
