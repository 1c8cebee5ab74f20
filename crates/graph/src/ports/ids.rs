//! The port through which the engine gets identifiers: it has no source of randomness itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives identifiers that were never given before.
///
/// A program passes a source of random UUIDs, as a closure if it likes; tests pass [`CountingIds`].
pub trait IdSource: Send + Sync {
    /// A new identifier.
    fn new_id(&self) -> String;
}

impl<F: Fn() -> String + Send + Sync> IdSource for F {
    fn new_id(&self) -> String {
        self()
    }
}

impl<S: IdSource + ?Sized> IdSource for Arc<S> {
    fn new_id(&self) -> String {
        (**self).new_id()
    }
}

/// `id-1`, `id-2`, …: the same in every run, and unique within one value of this type only.
#[derive(Debug, Default)]
pub struct CountingIds {
    given: AtomicU64,
}

impl CountingIds {
    /// A source that begins with `id-1`.
    pub fn new() -> Self {
        Self::default()
    }
}

impl IdSource for CountingIds {
    fn new_id(&self) -> String {
        format!("id-{}", self.given.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
