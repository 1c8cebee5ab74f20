//! Limits and settings of MCP servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{CatalogCache, TokenStore};
use crate::sandbox::{GrantedPath, Sandbox, SandboxMode};
use crate::{Roots, ServerAccess, ShellOptions};

/// Receives log messages for the user.
pub type LogFn = Arc<dyn Fn(&str) + Send + Sync>;

/// Limits and settings of all servers.
#[derive(Clone)]
#[non_exhaustive]
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
    /// The sandbox of servers that are programs, in addition to the roots of the run.
    pub sandbox: Sandbox,
    /// The parent of the directories that servers keep between runs; `None` gives them none.
    pub cache_folders: Option<PathBuf>,
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
            sandbox: Sandbox::default(),
            cache_folders: None,
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
    /// Sets the time limit of starting a server and listing its tools.
    #[must_use]
    pub const fn with_start(mut self, start: Duration) -> Self {
        self.start = start;
        self
    }

    /// Sets the time limit of a call.
    #[must_use]
    pub const fn with_call(mut self, call: Duration) -> Self {
        self.call = call;
        self
    }

    /// Sets the maximum size in bytes of a message from a server.
    #[must_use]
    pub const fn with_message_bytes(mut self, message_bytes: usize) -> Self {
        self.message_bytes = message_bytes;
        self
    }

    /// Sets the maximum size of a result in bytes.
    #[must_use]
    pub const fn with_output_bytes(mut self, output_bytes: usize) -> Self {
        self.output_bytes = output_bytes;
        self
    }

    /// Sets the complete environment of servers that are programs.
    #[must_use]
    pub fn with_environment(mut self, environment: Vec<(OsString, OsString)>) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the sandbox of servers that are programs.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets the parent of the directories that servers keep between runs.
    #[must_use]
    pub fn with_cache_folders(mut self, folder: impl Into<Option<PathBuf>>) -> Self {
        self.cache_folders = folder.into();
        self
    }

    /// Sets the cache of catalogs between runs.
    #[must_use]
    pub fn with_cache(mut self, cache: impl Into<Option<CatalogCache>>) -> Self {
        self.cache = cache.into();
        self
    }

    /// Sets the store of OAuth tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: impl Into<Option<TokenStore>>) -> Self {
        self.tokens = tokens.into();
        self
    }

    /// Sets the settings by server address, as declared.
    #[must_use]
    pub fn with_servers(mut self, servers: BTreeMap<String, McpSettings>) -> Self {
        self.servers = servers;
        self
    }

    /// Sets the receiver of warnings about unreachable servers.
    #[must_use]
    pub fn with_notice(mut self, notice: LogFn) -> Self {
        self.notice = Some(notice);
        self
    }

    pub(super) fn settings(&self, server: &str) -> McpSettings {
        self.servers.get(server).cloned().unwrap_or_default()
    }

    /// Returns the environment and the sandbox of the server `name`, which runs in `folder`.
    ///
    /// # Errors
    /// Returns the reason if the directory that it keeps cannot be created.
    pub(super) fn program(
        &self,
        name: &str,
        folder: &Path,
        roots: &Roots,
        access: ServerAccess,
    ) -> Result<ShellOptions, String> {
        let settings = self.settings(name);
        let mut sandbox = self.sandbox.clone();
        if let Some(mode) = settings.sandbox {
            sandbox.mode = mode;
        }
        let network = sandbox.network || access.network;
        sandbox.network = settings.network.unwrap_or(network);
        sandbox.readable.extend(settings.readable);
        sandbox.writable.extend(settings.writable);
        let mut environment = self.environment.clone();
        let keeps = settings.cache.unwrap_or(access.cache) && sandbox.mode != SandboxMode::Off;
        if let Some(parent) = self.cache_folders.as_ref().filter(|_| keeps) {
            let kept = kept_folder(parent, name, folder)
                .map_err(|error| format!("its directory in {}: {error}", parent.display()))?;
            environment.retain(|(name, _)| name != "HOME" && name != "XDG_CACHE_HOME");
            environment.push(("HOME".into(), kept.clone().into()));
            sandbox.home = Some(kept.clone());
            sandbox.writable.push(GrantedPath::new(kept));
        }
        let sandbox = sandbox.working_on(roots);
        let options = ShellOptions::default();
        Ok(options.with_environment(environment).with_sandbox(sandbox))
    }

    pub(super) fn log(&self, text: &str) {
        if let Some(notice) = &self.notice {
            notice(text);
        }
    }
}

/// Creates the directory that a server keeps between runs, for its user only.
fn kept_folder(parent: &Path, name: &str, folder: &Path) -> std::io::Result<PathBuf> {
    let key = format!("{name}\0{}", folder.display());
    let kept = parent.join(format!("{:x}", Sha256::digest(key)));
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&kept)?;
    Ok(kept)
}

/// The settings of one server.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpSettings {
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A bearer token.
    pub bearer: Option<String>,
    /// The client id at the authorization server.
    pub client_id: Option<String>,
    /// The client secret. With both, no login is needed.
    pub client_secret: Option<String>,
    /// The confinement of a server that is a program; `None` is that of all servers.
    pub sandbox: Option<SandboxMode>,
    /// Whether a server program can use the network; `None` if trust decides.
    pub network: Option<bool>,
    /// Whether a server program keeps a directory between runs; `None` if trust decides.
    pub cache: Option<bool>,
    /// Further readable files and directories of a server that is a program.
    pub readable: Vec<GrantedPath>,
    /// Further writable files and directories of a server that is a program.
    pub writable: Vec<GrantedPath>,
}

impl fmt::Debug for McpSettings {
    /// Omits values, because they are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpSettings")
            .field("headers", &self.headers.keys())
            .field("bearer", &self.bearer.is_some())
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.is_some())
            .field("sandbox", &self.sandbox)
            .field("network", &self.network)
            .field("cache", &self.cache)
            .field("readable", &self.readable)
            .field("writable", &self.writable)
            .finish()
    }
}

impl McpSettings {
    /// Sets the headers of every request.
    #[must_use]
    pub fn with_headers(mut self, headers: BTreeMap<String, String>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the bearer token.
    #[must_use]
    pub fn with_bearer(mut self, bearer: impl Into<Option<String>>) -> Self {
        self.bearer = bearer.into();
        self
    }

    /// Sets the client id at the authorization server.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<Option<String>>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// Sets the client secret.
    #[must_use]
    pub fn with_client_secret(mut self, client_secret: impl Into<Option<String>>) -> Self {
        self.client_secret = client_secret.into();
        self
    }

    /// Sets the confinement of a server that is a program.
    #[must_use]
    pub fn with_sandbox(mut self, mode: impl Into<Option<SandboxMode>>) -> Self {
        self.sandbox = mode.into();
        self
    }

    /// Sets whether a server that is a program can use the network.
    #[must_use]
    pub fn with_network(mut self, network: impl Into<Option<bool>>) -> Self {
        self.network = network.into();
        self
    }

    /// Sets whether a server program keeps a directory between runs.
    #[must_use]
    pub fn with_cache(mut self, cache: impl Into<Option<bool>>) -> Self {
        self.cache = cache.into();
        self
    }

    /// Sets further readable files and directories of a server that is a program.
    #[must_use]
    pub fn with_readable(mut self, paths: Vec<GrantedPath>) -> Self {
        self.readable = paths;
        self
    }

    /// Sets further writable files and directories of a server that is a program.
    #[must_use]
    pub fn with_writable(mut self, paths: Vec<GrantedPath>) -> Self {
        self.writable = paths;
        self
    }

    /// Merges the access of a server program; the stricter value applies.
    ///
    /// Paths accumulate. Headers and credentials stay.
    pub fn restrict(&mut self, other: Self) {
        let stricter = |one: Option<bool>, other: Option<bool>| match (one, other) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.or(other),
        };
        self.network = stricter(self.network, other.network);
        self.cache = stricter(self.cache, other.cache);
        let rank = |mode: &Option<SandboxMode>| match mode {
            None => 0,
            Some(SandboxMode::Off) => 1,
            Some(SandboxMode::Auto) => 2,
            Some(_) => 3,
        };
        if rank(&other.sandbox) > rank(&self.sandbox) {
            self.sandbox = other.sandbox;
        }
        self.readable.extend(other.readable);
        self.writable.extend(other.writable);
    }

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
