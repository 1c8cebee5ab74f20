//! Typical entries, leases and turns.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    Commit, Disposition, EntryPayload, Lease, LeaseResult, NewEntry, NewOutcome, NewSuspension,
    OutcomeKind, Store,
};
use serde_json::{Map, Value};

use super::said;

pub(super) const NOW: Timestamp = Timestamp(1_000_000);
pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) fn entry(text: &str, key: Option<&str>) -> NewEntry {
    NewEntry {
        work: EntryPayload::Message {
            message: said(text),
        },
        key: key.map(str::to_owned),
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now: NOW,
    }
}

pub(super) fn done(invocation_id: &str, expected_seq: u64, messages: Vec<Value>) -> Commit {
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
        now: NOW,
    }
}

pub(super) async fn lease(store: &dyn Store, session: &str) -> Lease {
    match store.acquire(session, "owner", NOW, TTL).await.unwrap() {
        LeaseResult::Lease(lease) => lease,
        other => panic!("no lease: {other:?}"),
    }
}

/// A turn of two messages, from the inbox to the history.
pub(super) async fn turn(store: &dyn Store, session: &str, invocation_id: &str, text: &str) {
    store.enqueue(session, entry(text, None)).await.unwrap();
    let lease = lease(store, session).await;
    store.claim_next(&lease, invocation_id, NOW).await.unwrap();
    let info = store.session(session).await.unwrap().unwrap();
    let messages = vec![said(text), said(text)];
    let commit = done(invocation_id, info.seq, messages);
    store.commit(&lease, commit).await.unwrap();
    store.release(&lease).await.unwrap();
}

/// The end of a turn that waits for a signal.
pub(super) fn suspended(invocation_id: &str, expected_seq: u64, signal_id: &str) -> Commit {
    Commit {
        settle: Some(Disposition::Suspended {
            suspension: NewSuspension {
                signal_id: signal_id.to_owned(),
                metadata: None,
                record: Value::from(signal_id),
            },
            outcome: NewOutcome {
                kind: OutcomeKind::Suspended,
                replies_from: expected_seq,
                body: Value::Null,
            },
        }),
        ..done(invocation_id, expected_seq, Vec::new())
    }
}
