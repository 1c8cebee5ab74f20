//! `[mcp]` of `logue.toml`: what servers may cost, and what each of them is told.

use std::collections::BTreeMap;

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

/// The section: limits, and a table for each server, named by its address as a prompt declares it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Mcp {
    pub(crate) start_seconds: Option<u64>,
    pub(crate) call_seconds: Option<u64>,
    pub(crate) cache_minutes: Option<u64>,
    pub(crate) output_bytes: Option<usize>,
    /// Everything else is the address of a server; a misspelled limit is no table, and so an error.
    #[serde(flatten)]
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
