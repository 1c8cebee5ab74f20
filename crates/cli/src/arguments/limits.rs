//! What a run may spend, on the command line.

use clap::Args;

use crate::setup::config::dollars::Dollars;

/// What a run and the agents that it asks may spend together.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Most tokens of this run and its agents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,

    /// Most money for this run and its agents, in US dollars; `[prices]` in logue.toml says what
    /// models cost
    #[arg(long, value_name = "USD")]
    pub(crate) budget: Option<Dollars>,

    /// How deep agents may ask agents [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) max_depth: Option<usize>,
}
