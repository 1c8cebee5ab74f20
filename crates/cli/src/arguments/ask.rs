//! The command line of `logue ask`.

use std::path::PathBuf;

use clap::Args;
use logue_agent::PermissionRule;

use crate::arguments::{CrashArgs, DisplayArgs, ModelArgs, StoreArgs, TrustArgs};

/// Ask a question without a file and print the answer
///
/// Piped standard input is appended to the question. Question and answer are kept as a session, which
/// `--continue` and `logue send` continue. Calls of tools that do more than read the current directory
/// require a decision, see `logue signal`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue ask \"What is a monad?\"\n  \
    git diff | logue ask -s \"You review code\" \"Find mistakes\"\n  \
    logue ask -a plot.png -a src/main.rs \"Does the plot fit the code?\"\n  \
    logue ask -c \"And shorter?\"")]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// Instructions for the model, as a system message
    #[arg(short, long, value_name = "TEXT", conflicts_with = "continues")]
    pub(crate) system: Option<String>,

    /// Attach text, a PDF or an image: a file, an address of `http` or `https`, or a pattern like
    /// `src/**`
    #[arg(short, long = "attach", value_name = "FILE|URL")]
    pub(crate) attachments: Vec<String>,

    /// Continue the question that was asked last
    #[arg(short, long = "continue")]
    pub(crate) continues: bool,

    /// Let the model call this built-in tool
    #[arg(long = "tool", value_name = "NAME", conflicts_with = "continues")]
    pub(crate) tools: Vec<String>,

    /// Allow, ask about or deny calls of a tool (`*`: all others); the session stores the rule
    #[arg(long = "permission", value_name = "TOOL=RULE")]
    pub(crate) permissions: Vec<PermissionRule>,

    /// Write the conversation to a new prompt file too, for `logue run`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

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
