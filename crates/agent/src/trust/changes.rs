//! The difference between a grant and the one that the user trusted before.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trust::grant::Grant;
use crate::trust::trust_file::Trusted;

/// A difference between a grant and an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantChange {
    /// A declaration that the earlier grant does not have.
    Added {
        /// The line of the declaration.
        declares: String,
    },
    /// A declaration that only the earlier grant has.
    Removed {
        /// The line of the declaration.
        declares: String,
    },
    /// A file that is covered now and was not before.
    FileAdded {
        /// The name of the file.
        path: String,
    },
    /// A covered file with another content.
    FileChanged {
        /// The name of the file.
        path: String,
    },
    /// A file that was covered before and is missing or not named now.
    FileRemoved {
        /// The name of the file.
        path: String,
    },
}

impl Grant {
    /// Returns the differences from a grant that was trusted.
    pub fn changes_since(&self, before: &Trusted) -> Vec<GrantChange> {
        let mut changes = GrantChange::between(&before.declares, &self.lines());
        let files = self.files().into_iter();
        let files: BTreeMap<String, String> = files
            .map(|file| (file.name, file.content.label()))
            .collect();
        for (path, content) in &files {
            let path = path.clone();
            match before.files.get(&path) {
                None => changes.push(GrantChange::FileAdded { path }),
                Some(known) if known != content => changes.push(GrantChange::FileChanged { path }),
                Some(_) => {}
            }
        }
        let gone = before
            .files
            .keys()
            .filter(|path| !files.contains_key(*path));
        changes.extend(gone.cloned().map(|path| GrantChange::FileRemoved { path }));
        changes
    }
}

impl GrantChange {
    /// Returns the differences between the lines of two grants.
    pub(crate) fn between(before: &[String], now: &[String]) -> Vec<Self> {
        let gone = before.iter().filter(|line| !now.contains(line));
        let gone = gone.cloned().map(|declares| Self::Removed { declares });
        let new = now.iter().filter(|line| !before.contains(line));
        let new = new.cloned().map(|declares| Self::Added { declares });
        gone.chain(new).collect()
    }
}

impl std::fmt::Display for GrantChange {
    /// Formats the change as one line of a diff.
    ///
    /// The line may contain characters that control a terminal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Added { declares } => write!(f, "+ {declares}"),
            Self::Removed { declares } => write!(f, "- {declares}"),
            Self::FileAdded { path } => write!(f, "+ file added: {path}"),
            Self::FileChanged { path } => write!(f, "~ file changed: {path}"),
            Self::FileRemoved { path } => write!(f, "- file removed: {path}"),
        }
    }
}
