//! Resolution of the paths that a model writes to.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, MAIN_SEPARATOR, Path, PathBuf};

use super::MAX_FILE_BYTES;
use crate::{AccessScope, RootError};

/// Directories below a root that configure Logue or Git or hold transcripts.
const PROTECTED_DIRECTORIES: [&str; 2] = [".chatmd", ".git"];
/// The name of the configuration file.
const PROTECTED_FILE: &str = "logue.toml";

/// A file that may be written; it may not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct WriteTarget {
    /// The path as the model wrote it.
    pub(crate) asked: String,
    /// The path without links.
    pub(crate) real: PathBuf,
    /// The metadata of the file; `None` if it does not exist.
    pub(crate) metadata: Option<Metadata>,
    /// Whether the last component of the path is a link.
    pub(crate) is_link: bool,
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
        let target = match scope.roots.find(path) {
            Ok(found) => Self {
                asked: path.to_owned(),
                is_link: scope.roots.folders().iter().any(|root| {
                    let entry = std::fs::symlink_metadata(root.join(path));
                    entry.is_ok_and(|entry| entry.is_symlink())
                }),
                real: found.path,
                metadata: Some(found.metadata),
            },
            Err(RootError::NotFound(_)) => absent(scope, path)?,
            Err(error) => return Err(error.to_string()),
        };
        if let Some(metadata) = &target.metadata {
            if !metadata.is_file() {
                return Err(format!("{path}: is not a regular file"));
            }
            if metadata.permissions().readonly() {
                return Err(format!("{path}: is read-only"));
            }
        }
        if is_protected(scope, &target.real) {
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
        let file = File::open(&self.real).map_err(unreadable)?;
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

/// Resolves a file that does not exist, below the existing part of its path.
fn absent(scope: &AccessScope, path: &str) -> Result<WriteTarget, String> {
    let missing = || RootError::NotFound(path.to_owned()).to_string();
    let root = scope.roots.folders().first().ok_or_else(missing)?;
    let joined = root.join(path);
    let mut existing: &Path = &joined;
    let mut missing_names = Vec::new();
    let folder = loop {
        if let Ok(real) = existing.canonicalize() {
            break real;
        }
        // `..` of a directory that does not exist has no meaning.
        let Some(Component::Normal(name)) = existing.components().next_back() else {
            return Err(missing());
        };
        missing_names.push(name);
        existing = existing.parent().ok_or_else(missing)?;
    };
    if !scope.roots.holds(&folder) {
        return Err(RootError::Outside(path.to_owned()).to_string());
    }
    if !folder.is_dir() {
        return Err(format!("{path}: one of its folders is a file"));
    }
    let first = missing_names.last().map(|name| folder.join(name));
    if first.is_some_and(|first| std::fs::symlink_metadata(first).is_ok()) {
        return Err(format!("{path}: leads over a link that leads nowhere"));
    }
    let real = missing_names
        .iter()
        .rev()
        .fold(folder, |path, name| path.join(name));
    Ok(WriteTarget {
        asked: path.to_owned(),
        real,
        metadata: None,
        is_link: false,
    })
}

/// Returns whether the file is protected; letter case is ignored as some file systems do.
fn is_protected(scope: &AccessScope, real: &Path) -> bool {
    let below = |root: &PathBuf| real.strip_prefix(root).ok();
    let is = |part: Component<'_>, name: &str| part.as_os_str().eq_ignore_ascii_case(name);
    let named = scope.roots.folders().iter().filter_map(below).any(|path| {
        let is_directory = |part| PROTECTED_DIRECTORIES.iter().any(|name| is(part, name));
        let last = path.components().next_back();
        path.components().any(is_directory) || last.is_some_and(|part| is(part, PROTECTED_FILE))
    });
    named
        || scope
            .protected
            .iter()
            .any(|file| file.as_os_str().eq_ignore_ascii_case(real))
}
