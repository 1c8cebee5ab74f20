//! The server: published prompts, notifications of changes, and the limit of concurrent calls.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::catalog::{PromptCatalog, PromptEntry, catalog};
use crate::handler::cancelled;
use crate::host::{PromptHost, ServeOptions};

/// A server of prompts. Clones share one server.
#[derive(Clone)]
pub struct PromptServer {
    shared: Arc<Shared>,
}

struct Shared {
    host: Arc<dyn PromptHost>,
    catalog: RwLock<Arc<PromptCatalog>>,
    changes: watch::Sender<u64>,
    concurrency: Semaphore,
}

impl std::fmt::Debug for PromptServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptServer")
            .field("catalog", &self.catalog())
            .finish_non_exhaustive()
    }
}

impl PromptServer {
    /// Creates a server of the files that the host currently has.
    pub fn new(host: Arc<dyn PromptHost>, options: &ServeOptions) -> Self {
        let now = catalog(&host.files());
        let concurrency = Semaphore::new(options.concurrency.max(1));
        Self {
            shared: Arc::new(Shared {
                host,
                catalog: RwLock::new(Arc::new(now)),
                changes: watch::Sender::new(0),
                concurrency,
            }),
        }
    }

    /// Returns the names of the published prompts with their files.
    pub fn prompts(&self) -> Vec<(String, PathBuf)> {
        let entries = self.catalog();
        let entries = entries.iter();
        entries
            .map(|entry| (entry.name.clone(), entry.file.clone()))
            .collect()
    }

    /// Checks the files every `interval` and notifies clients of changes.
    ///
    /// It never ends; drop the future to stop.
    pub async fn watch(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let host = Arc::clone(&self.shared.host);
            // Reading directories may block, and clients wait meanwhile.
            let looked = tokio::task::spawn_blocking(move || catalog(&host.files())).await;
            let Ok(now) = looked else { continue };
            if now != *self.catalog() {
                let mut catalog = self
                    .shared
                    .catalog
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                *catalog = Arc::new(now);
                drop(catalog);
                self.shared.changes.send_modify(|count| *count += 1);
            }
        }
    }

    pub(crate) fn catalog(&self) -> Arc<PromptCatalog> {
        let catalog = self.shared.catalog.read();
        Arc::clone(&catalog.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn entry(&self, name: &str) -> Result<PromptEntry, ErrorData> {
        let catalog = self.catalog();
        let found = catalog.iter().find(|entry| entry.name == name).cloned();
        found.ok_or_else(|| {
            let names: Vec<&str> = catalog.iter().map(|entry| entry.name.as_str()).collect();
            let names = names.join(", ");
            ErrorData::invalid_params(format!("there is no `{name}`; there are: {names}"), None)
        })
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    pub(crate) fn host(&self) -> &dyn PromptHost {
        &*self.shared.host
    }

    /// Waits until the limit of concurrent calls allows another one.
    pub(crate) async fn turn(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<SemaphorePermit<'_>, ErrorData> {
        tokio::select! {
            () = context.ct.cancelled() => Err(cancelled()),
            // The semaphore is never closed.
            permit = self.shared.concurrency.acquire() => permit.map_err(|_| cancelled()),
        }
    }
}
