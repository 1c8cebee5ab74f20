//! `[mcp]` of `logue.toml`: the limits and the settings of MCP servers.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;
use crate::setup::config::tools::SandboxChoice;

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

/// The credentials that one server receives, and its access if it is a program.
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
    /// The confinement of a server that is a program.
    pub(crate) sandbox: Option<Spanned<SandboxChoice>>,
    /// The permission of a server program to use the network.
    pub(crate) network: Option<Spanned<bool>>,
    /// The permission of a server program to keep a directory between runs.
    pub(crate) cache: Option<Spanned<bool>>,
    /// Further readable files and directories of a server that is a program.
    #[serde(default)]
    pub(crate) readable: Vec<Spanned<PathBuf>>,
    /// Further writable files and directories of a server that is a program.
    #[serde(default)]
    pub(crate) writable: Vec<Spanned<PathBuf>>,
}

impl McpServer {
    /// Returns the position of the first setting that gives a program more access.
    fn opening(&self) -> Option<(Span, &'static str)> {
        let span = |span: std::ops::Range<usize>| Span::from(span);
        let flag = |value: &Option<Spanned<bool>>| {
            let value = value.as_ref().filter(|value| *value.get_ref())?;
            Some(span(value.span()))
        };
        let path = |paths: &[Spanned<PathBuf>]| Some(span(paths.first()?.span()));
        let off = self.sandbox.as_ref();
        let off = off.filter(|choice| *choice.get_ref() == SandboxChoice::Off);
        let off = off.map(|choice| span(choice.span()));
        let found = [
            (off, "sandbox"),
            (flag(&self.network), "network"),
            (flag(&self.cache), "cache"),
            (path(&self.readable), "readable"),
            (path(&self.writable), "writable"),
        ];
        let mut found = found.into_iter();
        found.find_map(|(span, name)| Some((span?, name)))
    }
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
        let opening = self.servers.values().find_map(McpServer::opening);
        if let Some((span, name)) = opening.filter(|_| origin == Origin::Project) {
            let message = format!(
                "a project's logue.toml may not give a server more access: put `{name}` into your \
                 own logue/config.toml"
            );
            return Err((span, message));
        }
        Ok(())
    }
}
