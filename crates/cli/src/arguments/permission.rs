//! The command line of permission and trust.

use std::path::PathBuf;

use clap::Args;

/// Whose tools may run, and how long a person has to say so.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrustArgs {
    /// Trust the prompt for this command: what it declares may run
    #[arg(long)]
    pub(crate) trust: bool,

    /// Take a call for denied about which nobody decides for so long, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) approval_timeout: Option<u64>,
}

/// Trust prompts, list them, or trust them no more
///
/// A prompt declares what its model may do, so one from elsewhere can grant itself nothing until you
/// trust it: each call of a tool that does more than read the prompt's folder is asked about. What
/// you trust is what it declares, with the agents that it names; its conversation may grow, and when
/// a declaration changes you are asked again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue trust review.md\n  \
    logue trust --list\n  \
    logue trust --remove review.md")]
pub(crate) struct TrustCommand {
    /// Prompts; with --remove also the hashes that --list shows
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub(crate) files: Vec<PathBuf>,

    /// List what is trusted
    #[arg(long, conflicts_with_all = ["files", "remove"])]
    pub(crate) list: bool,

    /// Trust them no more
    #[arg(long)]
    pub(crate) remove: bool,

    /// Print one JSON object a prompt
    #[arg(long)]
    pub(crate) json: bool,
}
