//! The command lines of `logue tokens`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{LossArgs, StartRole};
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

/// Print the Harmony prompt of a conversation
///
/// Prints the token ids of a request to a gpt-oss model, with the system and developer messages that
/// `logue run -m harmony:` sends. A text in Harmony, or with a system message of Harmony, gets none
/// in addition. The ids of several conversations are on separate lines. Losses are listed on
/// standard error by severity. If content is lost, the exit status is 8, unless --allow-loss=content permits it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue tokens render --reasoning-effort low --next-role assistant chat.json\n  \
    logue tokens render --training --text session.ocml")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct RenderArgs {
    /// File with the conversation; `-` is standard input
    pub(crate) file: PathBuf,

    /// Form of the file [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = Form::reader_parser())]
    pub(crate) from: Option<Form>,

    /// Reasoning effort in the system message [default: medium]
    #[arg(long, value_enum, value_name = "EFFORT", conflicts_with = "bare")]
    pub(crate) reasoning_effort: Option<RenderEffort>,

    /// Current date in the system message, such as 2026-01-31
    #[arg(long, value_name = "DATE", conflicts_with = "bare", value_parser = date, hide_short_help = true)]
    pub(crate) date: Option<String>,

    /// Identity in the system message [default: that of the format]
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "bare",
        hide_short_help = true
    )]
    pub(crate) identity: Option<String>,

    /// Render the messages alone, without the system and developer messages of a request
    #[arg(long, hide_short_help = true)]
    pub(crate) bare: bool,

    /// Begin the next message with this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with = "training")]
    pub(crate) next_role: Option<StartRole>,

    /// End the last answer with <|return|>, as in training data
    #[arg(long)]
    pub(crate) training: bool,

    /// Keep the reasoning of completed turns
    #[arg(long)]
    pub(crate) keep_reasoning: bool,

    #[command(flatten)]
    pub(crate) losses: LossArgs,

    /// Print text instead of ids; fails if a body contains a control token
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// The reasoning effort of a rendered prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RenderEffort {
    Low,
    Medium,
    High,
}

impl RenderEffort {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Parses a date as the system message writes it.
fn date(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths = parts.iter().map(|part| part.len());
    let number = |index: usize| parts.get(index).and_then(|part| part.parse::<u32>().ok());
    let is_date = lengths.eq([4, 2, 2])
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-')
        && number(1).is_some_and(|month| (1..=12).contains(&month))
        && number(2).is_some_and(|day| (1..=31).contains(&day));
    is_date
        .then(|| text.to_owned())
        .ok_or_else(|| "write a date such as 2026-01-31".to_owned())
}
