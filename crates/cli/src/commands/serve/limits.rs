//! The limits of a server's clients: the settings and the flags.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use logue_server::ChatServerOptions;

use crate::arguments::ServeLimitArgs;
use crate::setup::settings::serve::ServeSettings;

/// Applies the limits of settings and flags to the options of a server.
pub(super) fn limited(
    settings: &ServeSettings,
    flags: &ServeLimitArgs,
    mut options: ChatServerOptions,
) -> ChatServerOptions {
    let mut limits = options.limits.clone();
    if let Some(turns) = flags.max_turns {
        limits = limits.with_agent_turns(size(turns), BTreeMap::new());
    } else {
        let turns = settings.turns.map_or(limits.agent_turns, size);
        let own = settings.own_turns.iter();
        let own = own.map(|(name, turns)| (name.clone(), size(*turns)));
        limits = limits.with_agent_turns(turns, own.collect());
    }
    if let Some(turns) = flags.max_turns_per_token.or(settings.token_turns) {
        limits = limits.with_token_turns(size(turns));
    }
    if let Some(requests) = flags.max_requests_per_minute.or(settings.requests) {
        limits = limits.with_requests(requests.get());
    }
    if let Some(connections) = flags.max_connections.or(settings.connections) {
        options = options.with_max_connections(size(connections));
    }
    options.with_limits(limits)
}

fn size(limit: NonZeroU32) -> usize {
    usize::try_from(limit.get()).unwrap_or(usize::MAX)
}
