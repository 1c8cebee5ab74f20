//! The port for identifiers; the engine has no source of randomness itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of unique identifiers.
///
/// A program passes a source of random UUIDs, for example as a closure; tests pass [`CountingIds`].
pub trait IdSource: Send + Sync {
    /// Returns a new identifier.
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

/// A source of the ids `id-1`, `id-2` and so on.
///
/// The sequence is the same in every run, and unique within one value of this type only.
#[derive(Debug, Default)]
pub struct CountingIds {
    given: AtomicU64,
}

impl CountingIds {
    /// Creates a source that begins with `id-1`.
    pub fn new() -> Self {
        Self::default()
    }
}

impl IdSource for CountingIds {
    fn new_id(&self) -> String {
        format!("id-{}", self.given.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
