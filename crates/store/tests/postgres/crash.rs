//! A server that is killed between the beginning of a turn, which is not flushed, and what follows it.

use std::sync::Arc;

use logue_harness::store::{
    BeginResult, BegunTurn, EntryState, Lease, LeaseResult, SharedStore, Store, StoreError,
};
use logue_store::PostgresStore;
use serde_json::json;
use testkit::postgres::{PostgresServer, PostgresSettings, StopMode};

use super::said;
use super::turns::{NOW, TTL, done, entry};

/// A server whose log is written by flushes only, as far as that can be set.
fn server() -> Option<PostgresServer> {
    let settings = PostgresSettings::default()
        .with("wal_writer_delay", "10s")
        .with("wal_writer_flush_after", "1GB")
        .with("autovacuum", "off");
    PostgresServer::start_with(settings).unwrap()
}

async fn begin(store: &dyn Store, owner: &str, invocation: &str) -> BegunTurn {
    match store.begin("s", owner, invocation, NOW, TTL).await.unwrap() {
        BeginResult::Turn(begun) => *begun,
        other => panic!("no turn: {other:?}"),
    }
}

fn is_fenced<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Fenced { .. }))
}

/// Checks that no operation of a lease has an effect.
async fn is_refused(store: &dyn Store, lease: &Lease) {
    assert!(is_fenced(&store.renew(lease, NOW, TTL).await));
    assert!(is_fenced(&store.claim_next(lease, "i9", NOW).await));
    assert!(is_fenced(
        &store.journal(lease, "i1", vec![json!("late")]).await
    ));
    let late = done("i1", 0, vec![said("late")]);
    assert!(is_fenced(&store.commit(lease, late.clone()).await));
    assert!(is_fenced(&store.commit_and_release(lease, late).await));
    store.release(lease).await.unwrap();
}

/// Begins turns before the server is killed, until one is lost. The lost lease does nothing, although
/// the next one has its epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_turn_is_begun_again_and_its_first_owner_refused() {
    let Some(mut server) = server() else {
        return;
    };
    let database = server.database().unwrap();
    let store: SharedStore = Arc::new(PostgresStore::open(&database.url()).unwrap());
    store.enqueue("s", entry("x", None)).await.unwrap();
    for attempt in 0..20 {
        let lost = begin(&*store, &format!("a{attempt}#1"), "i1").await;
        tokio::task::block_in_place(|| server.restart(StopMode::Immediate).unwrap());
        let waiting = store.entry("s", 1).await.unwrap().unwrap();
        if waiting.state == EntryState::Running {
            // Another process of the server flushed the log meanwhile.
            store.release(&lost.lease).await.unwrap();
            let requeue = begin(&*store, "b#1", "i1").await;
            let commit = logue_harness::store::Commit {
                settle: Some(logue_harness::store::Disposition::Requeue),
                ..done("i1", 0, Vec::new())
            };
            store
                .commit_and_release(&requeue.lease, commit)
                .await
                .unwrap();
            continue;
        }
        is_refused(&*store, &lost.lease).await;
        let next = begin(&*store, "b#2", "i2").await;
        assert_eq!(
            next.lease.epoch, lost.lease.epoch,
            "the epoch is given again"
        );
        assert!(!next.claimed.recovered, "nothing of the lost turn is there");
        assert_eq!(next.claimed.entry.invocation_id.as_deref(), Some("i2"));
        is_refused(&*store, &lost.lease).await;
        let end = done("i2", 0, vec![said("x"), said("y")]);
        store.commit_and_release(&next.lease, end).await.unwrap();
        is_refused(&*store, &lost.lease).await;
        assert_eq!(
            store.history("s", 0, 9).await.unwrap(),
            [said("x"), said("y")]
        );
        assert_eq!(store.verify(None).await.unwrap().faults, []);
        return;
    }
    panic!("the beginning of a turn was flushed 20 times");
}

/// A note is on the disk when it returns, and so is the beginning of its turn: a call that the note
/// announces is never taken for one that did not begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_note_keeps_the_beginning_of_its_turn() {
    let Some(mut server) = server() else {
        return;
    };
    let database = server.database().unwrap();
    let store: SharedStore = Arc::new(PostgresStore::open(&database.url()).unwrap());
    for turn in 1..=3_u64 {
        store.enqueue("s", entry("x", None)).await.unwrap();
        let invocation = format!("i{turn}");
        let first = begin(&*store, &format!("a#{turn}"), &invocation).await;
        let note = vec![json!({ "calls": turn })];
        store
            .journal(&first.lease, &invocation, note.clone())
            .await
            .unwrap();
        tokio::task::block_in_place(|| server.restart(StopMode::Immediate).unwrap());
        // The first owner may continue, and another holder has to wait for its lease.
        assert_eq!(store.renew(&first.lease, NOW, TTL).await.unwrap(), None);
        let held = store.acquire("s", "b", NOW, TTL).await.unwrap();
        assert!(matches!(held, LeaseResult::Held { .. }), "{held:?}");
        let again = begin(&*store, "a#again", "other").await;
        assert!(again.claimed.recovered);
        assert_eq!(again.claimed.notes, note);
        assert_eq!(
            again.claimed.entry.invocation_id.as_deref(),
            Some(&*invocation)
        );
        let end = done(&invocation, turn * 2 - 2, vec![said("x"), said("y")]);
        store.commit_and_release(&again.lease, end).await.unwrap();
        tokio::task::block_in_place(|| server.restart(StopMode::Immediate).unwrap());
        let info = store.session("s").await.unwrap().unwrap();
        assert_eq!((info.cursor, info.seq, info.pending), (turn, turn * 2, 0));
        // It was given back by the commit.
        let free = store.acquire("s", "c", NOW, TTL).await.unwrap();
        let LeaseResult::Lease(free) = free else {
            panic!("{free:?}");
        };
        store.release(&free).await.unwrap();
    }
}
