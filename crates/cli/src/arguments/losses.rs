//! The flags for losses, which `convert` and `tokens render` share.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use openchatml::LossSeverity;

/// The losses that a command permits.
#[derive(Debug, Args)]
pub(crate) struct LossArgs {
    /// Write nothing if a loss is at least this severe [default: content]
    #[arg(
        long,
        value_name = "SEVERITY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "content",
        hide_default_value = true,
        value_parser = severity_parser()
    )]
    pub(crate) strict: Option<LossSeverity>,

    /// Exit with status 0 if content is lost
    #[arg(
        long,
        value_name = "SEVERITY",
        value_parser = ["content"],
        conflicts_with = "strict"
    )]
    pub(crate) allow_loss: Option<String>,
}

/// Parses the severities of losses.
fn severity_parser() -> impl TypedValueParser<Value = LossSeverity> {
    let names = LossSeverity::ALL.map(LossSeverity::as_str);
    PossibleValuesParser::new(names)
        .map(|name| LossSeverity::parse(&name).unwrap_or(LossSeverity::Content))
}
