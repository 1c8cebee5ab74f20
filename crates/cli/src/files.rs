//! The files of the command line and of directories, and those that documents reference.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{FileLoader, read_all, read_bytes};
use logue_tools::{RootError, Roots};

use crate::exit::CliError;
use crate::language::Language;
use crate::setup::failures::source_failure;

/// Returns whether a path of the command line is standard input.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Returns the size of all files; `None` with standard input.
pub(crate) fn size_of(files: &[PathBuf]) -> Option<u64> {
    let size = |file: &PathBuf| {
        let found = (!is_stdin(file)).then(|| std::fs::metadata(file))?;
        Some(found.map_or(0, |found| found.len()))
    };
    files.iter().map(size).sum()
}

/// Returns the name of a file for messages.
pub(crate) fn shown_name(file: &Path) -> String {
    if is_stdin(file) {
        "<stdin>".to_owned()
    } else {
        file.display().to_string()
    }
}

/// Reads a file and returns its name for messages and its bytes.
pub(crate) fn read_file(file: &Path) -> Result<(String, Vec<u8>), CliError> {
    let name = shown_name(file);
    let read = if is_stdin(file) {
        read_all(&name, io::stdin().lock())
    } else {
        read_bytes(file)
    };
    Ok((name, read.map_err(|error| source_failure(&error))?))
}

/// Rejects a ChatMD document where a command requires an envelope.
pub(crate) fn refuse_chatmd(file: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let ending = file.extension().filter(|_| !is_stdin(file));
    let is_named = ending.is_some_and(|ending| ending == "chatmd");
    if !is_named && !std::str::from_utf8(bytes).is_ok_and(Language::looks_like_chatmd) {
        return Ok(());
    }
    let name = shown_name(file);
    let message = format!("`{name}` is a ChatMD document, which has no frames");
    Err(CliError::user("E-SOURCE-READ", message).with_help(format!(
        "convert it first: logue convert {} --to ocml2.2 -o FILE.ocml",
        file.display()
    )))
}

/// Returns a loader for the files that a document at `path` may reference.
///
/// These are the files in its directory and below; for standard input, in the current directory.
pub(crate) fn file_world(path: &Path) -> Result<FileLoader, RootError> {
    file_world_with(path, &[])
}

/// Returns a loader that also reads the files of other directories.
pub(crate) fn file_world_with(path: &Path, others: &[PathBuf]) -> Result<FileLoader, RootError> {
    let folder = folder_of(path);
    let roots = Roots::new(std::iter::once(folder.clone()).chain(others.iter().cloned()))?;
    Ok(FileLoader::new(Arc::new(roots), &folder).with_file(path))
}

/// Returns the cause of a failed access in plain words.
pub(crate) fn io_cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "access is denied".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        _ => {
            let text = error.to_string();
            let cause = text.split(" (os error").next();
            cause.unwrap_or_default().to_owned()
        }
    }
}

/// Returns the error of a file that is not JSON, with its position.
pub(crate) fn json_cause(name: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.split(" at line ").next().unwrap_or_default();
    let cause = cause.replace("EOF while parsing", "the text ends within");
    format!(
        "{name}:{}:{}: invalid JSON: {cause}",
        error.line(),
        error.column()
    )
}

/// Returns the files below a directory that `wanted` accepts, sorted by name.
///
/// Hidden directories, `target` and links are not entered.
pub(crate) fn find_files(
    folder: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let unreadable = |error: io::Error| {
            let message = format!("cannot search `{}`: {}", folder.display(), io_cause(&error));
            CliError::user("E-SOURCE-READ", message)
        };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            entries.push(entry.map_err(unreadable)?);
        }
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut folders = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let kind = entry.file_type().map_err(unreadable)?;
            let hidden = name.to_string_lossy().starts_with('.');
            if kind.is_file() && wanted(&entry.path()) {
                files.push(entry.path());
            } else if kind.is_dir() && name != "target" && !hidden {
                folders.push(entry.path());
            }
        }
        waiting.extend(folders.into_iter().rev());
    }
    Ok(files)
}

/// Returns the directory of a file, `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the error about a file without a conversation.
pub(crate) fn empty_file(name: &str) -> CliError {
    CliError::user("E-SOURCE-READ", format!("`{name}` is empty"))
        .with_help("name a file that contains a conversation")
}
