//! Ignore rules: `.gitignore`, `.ignore` and hidden files.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::FolderHandle;

/// Maximum size in bytes and lines of an ignore file; compiling rules costs time.
const BYTES: u64 = 64 * 1024;
const LINES: usize = 2_000;

/// The ignore rules of one directory.
#[derive(Debug, Default)]
pub(super) struct Rules {
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
}

impl Rules {
    pub(super) fn of(folder: &FolderHandle) -> Self {
        Self {
            ignore: read(folder, ".ignore"),
            gitignore: read(folder, ".gitignore"),
        }
    }
}

/// Returns whether the rules exclude an entry.
///
/// The rules of the directories above the entry come outermost first. The innermost matching rule
/// decides, and `.ignore` takes precedence over all `.gitignore` files.
pub(super) fn leave_out(rules: &[Rules], entry: &Path, is_folder: bool) -> bool {
    let decide = |file: fn(&Rules) -> Option<&Gitignore>| {
        let matches = rules.iter().rev().filter_map(file);
        let mut matches = matches.map(|rules| rules.matched(entry, is_folder));
        matches.find(|matched| !matched.is_none())
    };
    let decided =
        decide(|rules| rules.ignore.as_ref()).or_else(|| decide(|rules| rules.gitignore.as_ref()));
    matches!(decided, Some(Match::Ignore(_)))
}

/// An unreadable file counts as absent.
fn read(folder: &FolderHandle, name: &str) -> Option<Gitignore> {
    let (file, _) = folder.open_file(OsStr::new(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut rules = GitignoreBuilder::new(folder.path());
    for line in text.lines().take(LINES) {
        // Invalid rules are ignored.
        drop(rules.add_line(None, line));
    }
    rules.build().ok().filter(|rules| !rules.is_empty())
}
