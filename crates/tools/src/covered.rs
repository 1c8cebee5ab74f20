//! The files that a command names, identified by their content.
//!
//! Trust and approvals are about content: a command `sh deploy.sh` is another one after `deploy.sh`
//! was changed. [`FileHasher::command`] finds the files below a directory that the words of a
//! command name and hashes them. Files that those load in turn are unknown here.
//!
//! Each file is opened once and hashed through its handle. Only regular files are read, so a pipe
//! or device never blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Maximum size in bytes of a file that is covered.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size in bytes of an executable outside the directory.
const MAX_EXECUTABLE_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum number of files that one hasher reads.
const MAX_FILES: usize = 1_000;
/// Maximum size in bytes of all covered files of one hasher.
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;

/// The fingerprint of a call whose files cannot be hashed.
pub(crate) const UNBOUND: &str = "unbound";

/// The content of a covered file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileContent {
    /// The SHA-256 digest in hexadecimal digits.
    Hashed(String),
    /// The file exists and was not hashed, for this reason.
    Unhashed(String),
}

/// A file that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoveredFile {
    /// The absolute path as the command names it.
    pub path: PathBuf,
    /// The path without links.
    pub real: PathBuf,
    /// The content.
    pub content: FileContent,
}

/// The files below a directory that a command names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandFiles {
    /// The regular files, sorted by path.
    pub files: Vec<CoveredFile>,
    /// Paths of named files that do not exist.
    pub absent: Vec<PathBuf>,
}

/// Hashes files, with a limit of their number and size.
#[derive(Clone, Debug, Default)]
pub struct FileHasher {
    known: BTreeMap<PathBuf, Option<FileContent>>,
    files: usize,
    bytes: u64,
}

impl FileContent {
    /// Returns `sha256:` and the digest, or the reason why there is none.
    pub fn label(&self) -> String {
        match self {
            Self::Hashed(digest) => format!("sha256:{digest}"),
            Self::Unhashed(reason) => format!("not hashed: {reason}"),
        }
    }

    /// Returns the reason why the file was not hashed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Hashed(_) => None,
            Self::Unhashed(reason) => Some(reason),
        }
    }
}

impl FileHasher {
    /// Returns the files below `folder` that the words of a command name.
    ///
    /// `folder` is the working directory of the command, without links. A word names a file by
    /// itself or after its first `=`. The program is searched in `search_path` as well, the value of
    /// `PATH`.
    pub fn command(
        &mut self,
        folder: &Path,
        words: &[String],
        search_path: Option<&OsStr>,
    ) -> CommandFiles {
        let mut found = CommandFiles::default();
        let mut seen = BTreeSet::new();
        let assigned = words.iter().filter_map(|word| word.split_once('='));
        let names = words.iter().map(String::as_str);
        let named = names.chain(assigned.map(|(_, value)| value));
        let named = named.filter_map(|word| Some((below(folder, Path::new(word))?, is_path(word))));
        let program = words.first().filter(|word| !word.contains('/'));
        let searched = program.into_iter().flat_map(|program| {
            let folders = std::env::split_paths(search_path.unwrap_or_default());
            // The command starts in `folder`, so it searches relative entries there.
            let candidates = folders.map(move |one| folder.join(one).join(program));
            candidates.filter_map(|one| Some((below(folder, &one)?, false)))
        });
        for (path, may_appear) in named.chain(searched.collect::<Vec<_>>()) {
            if !seen.insert(path.clone()) {
                continue;
            }
            match self.hash(&path) {
                Some(content) => {
                    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                    found.files.push(CoveredFile {
                        path,
                        real,
                        content,
                    });
                }
                None if may_appear && !path.exists() => found.absent.push(path),
                None => {}
            }
        }
        found.files.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }

    /// Hashes a file; `None` if the path is not a regular file.
    pub fn hash(&mut self, path: &Path) -> Option<FileContent> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let limit = MAX_FILE_BYTES.min(MAX_TOTAL_BYTES.saturating_sub(self.bytes));
        let content = match open_regular(path) {
            Ok(None) => None,
            Ok(Some(_)) if self.files >= MAX_FILES => {
                let reason = format!("more than {MAX_FILES} files are named");
                Some(FileContent::Unhashed(reason))
            }
            Ok(Some(file)) => {
                self.files += 1;
                let (content, size) = digest(file, limit);
                self.bytes = self.bytes.saturating_add(size);
                Some(content)
            }
            Err(error) => Some(FileContent::Unhashed(format!("it cannot be read: {error}"))),
        };
        self.known.insert(path.to_owned(), content.clone());
        content
    }
}

/// Returns a digest of a command: its words, its executable and the files below `folder` that the
/// words name. The same command in another directory, with the same files, has the same digest.
///
/// Without a directory the words name no files. `search_path` is the value of `PATH`, for a program
/// whose `executable` is not given.
///
/// # Errors
/// Returns the reason if a file cannot be hashed, so that no digest identifies the command.
pub(crate) fn command_digest(
    folder: Option<&Path>,
    words: &[String],
    executable: Option<&Path>,
    search_path: Option<&OsStr>,
) -> Result<String, String> {
    let found = folder.map(|folder| FileHasher::default().command(folder, words, search_path));
    let mut parts = vec!["command-1".to_owned(), ".".to_owned()];
    parts.push(serde_json::json!(words).to_string());
    parts.push(match executable.map(open_regular) {
        None | Some(Ok(None)) => "absent".to_owned(),
        Some(Err(error)) => return Err(format!("the program cannot be read: {error}")),
        Some(Ok(Some(file))) => match digest(file, MAX_EXECUTABLE_BYTES).0 {
            FileContent::Hashed(digest) => digest,
            FileContent::Unhashed(reason) => return Err(format!("the program: {reason}")),
        },
    });
    for file in found.iter().flat_map(|found| &found.files) {
        let name = folder.and_then(|folder| file.path.strip_prefix(folder).ok());
        let name = name.unwrap_or(&file.path);
        let name = name.display().to_string();
        match &file.content {
            FileContent::Hashed(digest) => parts.extend([name, digest.clone()]),
            FileContent::Unhashed(reason) => return Err(format!("{name}: {reason}")),
        }
    }
    let parts = serde_json::json!(parts).to_string();
    Ok(crate::digest::sha256(parts.as_bytes()))
}

/// Returns the absolute path that `word` names in `folder`, if it is below it.
///
/// A path is below the directory by its text or after links are resolved.
fn below(folder: &Path, word: &Path) -> Option<PathBuf> {
    let text = word.as_os_str().as_encoded_bytes();
    if text.is_empty() || text.contains(&0) {
        return None;
    }
    let joined = folder.join(word);
    let mut path = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    let real = joined.canonicalize().ok();
    let is_inside = |path: &Path| path.starts_with(folder) && path != folder;
    match real {
        // `a/../b` is another file than `b` if `a` is a link.
        Some(real) if is_inside(&real) && !(is_inside(&path) && is_same(&path, &real)) => {
            Some(real)
        }
        _ if is_inside(&path) => Some(path),
        _ => None,
    }
}

/// Returns whether `path` leads to `real`.
fn is_same(path: &Path, real: &Path) -> bool {
    path.canonicalize().is_ok_and(|found| found == real)
}

/// Returns whether a word is more likely a path than an option or a verb.
fn is_path(word: &str) -> bool {
    !word.starts_with('-') && word.contains(['.', '/'])
}

/// Opens a file for reading; `None` if there is no regular file.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    // Opening a device may already have an effect, so it is not opened in the first place.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Ok(None),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}

/// Hashes an open file and returns the number of bytes that were read.
fn digest(file: File, limit: u64) -> (FileContent, u64) {
    let mut hash = Sha256::new();
    let mut size = 0_u64;
    let mut file = file.take(limit.saturating_add(1));
    let mut block = vec![0_u8; 64 * 1024];
    loop {
        match file.read(&mut block) {
            Ok(0) => return (FileContent::Hashed(format!("{:x}", hash.finalize())), size),
            Ok(count) => {
                size = size.saturating_add(count as u64);
                if size > limit {
                    let reason = format!("it has more than the {limit} bytes that can be hashed");
                    return (FileContent::Unhashed(reason), size);
                }
                hash.update(block.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let reason = format!("it cannot be read: {error}");
                return (FileContent::Unhashed(reason), size);
            }
        }
    }
}
