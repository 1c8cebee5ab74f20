//! The command line of `logue replay`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::{ModelArgs, TrustArgs};

/// Play a prompt against a recording and compare its requests
///
/// Plays the part of PROMPT that was there before the recorded answers, so it works on the file that
/// was just recorded. Nothing is sent or written, and no tool runs: the answer and the results are those
/// of RECORDING. Prints the recorded answer; exit status 8 with the changed line if the request differs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue run --record session.ocml prompt.md\n  \
    logue replay session.ocml prompt.md")]
pub(crate) struct ReplayArgs {
    /// Recording of `logue run --record`
    pub(crate) recording: PathBuf,

    /// ChatMD prompt or OpenChatML transcript
    pub(crate) prompt: PathBuf,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
