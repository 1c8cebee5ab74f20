//! `[mcp]` of `logue.toml`: the limits and the settings of MCP servers.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

/// `[mcp]`: the limits of all servers, and the settings of each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mcp {
    /// Seconds for a server to start and to list its tools.
    pub(crate) start_timeout_seconds: Option<NonZeroU64>,
    /// Seconds for one call.
    pub(crate) call_timeout_seconds: Option<NonZeroU64>,
    /// Minutes for which a list of tools is cached; 0 disables the cache.
    pub(crate) cache_ttl_minutes: Option<u64>,
    /// Bytes of a result that the model receives.
    pub(crate) max_output_bytes: Option<usize>,
    /// Settings by the address of the server.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, McpServer>,
}

/// The headers and credentials that one server receives.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServer {
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The variable that contains the token of every request.
    pub(crate) bearer_env: Option<Spanned<String>>,
    /// The variable that contains the client id at the authorization server.
    pub(crate) client_id_env: Option<Spanned<String>>,
    /// The variable that contains the client secret.
    pub(crate) client_secret_env: Option<Spanned<String>>,
}

impl Mcp {
    /// Checks that a file contains no forbidden setting.
    ///
    /// The file of a project comes with a checkout, which is untrusted: it may only send variables
    /// whose names begin with `LOGUE_`.
    ///
    /// # Errors
    /// Returns a message and its position for the first forbidden variable.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), (Span, String)> {
        let named = self.servers.values().flat_map(|server| {
            [
                &server.bearer_env,
                &server.client_id_env,
                &server.client_secret_env,
            ]
        });
        for name in named.flatten() {
            if origin == Origin::Project && !name.get_ref().starts_with("LOGUE_") {
                let message = format!(
                    "a project's logue.toml may not send the variable `{}`: name one that begins \
                     with LOGUE_, or put the setting into your own logue/config.toml",
                    name.get_ref()
                );
                return Err((Span::from(name.span()), message));
            }
        }
        Ok(())
    }
}
