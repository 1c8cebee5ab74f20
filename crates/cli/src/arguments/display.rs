//! The flags for the form of what a turn prints.

use clap::Args;

/// The form of the answer and of the report at the end.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DisplayArgs {
    /// Print the Markdown of the answer as it was received, also on a terminal
    #[arg(long)]
    pub(crate) plain: bool,

    /// Report tokens, cost and time at the end [default: on a terminal]
    #[arg(long, hide_short_help = true)]
    pub(crate) usage: bool,
}
