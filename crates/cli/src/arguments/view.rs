//! The command line of `logue view`.

use std::path::PathBuf;

use clap::Args;

use crate::conversion::form::Form;

/// Show the visible part of a conversation
///
/// Instructions, reasoning and tool traffic stay hidden. Long texts are folded to their first lines
/// and a count of the omitted ones. For a directory, every conversation in it is shown. Exit status 8:
/// a payload file was changed after the transcript named it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue view review.md\n  logue view --show-hidden --full session.ocml | less"
)]
pub(crate) struct ViewArgs {
    /// File or directory; `-` is standard input
    pub(crate) file: PathBuf,

    /// Show instructions, reasoning and tool traffic too
    #[arg(long)]
    pub(crate) show_hidden: bool,

    /// Show long texts completely, and the content of payload files
    #[arg(long)]
    pub(crate) full: bool,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::reader_parser())]
    pub(crate) from: Option<Form>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}
