//! `[run]` and `[prices]` of `logue.toml`: the limits of a run and the prices of models.

use std::num::{NonZeroU32, NonZeroU64};

use logue_agent::Price;
use serde::Deserialize;

use crate::setup::config::dollars::Dollars;

/// `[run]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) max_requests: Option<NonZeroU32>,
    pub(crate) lock_timeout_seconds: Option<u64>,
    pub(crate) agent_cache_ttl_hours: Option<u32>,
    pub(crate) max_total_tokens: Option<NonZeroU64>,
    pub(crate) max_cost_usd: Option<Dollars>,
    pub(crate) max_agent_depth: Option<usize>,
    pub(crate) on_crash: Option<OnCrashKey>,
}

/// The policy for turns whose process died, the stricter one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnCrashKey {
    Stop,
    Continue,
}

/// The prices of a model per million tokens, `[prices."MODEL"]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the names of the keys")]
pub(crate) struct Prices {
    input_per_mtok: Dollars,
    output_per_mtok: Dollars,
    cached_input_per_mtok: Option<Dollars>,
}

impl From<Prices> for Price {
    fn from(prices: Prices) -> Self {
        Self::new(prices.input_per_mtok.0, prices.output_per_mtok.0)
            .with_cached_input(prices.cached_input_per_mtok.map(|price| price.0))
    }
}
