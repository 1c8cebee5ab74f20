//! The server: what is offered now, who is told when it changes, and how much runs at once.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::handler::cancelled;
use crate::menu::{Dish, Menu, menu};
use crate::{Kitchen, ServeOptions};

/// Prompts as a server. Clones are the same server.
#[derive(Clone)]
pub struct PromptServer {
    shared: Arc<Shared>,
}

struct Shared {
    kitchen: Arc<dyn Kitchen>,
    options: ServeOptions,
    menu: RwLock<Arc<Menu>>,
    changes: watch::Sender<u64>,
    at_once: Semaphore,
}

impl std::fmt::Debug for PromptServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptServer")
            .field("menu", &self.menu())
            .finish_non_exhaustive()
    }
}

impl PromptServer {
    /// A server of what the kitchen has now.
    pub fn new(kitchen: Arc<dyn Kitchen>, options: ServeOptions) -> Self {
        let now = menu(&kitchen.files());
        let at_once = Semaphore::new(options.at_once.max(1));
        Self {
            shared: Arc::new(Shared {
                kitchen,
                options,
                menu: RwLock::new(Arc::new(now)),
                changes: watch::Sender::new(0),
                at_once,
            }),
        }
    }

    /// The names of what is offered, with their files.
    pub fn offered(&self) -> Vec<(String, PathBuf)> {
        let dishes = self.menu();
        let dishes = dishes.iter();
        dishes
            .map(|dish| (dish.name.clone(), dish.file.clone()))
            .collect()
    }

    /// Looks every `interval` whether files have come, gone or changed, and tells the clients. Never
    /// ends; dropping the future ends it.
    pub async fn watch(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let kitchen = Arc::clone(&self.shared.kitchen);
            // Reading folders may take long, and clients wait meanwhile.
            let looked = tokio::task::spawn_blocking(move || menu(&kitchen.files())).await;
            let Ok(now) = looked else { continue };
            if now != *self.menu() {
                let mut menu = self
                    .shared
                    .menu
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                *menu = Arc::new(now);
                drop(menu);
                self.shared.changes.send_modify(|count| *count += 1);
            }
        }
    }

    pub(crate) fn menu(&self) -> Arc<Menu> {
        let menu = self.shared.menu.read();
        Arc::clone(&menu.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn dish(&self, name: &str) -> Result<Dish, ErrorData> {
        let menu = self.menu();
        let found = menu.iter().find(|dish| dish.name == name).cloned();
        found.ok_or_else(|| {
            let names: Vec<&str> = menu.iter().map(|dish| dish.name.as_str()).collect();
            let names = names.join(", ");
            ErrorData::invalid_params(format!("there is no `{name}`; there are: {names}"), None)
        })
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    pub(crate) fn kitchen(&self) -> &dyn Kitchen {
        &*self.shared.kitchen
    }

    pub(crate) fn options(&self) -> &ServeOptions {
        &self.shared.options
    }

    /// Waits until it is this call's turn.
    pub(crate) async fn turn(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<SemaphorePermit<'_>, ErrorData> {
        tokio::select! {
            () = context.ct.cancelled() => Err(cancelled()),
            // The semaphore is never closed.
            permit = self.shared.at_once.acquire() => permit.map_err(|_| cancelled()),
        }
    }
}
