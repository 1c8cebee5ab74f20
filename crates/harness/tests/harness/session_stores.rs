//! The protocol of session stores, the same for all of them, and what two stores promise as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logue_graph::{
    CountingIds, END, Field, GraphBuilder, NodeLocation, RunEvent, RunPorts, StateSchema, Update,
};
use logue_harness::sessions::{
    CombinedStore, MemorySessionStore, PausedRecord, PausedStatus, PausedStore, RunOptions,
    SessionRecord, SessionResult, SessionStore, SessionStoreError, SessionWrite, Sessions,
    StoreSessions, SummaryFilter,
};
use logue_harness::store::{MemoryStore, Store};
use logue_harness::turns::{DispatchIntent, HarnessMode, Transmission, TurnHarness};
use logue_harness::{BoxFuture, Clock, Timestamp};
use serde_json::{Map, Value, json};

/// Each look at it is a millisecond later.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(Ticks::default())
}

fn memory() -> MemorySessionStore {
    MemorySessionStore::new(clock())
}

fn adapter() -> StoreSessions {
    StoreSessions::new(Arc::new(MemoryStore::new()), clock(), "tests")
}

/// Every store, with its name.
fn stores() -> Vec<(&'static str, Arc<dyn SessionStore>)> {
    vec![
        ("memory", Arc::new(memory())),
        ("adapter", Arc::new(adapter())),
        ("paired", Arc::new(CombinedStore::new(adapter(), memory()))),
    ]
}

fn record(id: &str, state: &Value) -> SessionRecord {
    let state = state.as_object().cloned().unwrap_or_default();
    SessionRecord::new(id, state).with_schema_version("v1")
}

#[tokio::test]
async fn what_was_saved_is_loaded() {
    for (name, store) in stores() {
        assert!(store.load("s").await.unwrap().is_none(), "{name}");
        let state = json!({ "n": 1, "log": [1, 2], "messages": [{ "role": "user" }] });
        let saved = store.save(record("s", &state), None).await.unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(Value::Object(loaded.record.state), state, "{name}");
        assert_eq!(
            loaded.record.schema_version.as_deref(),
            Some("v1"),
            "{name}"
        );
        assert_eq!(loaded.version, saved, "{name}");
    }
}

#[tokio::test]
async fn a_save_replaces_the_whole_record() {
    for (name, store) in stores() {
        let before = record("s", &json!({ "a": 1, "b": 2 }));
        store.save(before, None).await.unwrap();
        let after = record("s", &json!({ "b": 3 }));
        store.save(after, None).await.unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(
            Value::Object(loaded.record.state),
            json!({ "b": 3 }),
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_expected_version_must_be_the_one_that_is_there() {
    for (name, store) in stores() {
        let save = |n: u64, expected| store.save(record("s", &json!({ "n": n })), expected);
        let conflict = |result: Result<u64, SessionStoreError>| {
            matches!(result, Err(SessionStoreError::Conflict { .. }))
        };
        assert!(conflict(save(1, Some(7)).await), "{name}");
        let first = save(1, Some(0)).await.unwrap();
        assert!(conflict(save(2, Some(0)).await), "{name}");
        let second = save(2, Some(first)).await.unwrap();
        assert!(conflict(save(3, Some(first)).await), "{name}");
        assert!(second > first, "{name}");
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.record.state.get("n"), Some(&json!(2)), "{name}");
        assert_eq!(loaded.version, second, "{name}");
    }
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_may_be_deleted_again() {
    for (name, store) in stores() {
        store
            .save(record("s", &json!({ "n": 1 })), None)
            .await
            .unwrap();
        store.delete("s").await.unwrap();
        store.delete("s").await.unwrap();
        assert!(store.load("s").await.unwrap().is_none(), "{name}");
        store
            .save(record("s", &json!({ "n": 2 })), Some(0))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_list_names_sessions_and_never_their_state() {
    for (name, store) in stores() {
        for id in ["b", "a1", "a0"] {
            store
                .save(record(id, &json!({ "n": 1 })), None)
                .await
                .unwrap();
        }
        let listed = |filter| async {
            let all = store.list(filter).await.unwrap();
            all.into_iter()
                .map(|one| one.session_id)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            listed(SummaryFilter::default()).await,
            ["a0", "a1", "b"],
            "{name}"
        );
        let prefix = Some("a".to_owned());
        assert_eq!(
            listed(SummaryFilter { prefix }).await,
            ["a0", "a1"],
            "{name}"
        );
        let all = store.list(SummaryFilter::default()).await.unwrap();
        let versioned = |one: &logue_harness::sessions::SessionSummary| {
            one.schema_version.as_deref() == Some("v1") && one.updated_at > Timestamp(0)
        };
        assert!(all.iter().all(versioned), "{name}");
    }
}

#[tokio::test]
async fn an_adapted_history_only_grows() {
    let store = adapter();
    let with = |texts: &[&str]| record("s", &json!({ "messages": texts }));
    store.save(with(&["a", "b"]), None).await.unwrap();
    for other in [&["a"][..], &["a", "z"], &["z", "a", "b"], &[]] {
        let saved = store.save(with(other), None).await;
        assert!(
            matches!(saved, Err(SessionStoreError::Conflict { .. })),
            "{other:?}"
        );
    }
    store.save(with(&["a", "b", "c"]), None).await.unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(
        loaded.record.state.get("messages"),
        Some(&json!(["a", "b", "c"]))
    );
}

#[tokio::test]
async fn an_adapted_session_that_somebody_works_on_is_not_saved() {
    let kept = Arc::new(MemoryStore::new());
    let store = StoreSessions::new(Arc::clone(&kept) as _, clock(), "tests");
    store
        .save(record("s", &json!({ "n": 1 })), None)
        .await
        .unwrap();
    let ttl = Duration::from_secs(60);
    let held = kept
        .acquire("s", "somebody", Timestamp(100), ttl)
        .await
        .unwrap();
    let saved = store.save(record("s", &json!({ "n": 2 })), None).await;
    assert!(
        matches!(saved, Err(SessionStoreError::Conflict { .. })),
        "{held:?}"
    );
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(loaded.record.state.get("n"), Some(&json!(1)));
}

#[tokio::test]
async fn an_inbox_is_no_adapted_session() {
    let kept = Arc::new(MemoryStore::new());
    kept.set_label("s", "agent", json!("x"), Timestamp(1))
        .await
        .unwrap();
    let store = StoreSessions::new(kept, clock(), "tests");
    assert!(store.load("s").await.unwrap().is_none());
    assert_eq!(store.list(SummaryFilter::default()).await.unwrap(), []);
}

#[tokio::test]
async fn runs_go_on_over_an_adapted_store() {
    let schema = StateSchema::new().with(Field::appended("messages", "ChatMessage"));
    let graph = GraphBuilder::new(schema)
        .add_node_fn("reply", |_| async {
            Ok(Update::new().with("messages", json!(["reply"])))
        })
        .entry("reply")
        .add_edge("reply", END)
        .compile(CountingIds::new())
        .unwrap();
    let sessions = Sessions::new(graph, clock()).with_stores(adapter(), memory());
    for (text, length) in [("one", 2), ("two", 4)] {
        let open = sessions.open_session("s").await.unwrap();
        assert_eq!(open.existed(), text == "two");
        let update = Update::new().with("messages", json!([text]));
        let outcome = sessions
            .invoke_open(open, update, RunOptions::default())
            .await;
        assert_eq!(outcome.as_str(), "completed");
        let messages = outcome.state().and_then(|state| state.list("messages"));
        assert_eq!(messages.map(logue_graph::List::len), Some(length));
    }
}

#[tokio::test]
async fn turns_over_a_typed_state_emit_events_of_the_graphs_type() {
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    struct Visits {
        count: u64,
    }
    let schema = StateSchema::from_defaults(&Visits::default()).unwrap();
    let graph = GraphBuilder::<String>::for_events(schema)
        .add_typed_node("visit", |visits: Visits, ctx| async move {
            let count = visits.count + 1;
            ctx.emit(format!("visit {count}"));
            Ok(Visits { count })
        })
        .entry("visit")
        .add_edge("visit", END)
        .compile(CountingIds::new())
        .unwrap();
    let sessions = Sessions::new(graph, clock()).with_stores(adapter(), memory());
    let turns = TurnHarness::new(HarnessMode::Sessioned, sessions, CountingIds::new());
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    for _ in 0..2 {
        let events = Arc::clone(&events);
        let sink = move |_: &NodeLocation, event: RunEvent<String>| {
            if let RunEvent::Emitted(event) = event {
                events.lock().unwrap().push(event);
            }
        };
        let transmission = Transmission {
            session_id: Some("s".to_owned()),
            intent: Some(DispatchIntent::ExistingSession),
            ..Transmission::default()
        };
        let ports = RunPorts::new().with_events(sink);
        let response = turns.handle_with(transmission, ports).await;
        assert_eq!(response.shape(), "completion_response");
    }
    assert_eq!(*events.lock().unwrap(), ["visit 1", "visit 2"]);
}

fn waiting(invocation_id: &str, round: u64) -> PausedRecord {
    PausedRecord {
        invocation_id: invocation_id.to_owned(),
        session_id: Some("s".to_owned()),
        signal_id: "g".to_owned(),
        status: PausedStatus::Suspended,
        round,
        run: json!({ "version": 1 }),
    }
}

#[tokio::test]
async fn a_paused_run_is_claimed_once_for_each_round() {
    let store = memory();
    store.pause(waiting("i", 0), None).await.unwrap();
    assert!(!store.claim("other", 0).await.unwrap());
    assert!(!store.claim("i", 1).await.unwrap());
    assert!(store.claim("i", 0).await.unwrap());
    assert!(!store.claim("i", 0).await.unwrap());
    assert_eq!(store.waiting("g").await.unwrap(), []);
    store.pause(waiting("i", 1), None).await.unwrap();
    assert_eq!(store.waiting("g").await.unwrap(), [waiting("i", 1)]);
    assert!(
        !store.claim("i", 0).await.unwrap(),
        "a signal of the first wait"
    );
    assert!(store.claim("i", 1).await.unwrap());
    store.finish("i", PausedStatus::Completed).await.unwrap();
    let ended = store.paused("i").await.unwrap().unwrap();
    assert_eq!(
        (ended.status, ended.run),
        (PausedStatus::Completed, Value::Null)
    );
}

#[tokio::test]
async fn a_session_and_its_paused_run_are_saved_together_or_not_at_all() {
    let store = memory();
    let version = store
        .save(record("s", &json!({ "n": 1 })), None)
        .await
        .unwrap();
    let write = |expected_version| SessionWrite {
        record: record("s", &json!({ "n": 2 })),
        expected_version,
    };
    let refused = store
        .pause(waiting("i", 0), Some(write(Some(version + 9))))
        .await;
    assert!(matches!(refused, Err(SessionStoreError::Conflict { .. })));
    assert!(store.paused("i").await.unwrap().is_none());
    assert_eq!(store.load("s").await.unwrap().unwrap().version, version);
    let saved = store
        .pause(waiting("i", 0), Some(write(Some(version))))
        .await
        .unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(saved, Some(loaded.version));
    assert_eq!(loaded.record.state.get("n"), Some(&json!(2)));
    assert!(store.paused("i").await.unwrap().is_some());
}

/// Cannot keep a paused run.
struct NoPause;

impl PausedStore for NoPause {
    fn pause(&self, _: PausedRecord, _: Option<SessionWrite>) -> SessionResult<'_, Option<u64>> {
        Box::pin(std::future::ready(Err(SessionStoreError::failed("full"))))
    }

    fn paused<'a>(&'a self, _: &'a str) -> SessionResult<'a, Option<PausedRecord>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn claim<'a>(&'a self, _: &'a str, _: u64) -> SessionResult<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn finish<'a>(&'a self, _: &'a str, _: PausedStatus) -> SessionResult<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn waiting<'a>(&'a self, _: &'a str) -> SessionResult<'a, Vec<PausedRecord>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

#[tokio::test]
async fn two_stores_put_the_session_back_when_the_run_cannot_be_kept() {
    for before in [None, Some(json!({ "n": 1 }))] {
        let sessions = memory();
        if let Some(before) = &before {
            sessions.save(record("s", before), None).await.unwrap();
        }
        let store = CombinedStore::new(sessions.clone(), NoPause);
        let write = SessionWrite {
            record: record("s", &json!({ "n": 2 })),
            expected_version: None,
        };
        assert!(store.pause(waiting("i", 0), Some(write)).await.is_err());
        let found = sessions.load("s").await.unwrap();
        let found = found.map(|found| Value::Object(found.record.state));
        assert_eq!(found, before);
    }
}

#[tokio::test]
async fn two_stores_pause_in_both() {
    let (sessions, paused) = (memory(), memory());
    let store = CombinedStore::new(sessions.clone(), paused.clone());
    let write = SessionWrite {
        record: SessionRecord::new("s", Map::new()),
        expected_version: Some(0),
    };
    let version = store.pause(waiting("i", 0), Some(write)).await.unwrap();
    assert_eq!(
        version,
        Some(sessions.load("s").await.unwrap().unwrap().version)
    );
    assert!(paused.load("s").await.unwrap().is_none());
    assert_eq!(paused.paused("i").await.unwrap(), Some(waiting("i", 0)));
    assert!(store.claim("i", 0).await.unwrap());
}
