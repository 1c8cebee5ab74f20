//! The files of a command, compared before one of them is opened or created.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::output::{COMPANIONS, is_stdout, is_stream, with_suffix};

/// The files that a command reads and writes.
///
/// Standard output is always among those that are written.
#[derive(Clone, Debug, Default)]
pub struct RunFiles {
    read: Vec<PathBuf>,
    written: Vec<WrittenFile>,
    targets: usize,
}

/// A file that is written for a target: the target, or a file beside it.
#[derive(Clone, Debug)]
struct WrittenFile {
    /// The number of the target, since two targets may have one name.
    number: usize,
    target: PathBuf,
    path: PathBuf,
}

/// Two names of one file, of which at least one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileConflict {
    /// The named target of a command.
    pub target: PathBuf,
    /// The file that is written for it: itself, or one beside it.
    pub written: PathBuf,
    /// The other name: an input, or the target of another output.
    pub other: PathBuf,
    /// Whether the other name is an input.
    pub is_input: bool,
}

impl RunFiles {
    /// Adds a file that is read; `-` is standard input.
    #[must_use]
    pub fn with_input(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Adds a file that is written in place; `-` is standard output.
    #[must_use]
    pub fn with_file(mut self, target: impl Into<PathBuf>) -> Self {
        let target = target.into();
        if !is_stdout(&target) {
            self.write(&target, target.clone());
        }
        self.targets += 1;
        self
    }

    /// Adds an output or quarantine of a [`Run`](crate::Run), with its companions.
    #[must_use]
    pub fn with_output(mut self, target: impl Into<PathBuf>) -> Self {
        let target = target.into();
        if !is_stdout(&target) {
            self.write(&target, target.clone());
        }
        if !is_stream(&target) {
            // An existing link keeps its name, and its file has the others beside it.
            for base in [&target, &resolved(&target)] {
                for suffix in COMPANIONS {
                    self.write(&target, with_suffix(base, suffix));
                }
            }
        }
        self.targets += 1;
        self
    }

    fn write(&mut self, target: &Path, path: PathBuf) {
        self.written.push(WrittenFile {
            number: self.targets,
            target: target.to_owned(),
            path,
        });
    }

    /// Compares every written file with every other file, by path and identity.
    ///
    /// Pipes and devices are not compared.
    ///
    /// # Errors
    /// Returns [`FileConflict`] if two names are one file.
    pub fn check(&self) -> Result<(), FileConflict> {
        let of_input = |path: &PathBuf| {
            let is_stdin = path.as_os_str() == "-";
            let named = if is_stdin {
                Path::new("/dev/stdin")
            } else {
                path
            };
            (path.clone(), identity(named))
        };
        let read: Vec<_> = self.read.iter().map(of_input).collect();
        let stdout = WrittenFile {
            number: self.targets,
            target: "-".into(),
            path: "-".into(),
        };
        let mut earlier: Vec<(&WrittenFile, FileIdentity)> = Vec::new();
        for file in std::iter::once(&stdout).chain(&self.written) {
            let found = if is_stdout(&file.path) {
                identity(Path::new("/dev/stdout"))
            } else {
                identity(&file.path)
            };
            let Some(identity) = found else {
                continue;
            };
            let conflict = |other: &PathBuf, is_input| FileConflict {
                target: file.target.clone(),
                written: file.path.clone(),
                other: other.clone(),
                is_input,
            };
            for (input, other) in &read {
                if other.as_ref().is_some_and(|other| identity.is(other)) {
                    return Err(conflict(input, true));
                }
            }
            for (other, found) in &earlier {
                // The files of one target have different names.
                if identity.is(found) && other.number != file.number {
                    return Err(conflict(&other.target, false));
                }
            }
            earlier.push((file, identity));
        }
        Ok(())
    }
}

impl fmt::Display for FileConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path, stream: &str| {
            if path.as_os_str() == "-" {
                stream.to_owned()
            } else {
                format!("`{}`", path.display())
            }
        };
        let written = name(&self.written, "standard output");
        let beside = if self.written == self.target {
            String::new()
        } else {
            format!(", a file of the output `{}`,", self.target.display())
        };
        if self.is_input {
            let other = name(&self.other, "standard input");
            write!(f, "{written}{beside} would replace the input {other}")
        } else {
            let other = name(&self.other, "standard output");
            write!(
                f,
                "{written}{beside} and the output {other} would have one file"
            )
        }
    }
}

impl std::error::Error for FileConflict {}

/// A file by its path, and by its device and number if it exists.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    path: PathBuf,
    #[cfg(unix)]
    inode: Option<(u64, u64)>,
}

impl FileIdentity {
    fn is(&self, other: &Self) -> bool {
        #[cfg(unix)]
        if self.inode.is_some() && self.inode == other.inode {
            return true;
        }
        self.path == other.path
    }
}

/// Returns the identity of a file; `None` for a pipe or device.
fn identity(path: &Path) -> Option<FileIdentity> {
    let metadata = std::fs::metadata(path).ok();
    if metadata
        .as_ref()
        .is_some_and(|metadata| !metadata.is_file())
    {
        return None;
    }
    Some(FileIdentity {
        path: resolved(path),
        #[cfg(unix)]
        inode: metadata.as_ref().map(|metadata| {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        }),
    })
}

/// Links of a chain that are followed.
const MAX_LINKS: usize = 40;

/// Returns the path without links, also if its last parts do not exist.
fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = std::fs::read_link(&path) else {
            break;
        };
        path = path
            .parent()
            .map_or_else(|| next.clone(), |parent| parent.join(&next));
    }
    let path = std::path::absolute(&path).unwrap_or(path);
    for existing in path.ancestors() {
        let Ok(mut real) = existing.canonicalize() else {
            continue;
        };
        // These parts do not exist, so none of them is a link.
        for part in path.strip_prefix(existing).unwrap_or(&path).components() {
            match part {
                Component::ParentDir => {
                    real.pop();
                }
                Component::CurDir => {}
                part => real.push(part),
            }
        }
        return real;
    }
    path
}
