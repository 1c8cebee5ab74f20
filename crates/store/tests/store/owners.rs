//! Harnesses with equal ids on one store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_graph::{CountingIds, END, GraphBuilder, NodeContext, NodeError, StateSchema, Update};
use logue_harness::SystemClock;
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
use logue_message::ChatMessage;
use logue_store::SqliteStore;

use super::place;

/// The turns that run, and the highest number of them at once.
#[derive(Default)]
struct Running {
    now: AtomicUsize,
    most: AtomicUsize,
    begun: AtomicUsize,
}

async fn answer(ctx: NodeContext, running: Arc<Running>) -> Result<Update, NodeError> {
    running.begun.fetch_add(1, Ordering::SeqCst);
    let now = running.now.fetch_add(1, Ordering::SeqCst) + 1;
    running.most.fetch_max(now, Ordering::SeqCst);
    // Long enough for the other harness to look at the session many times.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.now.fetch_sub(1, Ordering::SeqCst);
    let reply = ChatMessage::assistant(ctx.invocation_id());
    Ok(Update::new().with("messages", vec![reply]))
}

/// A harness as a process has it that was just started.
fn harness(path: &Path, running: &Arc<Running>) -> ChatHarness {
    let running = Arc::clone(running);
    let graph = GraphBuilder::new(StateSchema::new().with(messages_field()))
        .add_node_fn("answer", move |ctx| answer(ctx, Arc::clone(&running)))
        .entry("answer")
        .add_edge("answer", END)
        .compile(CountingIds::new())
        .unwrap();
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let ids = Arc::new(CountingIds::new());
    ChatHarness::new(graph, store, Arc::new(SystemClock), ids).unwrap()
}

#[tokio::test]
async fn harnesses_with_equal_ids_run_one_turn_of_a_session_at_a_time() {
    let (_folder, path) = place();
    let running = Arc::<Running>::default();
    let (one, other) = (harness(&path, &running), harness(&path, &running));
    let said = |text: &str| ChatMessage::user(text);
    let (first, second) = tokio::join!(one.send("s", said("one")), other.send("s", said("two")));
    let mut ids = Vec::new();
    for outcome in [first, second] {
        let ChatTurnOutcome::Completed(turn) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(turn.replies.len(), 1, "{:?}", turn.replies);
        assert_eq!(turn.replies[0].text(), turn.invocation_id);
        ids.push(turn.invocation_id);
    }
    assert_eq!(running.most.load(Ordering::SeqCst), 1);
    assert_eq!(running.begun.load(Ordering::SeqCst), 2);
    assert_ne!(ids[0], ids[1]);
    let history = one.store().history("s", 0, 10).await.unwrap();
    assert_eq!(history.len(), 4, "{history:?}");
}

#[tokio::test]
async fn a_new_process_with_equal_ids_repeats_no_id_of_an_invocation() {
    let (_folder, path) = place();
    let running = Arc::<Running>::default();
    let mut ids = std::collections::BTreeSet::new();
    for text in ["one", "two", "three"] {
        let process = harness(&path, &running);
        let outcome = process.send("s", ChatMessage::user(text)).await;
        let ChatTurnOutcome::Completed(turn) = outcome else {
            panic!("{text} has no answer");
        };
        ids.insert(turn.invocation_id);
    }
    assert_eq!(ids.len(), 3, "{ids:?}");
}
