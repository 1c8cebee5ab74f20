//! Several files that change together, as far as a file system lets them.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LARGEST, WriteTarget};
use crate::AccessScope;

/// What a file shall hold.
#[derive(Debug)]
pub(crate) struct Change {
    /// Which file.
    pub(crate) target: WriteTarget,
    /// Its new content; `None` removes it.
    pub(crate) content: Option<Vec<u8>>,
    /// The file whose mode and owner the new content gets; `None` for a new file.
    pub(crate) like: Option<Metadata>,
}

/// Makes the changes: first the new contents are written beside the files, then all of them are put
/// in place, then files are removed.
///
/// # Errors
/// A file cannot be written. Nothing was changed then, unless the text says what was.
pub(crate) fn commit(scope: &AccessScope, changes: &[Change]) -> Result<(), String> {
    let mut staged = Staged::default();
    for change in changes {
        staged
            .add(change)
            .map_err(|error| told(change, &error, &[], changes))?;
    }
    for change in changes {
        unchanged(&change.target).map_err(|error| told(change, &error, &[], changes))?;
    }
    let mut done: Vec<&str> = Vec::new();
    for change in changes.iter().filter(|change| change.content.is_some()) {
        scope.written.note(&change.target.real);
        staged
            .put(&change.target.real)
            .map_err(|error| told(change, &error, &done, changes))?;
        done.push(&change.target.asked);
    }
    for change in changes.iter().filter(|change| change.content.is_none()) {
        std::fs::remove_file(&change.target.real)
            .map_err(|error| told(change, &error, &done, changes))?;
        done.push(&change.target.asked);
    }
    for change in changes {
        // The files are in place: that a folder cannot be synced undoes nothing.
        drop(sync_folder(&change.target.real));
    }
    Ok(())
}

/// What went wrong, and what was done before it did.
fn told(failed: &Change, error: &io::Error, done: &[&str], changes: &[Change]) -> String {
    let asked = &failed.target.asked;
    if done.is_empty() {
        return format!("{asked}: cannot be written: {error}. Nothing was changed");
    }
    let known: BTreeSet<&str> = done.iter().copied().collect();
    let names = changes.iter().map(|change| change.target.asked.as_str());
    let rest: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    format!(
        "{asked}: cannot be written: {error}. Changed already: {}. Not changed: {}",
        done.join(", "),
        rest.join(", ")
    )
}

/// That nobody else wrote the file since it was looked at.
fn unchanged(target: &WriteTarget) -> io::Result<()> {
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

/// Contents that are on the disk and not in place yet. Dropped, it takes them away again.
#[derive(Default)]
struct Staged {
    /// Files that hold the contents, in the order of the changes.
    files: VecDeque<PathBuf>,
    /// Folders that were made for them, outermost first.
    folders: Vec<PathBuf>,
}

impl Staged {
    /// Writes the content of a change beside the file that it is for.
    fn add(&mut self, change: &Change) -> io::Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let Some(content) = &change.content else {
            return Ok(());
        };
        if content.len() > LARGEST {
            let message = format!("it would have more than the {LARGEST} bytes that tools write");
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
            // Nobody else reads it before it has the mode of the file that it replaces.
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

    /// Makes a folder and those that it is in.
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

    /// Puts the next content in its place.
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
        // Folders that hold something by now stay.
        for folder in self.folders.iter().rev() {
            drop(std::fs::remove_dir(folder));
        }
    }
}

/// Gives a file the owner of the one that it replaces, as far as this process may.
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
            // Only root may give files away; for others the group alone may be possible.
            drop(fchown(file, None, Some(like.gid())));
        }
    }
    Ok(())
}

fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}
