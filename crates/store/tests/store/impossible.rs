//! Rows with ids, numbers and places that no program writes.

use logue_harness::store::{LeaseResult, RepairReport, Store};
use logue_store::SqliteStore;
use serde_json::json;

use super::damage::{edit, fill};
use super::{NOW, TTL, done, entry, place, said};

/// Works off what a session has accepted, and one more message.
async fn goes_on(store: &SqliteStore, session: &str, sql: &str) {
    let key = Some("a-new-key");
    let put = store.enqueue(session, entry("and on", key)).await;
    put.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let taken = store.acquire(session, "next", NOW, TTL).await;
    let LeaseResult::Lease(lease) = taken.unwrap_or_else(|error| panic!("{sql}: {error}")) else {
        panic!("{sql}: no lease");
    };
    let mut turns = 0;
    loop {
        let claimed = store.claim_next(&lease, "next-invocation", NOW).await;
        let claimed = claimed.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let Some(claimed) = claimed else {
            break;
        };
        let invocation = claimed.entry.invocation_id.unwrap_or_default();
        let seq = store.session(session).await.unwrap().unwrap().seq;
        let commit = done(&invocation, seq, vec![said("on"), said("on")]);
        let ended = store.commit(&lease, commit).await;
        ended.unwrap_or_else(|error| panic!("{sql}: {error}"));
        turns += 1;
    }
    assert!(turns > 0, "{sql}");
    store.release(&lease).await.unwrap();
    let settled = store.session(session).await.unwrap().unwrap().cursor;
    for entry in 1..=settled {
        let outcome = store.outcome_of(session, entry).await;
        assert!(
            outcome
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
                .is_some(),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn a_repair_ends_with_sessions_that_go_on() {
    for sql in [
        "UPDATE entry SET key = x'79' WHERE pos & 0xffffffff = 2 AND key IS NOT NULL",
        "UPDATE entry SET key = 7 WHERE pos & 0xffffffff = 2 AND key IS NOT NULL",
        "UPDATE entry SET key = CAST(x'ff' AS TEXT) WHERE pos & 0xffffffff = 2 AND key IS NOT NULL",
        "UPDATE entry SET digest = CAST(x'ff' AS TEXT) WHERE pos & 0xffffffff = 2 AND key IS NOT NULL",
        "UPDATE entry SET invocation = CAST(invocation || x'00' AS BLOB) WHERE pos & 0xffffffff = 2",
        "UPDATE entry SET invocation = 1.5 WHERE pos & 0xffffffff = 1",
        "UPDATE entry SET accepted_at = -1",
        "UPDATE entry SET (at, replies_from) = (-1, -1) WHERE at IS NOT NULL",
        "UPDATE entry SET pos = 4611686018427387904 WHERE pos & 0xffffffff = 1 AND key IS NOT NULL",
        "UPDATE entry SET pos = 32769 + (pos >> 32 << 32) WHERE pos & 0xffffffff = 1",
        "UPDATE note SET invocation = x'79' WHERE seq = 2",
        "UPDATE note SET invocation = x'79'",
        "UPDATE note SET invocation = 5",
        "DELETE FROM note WHERE seq > 0; UPDATE note SET seq = -1",
        "UPDATE note SET seq = -1 WHERE seq = 1",
        "UPDATE note SET seq = -seq - 1",
        "UPDATE note SET seq = 4611686018427387904 WHERE seq = 1",
        "UPDATE suspension SET invocation = x'79'",
        "UPDATE suspension SET signal_id = 5",
        "UPDATE audit SET invocation = 5",
        "UPDATE audit SET at = -5",
    ] {
        let (_folder, path) = place();
        fill(&path).await;
        let store = SqliteStore::open(&path).unwrap();
        let held = super::lease(&store, "session-two").await.unwrap();
        let notes = vec![json!({ "note": "second" }), json!({ "note": "third" })];
        let noted = store.journal(&held, "running-invocation", notes).await;
        noted.unwrap();
        store.release(&held).await.unwrap();
        drop(store);
        edit(&path, &format!("PRAGMA foreign_keys = OFF; {sql}"));
        let store = SqliteStore::open(&path).unwrap();
        let faults = store.verify(None).await.unwrap().faults;
        assert!(!faults.is_empty(), "{sql}: nothing was found");
        let report = store.repair(NOW).await;
        let report = report.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(report.remaining, [], "{sql}: {report:#?}");
        assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
        let again = store.repair(NOW).await.unwrap();
        assert_eq!(again, RepairReport::default(), "{sql}");
        for session in ["session-one", "session-two"] {
            goes_on(&store, session, sql).await;
            let decided = store.audited(session, 0, 99).await;
            decided.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
    }
}
