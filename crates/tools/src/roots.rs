//! The folders that tools may read, and the one way to open something in them.
//!
//! A path from a model is hostile: it may be absolute, climb with `..`, or go through a link that
//! leads elsewhere. It is resolved to where it really is, and that place must lie in a root.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Folders that may be read. Relative paths count from the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    folders: Vec<PathBuf>,
}

/// Why a path is not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum RootError {
    /// Nothing is there.
    NotFound(String),
    /// It is there, but in no root.
    Outside(String),
    /// It is there and cannot be read.
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

/// A file or folder in a root.
#[derive(Debug)]
pub struct Opened {
    /// Where it really is.
    pub path: PathBuf,
    /// What it is.
    pub metadata: Metadata,
}

impl Roots {
    /// Roots from folders that exist; the first one is the base of relative paths.
    ///
    /// # Errors
    /// The first folder that does not exist or is no folder.
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

    /// The folders, as they really are.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The base of relative paths; the current folder if there is no root at all.
    pub fn base(&self) -> &Path {
        self.folders
            .first()
            .map_or(Path::new("."), PathBuf::as_path)
    }

    /// Finds what `path` names and where it really is. A relative path is looked for below each
    /// root in order.
    ///
    /// # Errors
    /// Nothing is there, or it lies in no root. A path outside is answered the same whether or not
    /// something is there.
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

    /// Opens the regular file that `path` names.
    ///
    /// # Errors
    /// As [`Roots::find`], and when it is no regular file: a pipe or device could block for ever.
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

    /// Opens the regular file at a path without links. Somebody may put a link or a pipe there in the
    /// meantime: neither is followed nor waited for, and what was opened must lie in a root.
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
            return Err(io::Error::other("it is no regular file"));
        }
        if whereabouts(&file, real)?.is_some_and(|place| self.holds(&place)) {
            Ok((file, metadata))
        } else {
            Err(io::Error::other("something else was put there"))
        }
    }

    /// Whether a path without links lies in a root.
    pub(crate) fn holds(&self, real: &Path) -> bool {
        self.folders.iter().any(|root| real.starts_with(root))
    }
}

/// Where an open file is, which was opened by that path; `None` if it is not there any more.
fn whereabouts(file: &File, path: &Path) -> io::Result<Option<PathBuf>> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::MetadataExt as _;
        // Linux knows it of the open file itself.
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

/// Whether a path that does not exist is written so that it would be inside: then its absence
/// may be told.
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
