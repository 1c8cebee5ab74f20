//! The command line of `logue sessions search`.

use clap::Args;

use crate::arguments::StoreArgs;

/// Search the messages of all sessions
///
/// Finds messages that contain every word, the best ones first. Case and accents are ignored, and
/// `word*` finds words with that beginning. Exit status 8 if nothing is found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue sessions search monad\n  \
    logue sessions search postgres vacuum --prefix ask-\n  \
    logue sessions search 'conn*' --json")]
pub(crate) struct SearchArgs {
    /// The words
    #[arg(required = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Search only sessions whose id has this prefix (`ask-` for questions)
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// Print at most N messages
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}
