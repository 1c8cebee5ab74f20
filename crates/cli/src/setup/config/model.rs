//! `[model]` of `logue.toml`: the model and the connections to its server.

use serde::Deserialize;

use crate::setup::config::harmony::Harmony;

/// `[model]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) anthropic: Server,
    pub(crate) connect_timeout_seconds: Option<u64>,
    pub(crate) first_byte_timeout_seconds: Option<u64>,
    pub(crate) idle_timeout_seconds: Option<u64>,
    pub(crate) total_timeout_seconds: Option<u64>,
    pub(crate) retries: Option<u32>,
    pub(crate) retry_timeout_seconds: Option<u64>,
    pub(crate) max_response_bytes: Option<usize>,
    pub(crate) max_event_bytes: Option<usize>,
    #[serde(default)]
    pub(crate) harmony: Harmony,
}

/// The server keys of `[model]` and `[model.anthropic]` in `logue.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
}
