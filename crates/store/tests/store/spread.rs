//! A file used in odd ways that must make no difference: opened anew for each operation, or through
//! another connection each time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, Commit, Lease, Store, StoreError, StoreLayer, StoreResult,
};
use logue_store::SqliteStore;
use tempfile::TempDir;

/// Several stores on one file.
pub(crate) struct Spread {
    open: Vec<Arc<SqliteStore>>,
    next: AtomicUsize,
    path: PathBuf,
    // Goes last.
    _folder: TempDir,
}

impl Spread {
    /// Each operation goes to the next of `count` stores; with none, to one that is opened for it.
    pub(crate) fn over(count: usize) -> Self {
        let (folder, path) = super::place();
        let open = (0..count).map(|_| Arc::new(SqliteStore::open(&path).unwrap()));
        Self {
            open: open.collect(),
            next: AtomicUsize::new(0),
            path,
            _folder: folder,
        }
    }

    fn pick(&self) -> Result<Arc<SqliteStore>, StoreError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match self.open.get(turn % self.open.len().max(1)) {
            Some(store) => Ok(Arc::clone(store)),
            None => SqliteStore::open(&self.path).map(Arc::new),
        }
    }
}

impl StoreLayer for Spread {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        Box::pin(async move {
            let store = self.pick()?;
            operation(&*store).await
        })
    }

    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult> {
        self.forward(move |store| store.begin(session, owner, invocation_id, now, ttl))
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.forward(move |store| store.commit_and_release(lease, commit))
    }
}
