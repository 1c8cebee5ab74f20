//! A turn through the store of the process: the way of an entry from acceptance to outcome. The rest
//! of the port's promises is checked by the suite that all stores share.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    Commit, Disposition, EnqueueResult, EntryPayload, EntryState, Lease, LeaseResult, MemoryStore,
    NewEntry, NewOutcome, OutcomeKind, Store, StoreError,
};
use serde_json::{Map, Value, json};

const TTL: Duration = Duration::from_secs(30);

fn message(text: &str) -> NewEntry {
    NewEntry {
        work: EntryPayload::Message {
            message: json!({ "role": "user", "content": text }),
        },
        key: None,
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now: Timestamp(1),
    }
}

fn done(invocation_id: &str, expected_seq: u64, messages: Vec<Value>) -> Commit {
    Commit {
        invocation_id: invocation_id.to_owned(),
        expected_seq,
        messages,
        fields: Map::new(),
        schema_version: None,
        settle: Some(Disposition::Done {
            outcome: NewOutcome {
                kind: OutcomeKind::Completed,
                replies_from: expected_seq + 1,
                body: Value::Null,
            },
            keep_journal: false,
            keep_suspension: false,
        }),
        now: Timestamp(2),
    }
}

async fn lease(store: &MemoryStore, owner: &str, now: u64) -> Lease {
    match store.acquire("s", owner, Timestamp(now), TTL).await {
        Ok(LeaseResult::Lease(lease)) => lease,
        other => panic!("no lease: {other:?}"),
    }
}

#[tokio::test]
async fn an_entry_becomes_history_and_outcome() -> Result<(), StoreError> {
    let store = MemoryStore::new();
    let first = store.enqueue("s", message("Hello.")).await?;
    let second = store.enqueue("s", message("Are you there?")).await?;
    let expected = |entry, ahead| EnqueueResult::Entry {
        entry,
        is_new: true,
        ahead,
    };
    assert_eq!((first, second), (expected(1, 0), expected(2, 1)));

    let lease = lease(&store, "me", 0).await;
    let begun = store.claim_next(&lease, "i1", Timestamp(1)).await?;
    assert_eq!(begun.map(|begun| begun.entry.entry), Some(1));
    let messages = vec![json!({ "content": "Hello." }), json!({ "content": "Hi." })];
    store
        .commit(&lease, done("i1", 0, messages.clone()))
        .await?;

    assert_eq!(store.history("s", 0, 10).await?, messages);
    let settled = store.entry("s", 1).await?;
    let kept = settled.map(|entry| (entry.state, entry.work));
    assert_eq!(kept, Some((EntryState::Settled, None)));
    let outcomes = store.outcomes_since("s", 0, 10).await?;
    let reported: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            (
                outcome.cursor,
                outcome.entry,
                outcome.replies_from,
                outcome.replies_to,
            )
        })
        .collect();
    assert_eq!(reported, [(1, 1, 1, 2)]);
    assert_eq!(store.inbox("s").await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_owner_that_was_replaced_changes_nothing() -> Result<(), StoreError> {
    let store = MemoryStore::new();
    store.enqueue("s", message("Hello.")).await?;
    let slow = lease(&store, "slow", 0).await;
    store.claim_next(&slow, "i1", Timestamp(1)).await?;
    store.journal(&slow, "i1", vec![json!("called")]).await?;

    let next = lease(&store, "next", 30_000).await;
    let late = store
        .commit(&slow, done("i1", 0, vec![json!("late")]))
        .await;
    assert!(matches!(
        late,
        Err(StoreError::Fenced {
            epoch: 1,
            current: 2,
            ..
        })
    ));
    let begun = store.claim_next(&next, "i2", Timestamp(2)).await?;
    let found = begun.map(|begun| (begun.recovered, begun.notes, begun.entry.invocation_id));
    assert_eq!(
        found,
        Some((true, vec![json!("called")], Some("i1".to_owned())))
    );
    assert!(store.history("s", 0, 10).await?.is_empty());
    Ok(())
}
