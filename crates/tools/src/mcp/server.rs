//! One server: connected on first use, and restarted after a crash.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError,
};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::address::Address;
use super::catalog::{Catalog, CatalogCache, MAX_TOOLS, page, page_of_value};
use super::filtered::{FilteredTransport, Host};
use super::http;
use super::lines::{Faults, Lines};
use super::options::McpOptions;
use super::outcome::{outcome, server_result};
use super::process::Process;
use super::transport::ServerTransport;
use crate::covered::command_digest;
use crate::output::BoundedBuffer;
use crate::{Fetcher, Roots, ServerAccess, ToolResult};

/// Maximum number of starts or connections per run.
const MAX_STARTS: usize = 5;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;

/// A server declared by a prompt.
pub(crate) struct Server {
    /// The address for display.
    pub(crate) name: String,
    pub(crate) address: Address,
    folder: PathBuf,
    host: Host,
    roots: Roots,
    access: ServerAccess,
    pub(crate) options: Arc<McpOptions>,
    network: Option<Arc<Fetcher>>,
    link: Mutex<Option<Link>>,
    starts: AtomicUsize,
    catalog: std::sync::Mutex<Option<Arc<Catalog>>>,
    /// Serializes list requests.
    listing: Mutex<()>,
    changed: Arc<AtomicBool>,
    cached: Option<PathBuf>,
    /// The digest of the files that the command names, when the run began.
    digest: Option<String>,
}

/// A connection.
struct Link {
    running: RunningService<RoleClient, Host>,
    process: Option<Process>,
    faults: Arc<Faults>,
}

impl Server {
    pub(crate) fn new(
        name: &str,
        address: Address,
        folder: PathBuf,
        roots: Roots,
        access: ServerAccess,
        options: Arc<McpOptions>,
        network: Option<Arc<Fetcher>>,
    ) -> Self {
        let settings = options.settings(name).identity();
        let cached = options.cache.as_ref().map(|cache| {
            let folder = folder.to_string_lossy();
            // The directory matters for programs only.
            let folder = match address {
                Address::Command(_) => &*folder,
                Address::Http(_) => "",
            };
            cache.file(&[name, folder, &settings])
        });
        let digest = match &address {
            Address::Command(words) => program_digest(&folder, words, &options),
            Address::Http(_) => None,
        };
        Self {
            name: name.to_owned(),
            address,
            folder,
            digest,
            host: Host::new(roots.folders().to_vec()),
            roots,
            access,
            options,
            network,
            link: Mutex::new(None),
            starts: AtomicUsize::new(0),
            catalog: std::sync::Mutex::new(None),
            listing: Mutex::new(()),
            changed: Arc::new(AtomicBool::new(false)),
            cached,
        }
    }

    /// Returns a digest of the files that the command names, or of the address.
    pub(crate) async fn fingerprint(&self) -> String {
        match self.files().await {
            Some(digest) => digest,
            None => crate::digest::sha256(self.name.as_bytes()),
        }
    }

    /// Returns a digest of the files that the command names; `None` if there is none.
    async fn files(&self) -> Option<String> {
        let Address::Command(words) = &self.address else {
            return None;
        };
        let (folder, words) = (self.folder.clone(), words.clone());
        let options = Arc::clone(&self.options);
        let work = move || program_digest(&folder, &words, &options);
        tokio::task::spawn_blocking(work).await.ok()?
    }

    /// Returns the catalog if it is in memory.
    pub(crate) fn known(&self) -> Option<Arc<Catalog>> {
        let catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        catalog.clone()
    }

    /// Returns the catalog: from memory, from a recent cache file, or from the server.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable or does not respond.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>, String> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let cache = self.options.cache.as_ref().zip(self.cached.as_ref());
        if let Some(catalog) = cache.and_then(|(cache, file)| cache.get(file)) {
            return Ok(self.keep(catalog));
        }
        self.list().await
    }

    /// Lists the tools again after a change notification. On failure the last catalog remains.
    pub(crate) async fn refresh(&self) {
        if self.changed.load(Ordering::Acquire)
            && let Err(why) = self.list().await
        {
            self.options
                .log(&format!("{}: its new list of tools: {why}", self.name));
        }
    }

    /// Requests the catalog from the server.
    ///
    /// # Errors
    /// As [`Server::catalog`].
    pub(crate) async fn list(&self) -> Result<Arc<Catalog>, String> {
        let _one = self.listing.lock().await;
        // A later change notification may not be covered by this list.
        if self.changed.swap(false, Ordering::AcqRel)
            && let Some(file) = &self.cached
        {
            CatalogCache::remove(file);
        }
        let limit = self.options.start;
        let peer = self.peer().await?;
        let Ok(listed) = tokio::time::timeout(limit, pages(&peer)).await else {
            return Err(format!(
                "it did not list its tools within {} s",
                limit.as_secs_f64()
            ));
        };
        let catalog = match listed {
            Ok(catalog) => catalog,
            Err(error) => return Err(self.explain(&error).await),
        };
        if let Some((cache, file)) = self.options.cache.as_ref().zip(self.cached.as_ref())
            && !self.changed.load(Ordering::Acquire)
        {
            cache.put(file, &catalog);
        }
        Ok(self.keep(catalog))
    }

    /// Removes the cached catalog.
    pub(crate) fn forget(&self) {
        if let Some(file) = &self.cached {
            CatalogCache::remove(file);
        }
    }

    fn keep(&self, catalog: Catalog) -> Arc<Catalog> {
        let catalog = Arc::new(catalog);
        let mut known = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(&catalog));
        catalog
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> ToolResult {
        let limit = self.options.call;
        let peer = match self.peer().await {
            Ok(peer) => peer,
            Err(why) => {
                return ToolResult::failure(format!(
                    "E-MCP-SERVER-FAILED: the MCP server `{}` cannot be reached, so `{tool}` was not run: {why}",
                    self.name
                ));
            }
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let asked = async {
            let options = PeerRequestOptions::no_options();
            let mut waiting = Waiting(Some(peer.send_cancellable_request(request, options).await?));
            let answer = match &mut waiting.0 {
                Some(handle) => (&mut handle.rx).await,
                None => return Err(ServiceError::TransportClosed),
            };
            // The response has arrived, so there is nothing to cancel.
            waiting.0 = None;
            answer.unwrap_or(Err(ServiceError::TransportClosed))
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(ServerResult::CallToolResult(result))) => {
                outcome(&result, &self.name, self.options.output_bytes)
            }
            Ok(Ok(other)) => {
                // Not a tool result; the model may still be able to use it.
                let mut text = BoundedBuffer::new(self.options.output_bytes);
                let value = serde_json::to_value(other).unwrap_or_default().to_string();
                text.push(b"[the server's answer is not a tool result] ");
                text.push(value.as_bytes());
                server_result(text, false, &self.name)
            }
            Ok(Err(ServiceError::McpError(error))) => {
                let mut text = BoundedBuffer::new(self.options.output_bytes);
                text.push(
                    format!(
                        "E-MCP-SERVER-FAILED: the server answered {}: ",
                        error.code.0
                    )
                    .as_bytes(),
                );
                text.push(error.message.as_bytes());
                server_result(text, false, &self.name)
            }
            Ok(Err(error)) => {
                let why = self.explain(&error).await;
                ToolResult::failure(format!(
                    "E-MCP-SERVER-FAILED: the MCP server `{}` failed during the call of `{tool}`, and what \
                     the call did is unknown: {why}",
                    self.name
                ))
            }
            Err(_) => ToolResult::failure(format!(
                "E-TOOL-TIMEOUT: the MCP server `{}` did not answer within {} s; the call was cancelled",
                self.name,
                limit.as_secs_f64()
            )),
        }
    }

    /// Returns the connection; connects if there is none or the last one is closed.
    async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref()
            && !link.running.is_transport_closed()
        {
            return Ok(link.running.peer().clone());
        }
        if let Some(dead) = link.take() {
            dead.end().await;
        }
        if self.starts.fetch_add(1, Ordering::Relaxed) >= MAX_STARTS {
            return Err(format!("it failed {MAX_STARTS} times and is left alone"));
        }
        let limit = self.options.start;
        let made = match &self.address {
            Address::Command(words) => self.start(words, limit).await?,
            Address::Http(url) => self.connect(url, limit).await?,
        };
        let peer = made.running.peer().clone();
        *link = Some(made);
        Ok(peer)
    }

    async fn start(&self, words: &[String], limit: Duration) -> Result<Link, String> {
        // A tool of the run may have written them since.
        if self.files().await != self.digest {
            return Err("a file of its command has changed since the run began".to_owned());
        }
        let options = self
            .options
            .program(&self.name, &self.folder, &self.roots, self.access)?;
        let (mut process, out, into) = Process::start(words, &self.folder, &options).await?;
        let faults = Arc::new(Faults::default());
        let lines = Lines::new(out, into, self.options.message_bytes, Arc::clone(&faults));
        let connected = self.handshake(ServerTransport::Lines(lines), limit).await;
        let reason = match connected {
            Some(Ok(running)) => {
                return Ok(Link {
                    running,
                    process: Some(process),
                    faults,
                });
            }
            Some(Err(error)) => error.to_string(),
            None => format!("it did not start within {} s", limit.as_secs_f64()),
        };
        let words = process.post_mortem().await;
        Err(with_faults(format!("{reason}; {words}"), &faults))
    }

    async fn connect(&self, url: &str, limit: Duration) -> Result<Link, String> {
        let Some(network) = &self.network else {
            return Err("the network is off".to_owned());
        };
        let transport = http::transport(network, url, &self.name, &self.options).await?;
        match self.handshake(transport, limit).await {
            Some(Ok(running)) => Ok(Link {
                running,
                process: None,
                faults: Arc::default(),
            }),
            Some(Err(error)) => Err(http::why(&error, &self.name)),
            None => Err(format!(
                "it did not answer within {} s",
                limit.as_secs_f64()
            )),
        }
    }

    /// Initializes a connection; `None` if the time limit passes.
    async fn handshake(
        &self,
        transport: ServerTransport,
        limit: Duration,
    ) -> Option<Result<RunningService<RoleClient, Host>, ClientInitializeError>> {
        let filtered = FilteredTransport::new(transport, Arc::clone(&self.changed));
        let serving = Box::pin(self.host.clone().serve(filtered));
        tokio::time::timeout(limit, serving).await.ok()
    }

    /// Describes a failed request.
    async fn explain(&self, error: &ServiceError) -> String {
        let mut link = self.link.lock().await;
        let Some(link) = link.as_mut() else {
            return error.to_string();
        };
        let why = http::why(error, &self.name);
        // A call that follows the end of the program fails when it is sent.
        let is_closed =
            link.running.is_transport_closed() || matches!(error, ServiceError::TransportSend(_));
        match &mut link.process {
            Some(process) if is_closed => {
                let words = process.post_mortem().await;
                with_faults(format!("{why}; {words}"), &link.faults)
            }
            _ => with_faults(why, &link.faults),
        }
    }

    /// Closes the connection and ends the program.
    ///
    /// A catalog that the server has changed since is not kept for later runs.
    pub(crate) async fn close(&self) {
        if self.changed.load(Ordering::Acquire) {
            self.forget();
        }
        if let Some(link) = self.link.lock().await.take() {
            link.end().await;
        }
    }
}

impl Link {
    async fn end(mut self) {
        // After the time limit the connection is dropped, which ends it as well.
        drop(
            self.running
                .close_with_timeout(Duration::from_secs(1))
                .await,
        );
        if let Some(process) = self.process {
            process.end().await;
        }
    }
}

/// A pending request, cancelled at the server on drop.
struct Waiting(Option<RequestHandle<RoleClient>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let handle = self.0.take();
        if let Some(handle) = handle
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                // The server may be gone.
                drop(
                    handle
                        .cancel(Some("the call was cancelled".to_owned()))
                        .await,
                );
            });
        }
    }
}

/// Returns a digest of the files below `folder` that the command of a server names.
fn program_digest(folder: &Path, words: &[String], options: &McpOptions) -> Option<String> {
    let mut environment = options.environment.iter();
    let path = environment.find(|(name, _)| name == "PATH");
    let path = path.map(|(_, value)| value.as_os_str());
    command_digest(Some(folder), words, None, path).ok()
}

fn with_faults(why: String, faults: &Faults) -> String {
    let skipped = faults.skipped.load(Ordering::Relaxed);
    let too_long = faults.too_long.load(Ordering::Relaxed);
    let mut text = why;
    if too_long {
        text.push_str("; it sent a message that is longer than the limit");
    }
    if skipped > 0 {
        text.push_str(&format!("; {skipped} lines were not messages"));
    }
    text
}

/// Requests all pages of the list.
async fn pages(peer: &Peer<RoleClient>) -> Result<Catalog, ServiceError> {
    let mut catalog = Catalog::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ListToolsRequest {
            params: Some(params),
            ..ListToolsRequest::default()
        };
        let answer = peer
            .send_request(ClientRequest::ListToolsRequest(request))
            .await?;
        let read = match answer {
            ServerResult::ListToolsResult(result) => Some(page(result)),
            other => serde_json::to_value(other)
                .ok()
                .and_then(|value| page_of_value(&value)),
        };
        let Some((offers, next)) = read else {
            return Err(ServiceError::UnexpectedResponse);
        };
        catalog.extend(offers);
        // A server could repeat the same page without end.
        if next.is_none() || next == cursor || catalog.len() >= MAX_TOOLS {
            break;
        }
        cursor = next;
    }
    catalog.truncate(MAX_TOOLS);
    Ok(catalog)
}
