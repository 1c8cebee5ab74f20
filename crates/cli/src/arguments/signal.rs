//! The command line of `logue signal`.

use clap::Args;

use crate::arguments::{CrashArgs, DisplayArgs, ModelArgs, StoreArgs, TrustArgs};

/// Decide about a suspended turn and print its outcome
///
/// A turn that calls a tool subject to approval ends with exit status 6 and prints its signal. The
/// first decision counts; a repeated decision prints the outcome of the first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue signal approve-5f2c01d7a9e4-1 --approve\n  \
    logue signal approve-5f2c01d7a9e4-1 --approve --edit arguments.json\n  \
    logue signal approve-5f2c01d7a9e4-1 --deny --reason \"not on a Friday\"\n  \
    logue signal approve-5f2c01d7a9e4-1 --payload '{\"approval\": {\"call_1\": \"approve\"}}'")]
pub(crate) struct SignalArgs {
    /// Id of the signal or of the suspended invocation
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) decision: DecisionArgs,

    /// Run a call with the arguments in FILE instead of its own (`-`: standard input)
    ///
    /// FILE has a JSON object that the schema of the tool accepts. CALL is the id of the call; it may
    /// be left out if one call waits.
    #[arg(long = "edit", value_name = "[CALL=]FILE", conflicts_with_all = ["deny", "expire", "payload"])]
    pub(crate) edits: Vec<String>,

    /// Send this text to the model with the decision
    #[arg(long, value_name = "TEXT", conflicts_with = "payload")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    /// Print events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// The decision.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DecisionArgs {
    /// Run the calls
    #[arg(long)]
    pub(crate) approve: bool,

    /// Deny the calls and report that to the model
    #[arg(long)]
    pub(crate) deny: bool,

    /// Deny the calls of a turn whose deadline has passed
    #[arg(long)]
    pub(crate) expire: bool,

    /// Resume the turn with this JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
}
