//! The stores through their public interfaces: the shared suite, real files and real processes.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod child;
mod clocks;
mod copies;
mod cost;
mod crash;
mod damage;
mod event_log;
mod failures;
mod files;
mod flushes;
mod impossible;
mod loading;
mod missing;
mod owners;
mod processes;
mod read_only;
mod repaired;
mod resumed;
mod sound;
mod spread;
mod suite;
mod timers;
mod transfer;

use std::path::PathBuf;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    Commit, Disposition, EntryPayload, Lease, LeaseResult, NewEntry, NewOutcome, OutcomeKind,
    Store, StoreError,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp(1_000_000);
const TTL: Duration = Duration::from_secs(30);

/// A path in a folder that goes with the guard.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    (folder, path)
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn entry(text: &str, key: Option<&str>) -> NewEntry {
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
        now: NOW,
    }
}

async fn lease(store: &dyn Store, session: &str) -> Result<Lease, StoreError> {
    match store.acquire(session, "owner", NOW, TTL).await? {
        LeaseResult::Lease(lease) => Ok(lease),
        other => panic!("no lease: {other:?}"),
    }
}

/// A turn of two messages, from the inbox to the history.
async fn turn(store: &dyn Store, session: &str, text: &str) -> Result<(), StoreError> {
    store.enqueue(session, entry(text, None)).await?;
    let lease = lease(store, session).await?;
    store.claim_next(&lease, "i", NOW).await?;
    let seq = store.session(session).await?.map_or(0, |info| info.seq);
    let messages = vec![said(text), said(text)];
    store.commit(&lease, done("i", seq, messages)).await?;
    store.release(&lease).await
}

/// Fails if a file of this directory is not declared above, so that its tests would not run.
#[test]
fn every_test_file_is_declared() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store");
    let declarations = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        assert!(
            stem == "main" || declarations.contains(&format!("mod {stem};")),
            "{name} is not declared"
        );
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<logue_store::SqliteStore>();
    is_send_and_sync::<logue_store::SqliteOptions>();
}
