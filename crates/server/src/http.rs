//! Transports: lines to one client, and HTTP to many.

use std::collections::BTreeSet;
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
use crate::auth::authorize;

/// The idle time after which an HTTP client must start a new session.
const SESSION_TIMEOUT: Duration = Duration::from_hours(1);

/// The size limit of a request, in bytes.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The bearer token that every HTTP request must carry.
#[derive(Clone)]
pub struct BearerToken(Arc<str>);

/// Characters of 128 random bits in base64url.
const MIN_TOKEN_CHARS: usize = 22;

/// Characters of 128 random bits in hexadecimal digits.
const MIN_HEX_CHARS: usize = 32;

/// The least number of characters that no simple rule predicts, of 22 or more.
///
/// Of a million random tokens, fewer than one has less.
const MIN_NOVEL_CHARS: usize = 16;

/// As [`MIN_NOVEL_CHARS`], of 32 or more hexadecimal digits.
const MIN_NOVEL_HEX_CHARS: usize = 20;

/// The rows of a keyboard.
const KEY_ROWS: [&[u8]; 3] = [b"qwertyuiop", b"asdfghjkl", b"zxcvbnm"];

impl BearerToken {
    /// A token of visible ASCII that can have 128 random bits.
    ///
    /// That are 22 characters, or 32 if all are hexadecimal digits. Repetitions, sequences as `abcd`
    /// and rows of a keyboard do not count.
    ///
    /// # Errors
    /// Returns an error if a header cannot contain the token, or if it can be guessed.
    pub fn new(token: &str) -> Result<Self, &'static str> {
        if token.is_empty() {
            return Err("the token is empty");
        }
        if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err("a token consists of visible ASCII characters only");
        }
        let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (least, novel) = if is_hex {
            (MIN_HEX_CHARS, MIN_NOVEL_HEX_CHARS)
        } else {
            (MIN_TOKEN_CHARS, MIN_NOVEL_CHARS)
        };
        if token.len() < least || novel_chars(token.as_bytes()) < novel {
            return Err(
                "the token can be guessed: it requires 128 random bits, which are at least 32 \
                 hexadecimal digits or 22 characters of base64url, without repetitions and sequences",
            );
        }
        Ok(Self(token.into()))
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = own
            .iter()
            .zip(given.iter().chain(std::iter::repeat(&0)))
            .fold(0_u8, |found, (own, given)| found | (own ^ given));
        differences == 0 && own.len() == given.len()
    }
}

/// Returns the number of characters that neither continue a sequence nor repeat an earlier part.
fn novel_chars(token: &[u8]) -> usize {
    let mut parts = BTreeSet::new();
    let mut is_novel = |at: usize| {
        let start = at.saturating_sub(2);
        let Some(part @ [first, second, third]) = token.get(start..=at) else {
            return true;
        };
        let step = second.wrapping_sub(*first);
        let is_sequence = third.wrapping_sub(*second) == step;
        let is_row = are_neighbors(*first, *second) && are_neighbors(*second, *third);
        parts.insert(part) && !is_sequence && !is_row
    };
    (0..token.len()).filter(|at| is_novel(*at)).count()
}

/// Returns whether two keys are side by side.
fn are_neighbors(one: u8, other: u8) -> bool {
    let keys = [one.to_ascii_lowercase(), other.to_ascii_lowercase()];
    let is_pair = |pair: &[u8]| pair == keys || pair.iter().rev().eq(&keys);
    KEY_ROWS.iter().any(|row| row.windows(2).any(is_pair))
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// Options for HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The token that every request must carry.
    pub token: BearerToken,
    /// Host names that requests may use, besides the loopback ones.
    ///
    /// Other names are refused: they come from pages of a browser (DNS rebinding).
    pub hosts: Vec<String>,
}

impl HttpOptions {
    /// Creates options that admit loopback host names only.
    pub fn new(token: BearerToken) -> Self {
        Self {
            token,
            hosts: Vec::new(),
        }
    }

    /// Sets the further host names that requests may use.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }
}

impl PromptServer {
    /// Serves one client over lines until it closes its side, which cancels running calls.
    ///
    /// # Errors
    /// Returns an error if the client does not follow the protocol.
    pub async fn serve_lines<R, W>(&self, read: R, write: W) -> Result<(), String>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport =
            AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_BODY_BYTES);
        let running = self.clone().serve(transport).await;
        let running = running.map_err(|error| error.to_string())?;
        running.waiting().await.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Serves clients over HTTP at the path `/mcp` until `end` completes.
    ///
    /// This cancels running calls.
    ///
    /// # Errors
    /// Returns an error if the listener fails.
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
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let sessions = config.cancellation_token.clone();
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(SESSION_TIMEOUT);
        let server = self.clone();
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::new(manager), config);
        let router = Router::new()
            .nest_service("/mcp", service)
            .layer(from_fn_with_state(options.token, authorize));
        tokio::select! {
            served = axum::serve(listener, router) => served,
            () = end => {
                sessions.cancel();
                Ok(())
            }
        }
    }
}
