//! `[permissions]` and `[trust]` of `logue.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use logue_agent::{Permission, PermissionRule, PermissionRules};
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

/// The key among the tools' names that is none.
const TIMEOUT: &str = "timeout_seconds";

/// `[permissions]`: tools, or patterns of names, and what becomes of their calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct PermissionTable(BTreeMap<String, Spanned<Value>>);

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Word(String),
    Seconds(u64),
}

impl PermissionTable {
    /// The rules.
    ///
    /// # Errors
    /// The first value that is none, with its place in the file.
    pub(crate) fn rules(&self) -> Result<PermissionRules, (Span, String)> {
        let rules = self.0.iter().filter(|(tool, _)| *tool != TIMEOUT);
        rules
            .map(|(tool, value)| {
                let permission = match value.get_ref() {
                    Value::Word(word) => Permission::parse(word),
                    Value::Seconds(_) => None,
                };
                let failed = || {
                    let message = format!("`{tool}` is \"allow\", \"ask\" or \"deny\"");
                    (Span::from(value.span()), message)
                };
                Ok(PermissionRule {
                    tool: tool.clone(),
                    permission: permission.ok_or_else(failed)?,
                })
            })
            .collect()
    }

    /// How long a turn waits for a person.
    ///
    /// # Errors
    /// It is no number of seconds, with its place in the file.
    pub(crate) fn timeout_seconds(&self) -> Result<Option<u64>, (Span, String)> {
        let Some(value) = self.0.get(TIMEOUT) else {
            return Ok(None);
        };
        match value.get_ref() {
            Value::Seconds(seconds) if *seconds > 0 => Ok(Some(*seconds)),
            _ => Err((
                Span::from(value.span()),
                format!("`{TIMEOUT}` is a number of seconds, at least 1"),
            )),
        }
    }
}

/// `[trust]`: whose prompts are the user's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustTable {
    #[serde(default)]
    folders: Vec<Spanned<PathBuf>>,
}

impl TrustTable {
    /// Whether a file may say what it says: a project's comes with a checkout, which could call
    /// itself trusted.
    ///
    /// # Errors
    /// Why not, and its place in the file.
    pub(crate) fn check(&self, own: bool) -> Result<(), (Span, &'static str)> {
        match self.folders.first() {
            Some(folder) if !own => Err((
                Span::from(folder.span()),
                "only your own logue/config.toml may say which folders are trusted",
            )),
            _ => Ok(()),
        }
    }

    /// The folders; relative ones count from the file's, and `~/` is the home folder.
    pub(crate) fn folders(&self, of_file: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let folders = self.folders.iter().map(Spanned::get_ref);
        folders
            .map(|folder| match (folder.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => of_file.join(folder),
            })
            .collect()
    }
}
