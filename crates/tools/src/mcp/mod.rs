//! Tools of servers that speak the Model Context Protocol.
//!
//! [`McpServers`] is the client side: it starts or connects to the servers that a prompt declares,
//! remembers what they offer, and hands their tools out as [`ToolSource`]s. A server is a program of
//! somebody else: it may not start, hang, die, flood, lie, or change its mind. None of that ends a
//! turn: tools of a server that cannot be reached are left out with a warning, and a call that went
//! wrong is told to the model as one that failed.

mod address;
mod catalog;
mod filtered;
mod http;
mod lines;
mod names;
mod oauth;
mod outcome;
mod process;
mod server;
mod tokens;
mod tool;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

pub use catalog::CatalogCache;
pub use oauth::login;
pub use tokens::TokenStore;

use crate::{
    BoxFuture, FetchCategory, Fetcher, ServerToolRequest, ToolServerError, ToolServerErrorKind,
    ToolServers, ToolSource,
};
use address::Address;
use server::Server;
use tool::Declared;

/// Says something to whoever runs the program.
pub type LogFn = Arc<dyn Fn(&str) + Send + Sync>;

/// What servers may cost, and what they get.
#[derive(Clone)]
pub struct McpOptions {
    /// Time for a server to start, and to say what it offers.
    pub start: Duration,
    /// Time for one call.
    pub call: Duration,
    /// Bytes of one message of a server.
    pub message_bytes: usize,
    /// Bytes of a result that the model is told.
    pub output_bytes: usize,
    /// The whole environment of a server that is a program.
    pub environment: Vec<(OsString, OsString)>,
    /// Where catalogs are kept from one run to the next.
    pub cache: Option<CatalogCache>,
    /// Where tokens are kept that somebody logged in for.
    pub tokens: Option<TokenStore>,
    /// What is particular to a server, by its address as declared.
    pub servers: BTreeMap<String, McpSettings>,
    /// Who is told of a server that cannot be reached.
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
    fn settings(&self, server: &str) -> McpSettings {
        self.servers.get(server).cloned().unwrap_or_default()
    }

    fn tell(&self, text: &str) {
        if let Some(notice) = &self.notice {
            notice(text);
        }
    }
}

/// What is particular to one server over HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct McpSettings {
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A token that says who asks.
    pub bearer: Option<String>,
    /// The program's name at the server's authorization server.
    pub client_id: Option<String>,
    /// The secret of that name. With both, nobody has to log in.
    pub client_secret: Option<String>,
}

impl fmt::Debug for McpSettings {
    /// Without values: they are secrets.
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
    /// What tells catalogs apart that are given to different askers, and gives no secret away.
    fn identity(&self) -> String {
        format!(
            "{:x}",
            Sha256::digest(format!(
                "{:?}{:?}{:?}",
                self.headers, self.bearer, self.client_id
            ))
        )
    }
}

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
    /// No server yet. Servers over HTTP are reached through `network` and not at all without.
    pub fn new(options: McpOptions, network: Option<Arc<Fetcher>>) -> Self {
        Self {
            options: Arc::new(options),
            network,
            servers: std::sync::Mutex::default(),
        }
    }

    /// Forgets what is remembered of a server from earlier runs.
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
            let fault = match error.category {
                FetchCategory::Denied | FetchCategory::Private => ToolServerErrorKind::Denied,
                _ => ToolServerErrorKind::Address,
            };
            let failed = ToolServerError::new(fault, error.message);
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
            // What is remembered may be older than the tool.
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
                Err(why) => self.options.tell(&format!(
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
    /// Names that are listed.
    const SHOWN: usize = 50;
    let mut names: Vec<&str> = catalog.iter().map(|offer| offer.name.as_str()).collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
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
