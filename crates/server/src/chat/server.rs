//! The chat server: its listener, its background work and its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use logue_graph::IdSource;
use logue_harness::Clock;
use logue_harness::events::EventLog;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::AccessTokens;
use super::api::Api;
use super::bodies::{BodyLimits, read_body};
use super::connections::Connections;
use super::drain::{end_with_server, refuse_new_work};
use super::guard::{Guard, admit};
use super::host::ChatHost;
use super::hub::SessionHub;
use super::limits::{ClientLimits, TurnLimits};
use super::routes::routes;
use super::supervisor::Supervisor;
use super::trace_context::carry_trace;
use super::turns::Turns;
use crate::metrics::count_request;

/// The time after [`ChatServerOptions::drain`] in which received text is saved and clients are answered.
pub(crate) const AFTER_DRAIN: Duration = Duration::from_millis(800);

/// Limits of a chat server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatServerOptions {
    /// Further names of the host, besides loopback names and the listener's address.
    pub hosts: Vec<String>,
    /// The prefix of all paths, such as `/logue`; a proxy may remove it instead.
    pub path_prefix: Option<String>,
    /// The size limit of a request's body, in bytes.
    pub max_body_bytes: usize,
    /// The time in which a client must send the head of a request.
    pub header_timeout: Duration,
    /// The time in which a client must send the body of a request.
    pub body_timeout: Duration,
    /// The time after which a connection ends whose client does not read.
    pub write_timeout: Duration,
    /// The number of connections; others wait.
    pub max_connections: usize,
    /// The time that running turns have to end after the server was asked to end.
    pub drain: Duration,
    /// The age at which events of ended turns are removed.
    pub event_age: Duration,
    /// The limits of clients.
    pub limits: ClientLimits,
    /// Whether Chat Completions without a named session continue the one with their history.
    pub continues_conversations: bool,
    /// Whether tokens of the scope `debug` read hidden messages.
    pub debug_view: bool,
    /// Gives free memory back to the system; called some seconds after many connections ended.
    pub give_back: Option<fn()>,
}

impl Default for ChatServerOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            path_prefix: None,
            max_body_bytes: 8 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            max_connections: 4_096,
            drain: Duration::from_secs(25),
            event_age: Duration::from_hours(24),
            limits: ClientLimits::default(),
            continues_conversations: false,
            debug_view: false,
            give_back: None,
        }
    }
}

impl ChatServerOptions {
    /// Sets the further host names that requests may name.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the limits of clients.
    #[must_use]
    pub fn with_limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the number of connections.
    #[must_use]
    pub const fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets whether Chat Completions without a named session continue the one with their history.
    #[must_use]
    pub const fn with_continued_conversations(mut self, continues: bool) -> Self {
        self.continues_conversations = continues;
        self
    }

    /// Sets whether tokens of the scope `debug` read hidden messages.
    ///
    /// On a loopback address without tokens, every client may.
    #[must_use]
    pub fn with_debug_view(mut self, debug_view: bool) -> Self {
        self.debug_view = debug_view;
        self
    }

    /// Sets the function that gives free memory back to the system.
    ///
    /// It runs on a thread that may block, some seconds after 128 connections ended.
    #[must_use]
    pub const fn with_give_back(mut self, give_back: fn()) -> Self {
        self.give_back = Some(give_back);
        self
    }

    /// Sets the prefix of all paths, without a final slash.
    #[must_use]
    pub fn with_path_prefix(mut self, prefix: Option<String>) -> Self {
        self.path_prefix = prefix;
        self
    }

    /// Sets the time that running turns have to end.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }
}

/// A server of chats over HTTP.
pub struct ChatServer {
    turns: Arc<Turns>,
    tokens: Arc<dyn AccessTokens>,
    options: ChatServerOptions,
}

impl std::fmt::Debug for ChatServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatServer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ChatServer {
    /// Creates a server of the agents of a host.
    ///
    /// Events of sessions are kept in `log`.
    pub fn new(
        host: Arc<dyn ChatHost>,
        log: Arc<dyn EventLog>,
        tokens: Arc<dyn AccessTokens>,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn IdSource>),
        options: ChatServerOptions,
    ) -> Self {
        Self {
            turns: Arc::new(Turns::new(host, SessionHub::new(log), clock, ids)),
            tokens,
            options,
        }
    }

    /// Serves clients until `end` completes, and then until running turns have ended.
    ///
    /// After `end`, connections are still accepted, requests that would begin a turn are refused, and
    /// the server reports that it is not ready.
    ///
    /// A turn that has not ended after [`ChatServerOptions::drain`] is left; its message and what it
    /// completed are stored, and the next server continues it. Turns that an earlier server left are
    /// continued first.
    ///
    /// # Errors
    /// Returns an error if the address of the listener is unknown.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        let (ends, shutdown) = watch::channel(false);
        let (drains, draining) = watch::channel(false);
        let api = Api {
            turns: Arc::clone(&self.turns),
            readiness: Arc::default(),
            draining: draining.clone(),
            limits: TurnLimits::new(self.options.limits.clone()),
            kept_answers: Arc::default(),
            histories: self.options.continues_conversations.then(Arc::default),
            shutdown: shutdown.clone(),
            has_debug_view: self.options.debug_view,
        };
        let limits = BodyLimits {
            bytes: self.options.max_body_bytes,
            time: self.options.body_timeout,
        };
        let guard = guard(address, &self.options, &self.tokens, &self.turns.clock);
        let router = routes(api)
            .layer(from_fn_with_state(shutdown, end_with_server))
            .layer(from_fn(carry_trace))
            .layer(DefaultBodyLimit::max(self.options.max_body_bytes))
            .layer(from_fn_with_state(limits, read_body))
            .layer(from_fn_with_state(draining, refuse_new_work))
            .layer(from_fn_with_state(Arc::clone(&guard), admit))
            .layer(from_fn_with_state(
                self.turns.measures.registry().clone(),
                count_request,
            ));
        let supervisor = Supervisor::new(Arc::clone(&self.turns), self.options.event_age);
        let supervisor = tokio::spawn(supervisor.run());
        let tokens = tokio::spawn(async move { guard.watch_tokens().await });
        let open = Connections::new(&self.options);
        tokio::select! {
            () = open.accept(&listener, &router) => {}
            () = end => {}
        }
        // Clients may connect to see running turns end, and load balancers to see the condition.
        drains.send_replace(true);
        supervisor.abort();
        let is_drained = tokio::select! {
            is_drained = self.turns.drained(self.options.drain) => is_drained,
            () = open.accept(&listener, &router) => false,
        };
        drop(listener);
        let end = Instant::now() + AFTER_DRAIN;
        if !is_drained {
            self.turns.save_parts(AFTER_DRAIN / 2).await;
        }
        // Streams end when their turns have ended.
        ends.send_replace(true);
        let rest = end.saturating_duration_since(Instant::now());
        open.close(rest).await;
        tokens.abort();
        Ok(())
    }
}

/// Returns the rules of the requests to a listener.
pub(crate) fn guard(
    address: SocketAddr,
    options: &ChatServerOptions,
    tokens: &Arc<dyn AccessTokens>,
    clock: &Arc<dyn Clock>,
) -> Arc<Guard> {
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let ip = address.ip();
    if !ip.is_unspecified() {
        hosts.push(ip.to_string());
    }
    hosts.extend(options.hosts.iter().cloned());
    let (tokens, clock) = (Arc::clone(tokens), Arc::clone(clock));
    let limits = &options.limits;
    Arc::new(Guard::new(hosts, ip.is_loopback(), tokens, clock, limits))
}
