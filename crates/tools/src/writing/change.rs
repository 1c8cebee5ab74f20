//! Changes of several files, committed together as far as a file system permits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{MAX_FILE_BYTES, WriteTarget};
use crate::roots::FileId;
use crate::{AccessScope, EntryKind, FolderHandle};

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
    let mut ready = Vec::new();
    for change in changes {
        let entry = staged.add(change);
        ready.push(entry.map_err(|error| failure(change, &error, &[], changes))?);
    }
    for (change, entry) in changes.iter().zip(&ready) {
        check_unchanged(&change.target, &entry.folder)
            .map_err(|error| failure(change, &error, &[], changes))?;
    }
    let mut done = Done::default();
    let all = changes.iter().zip(&ready);
    let (written, removed): (Vec<_>, Vec<_>) =
        all.partition(|(change, _)| change.content.is_some());
    for (change, entry) in written.into_iter().chain(removed) {
        if change.content.is_some() {
            scope.written.note(&change.target.real);
        }
        if let Err(error) = done.make(change, entry, &mut staged) {
            let kept = done.undo();
            return Err(failure(change, &error, &kept, changes));
        }
    }
    done.keep();
    for folder in staged.folders.values() {
        // The files are in place; a directory that cannot be synced does not undo that.
        drop(folder.sync());
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
fn check_unchanged(target: &WriteTarget, folder: &FolderHandle) -> io::Result<()> {
    let is_same = match (folder.kind(&target.name), &target.metadata) {
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => true,
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        (Ok(EntryKind::File), Some(before)) => {
            let (_, now) = folder.open_file(&target.name)?;
            let state = |metadata: &Metadata| {
                let id = FileId::of(metadata);
                (id, metadata.len(), metadata.modified().ok())
            };
            state(before) == state(&now)
        }
        _ => false,
    };
    if is_same {
        Ok(())
    } else {
        Err(io::Error::other(
            "something else was put there in the meantime",
        ))
    }
}

/// A change whose directory is open.
struct Entry {
    folder: Arc<FolderHandle>,
    /// The name of the file with the new content; `None` if the file is removed.
    temporary: Option<OsString>,
}

/// The changes that were made, each with the name of the replaced file.
#[derive(Default)]
struct Done<'a> {
    changes: Vec<(&'a Change, &'a Entry, Option<OsString>)>,
}

impl<'a> Done<'a> {
    /// Makes a change and keeps the file that it replaces or removes.
    fn make(
        &mut self,
        change: &'a Change,
        entry: &'a Entry,
        staged: &mut Staged,
    ) -> io::Result<()> {
        let (folder, name) = (&entry.folder, &change.target.name);
        // Without hard links on this file system, the file is not restored.
        let backup = change.target.metadata.as_ref().and_then(|_| {
            let backup = temporary_name();
            folder.hard_link(name, &backup).is_ok().then_some(backup)
        });
        let made = match &entry.temporary {
            Some(temporary) => staged.put(folder, temporary, &change.target),
            None => folder.remove_file(name),
        };
        match (&made, backup) {
            (Ok(()), backup) => self.changes.push((change, entry, backup)),
            (Err(_), Some(backup)) => drop(folder.remove_file(&backup)),
            (Err(_), None) => {}
        }
        made
    }

    /// Undoes the changes, the last one first; returns the paths that stay changed.
    fn undo(&mut self) -> Vec<&'a str> {
        let mut changed = Vec::new();
        for (change, entry, backup) in self.changes.drain(..).rev() {
            let (folder, name) = (&entry.folder, &change.target.name);
            let restored = match (backup, &change.target.metadata) {
                (Some(backup), _) => folder.rename(&backup, name),
                (None, None) => folder.remove_file(name),
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
        for (_, entry, backup) in self.changes.drain(..) {
            drop(backup.map(|backup| entry.folder.remove_file(&backup)));
        }
    }
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Returns a new name for a hidden file of this process.
fn temporary_name() -> OsString {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    OsString::from(format!(".{}-{number}.logue-tmp", std::process::id()))
}

/// Contents written to temporary files and not yet renamed; dropping removes them.
#[derive(Default)]
struct Staged {
    /// Temporary files with their directories.
    files: BTreeMap<OsString, Arc<FolderHandle>>,
    /// The directories of the changes, by their paths.
    folders: BTreeMap<PathBuf, Arc<FolderHandle>>,
    /// Directories created for the changes, outermost first, each with the one that contains it.
    created: Vec<(Arc<FolderHandle>, OsString)>,
}

impl Staged {
    /// Writes the content of a change to a temporary file beside its target.
    fn add(&mut self, change: &Change) -> io::Result<Entry> {
        let content = change.content.as_deref();
        if content.is_some_and(|content| content.len() > MAX_FILE_BYTES) {
            let message =
                format!("it would have more than the {MAX_FILE_BYTES} bytes that tools write");
            return Err(io::Error::other(message));
        }
        let folder = self.folder(&change.target, content.is_some())?;
        let Some(content) = content else {
            let temporary = None;
            return Ok(Entry { folder, temporary });
        };
        let name = temporary_name();
        // Private until it gets the mode of the file that it replaces.
        let mut file = folder.create_file(&name, change.like.is_some())?;
        self.files.insert(name.clone(), Arc::clone(&folder));
        file.write_all(content)?;
        if let Some(like) = &change.like {
            give_owner(like, &file)?;
            file.set_permissions(like.permissions())?;
        }
        file.sync_all()?;
        let temporary = Some(name);
        Ok(Entry { folder, temporary })
    }

    /// Opens the directory of a target, and creates what is missing of it.
    fn folder(&mut self, target: &WriteTarget, create: bool) -> io::Result<Arc<FolderHandle>> {
        let mut folder = Arc::clone(&target.root);
        for name in &target.folders {
            let path = folder.path().join(name);
            let known = self.folders.get(&path).cloned();
            let inner = match known.map_or_else(|| folder.enter(name).map(Arc::new), Ok) {
                Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                    folder.create_folder(name, false)?;
                    self.created.push((Arc::clone(&folder), name.clone()));
                    Arc::new(folder.enter(name)?)
                }
                inner => inner?,
            };
            folder = inner;
        }
        let path = folder.path().to_owned();
        Ok(Arc::clone(self.folders.entry(path).or_insert(folder)))
    }

    /// Renames a temporary file to its target.
    fn put(
        &mut self,
        folder: &FolderHandle,
        temporary: &OsString,
        target: &WriteTarget,
    ) -> io::Result<()> {
        folder.rename(temporary, &target.name)?;
        self.files.remove(temporary);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (name, folder) in &self.files {
            drop(folder.remove_file(name));
        }
        // A directory with new content stays.
        for (folder, name) in self.created.iter().rev() {
            drop(folder.remove_folder(name));
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::Roots;

    #[test]
    fn a_failing_write_undoes_those_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["changed", "removed"] {
            std::fs::write(folder.join(name), "before").unwrap();
        }
        let inode = std::fs::metadata(folder.join("changed")).unwrap().ino();
        let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
        let scope = AccessScope::new(roots);
        let change = |name: &str, content: Option<&str>| Change {
            target: WriteTarget::find(&scope, name).unwrap(),
            content: content.map(|text| text.as_bytes().to_vec()),
            like: None,
        };
        let changes = [
            change("changed", Some("after")),
            change("new/file", Some("after")),
            change("removed", None),
            // There is nothing to remove any more.
            change("removed", None),
        ];
        let reason = commit(&scope, &changes).unwrap_err();
        assert!(reason.contains("Nothing was changed"), "{reason}");
        for name in ["changed", "removed"] {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            assert_eq!(text, "before", "{name}");
        }
        assert_eq!(
            std::fs::metadata(folder.join("changed")).unwrap().ino(),
            inode
        );
        let entries = std::fs::read_dir(folder).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["changed", "removed"]);
    }
}
