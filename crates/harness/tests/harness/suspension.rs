//! Nodes that wait for a signal.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logue_harness::{
    BoxFuture, END, Node, NodeContext, NodeError, Outcome, SignalDescriptor, Suspended, Update,
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
    assert!(matches!(outcome, Outcome::Suspended(_)));
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

#[tokio::test]
async fn a_suspension_that_comes_after_its_node_ended_touches_no_later_node() {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (keep, late) = (kept.clone(), kept.clone());
    let graph = compile(
        graph()
            .add_node_fn("a", move |ctx| {
                *keep.lock().unwrap() = Some(ctx);
                async { Ok(Update::new()) }
            })
            .add_node_fn("b", move |ctx| {
                let late = late.lock().unwrap().take();
                async move {
                    let late: NodeContext = late.ok_or_else(|| NodeError::new("no context"))?;
                    let mut suspension = late.suspend(SignalDescriptor::new("late"));
                    let once = |cx: &mut Context<'_>| {
                        Poll::Ready(Pin::new(&mut suspension).poll(cx).is_pending())
                    };
                    assert!(std::future::poll_fn(once).await);
                    logs(ctx).await
                }
            })
            .entry("a")
            .add_edge("a", "b")
            .add_edge("b", END),
    )
    .unwrap();
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["b"]);
}
