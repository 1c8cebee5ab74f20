//! The command line of `logue convert`.

use std::path::PathBuf;

use clap::Args;

use crate::conversion::form::Form;

/// Convert conversations between dialects and forms
///
/// Losses are listed on standard error, frame by frame; with --strict a conversion with losses fails.
/// JSON lines are converted line by line, directories file by file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue convert session.ocml --to openai\n  \
    logue convert --from sharegpt --to chatml -o train.jsonl data.jsonl\n  \
    logue convert --to ocml2.2 --strict -o new/ old/")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ConvertArgs {
    /// Files and directories; `-` is standard input [default: -]
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write to this file, or to this directory for several inputs
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Form of the input [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) from: Option<Form>,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) to: Form,

    /// Fail if content would be lost
    #[arg(long)]
    pub(crate) strict: bool,

    /// Keep reasoning in `thinking` (json) or `reasoning_content` (openai)
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Read the input as JSON lines
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// Print JSON lines with the losses of each conversation
    #[arg(long)]
    pub(crate) json: bool,
}
