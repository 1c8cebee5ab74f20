//! The command line of `logue data`.

mod check;
mod from_sessions;
mod selection;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::{DataMaskArgs, LossArgs};
use crate::conversion::form::Form;

pub(crate) use check::{DataCheckArgs, DataExamineArgs, DataStatsArgs};
pub(crate) use from_sessions::{DataFromSessionsArgs, SessionRows};
pub(crate) use selection::{DecontaminateArgs, DedupArgs, SampleArgs, SplitArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    Convert(DataConvertArgs),
    Mask(Box<DataMaskArgs>),
    Dedup(DedupArgs),
    Decontaminate(DecontaminateArgs),
    Split(SplitArgs),
    Sample(SampleArgs),
    Check(DataCheckArgs),
    Stats(DataStatsArgs),
    FromSessions(DataFromSessionsArgs),
}

/// The files of a command on data sets.
#[derive(Debug, Args)]
pub(crate) struct DataFileArgs {
    /// JSON lines, JSON or Parquet; plain, gzip or zstd; `-` is standard input [default: -]
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write this file, by its name .parquet or JSON lines (.gz, .zst) [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Write refused rows to this file, as JSON lines [default: OUT.quarantine.jsonl]
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,

    /// Begin again instead of continuing an interrupted run
    #[arg(long)]
    pub(crate) restart: bool,

    /// Use N threads [default: one for each processor]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print the report as JSON on standard output
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

/// Convert data sets between forms
///
/// Every row is converted to one line, in the order of the input. Rows that cannot be converted go
/// to the quarantine with their place and an error code, and the exit status is 8. An interrupted run continues when the same command runs again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data convert --to openai -o train.jsonl sharegpt.jsonl\n  \
    logue data convert --to chatml -o train.jsonl.zst part-*.jsonl.gz")]
pub(crate) struct DataConvertArgs {
    #[command(flatten)]
    pub(crate) files: DataFileArgs,

    /// Form of the rows [default: by the content of each]
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
}
