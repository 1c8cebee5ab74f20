//! Which files a project does not count as its own: `.gitignore`, `.ignore` and what is hidden.

use std::io::Read as _;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::Roots;

/// Bytes and lines of a file of rules that are read: compiling them costs time.
const BYTES: u64 = 64 * 1024;
const LINES: usize = 2_000;

/// The rules that one folder holds for what is below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
}

impl Rules {
    pub(super) fn of(folder: &Path, roots: &Roots) -> Self {
        Self {
            ignore: read(folder, ".ignore", roots),
            gitignore: read(folder, ".gitignore", roots),
        }
    }
}

/// Whether the rules of the folders above an entry, outermost first, leave it out. The innermost one
/// that says anything decides, and what `.ignore` says counts before all of `.gitignore`.
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

/// A file that cannot be read has no rules, as if it was not there.
fn read(folder: &Path, name: &str, roots: &Roots) -> Option<Gitignore> {
    let (file, _) = roots.open_real(&folder.join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut rules = GitignoreBuilder::new(folder);
    for line in text.lines().take(LINES) {
        // A line that is no rule is none.
        drop(rules.add_line(None, line));
    }
    rules.build().ok().filter(|rules| !rules.is_empty())
}
