//! Limits and settings of MCP servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{CatalogCache, TokenStore};

/// Receives log messages for the user.
pub type LogFn = Arc<dyn Fn(&str) + Send + Sync>;

/// Limits and settings of all servers.
#[derive(Clone)]
pub struct McpOptions {
    /// Time limit of starting a server and listing its tools.
    pub start: Duration,
    /// Time limit of a call.
    pub call: Duration,
    /// Maximum size in bytes of a message from a server.
    pub message_bytes: usize,
    /// Maximum size of a result in bytes.
    pub output_bytes: usize,
    /// The complete environment of servers that are programs.
    pub environment: Vec<(OsString, OsString)>,
    /// The cache of catalogs between runs.
    pub cache: Option<CatalogCache>,
    /// The store of OAuth tokens.
    pub tokens: Option<TokenStore>,
    /// Settings by server address, as declared.
    pub servers: BTreeMap<String, McpSettings>,
    /// Receives warnings about unreachable servers.
    pub notice: Option<LogFn>,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            call: Duration::from_secs(60),
            message_bytes: 8 * 1024 * 1024,
            output_bytes: 100_000,
            environment: Vec::new(),
            cache: None,
            tokens: None,
            servers: BTreeMap::new(),
            notice: None,
        }
    }
}

impl fmt::Debug for McpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpOptions")
            .field("start", &self.start)
            .field("call", &self.call)
            .field("servers", &self.servers.keys())
            .finish_non_exhaustive()
    }
}

impl McpOptions {
    pub(super) fn settings(&self, server: &str) -> McpSettings {
        self.servers.get(server).cloned().unwrap_or_default()
    }

    pub(super) fn log(&self, text: &str) {
        if let Some(notice) = &self.notice {
            notice(text);
        }
    }
}

/// The settings of a server over HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct McpSettings {
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A bearer token.
    pub bearer: Option<String>,
    /// The client id at the authorization server.
    pub client_id: Option<String>,
    /// The client secret. With both, no login is needed.
    pub client_secret: Option<String>,
}

impl fmt::Debug for McpSettings {
    /// Omits values, because they are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpSettings")
            .field("headers", &self.headers.keys())
            .field("bearer", &self.bearer.is_some())
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.is_some())
            .finish()
    }
}

impl McpSettings {
    /// Distinguishes catalogs of different accounts without revealing secrets.
    pub(super) fn identity(&self) -> String {
        format!(
            "{:x}",
            Sha256::digest(format!(
                "{:?}{:?}{:?}",
                self.headers, self.bearer, self.client_id
            ))
        )
    }
}
