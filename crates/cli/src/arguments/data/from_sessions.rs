//! The command line of `logue data from-sessions`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::StoreArgs;

/// Write stored sessions as training rows
///
/// A conversation is one row with the decisions of people about its calls; denied calls have weight 0. Pairs of preference
/// come from edited calls, and from sessions that continue the same messages with different answers: forks and reruns. The
/// patterns of `[redact]` and of --redact apply before anything is written.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data from-sessions -o train.jsonl\n  \
    logue data from-sessions --rows preference -o pairs.jsonl ops review-1")]
pub(crate) struct DataFromSessionsArgs {
    /// Sessions [default: all]
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Choose the rows
    #[arg(long, value_enum, default_value_t = SessionRows::Conversations)]
    pub(crate) rows: SessionRows,

    /// Keep reasoning in `reasoning_content`
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Replace text that this regular expression matches; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) redact: Vec<String>,

    /// Write JSON lines to this file [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The rows that are written of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionRows {
    /// One row for each session.
    Conversations,
    /// Pairs with a prompt, a chosen and a rejected continuation.
    Preference,
}
