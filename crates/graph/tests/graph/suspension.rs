//! Nodes that wait for a signal.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use logue_graph::{
    BoxFuture, CompiledGraph, END, Node, NodeContext, NodeError, RunOutcome, SignalDescriptor,
    Suspended, Update,
};
use serde_json::{Value, json};

use crate::{NoteOnDrop, Notes, compile, graph, log, logs, nothing, only};

async fn suspended<F, Fut>(run: F) -> Suspended
where
    F: Fn(NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    only(run)
        .invoke(nothing())
        .await
        .suspended()
        .expect("the run suspends")
}

#[tokio::test]
async fn the_outcome_says_everything_that_resuming_takes() {
    let descriptor = SignalDescriptor::new("approval-1")
        .with_metadata(json!({ "z": 1, "a": [null, 1.50, { "deep": "é" }] }));
    let asked = descriptor.clone();
    let graph = compile(
        graph()
            .add_node_fn("before", logs)
            .add_node_fn("gate", move |ctx| {
                let asked = asked.clone();
                async move { match ctx.suspend(asked).await {} }
            })
            .add_node_fn("after", logs)
            .entry("before")
            .add_edge("before", "gate")
            .add_edge("gate", "after")
            .add_edge("after", END),
    )
    .unwrap();
    let outcome = graph.invoke(nothing().with_session_id("s")).await;
    assert_eq!(outcome.as_str(), "suspended");
    let waiting = outcome.suspended().unwrap();
    assert_eq!(waiting.descriptor, descriptor);
    assert_eq!(
        serde_json::to_string(&waiting.descriptor.metadata).unwrap(),
        serde_json::to_string(&descriptor.metadata).unwrap(),
        "the order of keys is kept too"
    );
    assert_eq!(log(&waiting.state), ["before"]);
    assert_eq!(waiting.node_name, "gate");
    assert_eq!(waiting.namespace, ["gate"]);
    assert!(waiting.node_completed);
    assert_eq!((waiting.step, waiting.attempt_index), (1, 0));
    assert_eq!(waiting.invocation_id, "id-1");
    assert_eq!(waiting.correlation_id, "id-2");
    assert_eq!(waiting.session_id.as_deref(), Some("s"));
}

#[tokio::test]
async fn metadata_that_is_null_differs_from_none() {
    for metadata in [None, Some(Value::Null)] {
        let given = SignalDescriptor {
            signal_id: String::new(),
            metadata,
        };
        let asked = given.clone();
        let waiting = suspended(move |ctx| {
            let asked = asked.clone();
            async move { match ctx.suspend(asked).await {} }
        });
        assert_eq!(waiting.await.descriptor, given);
    }
}

#[tokio::test]
async fn a_node_may_ask_to_run_again() {
    let waiting = suspended(|ctx| async move {
        match ctx.suspend_and_rerun(SignalDescriptor::new("again")).await {}
    });
    assert!(!waiting.await.node_completed);
}

/// Wraps a node, and turns every error of it, and every other way out, into success.
struct CatchesEverything<N> {
    inner: N,
    notes: Notes,
}

impl<N: Node> Node for CatchesEverything<N> {
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin(async move {
            self.notes.add("wrapper: before");
            let result = self.inner.run(ctx).await;
            self.notes.add("wrapper: after");
            Ok(result.unwrap_or_default())
        })
    }
}

struct Gate(Notes);

impl Node for Gate {
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin(async move {
            let _held = NoteOnDrop(self.0.clone(), "gate: dropped");
            ask(&ctx).await.or_else(|_| {
                self.0.add("gate: caught");
                Ok::<_, NodeError>(())
            })?;
            self.0.add("gate: after");
            Ok(Update::new())
        })
    }
}

async fn ask(ctx: &NodeContext) -> Result<(), NodeError> {
    match ctx.suspend(SignalDescriptor::new("s")).await {}
}

#[tokio::test]
async fn nothing_can_catch_a_suspension() {
    let notes = Notes::default();
    let node = CatchesEverything {
        inner: Gate(notes.clone()),
        notes: notes.clone(),
    };
    let graph = compile(
        graph()
            .add_node("only", node)
            .entry("only")
            .add_edge("only", END),
    );
    let outcome = graph.unwrap().invoke(nothing()).await;
    assert!(matches!(outcome, RunOutcome::Suspended(_)));
    assert_eq!(notes.taken(), ["wrapper: before", "gate: dropped"]);
}

#[tokio::test]
async fn a_node_that_does_not_wait_for_its_suspension_suspends_all_the_same() {
    let waiting = suspended(|ctx| async move {
        let mut suspension = pin!(ctx.suspend(SignalDescriptor::new("raced")));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(suspension.as_mut().poll(&mut cx).is_pending());
        Ok(Update::new().with("log", json!(["ignored"])))
    })
    .await;
    assert_eq!(waiting.descriptor.signal_id, "raced");
    assert_eq!(
        log(&waiting.state),
        [""; 0],
        "what the node returned is ignored"
    );
}

#[tokio::test]
async fn of_two_suspensions_the_first_counts() {
    let waiting = suspended(|ctx| async move {
        let first = ctx.suspend(SignalDescriptor::new("first"));
        let second = ctx.suspend(SignalDescriptor::new("second"));
        tokio::join!(first, second);
        Ok(Update::new())
    });
    assert_eq!(waiting.await.descriptor.signal_id, "first");
}

#[tokio::test]
async fn a_suspension_that_is_never_polled_is_none() {
    let graph = only(|ctx| async move {
        drop(ctx.suspend(SignalDescriptor::new("never")));
        Ok(Update::new().with("log", json!(["went on"])))
    });
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["went on"]);
}

#[tokio::test]
async fn another_task_of_the_node_may_suspend() {
    let run = suspended(|ctx| async move {
        let task = tokio::spawn(async move {
            tokio::task::yield_now().await;
            match ctx.suspend(SignalDescriptor::new("from afar")).await {}
        });
        // Nothing wakes the node here: only the suspension itself can wake the engine.
        let _task = AbortOnDrop(task);
        std::future::pending().await
    });
    // The timer comes first: its own wake-up must not be what lets the engine look.
    let waiting = tokio::select! {
        biased;
        () = tokio::time::sleep(Duration::from_secs(5)) => panic!("the engine was not woken"),
        waiting = run => waiting,
    };
    assert_eq!(waiting.descriptor.signal_id, "from afar");
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A slot in which a node stores its context for a later node.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Option<NodeContext>>>);

impl Kept {
    fn context(&self) -> NodeContext {
        self.0.lock().unwrap().clone().expect("a node left it")
    }
}

/// `a`, which stores its context, then `b`.
fn a_then<F, Fut>(kept: &Kept, b: F) -> CompiledGraph
where
    F: Fn(NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    let kept = kept.clone();
    let graph = graph()
        .add_node_fn("a", move |ctx| {
            *kept.0.lock().unwrap() = Some(ctx.clone());
            logs(ctx)
        })
        .add_node_fn("b", b)
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", END);
    compile(graph).unwrap()
}

/// Runs the graph, which must end because a suspension of `a` came too late.
async fn assert_unsupported(graph: CompiledGraph) {
    let run = tokio::time::timeout(Duration::from_secs(5), graph.invoke(nothing()));
    let failed = run
        .await
        .expect("the run ends")
        .errored()
        .expect("it fails");
    assert_eq!(failed.error.category(), "suspension_in_unsupported_context");
    assert_eq!(failed.error.derived_category(), failed.error.category());
    assert_eq!(
        failed.error.diagnostic(),
        "the suspension \"late\" of the node `a` was awaited after that node had ended"
    );
    assert_eq!(failed.node.as_deref(), Some("a"));
    assert_eq!(failed.steps, 1);
    assert_eq!(log(&failed.state), ["a"]);
}

fn late() -> SignalDescriptor {
    SignalDescriptor::new("late")
}

#[tokio::test]
async fn a_suspension_of_a_node_that_ended_fails_the_run() {
    let kept = Kept::default();
    let earlier = kept.clone();
    let graph = a_then(&kept, move |_| {
        let earlier = earlier.context();
        async move { match earlier.suspend(late()).await {} }
    });
    assert_unsupported(graph).await;
}

#[tokio::test]
async fn neither_returning_nor_suspending_properly_makes_up_for_it() {
    for suspends in [false, true] {
        let kept = Kept::default();
        let earlier = kept.clone();
        let graph = a_then(&kept, move |ctx| {
            let earlier = earlier.context();
            async move {
                let mut cx = Context::from_waker(Waker::noop());
                if suspends {
                    let mut proper = pin!(ctx.suspend(SignalDescriptor::new("proper")));
                    assert!(proper.as_mut().poll(&mut cx).is_pending());
                }
                let mut suspension = pin!(earlier.suspend_and_rerun(late()));
                assert!(suspension.as_mut().poll(&mut cx).is_pending());
                Ok(Update::new().with("log", json!(["ignored"])))
            }
        });
        assert_unsupported(graph).await;
    }
}

#[tokio::test]
async fn a_node_that_runs_again_cannot_use_the_context_of_its_last_time() {
    let first = Kept::default();
    let graph = graph()
        .add_node_fn("a", move |ctx| {
            let earlier = first.0.lock().unwrap().replace(ctx.clone());
            async move {
                match earlier {
                    Some(earlier) => match earlier.suspend(late()).await {},
                    None => logs(ctx).await,
                }
            }
        })
        .entry("a")
        .add_edge("a", "a")
        .max_steps(3);
    assert_unsupported(compile(graph).unwrap()).await;
}

#[tokio::test]
async fn a_task_that_a_node_left_behind_is_heard_while_a_later_node_waits() {
    let kept = Kept::default();
    let earlier = kept.clone();
    let graph = a_then(&kept, move |_| {
        let earlier = earlier.context();
        // Detached, and nothing wakes the node: only the suspension can wake the engine.
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            match earlier.suspend(late()).await {}
        });
        std::future::pending()
    });
    assert_unsupported(graph).await;
}

#[tokio::test]
async fn a_suspension_between_two_steps_starts_no_further_node() {
    let notes = Notes::default();
    let started = notes.clone();
    let graph = graph()
        .add_node_fn("a", |ctx| {
            // It runs when the engine yields after this node.
            let task = ctx.clone();
            tokio::spawn(async move { match task.suspend(late()).await {} });
            logs(ctx)
        })
        .add_node_fn("b", move |_| {
            started.add("b");
            async { Ok(Update::new()) }
        })
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", END);
    assert_unsupported(compile(graph).unwrap()).await;
    assert_eq!(notes.taken(), [""; 0]);
}

#[tokio::test]
async fn a_suspension_of_a_run_that_is_over_waits_and_does_nothing() {
    let kept = Kept::default();
    let graph = a_then(&kept, logs);
    assert_eq!(graph.invoke(nothing()).await.as_str(), "completed");
    let suspension = tokio::time::timeout(Duration::from_millis(10), async {
        match kept.context().suspend(late()).await {}
    });
    let waited: Result<(), _> = suspension.await;
    assert!(waited.is_err());
    assert_eq!(graph.invoke(nothing()).await.as_str(), "completed");
}
