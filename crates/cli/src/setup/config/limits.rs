//! The spending limits and call routing of `[run]`, `[tools]` and `[prices]`.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};

use logue_agent::{MAX_AGENT_CALLS, Price, Routing, SpendLimits};
use serde::Deserialize;

use crate::arguments::LimitArgs;
use crate::setup::config::dollars::Dollars;
use crate::setup::config::{Config, Layer};

/// The prices of a model per million tokens, `[prices."MODEL"]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the names of the keys")]
pub(super) struct Prices {
    input_per_mtok: Dollars,
    output_per_mtok: Dollars,
    cached_input_per_mtok: Option<Dollars>,
}

/// The keys of `[run]` that limit what a run spends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunLimits {
    pub(super) max_tokens: Option<NonZeroU64>,
    pub(super) budget: Option<Dollars>,
    pub(super) max_depth: Option<usize>,
}

impl From<Prices> for Price {
    fn from(prices: Prices) -> Self {
        Self::new(prices.input_per_mtok.0, prices.output_per_mtok.0)
            .with_cached_input(prices.cached_input_per_mtok.map(|price| price.0))
    }
}

impl Config {
    /// Returns the spending limits of a run.
    ///
    /// A flag takes precedence over all files. Among the files the strictest limit counts, and the
    /// user's prices take precedence over a project's, so a checkout cannot loosen a limit.
    pub(crate) fn spending(&self, flags: &LimitArgs) -> SpendLimits {
        let strictest = |pick: fn(&RunLimits) -> Option<Dollars>| {
            let amounts = self.run_limits().filter_map(|limits| pick(&limits));
            amounts.map(|amount| amount.0).reduce(f64::min)
        };
        let tokens = self.run_limits().filter_map(|limits| limits.max_tokens);
        let max_tokens = flags
            .max_total_tokens
            .or_else(|| tokens.min().map(NonZeroU64::get));
        let max_cost = flags
            .max_cost
            .map(|amount| amount.0)
            .or_else(|| strictest(|limits| limits.budget));
        SpendLimits::default()
            .with_max_tokens(max_tokens)
            .with_max_cost(max_cost)
            .with_prices(self.prices())
    }

    /// Returns the maximum depth of agents that call agents.
    pub(crate) fn max_depth(&self, flags: &LimitArgs) -> usize {
        let depths = self.run_limits().filter_map(|limits| limits.max_depth);
        flags
            .max_agent_depth
            .or(depths.min())
            .unwrap_or(MAX_AGENT_CALLS)
    }

    /// Returns the routing of the calls of an answer.
    pub(crate) fn routing(&self) -> Routing {
        let base = Routing::default();
        let concurrency = self
            .first(|file| file.tools.concurrency)
            .map_or(base.concurrency, NonZeroUsize::get);
        let envelope = self
            .first(|file| file.tools.result_envelope)
            .unwrap_or(base.envelope);
        base.with_concurrency(concurrency).with_envelope(envelope)
    }

    fn run_limits(&self) -> impl Iterator<Item = RunLimits> {
        self.layers.iter().map(|layer| RunLimits {
            max_tokens: layer.file.run.max_total_tokens,
            budget: layer.file.run.max_cost_usd,
            max_depth: layer.file.run.max_agent_depth,
        })
    }

    fn prices(&self) -> BTreeMap<String, Price> {
        let of = |own: bool| {
            let layers = self.layers.iter().filter(move |layer| layer.own == own);
            let prices = |layer: &Layer| layer.file.prices.clone();
            layers.flat_map(prices)
        };
        // Later prices replace earlier ones.
        let prices = of(false).chain(of(true));
        prices
            .map(|(model, prices)| (model, prices.into()))
            .collect()
    }
}
