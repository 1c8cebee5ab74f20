//! Damaged rows: found, never used, and moved to quarantine.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::store::{
    EntryPayload, IntegrityFault, LeaseResult, NewEntry, OutcomeKind, SessionFilter, SharedStore,
    StoreError,
};
use serde_json::json;
use testkit::postgres::{Database, PostgresServer};

use super::turns::{NOW, TTL, entry, lease, turn};
use super::{open, said};

/// A session with two turns, a label, a pending entry and a record of the audit.
async fn filled(database: &Database) -> SharedStore {
    let store: SharedStore = Arc::new(open(&database.url(), "logue"));
    turn(&*store, "s", "i1", "one").await;
    turn(&*store, "s", "i2", "two").await;
    turn(&*store, "t", "i3", "other").await;
    store.set_label("s", "rule", json!("x"), NOW).await.unwrap();
    store.enqueue("s", entry("waits", Some("k"))).await.unwrap();
    store.audit("s", "i1", vec![json!(1)], NOW).await.unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    store
}

fn is_damaged<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Damaged(_)))
}

/// Each kind of damage is found, stops what would use it, and is repaired.
#[tokio::test]
async fn damage_is_found_and_repaired() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    // The damage, its record, and what is refused then.
    let damages = [
        (
            "UPDATE logue.message SET body = 'uother' WHERE pos & 4294967295 = 2 AND pos >> 32 = 1",
            "message",
            "history",
        ),
        (
            "DELETE FROM logue.message WHERE pos & 4294967295 = 1 AND pos >> 32 = 1",
            "message",
            "history",
        ),
        (
            "UPDATE logue.entry SET work = replace(work, 'waits', 'hacks') WHERE pos & 4294967295 = 3",
            "entry",
            "acquire",
        ),
        (
            "DELETE FROM logue.entry WHERE pos & 4294967295 = 3",
            "entry",
            "acquire",
        ),
        (
            "UPDATE logue.entry SET kind = 2 WHERE pos & 4294967295 = 1 AND pos >> 32 = 1",
            "entry",
            "",
        ),
        (
            "UPDATE logue.session SET seq = 9 WHERE sid = 1",
            "session",
            "acquire",
        ),
        (
            "UPDATE logue.label SET value = '\"y\"' WHERE sid = 1",
            "label",
            "acquire",
        ),
        (
            "DELETE FROM logue.label WHERE sid = 1",
            "session",
            "acquire",
        ),
        ("UPDATE logue.audit SET body = '2'", "audit", ""),
        (
            "UPDATE logue.session SET epoch = -1 WHERE sid = 1",
            "session",
            "acquire",
        ),
        (
            "DELETE FROM logue.session WHERE sid = 1",
            "session",
            "missing",
        ),
    ];
    for (damage, record, refused) in damages {
        let database = server.database().unwrap();
        let store = filled(&database).await;
        database.query(damage).unwrap();
        let found = store.verify(None).await.unwrap().faults;
        assert!(!found.is_empty(), "{damage}");
        assert!(
            found.iter().any(|fault| fault.record == record),
            "{damage}: {found:?}"
        );
        match refused {
            "history" => assert!(is_damaged(&store.history("s", 0, 9).await), "{damage}"),
            "acquire" => {
                assert!(
                    is_damaged(&store.acquire("s", "o", NOW, TTL).await),
                    "{damage}"
                );
                assert!(
                    is_damaged(&store.enqueue("s", entry("x", None)).await),
                    "{damage}"
                );
            }
            _ => {}
        }
        let report = store.repair(Timestamp(5)).await.unwrap();
        assert_eq!(report.remaining, [], "{damage}: {report:?}");
        assert!(
            report.quarantined.len() + report.lost.len() > 0,
            "{damage}: {report:?}"
        );
        assert_eq!(store.verify(None).await.unwrap().faults, [], "{damage}");
        if refused == "missing" {
            assert!(store.session("s").await.unwrap().is_none());
            assert_eq!(store.list(SessionFilter::default()).await.unwrap().len(), 2);
            continue;
        }
        // The session continues, and its history is whole.
        assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 4, "{damage}");
        let lease = lease(&*store, "s").await;
        let claimed = store.claim_next(&lease, "i9", NOW).await.unwrap().unwrap();
        assert_eq!(claimed.entry.entry, 3, "{damage}");
        let expected = if record == "entry" && refused == "acquire" {
            EntryPayload::Quarantined
        } else {
            EntryPayload::Message {
                message: said("waits"),
            }
        };
        assert_eq!(claimed.entry.work, Some(expected), "{damage}");
        assert_eq!(store.history("t", 0, 9).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_has_failed() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = filled(&database).await;
    database
        .query("UPDATE logue.message SET sum = 0 WHERE pos & 4294967295 = 1 AND pos >> 32 = 1")
        .unwrap();
    store.repair(NOW).await.unwrap();
    let outcome = store.outcome_of("s", 1).await.unwrap().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Errored);
    let history = store.history("s", 0, 9).await.unwrap();
    assert_eq!(history[0], said("one"));
    let lost = history[1]["content"].as_str().unwrap();
    assert!(lost.contains("in quarantine"), "{lost}");
    let kept = database
        .query("SELECT count(*) FROM logue.quarantine")
        .unwrap();
    assert_eq!(kept.trim(), "1");
}

#[tokio::test]
async fn records_that_are_invalid_for_the_caller_are_set_aside() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = filled(&database).await;
    let faults = vec![
        IntegrityFault::new("message", "has no role")
            .in_session("s")
            .at(3),
        IntegrityFault::new("label", "unknown")
            .in_session("s")
            .named("rule"),
        IntegrityFault::new("message", "none")
            .in_session("s")
            .at(99),
        IntegrityFault::new("file", "a page"),
    ];
    let report = store.quarantine(faults.clone(), NOW).await.unwrap();
    assert_eq!(report.quarantined, faults[..2]);
    assert_eq!(report.remaining, faults[2..]);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    let info = store.session("s").await.unwrap().unwrap();
    assert_eq!(info.labels.get("labels_lost"), Some(&json!(true)));
}

#[tokio::test]
async fn forks_share_large_messages_and_the_last_one_takes_them_along() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store: SharedStore = Arc::new(open(&database.url(), "logue"));
    let large = "large ".repeat(10_000);
    turn(&*store, "s", "i1", &large).await;
    turn(&*store, "s", "i2", &large).await;
    let count = |what: &str| {
        let found = database.query(&format!("SELECT {what}")).unwrap();
        found.trim().parse::<u64>().unwrap()
    };
    // A message and its reply, each stored once.
    assert_eq!(count("count(*) FROM logue.payload"), 1);
    let before = count("pg_total_relation_size('logue.payload')");
    for number in 0..20 {
        let fork = logue_harness::store::SessionFork::new(4, format!("f{number}"), NOW);
        store.fork("s", fork).await.unwrap();
    }
    assert_eq!(count("pg_total_relation_size('logue.payload')"), before);
    assert_eq!(
        store.history("f7", 0, 9).await.unwrap(),
        store.history("s", 0, 9).await.unwrap()
    );
    store.delete("s").await.unwrap();
    assert_eq!(store.history("f7", 0, 9).await.unwrap()[0], said(&large));
    for number in 0..20 {
        assert_eq!(count("count(*) FROM logue.payload"), 1);
        store.delete(&format!("f{number}")).await.unwrap();
    }
    assert_eq!(count("count(*) FROM logue.payload"), 0);
}

#[tokio::test]
async fn a_damaged_payload_is_not_sent() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    for damage in [
        "UPDATE logue.payload SET body = 'uother'",
        "DELETE FROM logue.payload",
    ] {
        let database = server.database().unwrap();
        let store: SharedStore = Arc::new(open(&database.url(), "logue"));
        turn(&*store, "s", "i1", &"large ".repeat(10_000)).await;
        database.query(damage).unwrap();
        assert!(is_damaged(&store.history("s", 0, 9).await), "{damage}");
        assert!(!store.verify(Some("s")).await.unwrap().faults.is_empty());
        assert_eq!(store.repair(NOW).await.unwrap().remaining, []);
        assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_lease_of_the_database_ends_by_its_clock() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = logue_store::open_store(&database.url()).unwrap();
    store
        .enqueue("s", NewEntry { ..entry("x", None) })
        .await
        .unwrap();
    let brief = std::time::Duration::from_millis(300);
    // The clocks of both are wrong by hours, in both directions.
    let taken = store
        .acquire("s", "a@one/1", Timestamp(0), brief)
        .await
        .unwrap();
    assert!(matches!(taken, LeaseResult::Lease(_)));
    let held = store
        .acquire("s", "b@two/1", Timestamp(u64::MAX / 4), TTL)
        .await
        .unwrap();
    assert!(matches!(held, LeaseResult::Held { .. }), "{held:?}");
    let end = tokio::time::Instant::now() + brief;
    loop {
        let next = store
            .acquire("s", "b@two/1", Timestamp(0), TTL)
            .await
            .unwrap();
        if matches!(next, LeaseResult::Lease(_)) {
            break;
        }
        assert!(
            tokio::time::Instant::now() < end + TTL,
            "the lease did not end"
        );
        tokio::time::sleep(brief / 10).await;
    }
}
