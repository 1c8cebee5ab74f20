//! The flags for the limits of a run.

use clap::Args;

use crate::setup::config::dollars::Dollars;

/// The limits that a run and its agents share.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct LimitArgs {
    /// Limit the tokens of this run and its agents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub(crate) max_total_tokens: Option<u64>,

    /// Limit the cost of this run and its agents in US dollars; see `[prices]`
    #[arg(long, value_name = "USD", hide_short_help = true)]
    pub(crate) max_cost: Option<Dollars>,

    /// Limit how deep agents may call agents [default: 4]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_agent_depth: Option<usize>,
}
