//! The command line of `logue scan`.

use std::path::PathBuf;

use clap::Args;

use crate::conversion::form::Form;

/// Find control tokens in message text
///
/// An unescaped token such as `<|im_start|>` in a message forges another message. Tokens that the file
/// itself escapes are reported as notes. Exit status 8 if unescaped tokens are found.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue scan data.jsonl\n  curl -s https://example.org/page | logue scan -"
)]
pub(crate) struct ScanArgs {
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files, `text` for plain text [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser_with_text())]
    pub(crate) from: Option<Form>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}
