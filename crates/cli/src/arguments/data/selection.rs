//! The command lines of `logue data` that choose rows.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};

use super::DataFileArgs;

/// Remove exact and near duplicates
///
/// The text of a row is the roles and contents of its conversation. Rows are exact duplicates if
/// their texts are equal up to white space, and near duplicates if the Jaccard index of their
/// shingles, runs of words without case and punctuation, is at least the threshold. The first
/// row is kept; each removal is verified and listed with the row that is kept for it. The input is read three times.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data dedup -o unique.jsonl train.jsonl\n  \
    logue data dedup --threshold 0.9 --evidence pairs.jsonl -o unique.jsonl part-*.jsonl.gz")]
pub(crate) struct DedupArgs {
    #[command(flatten)]
    pub(crate) files: DataFileArgs,

    /// Jaccard index from which rows are near duplicates, 0.5 to 1
    #[arg(long, value_name = "INDEX", default_value = "0.8", value_parser = threshold)]
    pub(crate) threshold: f64,

    /// Words of a shingle
    #[arg(long, value_name = "N", default_value = "5", hide_short_help = true)]
    pub(crate) shingle: NonZeroUsize,

    /// Remove exact duplicates only
    #[arg(long, conflicts_with_all = ["threshold", "shingle"])]
    pub(crate) exact: bool,

    /// Compare this member of the rows instead of the conversation; may be repeated
    #[arg(long = "field", value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) fields: Vec<String>,

    /// Write the removals to this file, as JSON lines [default: OUT.duplicates.jsonl]
    #[arg(long, value_name = "FILE")]
    pub(crate) evidence: Option<PathBuf>,
}

/// Find texts of benchmarks
///
/// Prints each run of words that a message has in common with a benchmark, as JSON lines: the
/// turn, the place and words in it, and the row of the benchmark. With --remove, prints the rows without
/// such words. A benchmark is a file of JSON lines of any shape, or of text (.txt, .md) by lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data decontaminate --against gsm8k.jsonl -o found.jsonl train.jsonl\n  \
    logue data decontaminate --remove --against mmlu.jsonl -o clean.jsonl train.jsonl")]
pub(crate) struct DecontaminateArgs {
    #[command(flatten)]
    pub(crate) files: DataFileArgs,

    /// File of a benchmark; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) against: Vec<PathBuf>,

    /// Words of a common run; shorter texts of at least 8 count whole
    #[arg(long, value_name = "N", default_value = "13")]
    pub(crate) words: NonZeroUsize,

    /// Write the rows in which nothing was found
    #[arg(long)]
    pub(crate) remove: bool,

    /// Search this member of the rows instead of the conversation; may be repeated
    #[arg(long = "field", value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) fields: Vec<String>,

    /// Write what was found to this file, as JSON lines [default: OUT.contaminated.jsonl]
    #[arg(long, value_name = "FILE", requires = "remove")]
    pub(crate) evidence: Option<PathBuf>,
}

/// Divide rows into parts without leaks
///
/// Rows stay together if they share an id of a row, session or fork, begin with the same messages
/// up to the first one of the user, or are duplicates of each other, directly or through others. Each
/// part is a file of JSON lines in the directory, in the order of the input.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue data split --train 0.9 --test 0.1 -o parts train.jsonl\n  \
    logue data split --train 8 --validation 1 --test 1 --by source -o parts train.jsonl")]
pub(crate) struct SplitArgs {
    /// JSON lines, JSON or Parquet; plain, gzip or zstd
    #[arg(value_name = "IN", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write the parts to this directory
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Share of train.jsonl
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) train: f64,

    /// Share of validation.jsonl
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) validation: Option<f64>,

    /// Share of test.jsonl
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) test: Option<f64>,

    /// Seed of the order of groups
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,

    /// Keep rows with the same value of this member together; may be repeated
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) by: Vec<String>,

    /// Jaccard index from which rows are near duplicates, 0.5 to 1
    #[arg(long, value_name = "INDEX", default_value = "0.8", value_parser = threshold)]
    pub(crate) threshold: f64,

    /// Write refused rows to this file, as JSON lines [default: DIR/quarantine.jsonl]
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,

    /// Begin again instead of continuing an interrupted run
    #[arg(long)]
    pub(crate) restart: bool,

    /// Use N threads [default: one for each processor]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Print the report as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Choose rows by a seed
///
/// The same seed and input give the same rows, in the order of the input. A smaller sample is part of a larger one
/// with the same seed. The input is read twice.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  \
    logue data sample --count 1000 --seed 7 -o small.jsonl train.jsonl\n  \
    logue data sample --fraction 0.01 --by source -o small.jsonl train.jsonl",
    group = ArgGroup::new("size").required(true)
)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) files: DataFileArgs,

    /// Number of rows
    #[arg(long, value_name = "N", group = "size")]
    pub(crate) count: Option<u64>,

    /// Share of the rows, 0 to 1
    #[arg(long, value_name = "SHARE", group = "size", value_parser = fraction)]
    pub(crate) fraction: Option<f64>,

    /// Seed of the choice
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,

    /// Choose the same share of the rows with each value of this member
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) by: Option<String>,
}

fn number(text: &str, is_valid: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| is_valid(*number));
    number.ok_or_else(|| format!("write a number {expected}"))
}

fn threshold(text: &str) -> Result<f64, String> {
    number(
        text,
        |number| (0.5..=1.0).contains(&number),
        "from 0.5 to 1",
    )
}

fn fraction(text: &str) -> Result<f64, String> {
    number(text, |number| (0.0..=1.0).contains(&number), "from 0 to 1")
}

fn share(text: &str) -> Result<f64, String> {
    number(text, |number| number > 0.0 && number.is_finite(), "above 0")
}
