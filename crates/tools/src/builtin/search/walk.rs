//! Directory traversal in the order of paths, with ignore rules.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::rules::{Rules, leave_out};
use crate::Roots;

/// The next entry of a traversal.
#[derive(Debug)]
pub(super) enum Step {
    /// A regular file.
    File(PathBuf),
    /// A link, which is not followed.
    Link,
    /// A directory that cannot be read.
    Unreadable,
    /// An ignored entry or an entered directory; it counts as one entry.
    Passed,
}

/// A traversal without limits of its own: each step is one entry.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    roots: &'a Roots,
    /// The rules from the root to the innermost open directory.
    rules: Vec<Rules>,
    open: Vec<Folder>,
    /// Maximum number of entries read per directory.
    most: usize,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The remaining entries, the next one last.
    entries: Vec<(OsString, Kind)>,
    /// Whether the directory has more entries than were read.
    cut: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl<'a> Walk<'a> {
    /// Starts a traversal of `folder`, which is below a root and never ignored itself.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub(super) fn new(folder: &Path, roots: &'a Roots, most: usize) -> std::io::Result<Self> {
        let root = roots.folders().iter().find(|root| folder.starts_with(root));
        let mut above: Vec<&Path> = folder
            .ancestors()
            .skip(1)
            .take_while(|above| root.is_some_and(|root| above.starts_with(root)))
            .collect();
        above.reverse();
        let rules = above.into_iter().map(|above| Rules::of(above, roots));
        let mut walk = Self {
            roots,
            rules: rules.collect(),
            open: Vec::new(),
            most,
        };
        walk.enter(folder.to_owned())?;
        Ok(walk)
    }

    /// Returns the next entry; `None` at the end.
    pub(super) fn step(&mut self) -> Option<Step> {
        loop {
            let folder = self.open.last_mut()?;
            let Some((name, kind)) = folder.entries.pop() else {
                let cut = folder.cut;
                self.open.pop();
                self.rules.pop();
                if cut {
                    return Some(Step::Unreadable);
                }
                continue;
            };
            let path = folder.path.join(&name);
            let hidden = name.as_encoded_bytes().starts_with(b".");
            let is_folder = matches!(kind, Kind::Folder);
            if hidden || leave_out(&self.rules, &path, is_folder) {
                return Some(Step::Passed);
            }
            return Some(match kind {
                Kind::File => Step::File(path),
                Kind::Folder => match self.enter(path) {
                    Ok(()) => Step::Passed,
                    Err(_) => Step::Unreadable,
                },
                Kind::Link => Step::Link,
                Kind::Other => Step::Passed,
            });
        }
    }

    fn enter(&mut self, path: PathBuf) -> std::io::Result<()> {
        let mut entries = Vec::new();
        let mut cut = false;
        for entry in std::fs::read_dir(&path)? {
            if entries.len() >= self.most {
                cut = true;
                break;
            }
            let Ok(entry) = entry else { continue };
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_file() => Kind::File,
                Ok(kind) if kind.is_dir() => Kind::Folder,
                Ok(kind) if kind.is_symlink() => Kind::Link,
                _ => Kind::Other,
            };
            entries.push((entry.file_name(), kind));
        }
        entries.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        self.rules.push(Rules::of(&path, self.roots));
        self.open.push(Folder { path, entries, cut });
        Ok(())
    }
}
