//! The command line of `logue data check` and `logue data stats`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::arguments::DenyLevel;
use crate::conversion::form::Form;

/// The rows that are examined.
#[derive(Debug, Args)]
pub(crate) struct DataExamineArgs {
    /// JSON lines, JSON or Parquet; plain, gzip or zstd; `-` is standard input [default: -]
    #[arg(value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Form of the rows [default: by the content of each]
    #[arg(long, value_name = "FORM", value_parser = Form::reader_parser())]
    pub(crate) from: Option<Form>,

    /// Count tokens with this tokenizer.json [default: o200k]
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Report the rows with each value of this member apart, such as `source` or `meta.source`
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,

    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Use N threads [default: one for each processor]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check data sets for rows that cannot or should not be trained
///
/// Finds invalid JSON, unknown shapes, calls against their schemas, results without a call, control tokens in text, and
/// rows without an answer. Exit status 8 if there is an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data check train.jsonl\n  \
    logue data check --by source --report report.html train.parquet\n  \
    logue data check --sarif train.jsonl > findings.sarif")]
pub(crate) struct DataCheckArgs {
    #[command(flatten)]
    pub(crate) examined: DataExamineArgs,

    /// Print one SARIF 2.1.0 log of at most 10,000 findings
    #[arg(long, conflicts_with = "json")]
    pub(crate) sarif: bool,

    /// Exit with 8 for these findings too
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<DenyLevel>,
}

/// Measure data sets: rows, roles, tokens, calls, exact duplicates
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data stats train.jsonl\n  \
    logue data stats --tokenizer tokenizer.json --json train.parquet")]
pub(crate) struct DataStatsArgs {
    #[command(flatten)]
    pub(crate) examined: DataExamineArgs,
}
