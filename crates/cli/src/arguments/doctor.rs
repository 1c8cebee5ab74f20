//! The command line of `logue doctor`.

use clap::Args;

use crate::arguments::StoreArgs;

/// Check keys, model server, sandbox and store, and say what to fix
///
/// Nothing is changed and no model is asked anything: of the model server only its list of models is
/// fetched. Exit status 8 if something would keep prompts from running.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue doctor\n  \
    logue doctor -m gpt-4o\n  \
    logue doctor --offline --json")]
pub(crate) struct DoctorArgs {
    /// Model to check, over the one in force
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Address of the model server, up to and with `/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// Key of the model server; `OPENAI_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Send nothing
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
