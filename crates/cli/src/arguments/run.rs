//! The command line of `logue run`.

use std::path::PathBuf;

use clap::Args;
use logue_agent::PermissionRule;

use crate::arguments::{DisplayArgs, ModelArgs, StoreArgs, TrustArgs};
use crate::conversion::form::Form;
use crate::language::Language;

/// Run one turn of a prompt and append it to its file
///
/// The model answers the conversation in FILE, with the tools that FILE declares. Each completed
/// part is appended to FILE, so the next run continues from there. The answer is printed as it
/// arrives.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue run review.md\n  \
    logue run review.md \"And the tests?\"\n  \
    git diff | logue run review.md -\n  \
    logue run --no-save -m replay:session.ocml review.md")]
pub(crate) struct RunArgs {
    /// ChatMD prompt or OpenChatML transcript; `-` is standard input and implies --no-save
    pub(crate) file: String,

    /// User message to append first; `-` reads it from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: Vec<String>,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    /// Form of FILE [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::language_parser(), hide_short_help = true)]
    pub(crate) from: Option<Language>,

    /// Start or continue this transcript, not FILE
    #[arg(short, long, value_name = "TRANSCRIPT", conflicts_with = "no_save")]
    pub(crate) output: Option<PathBuf>,

    /// Leave FILE as it is
    #[arg(long)]
    pub(crate) no_save: bool,

    /// Show the request and send and write nothing; with --json its exact body
    #[arg(long, conflicts_with = "record")]
    pub(crate) dry_run: bool,

    /// Record the model responses to a new file for -m replay:FILE
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) record: Option<PathBuf>,

    /// Allow, ask about or deny calls of a tool; `*` names all others
    #[arg(long = "permission", value_name = "TOOL=RULE")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    /// The store of a suspended turn.
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print events as JSON lines; with =responses those of the response for a client
    #[arg(
        long,
        value_name = "EVENTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "turn"
    )]
    pub(crate) json: Option<JsonEvents>,
}

/// The events that a run prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum JsonEvents {
    /// The events of the turn
    Turn,
    /// The events of OpenChatML 2.2 §9, for clients of a model
    Responses,
}
