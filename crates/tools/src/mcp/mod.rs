//! Tools of servers that implement the Model Context Protocol.
//!
//! [`McpServers`] is the client: it starts or connects to the servers that a prompt declares,
//! caches their catalogs and provides their tools as [`ToolSource`]s. A server is untrusted: it may
//! fail to start, hang, crash, flood, lie or change its tools. None of that fails a turn. Tools of
//! an unreachable server are left out with a warning, and a failed call is a failed result.

mod address;
mod catalog;
mod filtered;
mod http;
mod lines;
mod names;
mod oauth;
mod options;
mod outcome;
mod process;
mod server;
mod tokens;
mod tool;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

pub use catalog::CatalogCache;
pub use oauth::login;
pub use options::{LogFn, McpOptions, McpSettings};
pub use tokens::TokenStore;

use crate::{
    BoxFuture, FetchCategory, Fetcher, ServerToolRequest, ToolServerError, ToolServerErrorKind,
    ToolServers, ToolSource,
};
use address::Address;
use server::Server;
use tool::Declared;

/// The servers of one run.
pub struct McpServers {
    options: Arc<McpOptions>,
    network: Option<Arc<Fetcher>>,
    servers: std::sync::Mutex<BTreeMap<(String, PathBuf), Arc<Server>>>,
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl McpServers {
    /// Creates an empty set. Servers over HTTP are reached through `network`; without it they are
    /// denied.
    pub fn new(options: McpOptions, network: Option<Arc<Fetcher>>) -> Self {
        Self {
            options: Arc::new(options),
            network,
            servers: std::sync::Mutex::default(),
        }
    }

    /// Removes the cached catalog of a server.
    pub fn forget(&self, wanted: &ServerToolRequest) {
        if let Ok(server) = self.find(wanted) {
            server.forget();
        }
    }

    fn find(&self, wanted: &ServerToolRequest) -> Result<Arc<Server>, ToolServerError> {
        let name = wanted.server.trim();
        let address = Address::parse(name)?;
        if let Address::Http(url) = &address {
            self.check_host(url)?;
        }
        let key = (name.to_owned(), wanted.folder.clone());
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers.entry(key).or_insert_with(|| {
            Arc::new(Server::new(
                name,
                address,
                wanted.folder.clone(),
                wanted.roots.clone(),
                wanted.access,
                Arc::clone(&self.options),
                self.network.clone(),
            ))
        });
        Ok(Arc::clone(server))
    }

    fn check_host(&self, url: &str) -> Result<(), ToolServerError> {
        let Some(network) = &self.network else {
            let parsed = reqwest::Url::parse(url);
            let host = parsed.ok().and_then(|url| {
                let host = url.host_str()?.to_owned();
                Some(
                    url.port()
                        .map_or(host.clone(), |port| format!("{host}:{port}")),
                )
            });
            let host = host.unwrap_or_default();
            let message = format!("`{url}` was not connected to: the network is off for `{host}`");
            return Err(
                ToolServerError::new(ToolServerErrorKind::Denied, message).with_help(format!(
                    "if the server may be used, give `--allow-host {host}`, or add \"{host}\" to \
                     `allowed_hosts` under [network] in logue.toml"
                )),
            );
        };
        network.client_for(url).map(drop).map_err(|error| {
            let kind = match error.category {
                FetchCategory::Denied | FetchCategory::Private => ToolServerErrorKind::Denied,
                _ => ToolServerErrorKind::Address,
            };
            let failed = ToolServerError::new(kind, error.message);
            error
                .help
                .into_iter()
                .fold(failed, ToolServerError::with_help)
        })
    }
}

impl ToolServers for McpServers {
    fn source<'a>(
        &'a self,
        wanted: &'a ServerToolRequest,
    ) -> BoxFuture<'a, Result<Arc<dyn ToolSource>, ToolServerError>> {
        Box::pin(async move {
            let server = self.find(wanted)?;
            let names = wanted.names.as_ref().map(|names| {
                let names = names.iter().filter(|name| !name.is_empty());
                names.cloned().collect::<Vec<String>>()
            });
            let mut catalog = server.catalog().await;
            let lacks = |catalog: &catalog::Catalog| {
                let names = names.iter().flatten();
                names
                    .filter(|name| catalog.iter().all(|offer| offer.name != **name))
                    .cloned()
                    .collect::<Vec<String>>()
            };
            // The cached catalog may be older than the tool.
            if catalog
                .as_ref()
                .is_ok_and(|catalog| !lacks(catalog).is_empty())
            {
                catalog = server.list().await;
            }
            match catalog {
                Ok(catalog) => {
                    if let Some(name) = lacks(&catalog).first() {
                        return Err(no_such_tool(name, &server.name, &catalog));
                    }
                }
                Err(why) => self.options.log(&format!(
                    "the MCP server `{}` cannot be reached, so its tools are left out: {why}",
                    server.name
                )),
            }
            let prefix = server.address.short();
            Ok(Arc::new(Declared {
                server,
                names,
                strict: wanted.strict,
                prefix,
            }) as Arc<dyn ToolSource>)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let servers = {
                let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *servers)
            };
            let closing = servers.values().map(|server| server.close());
            futures_util::future::join_all(closing).await;
        })
    }
}

fn no_such_tool(name: &str, server: &str, catalog: &catalog::Catalog) -> ToolServerError {
    /// Maximum number of listed names.
    const MAX_NAMES: usize = 50;
    let mut names: Vec<&str> = catalog.iter().map(|offer| offer.name.as_str()).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let mut list = names.join(", ");
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    if list.is_empty() {
        list.push_str("none");
    }
    let message = format!("`{server}` has no tool named `{name}`");
    ToolServerError::new(ToolServerErrorKind::NoSuchTool, message)
        .with_help(format!("its tools are {list}"))
}
