//! Middleware around nodes.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use logue_graph::{
    BoxFuture, CompiledGraph, END, ErrorPolicy, GraphBuilder, Mapping, Middleware, Next,
    NodeContext, NodeError, ParallelBranches, SignalDescriptor, Update,
};
use serde_json::{Map, json};

use crate::resume::{pause, payload, travelled};
use crate::{Notes, compile, graph, int, log, logs, nothing};

/// Leaves a note before and after.
struct Marks(Notes, &'static str);

impl Middleware for Marks {
    fn around<'a>(
        &'a self,
        ctx: NodeContext,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            self.0.add(format!("{} before {}", self.1, ctx.node_name()));
            let result = next.run().await;
            self.0.add(format!("{} after {}", self.1, ctx.node_name()));
            result
        })
    }
}

/// Turns every error into an update, and tries several times.
struct Retry(usize);

impl Middleware for Retry {
    fn around<'a>(
        &'a self,
        _: NodeContext,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            for _ in 0..self.0 {
                if let Ok(update) = next.run().await {
                    return Ok(update);
                }
            }
            Ok(Update::new().with("log", json!(["gave up"])))
        })
    }
}

/// Never lets the body run.
struct Instead;

impl Middleware for Instead {
    fn around<'a>(
        &'a self,
        _: NodeContext,
        _: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async { Ok(Update::new().with("log", json!(["instead"]))) })
    }
}

/// Suspends itself, before or after the body.
struct Suspends {
    before: bool,
}

impl Middleware for Suspends {
    fn around<'a>(
        &'a self,
        ctx: NodeContext,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            if !self.before {
                let _ran = next.run().await;
            }
            match ctx.suspend(SignalDescriptor::new("mine")).await {}
        })
    }
}

fn line() -> GraphBuilder {
    graph()
        .add_node_fn("a", logs)
        .add_node_fn("b", logs)
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", END)
}

#[tokio::test]
async fn the_first_one_is_outermost_and_those_of_all_nodes_are_outside() {
    let notes = Notes::default();
    let mark = |name| Marks(notes.clone(), name);
    let graph = line()
        .wrap_node("b", mark("own"))
        .wrap(mark("first"))
        .wrap(mark("second"));
    let done = compile(graph).unwrap().invoke(nothing()).await;
    assert_eq!(log(done.state()), ["a", "b"]);
    assert_eq!(
        notes.taken(),
        [
            "first before a",
            "second before a",
            "second after a",
            "first after a",
            "first before b",
            "second before b",
            "own before b",
            "own after b",
            "second after b",
            "first after b",
        ]
    );
}

#[test]
fn a_middleware_around_no_node_is_found_when_compiling() {
    let error = compile(line().wrap_node("z", Instead)).unwrap_err();
    assert_eq!(error.name(), "unknown_node");
    assert_eq!(error.to_string(), "a middleware wraps the unknown node `z`");
}

#[tokio::test]
async fn a_middleware_may_answer_in_place_of_the_node() {
    let graph = compile(line().wrap_node("a", Instead)).unwrap();
    let done = graph.invoke(nothing()).await;
    assert_eq!(log(done.state()), ["instead", "b"]);
}

/// Fails until the attempt of that number, which logs it.
fn fails_until(good: usize) -> GraphBuilder {
    graph()
        .add_node_fn("flaky", move |ctx| async move {
            if ctx.attempt_index() < good {
                return Err(NodeError::new("no luck"));
            }
            let attempt = ctx.attempt_index().to_string();
            Ok(Update::new().with("log", json!([attempt])))
        })
        .entry("flaky")
        .add_edge("flaky", END)
}

#[tokio::test]
async fn attempts_are_counted() {
    for (good, logged) in [(0, "0"), (2, "2"), (3, "gave up")] {
        let graph = compile(fails_until(good).wrap(Retry(3))).unwrap();
        let done = graph.invoke(nothing()).await.completed().unwrap();
        assert_eq!(log(&done.state), [logged]);
        assert_eq!(done.steps, 1);
    }
}

#[tokio::test]
async fn an_attempt_that_suspended_to_run_again_keeps_its_number() {
    let build = || {
        let builder = graph().add_node_fn("flaky", |ctx| async move {
            let answered = int(ctx.state(), "count") == 1;
            if ctx.attempt_index() == 0 && !answered {
                return Err(NodeError::new("no luck"));
            }
            if !answered {
                match ctx.suspend_and_rerun(SignalDescriptor::new("s")).await {}
            }
            let attempt = ctx.attempt_index().to_string();
            Ok(Update::new().with("log", json!([attempt])))
        });
        let builder = builder.entry("flaky").add_edge("flaky", END);
        compile(builder.wrap(Retry(3))).unwrap()
    };
    let waiting = pause(&build()).await;
    assert_eq!(waiting.attempt_index, 1);
    let signal = payload(json!({ "count": 1 }));
    let done = build().resume(travelled(&waiting.paused), signal).await;
    assert_eq!(log(done.state()), ["1"]);
}

fn gated() -> GraphBuilder {
    graph()
        .add_node_fn("gate", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("s")).await {}
        })
        .add_node_fn("behind", logs)
        .entry("gate")
        .add_edge("gate", "behind")
        .add_edge("behind", END)
}

#[tokio::test]
async fn what_stands_behind_a_suspension_never_runs_and_nothing_catches_it() {
    let notes = Notes::default();
    let graph = gated().wrap(Marks(notes.clone(), "m")).wrap(Retry(5));
    let graph = compile(graph).unwrap();
    let waiting = pause(&graph).await;
    assert_eq!(notes.taken(), ["m before gate"]);
    let done = graph.resume(waiting.paused, Map::new()).await;
    assert_eq!(log(done.state()), ["behind"]);
    assert_eq!(notes.taken(), ["m before behind", "m after behind"]);
}

#[tokio::test]
async fn a_suspension_in_a_subgraph_passes_the_middleware_around_it() {
    let notes = Notes::default();
    let build = || {
        let sub = compile(gated()).unwrap();
        let outer = graph()
            .add_subgraph("sub", sub, Mapping::new())
            .entry("sub")
            .add_edge("sub", END)
            .wrap(Retry(5))
            .wrap(Marks(notes.clone(), "m"));
        compile(outer).unwrap()
    };
    let waiting = pause(&build()).await;
    assert_eq!(waiting.namespace, ["sub", "gate"]);
    assert_eq!(notes.taken(), ["m before sub"]);
    let done = build().resume(travelled(&waiting.paused), Map::new()).await;
    assert_eq!(log(done.state()), ["behind"]);
    assert_eq!(notes.taken(), ["m before sub", "m after sub"]);
}

#[tokio::test]
async fn a_subgraph_that_failed_behind_its_suspension_is_retried_from_its_beginning() {
    let tries = Arc::new(Mutex::new(0));
    let inside = Arc::clone(&tries);
    let sub = graph()
        .add_node_fn("gate", |ctx| async move {
            if int(ctx.state(), "count") == 0 {
                match ctx.suspend(SignalDescriptor::new("s")).await {}
            }
            Ok(Update::new())
        })
        .add_node_fn("behind", move |ctx| {
            *inside.lock().unwrap() += 1;
            let first = *inside.lock().unwrap() == 1;
            async move {
                if first {
                    return Err(NodeError::new("no luck"));
                }
                logs(ctx).await
            }
        })
        .entry("gate")
        .add_edge("gate", "behind")
        .add_edge("behind", END);
    let mapping = Mapping::new().with_input("count", "count");
    let outer = graph()
        .add_subgraph("sub", compile(sub).unwrap(), mapping)
        .entry("sub")
        .add_edge("sub", END)
        .wrap(Retry(2));
    let graph = compile(outer).unwrap();
    let waiting = pause(&graph).await;
    let signal = payload(json!({ "count": 1 }));
    let done = graph.resume(waiting.paused, signal).await;
    assert_eq!(log(done.state()), ["behind"]);
    assert_eq!(*tries.lock().unwrap(), 2);
}

async fn refused(graph: GraphBuilder) {
    let graph: CompiledGraph = compile(graph).unwrap();
    let failed = graph.invoke(nothing()).await.errored().unwrap();
    assert_eq!(failed.error.category(), "suspension_in_unsupported_context");
    assert_eq!(
        failed.error.to_string(),
        "the suspension \"mine\" of the node `a` was requested by a middleware"
    );
    assert_eq!(
        log(&failed.state),
        [""; 0],
        "what the node returned is ignored"
    );
}

#[tokio::test]
async fn a_middleware_may_not_suspend() {
    for before in [true, false] {
        refused(line().wrap_node("a", Suspends { before })).await;
        // Not even after one that catches every error.
        refused(line().wrap(Retry(5)).wrap_node("a", Suspends { before })).await;
    }
}

#[tokio::test]
async fn a_middleware_that_may_not_suspend_escapes_a_subgraph_too() {
    let sub = compile(line().wrap_node("a", Suspends { before: true })).unwrap();
    let outer = graph()
        .add_subgraph("sub", sub, Mapping::new())
        .entry("sub")
        .add_edge("sub", END)
        .wrap(Retry(5));
    refused(outer).await;
}

#[tokio::test]
async fn bodies_may_race() {
    struct Race;
    impl Middleware for Race {
        fn around<'a>(
            &'a self,
            _: NodeContext,
            next: Next<'a>,
        ) -> BoxFuture<'a, Result<Update, NodeError>> {
            Box::pin(async move {
                tokio::select! {
                    first = next.run() => first,
                    second = next.run() => second,
                }
            })
        }
    }
    let builder = graph().add_node_fn("hedged", |ctx| async move {
        if ctx.attempt_index() == 0 {
            std::future::pending::<()>().await;
        }
        if ctx.state().json("note") == Some(&json!("ask")) {
            match ctx.suspend(SignalDescriptor::new("s")).await {}
        }
        logs(ctx).await
    });
    let builder = builder.entry("hedged").add_edge("hedged", END);
    let graph = compile(builder.wrap(Race)).unwrap();
    assert_eq!(log(graph.invoke(nothing()).await.state()), ["hedged"]);
    let ask = Update::new().with("note", json!("ask"));
    let outcome = graph.invoke(logue_graph::Invocation::new(ask)).await;
    assert_eq!(outcome.suspended().unwrap().attempt_index, 1);
}

#[tokio::test]
async fn what_a_node_returns_beside_its_suspension_reaches_no_middleware() {
    let notes = Notes::default();
    let builder = graph().add_node_fn("only", |ctx| async move {
        let mut suspension = pin!(ctx.suspend(SignalDescriptor::new("raced")));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(suspension.as_mut().poll(&mut cx).is_pending());
        Ok(Update::new().with("log", json!(["ignored"])))
    });
    let builder = builder.entry("only").add_edge("only", END);
    let graph = compile(builder.wrap(Marks(notes.clone(), "m"))).unwrap();
    let waiting = pause(&graph).await;
    assert_eq!(waiting.descriptor.signal_id, "raced");
    assert_eq!(notes.taken(), ["m before only"]);
}

#[tokio::test]
async fn no_policy_collects_a_suspension_that_may_not_be() {
    let inside = line().wrap_node("a", Suspends { before: true });
    let branches = ParallelBranches::new()
        .branch("one", compile(inside).unwrap(), Mapping::new())
        .error_policy(ErrorPolicy::Collect);
    let outer = graph()
        .add_branches("all", branches)
        .entry("all")
        .add_edge("all", END);
    refused(outer).await;
}
