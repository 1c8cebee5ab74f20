//! Resolution of the paths that a model writes to.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, MAIN_SEPARATOR, Path, PathBuf};
use std::sync::Arc;

use super::MAX_FILE_BYTES;
use crate::roots::{DeadEnd, FileId, PlaceEntry};
use crate::{AccessScope, FolderHandle, RootError};

/// Names below a root that configure Logue or Git or hold transcripts.
const PROTECTED_NAMES: [&str; 3] = [".chatmd", ".git", "logue.toml"];

/// A file that may be written; it may not exist yet.
///
/// It is reached again from the descriptor of its root, on a path without links. A patch may have
/// thousands of targets, so they are not kept open; the identity of the file that was judged is
/// compared instead.
#[derive(Clone, Debug)]
pub(crate) struct WriteTarget {
    /// The path as the model wrote it.
    pub(crate) asked: String,
    /// The path without links.
    pub(crate) real: PathBuf,
    /// The metadata of the file, from its descriptor; `None` if it does not exist.
    pub(crate) metadata: Option<Metadata>,
    /// Whether the last component of the path is a link.
    pub(crate) is_link: bool,
    /// The root that contains the file.
    pub(super) root: Arc<FolderHandle>,
    /// The directories from the root to the file; some may not exist.
    pub(super) folders: Vec<OsString>,
    /// The name of the file.
    pub(super) name: OsString,
}

impl WriteTarget {
    /// Resolves `path` to a file below a root.
    ///
    /// A new file is below the first root.
    ///
    /// # Errors
    /// Returns a text for the model if the file is outside the roots, is not a regular file, is
    /// read-only or is protected.
    pub(crate) fn find(scope: &AccessScope, path: &str) -> Result<Self, String> {
        if path.is_empty() || path.contains('\0') || path.ends_with(['/', MAIN_SEPARATOR]) {
            return Err(format!("{path:?} names no file"));
        }
        let missing = || RootError::NotFound(path.to_owned()).to_string();
        let place = scope.roots.find(path).map_err(|error| error.to_string())?;
        let real = place.path();
        let (mut names, metadata) = match place.entry {
            PlaceEntry::File { name, metadata, .. } => (vec![name], Some(metadata)),
            PlaceEntry::Absent { names } => (names, None),
            PlaceEntry::Nowhere(DeadEnd::Link) => {
                return Err(format!("{path}: leads over a link that leads nowhere"));
            }
            PlaceEntry::Nowhere(DeadEnd::File) => {
                return Err(format!("{path}: one of its folders is a file"));
            }
            PlaceEntry::Nowhere(DeadEnd::Parent) => return Err(missing()),
            PlaceEntry::Folder | PlaceEntry::Other => {
                return Err(format!("{path}: is not a regular file"));
            }
        };
        let name = names.pop().ok_or_else(missing)?;
        let (root, below) = place.trail.split_first().ok_or_else(missing)?;
        let folders = below.iter().filter_map(|folder| folder.path().file_name());
        let target = Self {
            asked: path.to_owned(),
            real,
            metadata,
            is_link: place.is_link,
            root: Arc::clone(root),
            folders: folders.map(OsStr::to_owned).chain(names).collect(),
            name,
        };
        let metadata = target.metadata.as_ref();
        if metadata.is_some_and(|metadata| metadata.permissions().readonly()) {
            return Err(format!("{path}: is read-only"));
        }
        let is_hidden = |metadata| scope.roots.hidden_now().contains(&target.real, metadata);
        if is_protected(scope, &target.real) || metadata.is_some_and(is_hidden) {
            return Err(format!(
                "{path}: tools do not write it: it belongs to the run, to Logue's settings or to Git"
            ));
        }
        Ok(target)
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// Returns a text for the model if the file does not exist, is too large or cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let asked = &self.asked;
        let unreadable = |error| self.unreadable(&error);
        if self.metadata.is_none() {
            return Err(format!("{asked}: there is no such file"));
        }
        let file = self.open().map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(format!(
                "{asked}: is larger than the {MAX_FILE_BYTES} bytes that tools change"
            ));
        }
        Ok(bytes)
    }

    /// Opens the file that was judged, without following links.
    ///
    /// # Errors
    /// Returns an error if something else is there now.
    pub(super) fn open(&self) -> io::Result<File> {
        let (file, metadata) = self.folder()?.open_file(&self.name)?;
        let judged = self.metadata.as_ref().map(FileId::of);
        if judged == Some(FileId::of(&metadata)) {
            Ok(file)
        } else {
            Err(io::Error::other(
                "something else was put there in the meantime",
            ))
        }
    }

    /// Opens the directory of the file.
    fn folder(&self) -> io::Result<Arc<FolderHandle>> {
        let enter = |folder: Arc<FolderHandle>, name: &OsString| folder.enter(name).map(Arc::new);
        self.folders.iter().try_fold(Arc::clone(&self.root), enter)
    }

    /// Reads the file as UTF-8 text.
    ///
    /// # Errors
    /// As [`WriteTarget::read`]; also if the content is not UTF-8.
    pub(crate) fn text(&self) -> Result<String, String> {
        decode_text(&self.asked, self.read()?)
    }

    /// Describes an error of reading the file.
    pub(super) fn unreadable(&self, error: &io::Error) -> String {
        format!("{}: cannot be read: {error}", self.asked)
    }
}

/// Decodes the content of a file as UTF-8.
///
/// # Errors
/// Returns a text for the model if the content is not UTF-8.
pub(crate) fn decode_text(asked: &str, content: Vec<u8>) -> Result<String, String> {
    String::from_utf8(content).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{asked}: is not UTF-8 text (byte {at}), so it is not changed")
    })
}

/// Returns whether the file is protected; letter case is ignored as some file systems do.
///
/// A file below a protected name would create a directory in the place of the protected file.
fn is_protected(scope: &AccessScope, real: &Path) -> bool {
    let below = |root: &PathBuf| real.strip_prefix(root).ok();
    let is_name = |part: Component<'_>| {
        let mut names = PROTECTED_NAMES.iter();
        names.any(|name| part.as_os_str().eq_ignore_ascii_case(name))
    };
    let mut paths = scope.roots.folders().iter().filter_map(below);
    paths.any(|path| path.components().any(is_name))
        || scope.protected.iter().any(|file| {
            let mut parts = real.ancestors();
            parts.any(|part| file.as_os_str().eq_ignore_ascii_case(part))
        })
}
