//! The command line of `logue doctor`.

use clap::Args;

use crate::arguments::StoreArgs;

/// Check keys, model server, sandbox and store
///
/// Prints a remedy for each finding and changes nothing, except with --fix. Only the list of models is
/// requested from the model server. Exit status 8 if a finding prevents prompts from running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue doctor\n  \
    logue doctor --fix\n  \
    logue doctor -m gpt-4o\n  \
    logue doctor --offline --json")]
pub(crate) struct DoctorArgs {
    /// Check this model instead of the configured one
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Base URL of the model server, including `/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// API key; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Write your first settings: a model of a server that answers
    ///
    /// An existing file and a configured model are not changed, and no key is written.
    #[arg(long, conflicts_with = "offline")]
    pub(crate) fix: bool,

    /// Skip all network requests
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
