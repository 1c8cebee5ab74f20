//! Filter for unsolicited messages of a server.
//!
//! Changes of the tool list and a limited number of requests pass; logs, progress and resource
//! updates are dropped early. [`Host`] responds to requests: servers get access to neither a model
//! nor a person.

#![expect(deprecated, reason = "servers of earlier versions ask for roots")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientJsonRpcMessage, ErrorData, Implementation,
    ListRootsResult, Root, RootsCapabilities, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::RequestContext;
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};

use super::transport::{ServerTransport, TransportError};

/// Number of server requests answered per connection, plus one per message of the client.
const QUESTIONS: u64 = 100;

/// A transport that passes relevant messages only.
pub(crate) struct FilteredTransport {
    inner: ServerTransport,
    changed: Arc<AtomicBool>,
    /// Number of requests that the server may still send.
    questions: u64,
}

impl FilteredTransport {
    /// Creates a filter that sets `changed` when the tool list of the server changes.
    pub(crate) fn new(inner: ServerTransport, changed: Arc<AtomicBool>) -> Self {
        Self {
            inner,
            changed,
            questions: QUESTIONS,
        }
    }
}

impl Transport<RoleClient> for FilteredTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if matches!(message, ClientJsonRpcMessage::Request(_)) {
            self.questions = self.questions.saturating_add(1);
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut dropped = 0_u32;
        loop {
            let message = self.inner.receive().await?;
            match &message {
                ServerJsonRpcMessage::Notification(notification) => {
                    if let ServerNotification::ToolListChangedNotification(_) =
                        notification.notification
                    {
                        self.changed.store(true, Ordering::Release);
                    }
                }
                ServerJsonRpcMessage::Request(_) => {
                    if let Some(left) = self.questions.checked_sub(1) {
                        self.questions = left;
                        return Some(message);
                    }
                }
                ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {
                    return Some(message);
                }
            }
            dropped += 1;
            if dropped.is_multiple_of(64) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The client information that servers receive.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    roots: Vec<PathBuf>,
}

impl Host {
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(
            capabilities,
            Implementation::new("logue", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let roots = self.roots.iter().filter_map(|root| {
            let url = reqwest::Url::from_directory_path(root).ok()?;
            Some(Root::new(url.to_string()))
        });
        Ok(ListRootsResult::new(roots.collect()))
    }
}
