//! The limits of a server's clients, merged from the files.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use logue_server::{ChatServerOptions, ClientLimits};

use crate::setup::config::Layers;
use crate::setup::config::serve::Serve;

/// The limits of a server's clients; `None` where no file has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServeSettings {
    pub(crate) turns: Option<NonZeroU32>,
    pub(crate) own_turns: BTreeMap<String, NonZeroU32>,
    pub(crate) token_turns: Option<NonZeroU32>,
    pub(crate) requests: Option<NonZeroU32>,
    pub(crate) connections: Option<NonZeroU32>,
}

impl ServeSettings {
    /// Merges the files: a project can lower a limit of the user, or a default, and not raise it.
    pub(super) fn new(layers: &Layers) -> Self {
        let defaults = ClientLimits::default();
        let names = layers
            .iter()
            .flat_map(|layer| layer.tables.serve.agents.keys());
        let own_turns = names.filter_map(|name| {
            let pick = |serve: &Serve| serve.turns_of(name);
            Some((
                name.clone(),
                least(layers, count(defaults.agent_turns), pick)?,
            ))
        });
        Self {
            turns: least(layers, count(defaults.agent_turns), |serve| serve.max_turns),
            own_turns: own_turns.collect(),
            token_turns: least(layers, count(defaults.token_turns), |serve| {
                serve.max_turns_per_token
            }),
            requests: least(layers, defaults.token_requests, |serve| {
                serve.max_requests_per_minute
            }),
            connections: least(
                layers,
                count(ChatServerOptions::default().max_connections),
                |serve| serve.max_connections,
            ),
        }
    }
}

/// Returns the user's limit, unless a project's is lower; a project's counts below the default.
fn least(
    layers: &Layers,
    default: u32,
    pick: impl Fn(&Serve) -> Option<NonZeroU32>,
) -> Option<NonZeroU32> {
    let user = layers.user().and_then(|layer| pick(&layer.tables.serve));
    let project = layers.project().and_then(|layer| pick(&layer.tables.serve));
    let most = user.map_or(default, NonZeroU32::get);
    project.filter(|limit| limit.get() < most).or(user)
}

fn count(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
