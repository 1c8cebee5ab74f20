//! The command line of `logue convert`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use crate::arguments::{LossArgs, VariableArgs};
use crate::conversion::form::Form;

/// Convert conversations between dialects and forms
///
/// Losses are listed on standard error by severity: content, structure, identity. If content is
/// lost, the exit status is 8, unless --allow-loss=content permits it. JSON lines are converted line by line, directories file by file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue convert session.ocml --to openai\n  \
    logue convert --from sharegpt --to chatml -o train.jsonl data.jsonl\n  \
    logue convert --to ocml2.2 --strict=structure -o new/ old/")]
pub(crate) struct ConvertArgs {
    /// Files and directories; `-` is standard input [default: -]
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write to this file, or to this directory for several inputs
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Form of the input [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::reader_parser())]
    pub(crate) from: Option<Form>,

    /// Form of the output
    #[arg(long, value_name = "FORM", value_parser = Form::parser())]
    pub(crate) to: Form,

    #[command(flatten)]
    pub(crate) losses: LossArgs,

    /// Keep reasoning in `thinking` (json) or `reasoning_content` (openai)
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    #[command(flatten)]
    pub(crate) expansion: ExpansionArgs,

    #[command(flatten)]
    pub(crate) variables: VariableArgs,

    /// Convert JSON lines with N threads [default: one for each processor]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Read the input as JSON lines
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// Print the losses of each conversation as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The references that a conversion follows.
#[derive(Debug, Args)]
pub(crate) struct ExpansionArgs {
    /// Expand imports, and insert documents and images; agents stay as text
    #[arg(long)]
    pub(crate) expand: bool,

    /// Let --expand read this directory too
    #[arg(long = "root", value_name = "DIR", requires = "expand")]
    pub(crate) roots: Vec<PathBuf>,
}
