//! The map from signals to the runs that wait for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_graph::{BoxFuture, SignalDescriptor};

/// The reason that a subscription could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistrationError {
    /// A description of the failure.
    pub message: String,
}

/// Matches signals with the runs that wait for them.
pub trait SignalCoordinator: Send + Sync {
    /// Notes that a run waits for a signal.
    ///
    /// A turn is reported as suspended only after this.
    ///
    /// # Errors
    /// It could not be noted; the turn is reported as failed.
    fn register<'a>(
        &'a self,
        descriptor: &'a SignalDescriptor,
        invocation_id: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>>;

    /// The runs that wait for a signal of that name, oldest wait first.
    fn resolve<'a>(&'a self, signal_id: &'a str) -> BoxFuture<'a, Vec<String>>;

    /// Forgets that a run waits for a signal: it has got it.
    fn forget<'a>(&'a self, signal_id: &'a str, invocation_id: &'a str) -> BoxFuture<'a, ()>;
}

impl<C: SignalCoordinator + ?Sized> SignalCoordinator for Arc<C> {
    fn register<'a>(
        &'a self,
        descriptor: &'a SignalDescriptor,
        invocation_id: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>> {
        (**self).register(descriptor, invocation_id)
    }

    fn resolve<'a>(&'a self, signal_id: &'a str) -> BoxFuture<'a, Vec<String>> {
        (**self).resolve(signal_id)
    }

    fn forget<'a>(&'a self, signal_id: &'a str, invocation_id: &'a str) -> BoxFuture<'a, ()> {
        (**self).forget(signal_id, invocation_id)
    }
}

/// Subscriptions in memory. What waits longer than the process needs a coordinator that asks a store.
#[derive(Debug, Default)]
pub struct MemoryCoordinator {
    waiting: Mutex<BTreeMap<String, Vec<String>>>,
}

impl MemoryCoordinator {
    /// No subscriptions.
    pub fn new() -> Self {
        Self::default()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignalCoordinator for MemoryCoordinator {
    fn register<'a>(
        &'a self,
        descriptor: &'a SignalDescriptor,
        invocation_id: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>> {
        Box::pin(async move {
            let mut waiting = self.waiting();
            let runs = waiting.entry(descriptor.signal_id.clone()).or_default();
            if runs.iter().all(|run| run != invocation_id) {
                runs.push(invocation_id.to_owned());
            }
            Ok(())
        })
    }

    fn resolve<'a>(&'a self, signal_id: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move { self.waiting().get(signal_id).cloned().unwrap_or_default() })
    }

    fn forget<'a>(&'a self, signal_id: &'a str, invocation_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut waiting = self.waiting();
            if let Some(runs) = waiting.get_mut(signal_id) {
                runs.retain(|run| run != invocation_id);
                if runs.is_empty() {
                    waiting.remove(signal_id);
                }
            }
        })
    }
}
