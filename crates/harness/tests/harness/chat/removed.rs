//! Sessions that are removed while a turn reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use logue_harness::chat::{ChatTurnOutcome, SendOptions};
use logue_harness::store::{MemoryStore, Store, StoreLayer, StoreResult, StoredOutcome};
use logue_message::ChatMessage;
use serde_json::Value;

use super::stage::Stage;

/// Removes a session just before its history, or an outcome of an entry, is read.
#[derive(Default)]
struct Removing {
    inner: MemoryStore,
    before_history: AtomicBool,
    /// The reading of an outcome before which it is removed, counted down to 1.
    before_outcome: AtomicU32,
}

impl StoreLayer for Removing {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(&self.inner)
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        Box::pin(async move {
            if self.before_history.load(Ordering::Relaxed) {
                Store::delete(&self.inner, session).await?;
            }
            Store::history(&self.inner, session, from, limit).await
        })
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        Box::pin(async move {
            if self.before_outcome.load(Ordering::Relaxed) > 0
                && self.before_outcome.fetch_sub(1, Ordering::Relaxed) == 1
            {
                Store::delete(&self.inner, session).await?;
                // As stores that read both by one statement.
                return Ok(None);
            }
            Store::outcome_of(&self.inner, session, entry).await
        })
    }
}

fn diagnostic(outcome: &ChatTurnOutcome) -> String {
    match outcome {
        ChatTurnOutcome::Errored(turn) => format!("{turn:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_that_is_removed_while_it_is_read_is_not_damaged() {
    let store = Arc::new(Removing::default());
    let stage = Stage::over(Arc::<Removing>::clone(&store));
    let hello = || ChatMessage::user("hello");
    drop(stage.harness().send("s", hello()).await);
    store.before_history.store(true, Ordering::Relaxed);
    // A process that never saw the session reads its history.
    let outcome = stage.harness().send("s", hello()).await;
    let text = diagnostic(&outcome);
    assert!(text.contains("there is no session `s` any more"), "{text}");
    store.before_history.store(false, Ordering::Relaxed);

    let keyed = || SendOptions::default().with_idempotency_key("k");
    let chat = stage.harness();
    drop(chat.send_with("s", hello(), keyed()).await);
    // The two readings before it look for a failed turn.
    store.before_outcome.store(3, Ordering::Relaxed);
    let outcome = chat.send_with("s", hello(), keyed()).await;
    let text = diagnostic(&outcome);
    assert!(text.contains("there is no session `s` any more"), "{text}");
}
