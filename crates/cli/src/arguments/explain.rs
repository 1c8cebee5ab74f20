//! The command line of `logue explain`.

use clap::Args;

/// Print the page of an error code
///
/// Without CODE it lists every code with its meaning. The pages are in the program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue explain\n  \
    logue explain E-MD-VARIABLE")]
pub(crate) struct ExplainArgs {
    /// Code of an error or warning, such as `provider_unavailable`
    pub(crate) code: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
