//! The command lines of `logue fmt` and `logue fix`.

use std::path::PathBuf;

use clap::Args;

use crate::conversion::form::Form;
use crate::language::Language;

/// Format ChatMD files
///
/// Changes the layout only: white space between elements and the spelling of tags. The model input
/// stays the same, byte by byte. Files with errors and files in other languages stay unchanged. Exit
/// status 8 if a file has errors.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue fmt prompts/\n  \
    logue fmt --check --diff prompts/\n  \
    logue fmt - < draft.md > review.md")]
pub(crate) struct FmtArgs {
    /// Files and directories; `-` filters standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print the names of files to format without writing; exit with 8 if any
    #[arg(long)]
    pub(crate) check: bool,

    /// Print a diff without writing; exit with 8 if it is not empty
    #[arg(long)]
    pub(crate) diff: bool,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Repair transcripts that cannot be read back
///
/// Writes the repaired files and prints each change with its reason. Stubs get their slash, quoted
/// tags go into RAW blocks, added indentation and empty messages are removed; the words of messages
/// stay the same, byte by byte. The original is kept as NAME.orig. Exit status 8 if an error cannot
/// be repaired, and with --check or --diff if there is something to repair.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue fix --diff session.md\n  \
    logue fix transcripts/\n  \
    logue fix - < session.md > repaired.md")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct FixArgs {
    /// Files and directories; `-` filters standard input to standard output
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print the repairs without writing; exit with 8 if there are any
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the repairs as a diff without writing; exit with 8 if there are any
    #[arg(long)]
    pub(crate) diff: bool,

    /// Keep no originals
    #[arg(long, conflicts_with_all = ["check", "diff"])]
    pub(crate) no_backup: bool,

    /// Form of the files [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser())]
    pub(crate) from: Option<Language>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}
