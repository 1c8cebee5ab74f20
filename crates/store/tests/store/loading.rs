//! Rows that were edited by hand: loading names the error and the place, and loses nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logue_graph::{CountingIds, END, GraphBuilder, NodeContext, StateSchema, Update};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
use logue_harness::store::{EntryPayload, NewEntry, Store};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::ChatMessage;
use logue_store::SqliteStore;
use rusqlite::{Connection, params};

use super::{NOW, entry, lease, place};

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Opens the file as a new process does.
fn chat(path: &Path) -> ChatHarness {
    let schema = StateSchema::new().with(messages_field());
    let graph = GraphBuilder::new(schema)
        .add_node_fn("reply", |_: NodeContext| async {
            Ok(Update::new().with("messages", vec![ChatMessage::assistant("reply")]))
        })
        .entry("reply")
        .add_edge("reply", END)
        .compile(CountingIds::new())
        .unwrap();
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let ids = std::process::id();
    let number = std::sync::atomic::AtomicU64::new(0);
    let ids = move || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{ids}-{number}")
    };
    ChatHarness::new(graph, store, Arc::new(Still), Arc::new(ids)).unwrap()
}

async fn send(path: &Path) -> ChatTurnOutcome {
    chat(path).send("s", ChatMessage::user("hello")).await
}

/// Returns the category and the diagnostic of a failed turn.
fn failed(outcome: ChatTurnOutcome) -> (String, String) {
    match outcome {
        ChatTurnOutcome::Errored(turn) => (turn.error_category, turn.diagnostic),
        other => panic!("{other:?}"),
    }
}

/// Replaces the text of a message, counted from 0, and returns the earlier one.
fn edit(path: &Path, number: usize, body: &str) -> String {
    let conn = Connection::open(path).unwrap();
    let (pos, earlier): (i64, String) = conn
        .query_row(
            "SELECT pos, body FROM message ORDER BY pos LIMIT 1 OFFSET ?1",
            [i64::try_from(number).unwrap()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let edited = conn.execute(
        "UPDATE message SET body = ?2 WHERE pos = ?1",
        params![pos, body],
    );
    assert_eq!(edited.unwrap(), 1);
    earlier
}

#[tokio::test]
async fn an_edited_message_fails_the_load_with_its_position() {
    let damaged = [
        r#"{"role":"robot","content":"beep"}"#,
        r#"{"role":"tool","content":"no call"}"#,
        r#"{"role":"assistant"}"#,
        "7",
        "{\"role\":",
        "uforged",
    ];
    for body in damaged {
        let (_folder, path) = place();
        for _ in 0..2 {
            assert_eq!(send(&path).await.as_str(), "completed");
        }
        let earlier = edit(&path, 2, body);
        let ChatTurnOutcome::Errored(turn) = send(&path).await else {
            panic!("{body}");
        };
        let diagnostic = &turn.diagnostic;
        assert_eq!(turn.error_category, "session_load_failed", "{diagnostic}");
        assert!(turn.damaged, "{diagnostic}");
        for part in ["`s`", "message 2", "sessions repair"] {
            assert!(diagnostic.contains(part), "{body}: {diagnostic}");
        }
        // Nothing was lost or added, and a repair of the row is enough.
        assert_eq!(edit(&path, 2, &earlier), body);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 4);
        assert_eq!(send(&path).await.as_str(), "completed");
        assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn an_invalid_entry_of_the_inbox_fails_its_turn() {
    let (_folder, path) = place();
    assert_eq!(send(&path).await.as_str(), "completed");
    let store = SqliteStore::open(&path).unwrap();
    let message = serde_json::json!({ "role": "robot", "content": "hello" });
    let invalid = NewEntry {
        work: EntryPayload::Message { message },
        ..entry("hello", None)
    };
    store.enqueue("s", invalid).await.unwrap();

    let chat = chat(&path);
    assert_eq!(chat.process_pending("s").await.unwrap(), 1);
    let outcomes = chat.outcomes_since("s", 1, 9).await.unwrap();
    let (category, diagnostic) = failed(outcomes.into_iter().next().unwrap().1);
    assert_eq!(category, "session_load_failed");
    assert!(diagnostic.contains("`robot`"), "{diagnostic}");
    assert_eq!(send(&path).await.as_str(), "completed");
}

#[tokio::test]
async fn an_invalid_note_of_an_interrupted_turn_fails_the_recovery() {
    let (_folder, path) = place();
    assert_eq!(send(&path).await.as_str(), "completed");
    let store = SqliteStore::open(&path).unwrap();
    store.enqueue("s", entry("hello", None)).await.unwrap();
    let owner = lease(&store, "s").await.unwrap();
    store.claim_next(&owner, "dead", NOW).await.unwrap();
    let notes = vec![
        serde_json::json!({ "role": "robot", "content": "done" }),
        serde_json::json!({ "progress": 1 }),
    ];
    store.journal(&owner, "dead", notes).await.unwrap();
    store.release(&owner).await.unwrap();

    let chat = chat(&path);
    assert_eq!(chat.process_pending("s").await.unwrap(), 1);
    let outcomes = chat.outcomes_since("s", 1, 9).await.unwrap();
    let (category, diagnostic) = failed(outcomes.into_iter().next().unwrap().1);
    assert_eq!(category, "session_load_failed");
    assert!(diagnostic.contains("`robot`"), "{diagnostic}");
    // The note is still there for whoever repairs it.
    assert_eq!(store.notes("s", "dead").await.unwrap().len(), 2);
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 2);
}
