//! `[serve]` of `logue.toml`: the limits of a server's clients.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;

/// `[serve]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Serve {
    pub(crate) max_turns: Option<NonZeroU32>,
    pub(crate) max_turns_per_token: Option<NonZeroU32>,
    pub(crate) max_requests_per_minute: Option<NonZeroU32>,
    pub(crate) max_connections: Option<NonZeroU32>,
    #[serde(default)]
    pub(crate) agents: BTreeMap<String, ServeAgent>,
}

/// `[serve.agents.NAME]`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeAgent {
    pub(crate) max_turns: Option<NonZeroU32>,
}

impl Serve {
    /// Returns the limit of an agent's turns.
    pub(crate) fn turns_of(&self, agent: &str) -> Option<NonZeroU32> {
        let own = self.agents.get(agent).and_then(|own| own.max_turns);
        own.or(self.max_turns)
    }
}
