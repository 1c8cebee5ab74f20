//! The command lines of `logue debug`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use openchatml::Dialect;

use crate::arguments::StartRole;
use crate::conversion::form::Form;

/// The dialects that `debug frames` reads.
const FRAME_DIALECTS: &[Dialect] = &[Dialect::Harmony, Dialect::V2_2, Dialect::V2_0];

/// The subcommands of `logue debug`.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Frames(FramesArgs),
    Tree(TreeArgs),
}

/// Print the messages and diagnostics of a transcript as JSON
///
/// Prints one object with `messages`, hidden ones included, and `diagnostics`; spans count bytes from
/// 0. Malformed input is recovered, so the exit status is 0 for any content.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue debug frames session.ocml\n  \
    logue debug frames --from harmony --start-role assistant answer.txt")]
pub(crate) struct FramesArgs {
    /// Transcript; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::dialect_parser(FRAME_DIALECTS))]
    pub(crate) from: Option<Dialect>,

    /// Read the text as starting in the header of a message of this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) start_role: Option<StartRole>,

    /// Read token ids of `o200k_harmony`; implies --from harmony
    #[arg(long)]
    pub(crate) tokens: bool,
}

/// Print the elements and texts of a ChatMD file as JSON
///
/// Prints one list of `{"tag", "attrs", "children"}` and `{"text"}`; named files are not read.
/// Malformed input is recovered; errors go to standard error and set the exit status to 8.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue debug tree review.md\n  git show HEAD:review.md | logue debug tree -"
)]
pub(crate) struct TreeArgs {
    /// ChatMD file; `-` is standard input
    pub(crate) file: PathBuf,

    /// Replace each import by the elements of its file
    #[arg(long)]
    pub(crate) expand_imports: bool,
}
