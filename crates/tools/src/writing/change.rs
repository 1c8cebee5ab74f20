//! Changes of several files, committed together as far as a file system permits.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{MAX_FILE_BYTES, WriteTarget};
use crate::AccessScope;

/// The new content of one file.
#[derive(Debug)]
pub(crate) struct Change {
    /// The file.
    pub(crate) target: WriteTarget,
    /// The new content; `None` removes the file.
    pub(crate) content: Option<Vec<u8>>,
    /// The file whose mode and owner the new content gets; `None` for a new file.
    pub(crate) like: Option<Metadata>,
}

impl Change {
    /// Creates the file, or replaces its content and keeps its mode and owner.
    pub(crate) fn replace(target: WriteTarget, content: Vec<u8>) -> Self {
        Self {
            like: target.metadata.clone(),
            target,
            content: Some(content),
        }
    }
}

/// Commits the changes: writes the new contents beside the files, renames them, removes files.
///
/// If one of them fails, those before it are undone: replaced and removed files are kept beside
/// their places until all changes are made.
///
/// # Errors
/// Returns a text for the model if a file cannot be written. It lists the files that could not be
/// restored; usually there are none.
pub(crate) fn commit(scope: &AccessScope, changes: &[Change]) -> Result<(), String> {
    let mut staged = Staged::default();
    for change in changes {
        staged
            .add(change)
            .map_err(|error| failure(change, &error, &[], changes))?;
    }
    for change in changes {
        check_unchanged(&change.target).map_err(|error| failure(change, &error, &[], changes))?;
    }
    let mut done = Done::default();
    let (written, removed): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.content.is_some());
    for change in written.into_iter().chain(removed) {
        if change.content.is_some() {
            scope.written.note(&change.target.real);
        }
        if let Err(error) = done.make(change, &mut staged) {
            let kept = done.undo();
            return Err(failure(change, &error, &kept, changes));
        }
    }
    done.keep();
    for change in changes {
        // The files are in place; a directory that cannot be synced does not undo that.
        drop(sync_folder(&change.target.real));
    }
    Ok(())
}

/// Describes the error, the files changed before it and those left unchanged.
fn failure(failed: &Change, error: &io::Error, done: &[&str], changes: &[Change]) -> String {
    let asked = &failed.target.asked;
    if done.is_empty() {
        return format!("{asked}: cannot be written: {error}. Nothing was changed");
    }
    let known: BTreeSet<&str> = done.iter().copied().collect();
    let names = changes.iter().map(|change| change.target.asked.as_str());
    let unchanged: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    format!(
        "{asked}: cannot be written: {error}. Changed already: {}. Not changed: {}",
        done.join(", "),
        unchanged.join(", ")
    )
}

/// Checks that no other process has changed the file since it was resolved.
fn check_unchanged(target: &WriteTarget) -> io::Result<()> {
    let state = |metadata: &Metadata| (metadata.len(), metadata.modified().ok());
    let now = match std::fs::symlink_metadata(&target.real) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if now.as_ref().map(state) == target.metadata.as_ref().map(state) {
        Ok(())
    } else {
        Err(io::Error::other(
            "something else was put there in the meantime",
        ))
    }
}

/// The changes that were made, each with the file that was in its place.
#[derive(Default)]
struct Done<'a> {
    changes: Vec<(&'a Change, Option<PathBuf>)>,
}

impl<'a> Done<'a> {
    /// Makes a change and keeps the file that it replaces or removes.
    fn make(&mut self, change: &'a Change, staged: &mut Staged) -> io::Result<()> {
        let real = &change.target.real;
        // Without hard links on this file system, the file is not restored.
        let backup = change.target.metadata.as_ref().and_then(|_| {
            let backup = temporary_name(real.parent().unwrap_or(Path::new("/")));
            std::fs::hard_link(real, &backup).is_ok().then_some(backup)
        });
        let made = match change.content {
            Some(_) => staged.put(real),
            None => std::fs::remove_file(real),
        };
        match (&made, &backup) {
            (Ok(()), _) => self.changes.push((change, backup)),
            (Err(_), Some(backup)) => drop(std::fs::remove_file(backup)),
            (Err(_), None) => {}
        }
        made
    }

    /// Undoes the changes, the last one first; returns the paths that stay changed.
    fn undo(&mut self) -> Vec<&'a str> {
        let mut changed = Vec::new();
        for (change, backup) in self.changes.drain(..).rev() {
            let real = &change.target.real;
            let restored = match (backup, &change.target.metadata) {
                (Some(backup), _) => std::fs::rename(backup, real),
                (None, None) => std::fs::remove_file(real),
                (None, Some(_)) => Err(io::ErrorKind::Unsupported.into()),
            };
            if restored.is_err() {
                changed.push(change.target.asked.as_str());
            }
        }
        changed.reverse();
        changed
    }

    /// Removes the files that were replaced.
    fn keep(&mut self) {
        for (_, backup) in self.changes.drain(..) {
            drop(backup.map(std::fs::remove_file));
        }
    }
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Returns a new name for a hidden file of this process.
fn temporary_name(folder: &Path) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!(".{}-{number}.logue-tmp", std::process::id()))
}

/// Contents written to temporary files and not yet renamed; dropping removes them.
#[derive(Default)]
struct Staged {
    /// Temporary files, in the order of the changes.
    files: VecDeque<PathBuf>,
    /// Directories created for them, outermost first.
    folders: Vec<PathBuf>,
}

impl Staged {
    /// Writes the content of a change to a temporary file beside its target.
    fn add(&mut self, change: &Change) -> io::Result<()> {
        let Some(content) = &change.content else {
            return Ok(());
        };
        if content.len() > MAX_FILE_BYTES {
            let message =
                format!("it would have more than the {MAX_FILE_BYTES} bytes that tools write");
            return Err(io::Error::other(message));
        }
        let folder = change.target.real.parent().unwrap_or(Path::new("/"));
        self.make(folder)?;
        if folder.canonicalize()? != folder {
            return Err(io::Error::other("its folder became a link in the meantime"));
        }
        let temporary = temporary_name(folder);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if change.like.is_some() {
            // Private until it gets the mode of the file that it replaces.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let mut file = options.open(&temporary)?;
        self.files.push_back(temporary);
        file.write_all(content)?;
        if let Some(like) = &change.like {
            give_owner(like, &file)?;
            file.set_permissions(like.permissions())?;
        }
        file.sync_all()
    }

    /// Creates a directory and its missing parents.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| !path.exists())
            .collect();
        for path in missing.into_iter().rev() {
            std::fs::create_dir(path)?;
            self.folders.push(path.to_owned());
        }
        Ok(())
    }

    /// Renames the next temporary file to its target.
    fn put(&mut self, target: &Path) -> io::Result<()> {
        let Some(temporary) = self.files.front() else {
            return Err(io::Error::other("its content is missing"));
        };
        std::fs::rename(temporary, target)?;
        self.files.pop_front();
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for file in &self.files {
            drop(std::fs::remove_file(file));
        }
        // A directory with new content stays.
        for folder in self.folders.iter().rev() {
            drop(std::fs::remove_dir(folder));
        }
    }
}

/// Copies the owner of the replaced file, as far as permissions allow.
#[cfg_attr(
    not(unix),
    expect(
        clippy::unnecessary_wraps,
        unused_variables,
        reason = "files have no owner here"
    )
)]
fn give_owner(like: &Metadata, file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid())
            && fchown(file, Some(like.uid()), Some(like.gid())).is_err()
        {
            // Only root may change the owner; other users may be allowed to change the group.
            drop(fchown(file, None, Some(like.gid())));
        }
    }
    Ok(())
}

fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::Roots;

    fn target(folder: &Path, name: &str) -> WriteTarget {
        let real = folder.join(name);
        WriteTarget {
            asked: name.to_owned(),
            metadata: std::fs::symlink_metadata(&real).ok(),
            real,
            is_link: false,
        }
    }

    #[test]
    fn a_failing_write_undoes_those_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for name in ["changed", "removed"] {
            std::fs::write(folder.join(name), "before").unwrap();
        }
        std::fs::create_dir_all(folder.join("blocked/full")).unwrap();
        let inode = std::fs::metadata(folder.join("changed")).unwrap().ino();
        let change = |name: &str, content: Option<&str>| Change {
            target: target(&folder, name),
            content: content.map(|text| text.as_bytes().to_vec()),
            like: None,
        };
        let scope = AccessScope::new(Arc::new(Roots::new([folder.clone()]).unwrap()));
        let reason = commit(
            &scope,
            &[
                change("changed", Some("after")),
                change("new/file", Some("after")),
                change("removed", None),
                // A directory can be neither replaced nor removed as a file.
                change("blocked", None),
            ],
        )
        .unwrap_err();
        assert!(reason.contains("Nothing was changed"), "{reason}");
        for name in ["changed", "removed"] {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            assert_eq!(text, "before", "{name}");
        }
        assert_eq!(
            std::fs::metadata(folder.join("changed")).unwrap().ino(),
            inode
        );
        let mut left: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["blocked", "changed", "removed"]);
    }
}
