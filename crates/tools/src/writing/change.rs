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
/// # Errors
/// Returns a text for the model if a file cannot be written. It lists the files that were changed;
/// usually none was.
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
    let mut done: Vec<&str> = Vec::new();
    for change in changes.iter().filter(|change| change.content.is_some()) {
        scope.written.note(&change.target.real);
        staged
            .put(&change.target.real)
            .map_err(|error| failure(change, &error, &done, changes))?;
        done.push(&change.target.asked);
    }
    for change in changes.iter().filter(|change| change.content.is_none()) {
        std::fs::remove_file(&change.target.real)
            .map_err(|error| failure(change, &error, &done, changes))?;
        done.push(&change.target.asked);
    }
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
        static COUNT: AtomicUsize = AtomicUsize::new(0);
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
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}-{number}.logue-tmp", std::process::id());
        let temporary = folder.join(name);
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
