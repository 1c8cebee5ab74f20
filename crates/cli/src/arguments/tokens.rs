//! The command lines of `logue tokens`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use openchatml::Dialect;

use crate::arguments::StartRole;
use crate::conversion::form::Form;

/// The subcommands of `logue tokens`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    Count(CountArgs),
    Encode(EncodeArgs),
    Decode(DecodeArgs),
    Render(RenderArgs),
}

/// Count the tokens of files
///
/// Memory use does not depend on the length of a file. Exit status 3 if a file cannot be read; the
/// other files are counted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens count review.md notes/*.md\n  \
    git diff | logue tokens count")]
pub(crate) struct CountArgs {
    /// Files of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Encode names of control tokens, such as <|start|>, as control tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the token ids of a text
///
/// Names of control tokens are encoded as text unless --special-tokens is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    echo -n \"Hello, world!\" | logue tokens encode\n  \
    logue tokens encode --special-tokens --json prompt.txt")]
pub(crate) struct EncodeArgs {
    /// File of text; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Encode names of control tokens, such as <|start|>, as control tokens
    #[arg(long)]
    pub(crate) special_tokens: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the text of token ids
///
/// The ids are a JSON array, or numbers separated by white space. No newline is added to the text.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  echo 13225 11 2375 0 | logue tokens decode\n  logue tokens decode --raw ids.json > text"
)]
pub(crate) struct DecodeArgs {
    /// File of token ids; `-` is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print the exact bytes instead of U+FFFD for invalid UTF-8
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Print the Harmony prompt of a transcript
///
/// Prints the token ids of a request to a gpt-oss model. Losses are listed on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens render --next-role assistant --json session.ocml\n  \
    logue tokens render --training --text session.ocml")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct RenderArgs {
    /// File with the transcript; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::dialect_parser(&Dialect::ALL))]
    pub(crate) from: Option<Dialect>,

    /// Begin the next message with this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with = "training")]
    pub(crate) next_role: Option<StartRole>,

    /// End the last answer with <|return|>, as in training data
    #[arg(long)]
    pub(crate) training: bool,

    /// Keep the reasoning of completed turns
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    /// Print text instead of ids; fails if a body contains a control token
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}
