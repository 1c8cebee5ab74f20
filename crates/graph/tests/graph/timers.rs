//! Waits for a time, and retries of nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, Invocation, NodeContext,
    NodeError, PausedRun, RetryPolicy, RunOutcome, RunPorts, StateSchema, Update,
};
use serde_json::{Map, json};

fn clocked(time: &Arc<AtomicU64>) -> RunPorts {
    let time = Arc::clone(time);
    RunPorts::new().with_clock(move || time.load(Ordering::SeqCst))
}

/// Resumes a suspended run as another process does, and returns the time that it had waited for.
async fn wake(graph: &CompiledGraph, outcome: &RunOutcome, ports: RunPorts) -> (u64, RunOutcome) {
    let RunOutcome::Suspended(suspended) = outcome else {
        panic!("{outcome:?}")
    };
    let paused = PausedRun::from_json(&suspended.paused.to_json()).unwrap();
    let at = paused.descriptor().wake_at().unwrap();
    let merged = paused.merge(graph, &Map::new()).unwrap();
    (at, merged.with_ports(ports).run().await)
}

fn one_node<F, Fut>(run: F, policy: RetryPolicy) -> CompiledGraph
where
    F: Fn(NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    GraphBuilder::new(StateSchema::new().with(Field::new("n", FieldType::Int)))
        .add_node_fn("node", run)
        .retry_node("node", policy)
        .entry("node")
        .add_edge("node", END)
        .compile(CountingIds::new())
        .unwrap()
}

fn failing(category: &'static str) -> impl Fn(NodeContext) -> BoxedUpdate + Send + Sync {
    move |ctx| {
        Box::pin(async move {
            if ctx.attempt_index() < 2 {
                return Err(NodeError::new("away").with_category(category));
            }
            Ok(Update::new().with("n", json!(ctx.attempt_index())))
        })
    }
}

type BoxedUpdate = logue_graph::BoxFuture<'static, Result<Update, NodeError>>;

#[tokio::test]
async fn a_time_that_has_come_does_not_suspend() {
    let time = Arc::new(AtomicU64::new(100));
    let graph = one_node(
        |ctx| async move {
            ctx.sleep_until(100).await;
            ctx.sleep_until(101).await;
            Ok(Update::new().with("n", json!(1)))
        },
        RetryPolicy::new(1),
    );
    let start = Invocation::new(Update::new()).with_ports(clocked(&time));
    let outcome = graph.invoke(start).await;
    // The second wait is over on resume, although the first one did not suspend.
    let (at, outcome) = wake(&graph, &outcome, RunPorts::new()).await;
    assert_eq!((at, outcome.as_str()), (101, "completed"));
}

#[tokio::test]
async fn a_failed_node_runs_again_after_its_backoff() {
    let time = Arc::new(AtomicU64::new(1_000));
    let policy = RetryPolicy::new(3)
        .with_backoff(Duration::from_millis(50), Duration::from_millis(80))
        .on("busy");
    let graph = one_node(failing("busy"), policy);
    let start = Invocation::new(Update::new()).with_ports(clocked(&time));
    let first = graph.invoke(start).await;
    time.store(2_000, Ordering::SeqCst);
    let (at, second) = wake(&graph, &first, clocked(&time)).await;
    assert_eq!((at, second.as_str()), (1_050, "suspended"));
    let (at, third) = wake(&graph, &second, clocked(&time)).await;
    assert_eq!((at, third.as_str()), (2_080, "completed"));
    assert_eq!(third.state().json("n"), Some(&json!(2)));
}

#[tokio::test]
async fn other_errors_and_the_last_attempt_fail_the_run() {
    let policy = || RetryPolicy::new(2).on("busy");
    let graph = one_node(failing("broken"), policy());
    assert_eq!(
        graph.invoke(Invocation::new(Update::new())).await.as_str(),
        "errored"
    );
    let graph = one_node(failing("busy"), policy());
    let first = graph.invoke(Invocation::new(Update::new())).await;
    let (_, second) = wake(&graph, &first, RunPorts::new()).await;
    assert_eq!(second.as_str(), "errored");
}

#[tokio::test]
async fn an_attempt_with_notes_is_not_repeated() {
    let graph = one_node(
        |ctx| async move {
            ctx.journal(json!("an effect")).await?;
            Err(NodeError::new("away").with_category("busy"))
        },
        RetryPolicy::new(9).on("busy"),
    );
    assert_eq!(
        graph.invoke(Invocation::new(Update::new())).await.as_str(),
        "errored"
    );
}

#[test]
fn a_policy_for_no_node_is_refused() {
    let error = GraphBuilder::new(StateSchema::new())
        .add_node_fn("node", |_| async { Ok(Update::new()) })
        .retry_node("other", RetryPolicy::new(2))
        .entry("node")
        .add_edge("node", END)
        .compile(CountingIds::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a retry policy names the unknown node `other`"
    );
}
