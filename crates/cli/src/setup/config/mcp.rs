//! `[mcp]` of `logue.toml`: what servers may cost, and what each of them is told.

use std::collections::BTreeMap;

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

/// `[mcp]`: the limits of all servers, and the settings of each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mcp {
    /// Seconds for a server to start and to list its tools.
    pub(crate) start_timeout_seconds: Option<u64>,
    /// Seconds for one call.
    pub(crate) call_timeout_seconds: Option<u64>,
    /// Minutes for which a list of tools is kept; 0 keeps none.
    pub(crate) cache_ttl_minutes: Option<u64>,
    /// Bytes of a result that the model receives.
    pub(crate) max_output_bytes: Option<usize>,
    /// Settings by the address of the server.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, McpServer>,
}

/// What one server is told.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServer {
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The variable that holds the token of every request.
    pub(crate) bearer_env: Option<Spanned<String>>,
    /// The variable that holds the name of the program at the authorization server.
    pub(crate) client_id_env: Option<Spanned<String>>,
    /// The variable that holds its secret.
    pub(crate) client_secret_env: Option<Spanned<String>>,
}

impl Mcp {
    /// Whether a file may say what it says. A project's file comes with a checkout, and a checkout may
    /// come from anybody: it sends no variable anywhere that was not meant for Logue.
    ///
    /// # Errors
    /// Why not, and its place in the file.
    pub(crate) fn check(&self, own: bool) -> Result<(), (Span, String)> {
        let named = self.servers.values().flat_map(|server| {
            [
                &server.bearer_env,
                &server.client_id_env,
                &server.client_secret_env,
            ]
        });
        for name in named.flatten() {
            if !own && !name.get_ref().starts_with("LOGUE_") {
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
