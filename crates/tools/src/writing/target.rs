//! Where a path of a model leads when it is written to.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, MAIN_SEPARATOR, Path, PathBuf};

use super::LARGEST;
use crate::{AccessScope, RootError};

/// Names below a root that say what Logue or Git may do, or what was said.
const KEPT_FOLDERS: [&str; 2] = [".chatmd", ".git"];
const KEPT_FILE: &str = "logue.toml";

/// A file that may be written, or its place if there is none yet.
#[derive(Clone, Debug)]
pub(crate) struct WriteTarget {
    /// How the model names it.
    pub(crate) asked: String,
    /// Where it really is.
    pub(crate) real: PathBuf,
    /// What is there; `None` where nothing is.
    pub(crate) metadata: Option<Metadata>,
    /// Whether the last part of the path is a link.
    pub(crate) is_link: bool,
}

impl WriteTarget {
    /// The place that `path` names: what exists below the first root that has it, else a new file
    /// below the first root.
    ///
    /// # Errors
    /// It lies in no root, is no regular file, is read-only, or is one that tools leave alone. The
    /// text is for the model.
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
                return Err(format!("{path}: is no regular file"));
            }
            if metadata.permissions().readonly() {
                return Err(format!("{path}: is read-only"));
            }
        }
        if is_kept(scope, &target.real) {
            return Err(format!(
                "{path}: tools do not write it: it belongs to the run, to Logue's settings or to Git"
            ));
        }
        Ok(target)
    }

    /// What the file holds.
    ///
    /// # Errors
    /// There is none, it is too large, or it cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let asked = &self.asked;
        let told = |error: io::Error| format!("{asked}: cannot be read: {error}");
        if self.metadata.is_none() {
            return Err(format!("{asked}: there is no such file"));
        }
        let file = File::open(&self.real).map_err(told)?;
        let mut bytes = Vec::new();
        file.take(LARGEST as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(told)?;
        if bytes.len() > LARGEST {
            return Err(format!(
                "{asked}: is larger than the {LARGEST} bytes that tools change"
            ));
        }
        Ok(bytes)
    }

    /// What the file says.
    ///
    /// # Errors
    /// As [`WriteTarget::read`], and when it is no UTF-8 text.
    pub(crate) fn text(&self) -> Result<String, String> {
        text(&self.asked, self.read()?)
    }
}

/// The content of a file as text.
///
/// # Errors
/// It is none, or not in UTF-8.
pub(crate) fn text(asked: &str, content: Vec<u8>) -> Result<String, String> {
    String::from_utf8(content).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{asked}: is not UTF-8 text (byte {at}), so it is not changed")
    })
}

/// The place of a file that does not exist: below what exists of its path.
fn absent(scope: &AccessScope, path: &str) -> Result<WriteTarget, String> {
    let missing = || RootError::NotFound(path.to_owned()).to_string();
    let root = scope.roots.folders().first().ok_or_else(missing)?;
    let joined = root.join(path);
    let mut existing: &Path = &joined;
    let mut rest = Vec::new();
    let folder = loop {
        if let Ok(real) = existing.canonicalize() {
            break real;
        }
        // `..` of a folder that does not exist leads nowhere.
        let Some(Component::Normal(name)) = existing.components().next_back() else {
            return Err(missing());
        };
        rest.push(name);
        existing = existing.parent().ok_or_else(missing)?;
    };
    if !scope.roots.holds(&folder) {
        return Err(RootError::Outside(path.to_owned()).to_string());
    }
    if !folder.is_dir() {
        return Err(format!("{path}: one of its folders is a file"));
    }
    let first = rest.last().map(|name| folder.join(name));
    if first.is_some_and(|first| std::fs::symlink_metadata(first).is_ok()) {
        return Err(format!("{path}: leads over a link that leads nowhere"));
    }
    let real = rest.iter().rev().fold(folder, |path, name| path.join(name));
    Ok(WriteTarget {
        asked: path.to_owned(),
        real,
        metadata: None,
        is_link: false,
    })
}

/// Whether tools leave the file alone. File systems may not tell cases apart, so neither do we.
fn is_kept(scope: &AccessScope, real: &Path) -> bool {
    let below = |root: &PathBuf| real.strip_prefix(root).ok();
    let is = |part: Component<'_>, name: &str| part.as_os_str().eq_ignore_ascii_case(name);
    let named = scope.roots.folders().iter().filter_map(below).any(|path| {
        let kept = |part| KEPT_FOLDERS.iter().any(|name| is(part, name));
        let last = path.components().next_back();
        path.components().any(kept) || last.is_some_and(|part| is(part, KEPT_FILE))
    });
    named
        || scope
            .kept
            .iter()
            .any(|kept| kept.as_os_str().eq_ignore_ascii_case(real))
}
