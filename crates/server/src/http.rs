//! Serving: over lines to one client, and over HTTP to many.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::PromptServer;
use crate::gate::gate;

/// How long a client of HTTP may say nothing until it has to begin anew.
const PATIENCE: Duration = Duration::from_hours(1);

/// Bytes of one request.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The word that every request over HTTP has to carry.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// A token of at least one character, all of them visible ASCII.
    ///
    /// # Errors
    /// It cannot stand in a header.
    pub fn new(token: &str) -> Result<Self, &'static str> {
        if token.is_empty() {
            return Err("the token is empty");
        }
        if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err("a token consists of visible ASCII characters only");
        }
        Ok(Self(token.into()))
    }

    /// Compares without telling by the time how much of it is right.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = own
            .iter()
            .zip(given.iter().chain(std::iter::repeat(&0)))
            .fold(0_u8, |found, (own, given)| found | (own ^ given));
        differences == 0 && own.len() == given.len()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How HTTP is served.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// What every request has to carry.
    pub token: Token,
    /// The hosts that requests may name, beside the loopback ones: a page of a browser that was led
    /// here by a name of its own names another one.
    pub hosts: Vec<String>,
}

impl PromptServer {
    /// Serves one client over lines until it closes its side. Calls that run then are cancelled.
    ///
    /// # Errors
    /// The client did not begin as the protocol wants it.
    pub async fn serve_lines<R, W>(&self, read: R, write: W) -> Result<(), String>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MOST_BYTES);
        let running = self.clone().serve(transport).await;
        let running = running.map_err(|error| error.to_string())?;
        running.waiting().await.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Serves clients over HTTP at the path `/mcp` until `end` ends. Calls that run then are cancelled.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: HttpOptions,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let address: SocketAddr = listener.local_addr()?;
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"]
            .map(str::to_owned)
            .to_vec();
        hosts.push(address.ip().to_string());
        hosts.extend(options.hosts);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .enforce_origin_validation()
            .with_max_request_body_bytes(MOST_BYTES);
        let sessions = config.cancellation_token.clone();
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(PATIENCE);
        let server = self.clone();
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::new(manager), config);
        let router = Router::new()
            .nest_service("/mcp", service)
            .layer(from_fn_with_state(options.token, gate));
        tokio::select! {
            served = axum::serve(listener, router) => served,
            () = end => {
                sessions.cancel();
                Ok(())
            }
        }
    }
}
