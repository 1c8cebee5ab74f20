//! A file under construction, or standard output.

use std::fs::{File, OpenOptions};
#[cfg(feature = "parquet")]
use std::io::BufWriter;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use crate::columns::Columns;
use crate::error::DataError;

/// A destination that receives the bytes of batches in their order.
pub(crate) enum Partial {
    /// Standard output.
    Stdout,
    /// A file beside its target.
    File(PartialFile),
}

pub(crate) struct PartialFile {
    target: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
}

impl Partial {
    /// Opens the destination; a file keeps its first `kept` bytes, which an earlier run wrote.
    pub(crate) fn open(target: &Path, kept: u64) -> Result<Self, DataError> {
        if target.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        let failed = DataError::write(target);
        PartialFile::open(target, kept)
            .map(Self::File)
            .map_err(failed)
    }

    /// Returns the length of the partial file of a target; `None` if there is none.
    pub(crate) fn existing(target: &Path) -> Option<u64> {
        let metadata = std::fs::metadata(name(target)).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
                written.map_err(|error| match error.kind() {
                    io::ErrorKind::BrokenPipe => DataError::Closed,
                    _ => DataError::write(Path::new("-"))(error),
                })
            }
            Self::File(file) => {
                let written = file.file.write_all(bytes);
                written.map_err(DataError::write(&file.target))?;
                file.length += bytes.len() as u64;
                Ok(())
            }
        }
    }

    pub(crate) const fn length(&self) -> u64 {
        match self {
            Self::Stdout => 0,
            Self::File(file) => file.length,
        }
    }

    /// Waits until the bytes are on disk.
    pub(crate) fn sync(&self) -> Result<(), DataError> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(file) => file
                .file
                .sync_data()
                .map_err(DataError::write(&file.target)),
        }
    }

    /// Gives the file its name. An existing file of that name is replaced.
    pub(crate) fn finish(self) -> Result<(), DataError> {
        let Self::File(file) = self else {
            return Ok(());
        };
        let renamed = || {
            if let Ok(old) = std::fs::metadata(&file.target) {
                file.file.set_permissions(old.permissions())?;
            }
            file.file.sync_all()?;
            std::fs::rename(&file.path, &file.target)
        };
        renamed().map_err(DataError::write(&file.target))
    }

    /// Replaces the lines of the file by columns, and gives it its name.
    #[cfg(feature = "parquet")]
    pub(crate) fn finish_as_columns(
        self,
        columns: &Columns,
        threads: usize,
        progress: impl FnMut(u64),
    ) -> Result<(), DataError> {
        let Self::File(lines) = self else {
            return Ok(());
        };
        let failed = || DataError::write(&lines.target);
        let path = with_suffix(&lines.target, ".columns");
        let file = File::create(&path).map_err(failed())?;
        let buffered = BufWriter::with_capacity(1 << 20, file.try_clone().map_err(failed())?);
        crate::columns::write(
            &lines.path,
            columns,
            buffered,
            &lines.target,
            threads,
            progress,
        )?;
        let file = PartialFile {
            target: lines.target,
            path,
            file,
            length: 0,
        };
        Self::File(file).finish()?;
        // It is found by the next run, if it cannot be removed.
        drop(std::fs::remove_file(lines.path));
        Ok(())
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        if let Self::File(file) = self {
            // It is empty or incomplete, and nothing refers to it.
            drop(std::fs::remove_file(file.path));
        }
    }
}

impl PartialFile {
    fn open(target: &Path, kept: u64) -> io::Result<Self> {
        // The rename would replace a device or a pipe.
        if std::fs::metadata(target).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        // A symbolic link is kept: its target is replaced.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if let Some(parent) = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent)?;
        }
        let path = name(&target);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let mut file = options.open(&path)?;
        file.set_len(kept)?;
        file.seek(SeekFrom::Start(kept))?;
        Ok(Self {
            target,
            path,
            file,
            length: kept,
        })
    }
}

/// Returns the name of a target while it is written.
fn name(target: &Path) -> PathBuf {
    let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    with_suffix(&target, ".partial")
}

/// Appends a suffix to the name of a file.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
