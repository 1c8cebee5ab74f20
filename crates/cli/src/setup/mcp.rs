//! The MCP servers of prompts, with the effective settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logue_source::escape_untrusted;
use logue_tools::mcp::{CatalogCache, LogFn, McpOptions, McpServers, McpSettings, TokenStore};
use logue_tools::{Fetcher, HostRule};
use toml::Spanned;

use crate::exit::CliError;
use crate::setup::config::Config;
use crate::setup::config::mcp::Mcp;
use crate::setup::environment::{cache_folder, state_folder, variable};
use crate::terminal::print_error;

/// Creates the MCP servers of a command.
///
/// A server that a prompt declares is connected to at its first use. Connection failures are
/// reported on standard error.
pub(crate) fn servers(config: &Config, network: Option<Arc<Fetcher>>) -> Arc<McpServers> {
    let notice: LogFn = Arc::new(|text| {
        print_error(&format!(
            "warning[E-MCP-SERVER-FAILED]: {}\n",
            escape_untrusted(text)
        ));
    });
    servers_with(config, network, notice)
}

/// Creates the MCP servers of a command; `notice` receives connection failures.
pub(crate) fn servers_with(
    config: &Config,
    network: Option<Arc<Fetcher>>,
    notice: LogFn,
) -> Arc<McpServers> {
    let options = McpOptions {
        notice: Some(notice),
        ..options(config)
    };
    Arc::new(McpServers::new(options, network))
}

fn options(config: &Config) -> McpOptions {
    let base = McpOptions::default();
    let first = |pick: fn(&Mcp) -> Option<u64>| config.mcp().find_map(pick);
    let seconds = |pick, default| first(pick).map_or(default, Duration::from_secs);
    let minutes = first(|mcp| mcp.cache_ttl_minutes).unwrap_or(5);
    let cache = cache_folder("mcp").filter(|_| minutes > 0);
    McpOptions {
        start: seconds(|mcp| mcp.start_timeout_seconds, base.start),
        call: seconds(|mcp| mcp.call_timeout_seconds, base.call),
        output_bytes: config
            .mcp()
            .find_map(|mcp| mcp.max_output_bytes)
            .unwrap_or(base.output_bytes),
        environment: config.environment(),
        cache: cache.map(|folder| CatalogCache::new(folder, Duration::from_secs(60 * minutes))),
        tokens: tokens(),
        servers: settings(config),
        ..base
    }
}

/// Returns the store of OAuth tokens.
pub(crate) fn tokens() -> Option<TokenStore> {
    Some(TokenStore::new(state_folder()?.join("mcp")))
}

/// Returns the value of a variable that a file names.
fn named(name: Option<&Spanned<String>>) -> Option<String> {
    variable(name?.get_ref())
}

/// Returns the settings of each server; the first file that names it counts.
pub(crate) fn settings(config: &Config) -> BTreeMap<String, McpSettings> {
    let mut servers = BTreeMap::new();
    for (name, server) in config.mcp().flat_map(|mcp| &mcp.servers) {
        servers.entry(name.clone()).or_insert_with(|| McpSettings {
            headers: server.headers.clone(),
            bearer: named(server.bearer_env.as_ref()),
            client_id: named(server.client_id_env.as_ref()),
            client_secret: named(server.client_secret_env.as_ref()),
        });
    }
    servers
}

/// Creates the fetcher for the allowed hosts, or returns `None` without any.
pub(crate) fn network(
    hosts: &[HostRule],
    config: &Config,
) -> Result<Option<Arc<Fetcher>>, CliError> {
    let policy = config.network(hosts);
    if policy.hosts.is_empty() {
        return Ok(None);
    }
    let fetcher = Fetcher::new(policy).map_err(|error| {
        let failure = CliError::user("E-NETWORK-DENIED", error.message);
        error.help.into_iter().fold(failure, CliError::with_help)
    })?;
    Ok(Some(Arc::new(fetcher)))
}
