//! The directories that tools may read, and the only way to open files in them.
//!
//! Paths from a model are hostile: they may be absolute, contain `..` or pass through links. A path
//! is resolved to its real location, which must be below a root.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Directories that may be read. Relative paths are resolved against the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    folders: Vec<PathBuf>,
}

/// An error of opening a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum RootError {
    /// The path does not exist.
    NotFound(String),
    /// The path is outside all roots.
    Outside(String),
    /// The path exists and cannot be read.
    Unreadable(String, io::Error),
}

impl std::fmt::Display for RootError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "{path}: there is no such file or folder"),
            Self::Outside(path) => write!(f, "{path}: is outside the folders that may be read"),
            Self::Unreadable(path, error) => write!(f, "{path}: cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RootError {}

/// A file or directory below a root.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The path without links.
    pub path: PathBuf,
    /// The metadata.
    pub metadata: Metadata,
}

impl Roots {
    /// Creates roots from existing directories; the first one is the base of relative paths.
    ///
    /// # Errors
    /// Returns an error for the first path that does not exist or is not a directory.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, RootError> {
        let mut real: Vec<PathBuf> = Vec::new();
        for folder in folders {
            let name = folder.display().to_string();
            let path = folder
                .canonicalize()
                .map_err(|error| classify(&name, error))?;
            if !path.is_dir() {
                let error = io::Error::from(io::ErrorKind::NotADirectory);
                return Err(RootError::Unreadable(name, error));
            }
            if !real.contains(&path) {
                real.push(path);
            }
        }
        Ok(Self { folders: real })
    }

    /// Returns the directories without links.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Returns the base of relative paths; the current directory if there are no roots.
    pub fn base(&self) -> &Path {
        self.folders
            .first()
            .map_or(Path::new("."), PathBuf::as_path)
    }

    /// Resolves `path`. A relative path is tried below each root in order.
    ///
    /// # Errors
    /// Returns [`RootError::NotFound`] if nothing exists at the path and [`RootError::Outside`] if
    /// it is outside the roots. The error for a path outside does not reveal whether it exists.
    pub fn find(&self, path: &str) -> Result<Opened, RootError> {
        let asked = Path::new(path);
        if path.contains('\0') {
            return Err(RootError::NotFound(path.replace('\0', "\u{FFFD}")));
        }
        let mut first_error = None;
        for root in &self.folders {
            let joined = root.join(asked);
            match joined.canonicalize() {
                Ok(real) if self.holds(&real) => {
                    let metadata = std::fs::metadata(&real)
                        .map_err(|error| RootError::Unreadable(path.to_owned(), error))?;
                    return Ok(Opened {
                        path: real,
                        metadata,
                    });
                }
                Ok(_) => {
                    first_error.get_or_insert(RootError::Outside(path.to_owned()));
                }
                Err(error) => {
                    let error = if may_name_inside(root, asked) {
                        classify(path, error)
                    } else {
                        RootError::Outside(path.to_owned())
                    };
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| RootError::Outside(path.to_owned())))
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// As [`Roots::find`]; also if the path is not a regular file, because a pipe or device could
    /// block.
    pub fn open_file(&self, path: &str) -> Result<(File, Metadata), RootError> {
        let found = self.find(path)?;
        if !found.metadata.is_file() {
            let kind = if found.metadata.is_dir() {
                "a folder"
            } else {
                "no regular file"
            };
            let error = io::Error::other(format!("it is {kind}"));
            return Err(RootError::Unreadable(path.to_owned(), error));
        }
        self.open_real(&found.path)
            .map_err(|error| classify(path, error))
    }

    /// Opens a regular file at a path without links.
    ///
    /// A link or pipe placed there in the meantime is neither followed nor waited for, and the
    /// opened file must be below a root.
    pub(crate) fn open_real(&self, real: &Path) -> io::Result<(File, Metadata)> {
        let mut options = File::options();
        options.read(true);
        #[cfg(unix)]
        {
            use rustix::fs::OFlags;
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        }
        let file = options.open(real)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if whereabouts(&file, real)?.is_some_and(|place| self.holds(&place)) {
            Ok((file, metadata))
        } else {
            Err(io::Error::other("something else was put there"))
        }
    }

    /// Returns whether a path without links is below a root.
    pub(crate) fn holds(&self, real: &Path) -> bool {
        self.folders.iter().any(|root| real.starts_with(root))
    }
}

/// Returns the location of an open file; `None` if it was moved or removed.
fn whereabouts(file: &File, path: &Path) -> io::Result<Option<PathBuf>> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::MetadataExt as _;
        // Linux reports the location of the open file.
        let known = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if let Ok(place) = std::fs::read_link(known) {
            return Ok(Some(place));
        }
        let place = path.canonicalize()?;
        let (opened, there) = (file.metadata()?, std::fs::symlink_metadata(&place)?);
        let same = (opened.dev(), opened.ino()) == (there.dev(), there.ino());
        Ok(same.then_some(place))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.canonicalize().map(Some)
    }
}

/// Returns whether a missing path is lexically inside `root`.
///
/// The absence of other paths is not reported.
fn may_name_inside(root: &Path, asked: &Path) -> bool {
    let mut depth = 0_i64;
    let relative = if asked.is_absolute() {
        match asked.strip_prefix(root) {
            Ok(rest) => rest,
            Err(_) => return false,
        }
    } else {
        asked
    };
    relative.components().all(|part| {
        match part {
            std::path::Component::ParentDir => depth -= 1,
            std::path::Component::Normal(_) => depth += 1,
            _ => {}
        }
        depth >= 0
    })
}

fn classify(path: &str, error: io::Error) -> RootError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            RootError::NotFound(path.to_owned())
        }
        _ => RootError::Unreadable(path.to_owned(), error),
    }
}
