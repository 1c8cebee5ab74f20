//! The grants of a project's file, and the user's trust in them.

use std::path::{Path, PathBuf};

use logue_agent::{Redaction, content_id};
use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Severity, quote_word};
use toml::de::DeTable;

use crate::exit::{CliError, Exit};
use crate::setup::config::keys::{KeyGrant, grants, remove};
use crate::setup::config::origin::Origin;
use crate::setup::config::{ConfigFile, Layer};
use crate::setup::trust_file;

/// The maximum number of grants in one report.
const MAX_REPORTS: usize = 10;

/// The grants of one content of a project's file.
pub(crate) struct ProjectGrants<'a> {
    file: &'a ConfigFile,
    grants: Vec<KeyGrant>,
}

/// The reason why the file of a directory is or is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderReason {
    /// It has no granting key.
    GrantsNothing,
    /// `LOGUE_TRUST=all`.
    Everything,
    /// The trust file contains this content with these effects.
    Listed,
    /// The trust file contains another content of the directory.
    Changed,
    /// The trust file does not contain the directory.
    Unknown,
}

impl FolderReason {
    pub(crate) fn is_trusted(self) -> bool {
        matches!(self, Self::GrantsNothing | Self::Everything | Self::Listed)
    }
}

impl<'a> ProjectGrants<'a> {
    /// Determines the grants of a parsed file.
    pub(crate) fn new(file: &'a ConfigFile, table: &DeTable<'_>) -> Self {
        let grants = grants(table, file.folder());
        Self { file, grants }
    }

    /// Determines the grants of a file after a check of its values.
    ///
    /// # Errors
    /// Returns an error if the file is not a valid configuration of a project.
    pub(crate) fn checked(file: &'a ConfigFile) -> Result<Self, CliError> {
        let table = file.table()?;
        let grants = Self::new(file, table.get_ref());
        Layer::new(file, Origin::Project, table, &mut Redaction::default())?;
        Ok(grants)
    }

    /// Returns whether the file grants nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// The real path of the file's directory.
    pub(crate) fn folder(&self) -> PathBuf {
        let folder = self.file.folder();
        folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
    }

    /// The hash of the file's bytes.
    pub(crate) fn content(&self) -> String {
        content_id(self.file.text.as_bytes())
    }

    /// Describes the grants for people, one line for each. Lines may contain control characters.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.grants.iter().map(KeyGrant::line).collect()
    }

    /// Determines whether the user trusts this content in this directory, with the same effects.
    ///
    /// # Errors
    /// Returns an error if the list of trusted directories cannot be read.
    pub(crate) fn reason(&self) -> Result<FolderReason, CliError> {
        if self.is_empty() {
            return Ok(FolderReason::GrantsNothing);
        }
        if trust_file::trusts_everything() {
            return Ok(FolderReason::Everything);
        }
        let (content, lines) = (self.content(), self.lines());
        Ok(match trust_file::known_folder(&self.folder())? {
            Some(known) if known.content == content && known.grants == lines => {
                FolderReason::Listed
            }
            Some(_) => FolderReason::Changed,
            None => FolderReason::Unknown,
        })
    }

    /// Removes the granting keys from the parsed file.
    pub(crate) fn remove_from(&self, table: &mut DeTable<'_>) {
        remove(table, &self.grants);
    }

    /// Returns the error of a file that is not trusted.
    ///
    /// # Errors
    /// As [`reason`](Self::reason).
    pub(crate) fn refusal(&self) -> Result<CliError, CliError> {
        let code = DiagnosticCode::ConfigNotTrusted;
        let message = self.grants.first().map(message).unwrap_or_default();
        Ok(CliError {
            report: Some(self.report(Severity::Error)?.into()),
            ..CliError::new(Exit::UserCorrectable, code.as_str(), message)
        })
    }

    /// Renders the grants, with the command that trusts the file.
    ///
    /// # Errors
    /// As [`reason`](Self::reason).
    pub(crate) fn report(&self, severity: Severity) -> Result<String, CliError> {
        let folder = self.folder();
        let is_changed = trust_file::known_folder(&folder)?.is_some();
        let source = self.file.source();
        let shown = self.grants.len().min(MAX_REPORTS);
        let mut text = String::new();
        for (index, grant) in self.grants.iter().take(shown).enumerate() {
            let code = DiagnosticCode::ConfigNotTrusted;
            let mut diagnostic = Diagnostic::new(severity, code, message(grant), grant.span);
            if index + 1 == shown {
                diagnostic = self.with_help(diagnostic, &folder, is_changed, severity);
            }
            text.push_str(&source.render(&diagnostic, ColorMode::Plain));
        }
        Ok(text)
    }

    fn with_help(
        &self,
        mut diagnostic: Diagnostic,
        folder: &Path,
        is_changed: bool,
        severity: Severity,
    ) -> Diagnostic {
        let more = self.grants.len().saturating_sub(MAX_REPORTS);
        if more > 0 {
            diagnostic = diagnostic.with_help(format!("the file has {more} more such keys"));
        }
        if is_changed {
            let words = "the file, or a directory that it names, has changed since you trusted it";
            diagnostic = diagnostic.with_help(words);
        }
        if severity == Severity::Warning {
            diagnostic = diagnostic.with_help("this command ignores these keys");
        }
        let folder = quote_word(&folder.display().to_string());
        diagnostic.with_help(format!(
            "review the file, then run `logue trust add {folder}`, or remove these keys"
        ))
    }
}

fn message(grant: &KeyGrant) -> String {
    format!(
        "`{}` has no effect until you trust this file: it {}",
        grant.key(),
        grant.effect
    )
}
