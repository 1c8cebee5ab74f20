//! Rows that are gone, added or exchanged, and pages that cannot be read.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_graph::CountingIds;
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, RetryError, SendOptions, SignalTarget};
use logue_harness::store::{SharedStore, Store, StoreError};
use logue_message::ChatMessage;
use logue_store::SqliteStore;

use super::cost::{Still, graph};
use super::damage::{edit, fill};
use super::{NOW, entry, lease, place, turn};

/// The faults of a file after a change by another program.
async fn faults_after(sql: &str) -> Vec<(Option<String>, &'static str, Option<u64>)> {
    let (_folder, path) = place();
    fill(&path).await;
    edit(&path, sql);
    let store = SqliteStore::open(&path).unwrap();
    let faults = store.verify(None).await.unwrap().faults;
    let report = store.repair(NOW).await.unwrap();
    assert_eq!(report.remaining, [], "{sql}: {report:#?}");
    assert!(
        !report.lost.is_empty() || !report.quarantined.is_empty(),
        "{sql}: the repair is silent"
    );
    assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
    turn(&store, "session-three", "and on").await.unwrap();
    let known = |fault: &logue_harness::store::IntegrityFault| {
        (fault.session.clone(), fault.record, fault.position)
    };
    faults.iter().map(known).collect()
}

#[tokio::test]
async fn a_removed_row_is_noticed_with_its_place() {
    let one = Some("session-one".to_owned());
    let two = Some("session-two".to_owned());
    let removals = [
        ("DELETE FROM note", &two, "note", None),
        ("DELETE FROM suspension", &two, "suspension", None),
        (
            "DELETE FROM field WHERE name = 'field-third-message'",
            &one,
            "field",
            None,
        ),
        (
            "DELETE FROM label WHERE name = 'other-label'",
            &one,
            "label",
            None,
        ),
        ("DELETE FROM audit", &one, "audit", Some(0)),
        (
            "DELETE FROM message WHERE pos & 0xffffffff = 2",
            &one,
            "message",
            Some(2),
        ),
        (
            "DELETE FROM message WHERE pos & 0xffffffff = 5",
            &one,
            "message",
            Some(5),
        ),
        (
            "DELETE FROM message WHERE pos & 0xffffffff = 0",
            &one,
            "message",
            Some(0),
        ),
        (
            "DELETE FROM entry WHERE pos & 0xffffffff = 1",
            &one,
            "entry",
            Some(1),
        ),
        (
            "DELETE FROM entry WHERE pos & 0xffffffff = 3",
            &two,
            "entry",
            Some(3),
        ),
        (
            "DELETE FROM work WHERE body LIKE '%pending-work%'",
            &two,
            "work",
            None,
        ),
    ];
    for (sql, session, record, position) in removals {
        let faults = faults_after(sql).await;
        let expected = (session.clone(), record, position);
        assert!(faults.contains(&expected), "{sql}: {faults:#?}");
    }
}

#[tokio::test]
async fn a_row_of_an_earlier_time_is_noticed() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let label = |value: &'static str| store.set_label("s", "agent", value.into(), NOW);
    label("first").await.unwrap();
    edit(&path, "CREATE TABLE kept AS SELECT * FROM label");
    label("second").await.unwrap();
    edit(
        &path,
        "UPDATE label SET (value, sum) = (SELECT value, sum FROM kept); DROP TABLE kept",
    );
    let faults = store.verify(None).await.unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert_eq!(faults[0].record, "label");
}

#[tokio::test]
async fn every_page_that_cannot_be_read_is_a_fault() {
    let (_folder, path) = place();
    fill(&path).await;
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..20 {
        let text = format!("{number}{}", "x".repeat(900));
        turn(&store, "session-three", &text).await.unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let (mut found, mut refused) = (0, 0);
    for page in 1..whole.len() / 2048 {
        let mut broken = whole.clone();
        broken[page * 2048..(page + 1) * 2048].fill(0);
        fs::write(&path, &broken).unwrap();
        let Ok(store) = SqliteStore::open(&path) else {
            // The schema or the list of migrations cannot be read.
            refused += 1;
            continue;
        };
        let report = store.verify(None).await.unwrap();
        assert!(!report.faults.is_empty(), "page {page}");
        // The other sessions are checked.
        assert!(
            report.sessions >= 3 || report.sessions == 0,
            "page {page}: {report:#?}"
        );
        found += 1;
    }
    assert!(found > 30 && refused < 6, "{found} {refused}");
}

fn chat(store: &SharedStore) -> ChatHarness {
    let ids = Arc::new(CountingIds::new());
    ChatHarness::new(graph(), Arc::clone(store), Arc::new(Still), ids).unwrap()
}

#[tokio::test]
async fn a_message_after_a_missing_entry_is_refused() {
    let (_folder, path) = place();
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    turn(&*store, "s", "one").await.unwrap();
    store.enqueue("s", entry("lost", None)).await.unwrap();
    store.enqueue("s", entry("waits", None)).await.unwrap();
    edit(&path, "DELETE FROM entry WHERE pos & 0xffffffff = 2");

    let within = Duration::from_secs(20);
    let session = chat(&store);
    let sent = session.send("s", ChatMessage::user("two"));
    let sent = tokio::time::timeout(within, sent).await.expect("it ends");
    let ChatTurnOutcome::Errored(failed) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(failed.error_category, "session_load_failed");
    assert!(failed.diagnostic.contains("entry 2"), "{failed:?}");
    assert!(failed.help.is_some_and(|help| help.contains("repair")));
    let retried = tokio::time::timeout(within, session.retry("s"));
    let retried = retried.await.expect("it ends").unwrap();
    assert_eq!(retried.as_str(), "errored");
    // Nothing was accepted that could not run.
    assert_eq!(store.inbox("s").await.unwrap().len(), 1);

    // The repair lets what waits go on, and what is lost end.
    let report = store.repair(NOW).await.unwrap();
    assert_eq!(report.remaining, [], "{report:#?}");
    let sent = chat(&store).send("s", ChatMessage::user("two")).await;
    assert_eq!(sent.as_str(), "completed", "{sent:?}");
    let outcome = store.outcome_of("s", 3).await.unwrap().unwrap();
    assert_eq!(outcome.body, serde_json::Value::Null, "{outcome:?}");
}

#[tokio::test]
async fn a_missing_last_entry_is_an_error_of_retry() {
    let (_folder, path) = place();
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    store.enqueue("s", entry("lost", None)).await.unwrap();
    edit(&path, "DELETE FROM entry");
    let retried = chat(&store).retry("s").await;
    assert!(
        matches!(retried, Err(RetryError::Store(StoreError::Damaged(_)))),
        "{retried:?}"
    );
}

#[tokio::test]
async fn a_damaged_message_of_the_inbox_is_a_stated_failure() {
    let (_folder, path) = place();
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    store
        .enqueue("s", entry("lost", Some("key")))
        .await
        .unwrap();
    edit(
        &path,
        "UPDATE work SET body = replace(body, 'lost', 'lust')",
    );
    store.repair(NOW).await.unwrap();
    let options = SendOptions::new().with_idempotency_key("key");
    let sent = chat(&store)
        .send_with("s", ChatMessage::user("lost"), options)
        .await;
    let ChatTurnOutcome::Errored(failed) = &sent else {
        panic!("{sent:?}");
    };
    assert_eq!(failed.error_category, "session_load_failed");
    assert!(failed.diagnostic.contains("quarantine"), "{failed:?}");
    assert_eq!(
        store.history("s", 0, 9).await.unwrap(),
        [serde_json::Value::Null; 0]
    );
    // It is permanent: the key does not try again.
    let options = SendOptions::new().with_idempotency_key("key");
    let again = chat(&store)
        .send_with("s", ChatMessage::user("lost"), options)
        .await;
    assert_eq!(again, sent);
}

#[tokio::test]
async fn a_key_is_not_answered_with_a_placeholder() {
    let (_folder, path) = place();
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    let send = || {
        let options = SendOptions::new().with_idempotency_key("key");
        let chat = chat(&store);
        async move { chat.send_with("s", ChatMessage::user("one"), options).await }
    };
    assert_eq!(send().await.as_str(), "completed");
    edit(
        &path,
        "UPDATE message SET body = replace(body, 'answer', 'onswer')",
    );
    store.repair(NOW).await.unwrap();
    let again = send().await;
    let ChatTurnOutcome::Errored(failed) = &again else {
        panic!("{again:?}");
    };
    assert_eq!(failed.error_category, "session_load_failed");
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}

#[tokio::test]
async fn a_turn_with_a_lost_note_does_not_repeat_its_calls() {
    let (_folder, path) = place();
    fill(&path).await;
    edit(&path, "DELETE FROM note");
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    store.repair(NOW).await.unwrap();
    let held = lease(&*store, "session-two").await.unwrap();
    let claimed = store.claim_next(&held, "new", NOW).await.unwrap().unwrap();
    store.release(&held).await.unwrap();
    assert_eq!(claimed.notes.len(), 1, "{claimed:?}");
    let settled = chat(&store).process_pending("session-two").await.unwrap();
    assert_eq!(settled, 2);
    let outcome = store.outcome_of("session-two", 2).await.unwrap().unwrap();
    assert_eq!(outcome.body["category"], "session_load_failed");
    assert!(
        outcome.body["diagnostic"]
            .as_str()
            .unwrap()
            .contains("quarantine"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_reported_once_and_the_later_ones_follow() {
    let (_folder, path) = place();
    let store: SharedStore = Arc::new(SqliteStore::open(&path).unwrap());
    let session = chat(&store);
    for _ in 0..4 {
        let waits = session.send("s", ChatMessage::user("wait")).await;
        let ChatTurnOutcome::Suspended(waits) = waits else {
            panic!("{waits:?}");
        };
        let target = SignalTarget::Invocation(&waits.invocation_id);
        let resumed = session
            .signal(target, serde_json::Map::new())
            .await
            .unwrap();
        assert_eq!(resumed.as_str(), "completed", "{resumed:?}");
    }
    // An outcome of an unknown kind, and an answer without a role.
    edit(
        &path,
        "UPDATE entry SET kind = 9 WHERE pos & 0xffffffff = 4",
    );
    edit(
        &path,
        "UPDATE message SET body = '42' WHERE pos =
             (SELECT (pos & ~0xffffffff) + replies_to - 1 FROM entry WHERE pos & 0xffffffff = 6)",
    );
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = Arc::clone(&heard);
    let subscription = session.subscribe_from("s", 0, move |outcome| {
        own.lock().unwrap().push(match outcome {
            ChatTurnOutcome::Errored(turn) => turn.error_category.clone(),
            other => other.as_str().to_owned(),
        });
    });
    for _ in 0..2 {
        session.deliver_outcomes("s").await.unwrap();
    }
    let expected = [
        "completed",
        "session_load_failed",
        "session_load_failed",
        "completed",
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    drop(subscription);
}

#[tokio::test]
async fn the_version_changes_with_the_writes_of_others() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let other = SqliteStore::open(&path).unwrap();
    let first = store.version().await.unwrap();
    assert_eq!(store.version().await.unwrap(), first);
    turn(&other, "s", "x").await.unwrap();
    let second = store.version().await.unwrap();
    assert_ne!(second, first);
    turn(&store, "s", "x").await.unwrap();
    assert_ne!(store.version().await.unwrap(), second);
}
