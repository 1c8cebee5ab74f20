//! The ChatMD prompts that a server offers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::find_files;
use crate::language::Language;

/// Returns the prompts among files and below directories, in a stable order.
///
/// A file that was removed is omitted.
pub(crate) fn prompt_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            // The next search retries a directory that cannot be read.
            let found = find_files(path, is_prompt).unwrap_or_default();
            files.extend(found);
        } else if path.exists() {
            files.push(path.clone());
        }
    }
    files
}

/// Returns whether a file is a prompt: a `.chatmd` file, or Markdown with a ChatMD beginning.
fn is_prompt(path: &Path) -> bool {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("chatmd") => true,
        // A prompt with bytes that are not UTF-8 is one with an error.
        Some("md") => fs::read(path).is_ok_and(|bytes| {
            Language::looks_like_chatmd(&String::from_utf8_lossy(&bytes))
                && Language::detect(Some(path), &bytes) == Language::Chatmd
        }),
        _ => false,
    }
}
