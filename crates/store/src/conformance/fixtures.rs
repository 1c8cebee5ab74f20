//! Fixtures of the cases: typical entries, leases and commits.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    ClaimedEntry, Commit, Disposition, EnqueueResult, EntryPayload, IntegrityReport, Lease,
    LeaseResult, NewEntry, NewOutcome, NewSuspension, OutcomeKind, Store, StoreError, StoreResult,
};
use serde_json::{Map, Value, json};

use super::{Checked, ContractViolation, same};

/// Runs operations at the same time. Returns their answers in the order in which they came.
pub(super) async fn together<T>(operations: Vec<StoreResult<'_, T>>) -> Vec<Result<T, StoreError>> {
    let mut operations: Vec<_> = operations.into_iter().map(Some).collect();
    let mut answers = Vec::new();
    poll_fn(|context| {
        for slot in &mut operations {
            if let Some(operation) = slot
                && let Poll::Ready(answer) = operation.as_mut().poll(context)
            {
                answers.push(answer);
                *slot = None;
            }
        }
        if operations.iter().any(Option::is_some) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    answers
}

/// The duration of a lease.
pub(super) const TTL: Duration = Duration::from_secs(30);
/// The time of most operations.
pub(super) const NOW: Timestamp = Timestamp(1_000_000);
/// The end of a lease that was acquired at [`NOW`].
pub(super) const LATER: Timestamp = Timestamp(1_030_000);

pub(super) fn user_message(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn entry(text: &str) -> NewEntry {
    NewEntry {
        work: EntryPayload::Message {
            message: user_message(text),
        },
        key: None,
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now: NOW,
    }
}

pub(super) fn keyed(text: &str, key: &str) -> NewEntry {
    NewEntry {
        key: Some(key.to_owned()),
        ..entry(text)
    }
}

pub(super) fn accepted(entry: u64, is_new: bool, ahead: u64) -> EnqueueResult {
    EnqueueResult::Entry {
        entry,
        is_new,
        ahead,
    }
}

pub(super) async fn lease_at(
    store: &dyn Store,
    session: &str,
    owner: &str,
    now: Timestamp,
) -> Result<Lease, ContractViolation> {
    match store.acquire(session, owner, now, TTL).await? {
        LeaseResult::Lease(lease) => Ok(lease),
        other => Err(ContractViolation::Promise {
            what: format!("`{session}` for `{owner}`"),
            found: format!("{other:?}"),
            expected: "a lease".to_owned(),
        }),
    }
}

pub(super) async fn lease(store: &dyn Store, session: &str) -> Result<Lease, ContractViolation> {
    lease_at(store, session, "owner", NOW).await
}

pub(super) async fn claim_next(
    store: &dyn Store,
    lease: &Lease,
    invocation_id: &str,
) -> Result<ClaimedEntry, ContractViolation> {
    let begun = store.claim_next(lease, invocation_id, NOW).await?;
    begun.ok_or_else(|| ContractViolation::Promise {
        what: format!("what `{invocation_id}` begins"),
        found: "nothing".to_owned(),
        expected: "an entry".to_owned(),
    })
}

/// A commit that saves nothing and settles nothing.
pub(super) fn save(invocation_id: &str, expected_seq: u64) -> Commit {
    Commit {
        invocation_id: invocation_id.to_owned(),
        expected_seq,
        messages: Vec::new(),
        fields: Map::new(),
        schema_version: None,
        settle: None,
        now: NOW,
    }
}

pub(super) fn outcome(kind: OutcomeKind, replies_from: u64) -> NewOutcome {
    NewOutcome {
        kind,
        replies_from,
        body: json!({ "kind": kind }),
    }
}

/// The end of a turn that went well.
pub(super) fn done(invocation_id: &str, expected_seq: u64, messages: Vec<Value>) -> Commit {
    Commit {
        messages,
        settle: Some(Disposition::Done {
            outcome: outcome(OutcomeKind::Completed, expected_seq.saturating_add(1)),
            keep_journal: false,
            keep_suspension: false,
        }),
        ..save(invocation_id, expected_seq)
    }
}

/// The end of a turn that waits for a signal.
pub(super) fn suspended(invocation_id: &str, expected_seq: u64, signal_id: &str) -> Commit {
    Commit {
        settle: Some(Disposition::Suspended {
            suspension: NewSuspension {
                signal_id: signal_id.to_owned(),
                metadata: Some(json!({ "ask": signal_id })),
                record: json!({ "position": [invocation_id, signal_id] }),
            },
            outcome: outcome(OutcomeKind::Suspended, expected_seq),
        }),
        ..save(invocation_id, expected_seq)
    }
}

/// Runs a complete turn with one message and its reply.
pub(super) async fn turn(
    store: &dyn Store,
    session: &str,
    invocation_id: &str,
    text: &str,
) -> Checked {
    store.enqueue(session, entry(text)).await?;
    let lease = lease(store, session).await?;
    claim_next(store, &lease, invocation_id).await?;
    let seq = length(store, session).await?;
    let messages = vec![
        user_message(text),
        user_message(&format!("You said: {text}")),
    ];
    store
        .commit(&lease, done(invocation_id, seq, messages))
        .await?;
    store.release(&lease).await?;
    Ok(())
}

/// Runs a turn that ends suspended.
pub(super) async fn waiting_turn(
    store: &dyn Store,
    session: &str,
    invocation_id: &str,
    signal_id: &str,
) -> Checked {
    store.enqueue(session, entry("Wait.")).await?;
    let lease = lease(store, session).await?;
    claim_next(store, &lease, invocation_id).await?;
    let seq = length(store, session).await?;
    store
        .commit(&lease, suspended(invocation_id, seq, signal_id))
        .await?;
    store.release(&lease).await?;
    Ok(())
}

pub(super) async fn length(store: &dyn Store, session: &str) -> Result<u64, ContractViolation> {
    let info = store.session(session).await?;
    Ok(info.map_or(0, |info| info.seq))
}

pub(super) async fn history(
    store: &dyn Store,
    session: &str,
) -> Result<Vec<Value>, ContractViolation> {
    Ok(store.history(session, 0, usize::MAX).await?)
}

/// Nothing is wrong with what is stored.
pub(super) async fn sound(store: &dyn Store) -> Result<IntegrityReport, ContractViolation> {
    let verified = store.verify(None).await?;
    same("faults", &verified.faults, &Vec::new())?;
    Ok(verified)
}
