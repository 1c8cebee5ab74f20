//! A file under construction, or standard output.

use std::fs::{File, OpenOptions, TryLockError};
#[cfg(feature = "parquet")]
use std::io::BufWriter;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use crate::columns::Columns;
use crate::error::DataError;

/// The suffix of a file under construction.
const PARTIAL: &str = ".partial";
/// The suffix of columns under construction.
#[cfg(feature = "parquet")]
const COLUMNS: &str = ".columns";

/// The suffixes of all files that a run has beside an output.
pub(crate) const COMPANIONS: [&str; 4] = [PARTIAL, ".columns", ".progress", ".progress.new"];

/// A destination that receives the bytes of batches in their order.
pub(crate) enum Partial {
    /// Standard output.
    Stdout,
    /// A pipe or a device, which is written directly.
    Stream(PathBuf, File),
    /// A file beside its target.
    File(PartialFile),
}

/// A locked file under construction.
pub(crate) struct PartialFile {
    target: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
}

impl Partial {
    /// Opens the destination and locks it; a file has what an earlier run left.
    pub(crate) fn open(target: &Path) -> Result<Self, DataError> {
        if is_stdout(target) {
            return Ok(Self::Stdout);
        }
        if is_stream(target) {
            let file = OpenOptions::new().append(true).open(target);
            let file = file.map_err(DataError::write(target))?;
            return Ok(Self::Stream(target.to_owned(), file));
        }
        PartialFile::open(target).map(Self::File)
    }

    /// Returns whether the destination is a file that a later run can continue.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Keeps the first `kept` bytes, which an earlier run wrote, and removes the others.
    pub(crate) fn keep(&mut self, kept: u64) -> Result<(), DataError> {
        let Self::File(file) = self else {
            return Ok(());
        };
        let kept_only = file.file.set_len(kept);
        kept_only
            .and_then(|()| file.file.seek(SeekFrom::Start(kept)))
            .map_err(DataError::write(&file.target))?;
        file.length = kept;
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                written_to_stream(Path::new("-"), &mut stdout, bytes)
            }
            Self::Stream(target, file) => written_to_stream(target, file, bytes),
            Self::File(file) => {
                let written = file.file.write_all(bytes);
                written.map_err(DataError::write(&file.target))?;
                file.length += bytes.len() as u64;
                Ok(())
            }
        }
    }

    /// Returns the length of a file; that of a stream is 0.
    pub(crate) const fn length(&self) -> u64 {
        match self {
            Self::Stdout | Self::Stream(..) => 0,
            Self::File(file) => file.length,
        }
    }

    /// Waits until the bytes are on disk.
    pub(crate) fn sync(&self) -> Result<(), DataError> {
        match self {
            Self::Stdout | Self::Stream(..) => Ok(()),
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
        // The handle that has the lock reads, since others cannot on some systems.
        let mut rows = lines.file.try_clone().map_err(failed())?;
        rows.seek(SeekFrom::Start(0)).map_err(failed())?;
        let path = with_suffix(&lines.target, COLUMNS);
        let file = File::create(&path).map_err(failed())?;
        let buffered = BufWriter::with_capacity(1 << 20, file.try_clone().map_err(failed())?);
        crate::columns::write(
            (rows, &lines.path),
            &columns.of_file(),
            buffered,
            &lines.target,
            threads,
            progress,
        )?;
        let file = PartialFile {
            target: lines.target.clone(),
            path,
            file,
            length: 0,
        };
        Self::File(file).finish()?;
        // It is found by the next run, if it cannot be removed.
        drop(std::fs::remove_file(&lines.path));
        Ok(())
    }

    /// Removes the file, and the target that an earlier run wrote.
    pub(crate) fn discard(self) {
        if let Self::File(file) = self {
            // It is empty or incomplete, and nothing refers to it.
            drop(std::fs::remove_file(file.path));
            drop(std::fs::remove_file(file.target));
        }
    }
}

fn written_to_stream(
    target: &Path,
    stream: &mut impl Write,
    bytes: &[u8],
) -> Result<(), DataError> {
    let written = stream.write_all(bytes).and_then(|()| stream.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => DataError::Closed,
        _ => DataError::write(target)(error),
    })
}

impl PartialFile {
    fn open(target: &Path) -> Result<Self, DataError> {
        let failed = DataError::write(target);
        match Self::locked(target) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(DataError::Busy {
                path: target.to_owned(),
            }),
            Err(error) => Err(failed(error)),
        }
    }

    /// Opens and locks the file of a target; `None` if another run has the lock.
    fn locked(target: &Path) -> io::Result<Option<Self>> {
        if target.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        // A symbolic link is kept: its target is replaced.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if let Some(parent) = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent)?;
        }
        let path = with_suffix(&target, PARTIAL);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        loop {
            let file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Some network file systems have no locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Before the lock, another run may have given the file its final name.
            if is_at(&file, &path)? {
                return Ok(Some(Self {
                    target,
                    path,
                    length: file.metadata()?.len(),
                    file,
                }));
            }
        }
    }
}

/// Returns whether a path refers to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let open = file.metadata()?;
    let named = std::fs::metadata(path);
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())))
}

/// Returns whether a path refers to an open file, which cannot be renamed.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Returns whether a path is standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || path.as_os_str() == "/dev/stdout"
}

/// Returns whether a path is an open descriptor, a pipe or a device.
pub(crate) fn is_stream(path: &Path) -> bool {
    is_stdout(path)
        || path.as_os_str() == "/dev/stderr"
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
        || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Appends a suffix to the name of a file.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
