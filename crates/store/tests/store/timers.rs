//! Turns that wait for a time, in processes that are killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logue_graph::{
    CompiledGraph, END, GraphBuilder, NodeContext, NodeError, RetryPolicy, StateSchema, Update,
};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
use logue_harness::store::Store;
use logue_harness::{BoxFuture, Clock, RandomIds, Timestamp};
use logue_message::ChatMessage;
use logue_store::SqliteStore;

use super::child;

const HOUR: u64 = 3_600_000;
const START: u64 = 1_000_000_000;

/// A clock that stands still.
struct At(u64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp(self.0)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn append(path: &Path, word: &str) {
    let mut log = std::fs::OpenOptions::new();
    let mut log = log
        .create(true)
        .append(true)
        .open(path.with_extension("log"))
        .unwrap();
    std::io::Write::write_all(&mut log, word.as_bytes()).unwrap();
}

fn log(path: &Path) -> String {
    std::fs::read_to_string(path.with_extension("log")).unwrap_or_default()
}

/// `sleep` waits for an hour from its first run, twice; `retry` fails until its fourth attempt.
fn graph(path: &Path, role: &str, now: u64) -> CompiledGraph {
    let (log, role) = (path.to_owned(), role.to_owned());
    let node = move |ctx: NodeContext| {
        let (log, role) = (log.clone(), role.clone());
        async move {
            append(&log, "begun ");
            if role == "sleep" {
                ctx.sleep_until(now + HOUR).await;
                append(&log, "one ");
                ctx.sleep_until(now + HOUR).await;
            } else if ctx.attempt_index() < 3 {
                append(&log, &format!("{} ", ctx.attempt_index()));
                return Err(NodeError::new("away").with_category("provider_unavailable"));
            }
            append(&log, "done ");
            let reply = ChatMessage::assistant("done");
            Ok(Update::new().with("messages", vec![reply]))
        }
    };
    let (first, longest) = (Duration::from_millis(HOUR), Duration::from_millis(3 * HOUR));
    let policy = RetryPolicy::new(4).with_backoff(first, longest);
    GraphBuilder::new(StateSchema::new().with(messages_field()))
        .add_node_fn("before", {
            let path = path.to_owned();
            move |_| {
                append(&path, "before ");
                async { Ok(Update::new()) }
            }
        })
        .add_node_fn("node", node)
        .retry_node("node", policy.on("provider_unavailable"))
        .entry("before")
        .add_edge("before", "node")
        .add_edge("node", END)
        .compile(RandomIds)
        .unwrap()
}

fn chat(path: &Path, role: &str, now: u64) -> ChatHarness {
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let (clock, ids) = (Arc::new(At(now)), Arc::new(RandomIds));
    ChatHarness::new(graph(path, role, now), store, clock, ids).unwrap()
}

/// The part of the process that is killed: a turn that suspends.
pub(crate) async fn suspend_and_report(path: &Path, role: &str) {
    let outcome = chat(path, role, START)
        .send("s", ChatMessage::user("go"))
        .await;
    child::tell(outcome.as_str());
    std::future::pending::<()>().await;
}

/// Runs a turn in a process until it waits, and kills the process.
fn suspended(path: &Path, role: &str) {
    let mut process = child::command(role, path).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let told = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with('@'));
    assert_eq!(told.as_deref(), Some("@suspended"));
    process.kill().unwrap();
    process.wait().unwrap();
}

/// Recovers the session in a new process at a time; returns the number of settled entries.
async fn recover(path: &Path, role: &str, at: u64) -> u64 {
    let settled = chat(path, role, at).recover("s").await;
    settled.unwrap().unwrap()
}

async fn latest(path: &Path) -> ChatTurnOutcome {
    let chat = chat(path, "", START);
    let mut outcomes = chat.outcomes_since("s", 0, 99).await.unwrap();
    outcomes.pop().unwrap().1
}

#[tokio::test]
async fn a_timer_survives_its_process_and_counts_once() {
    let (_folder, path) = super::place();
    suspended(&path, "sleep");
    assert_eq!(log(&path), "before begun ");
    assert_eq!(recover(&path, "sleep", START + HOUR - 1).await, 0);
    assert_eq!(recover(&path, "sleep", START + HOUR).await, 1);
    // The first wait is over, and the second one has begun.
    assert_eq!(log(&path), "before begun begun one ");
    assert_eq!(latest(&path).await.as_str(), "suspended");
    assert_eq!(recover(&path, "sleep", START + 2 * HOUR - 1).await, 0);
    assert_eq!(recover(&path, "sleep", START + 2 * HOUR).await, 1);
    assert_eq!(log(&path), "before begun begun one begun one done ");
    assert_eq!(latest(&path).await.as_str(), "completed");
    assert_eq!(recover(&path, "sleep", START + 9 * HOUR).await, 0);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}

#[tokio::test]
async fn attempts_and_their_times_survive_processes() {
    let (_folder, path) = super::place();
    suspended(&path, "retry");
    let mut at = START;
    // The backoff doubles up to its limit.
    for (wait, attempt) in [(1, 1), (2, 2), (3, 3)] {
        let before = log(&path);
        assert_eq!(recover(&path, "retry", at + wait * HOUR - 1).await, 0);
        assert_eq!(log(&path), before, "attempt {attempt} was early");
        at += wait * HOUR;
        assert_eq!(recover(&path, "retry", at).await, 1);
    }
    assert_eq!(log(&path), "before begun 0 begun 1 begun 2 begun done ");
    assert_eq!(latest(&path).await.as_str(), "completed");
}
