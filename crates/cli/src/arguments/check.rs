//! The command line of `logue check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::conversion::form::Form;

/// Check prompts and transcripts for errors
///
/// Directories are searched for ChatMD files and transcripts in any dialect. Agents that a prompt names
/// are checked with it. Exit status 8 if there is
/// an error, 3 if a file cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue check prompts/\n  \
    logue check --json review.md session.ocml\n  \
    logue check --deny warnings --format sarif prompts/ > findings.sarif")]
pub(crate) struct CheckArgs {
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::reader_parser())]
    pub(crate) from: Option<Form>,

    /// Choose the output format
    #[arg(long, value_enum, default_value_t = FindingFormat::Human)]
    pub(crate) format: FindingFormat,

    /// Print JSON lines, as with --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Exit with 8 for these findings too
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<DenyLevel>,

    /// Skip the check of the files that a document names
    #[arg(long)]
    pub(crate) no_file_checks: bool,
}

impl CheckArgs {
    /// Returns the output format that either flag selects.
    pub(crate) const fn format(&self) -> FindingFormat {
        if self.json {
            FindingFormat::Json
        } else {
            self.format
        }
    }
}

/// The output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingFormat {
    /// Reports for people, on standard error.
    Human,
    /// JSON lines.
    Json,
    /// One SARIF 2.1.0 log, for code scanners and editors.
    Sarif,
    /// Annotations as GitHub Actions reads them.
    Github,
}

/// The severities that fail a check besides errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DenyLevel {
    /// Warnings.
    Warnings,
}
