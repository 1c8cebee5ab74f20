//! Observers of nodes, and the events they receive.

use std::pin::pin;
use std::task::{Context, Waker};

use logue_graph::{
    BoxFuture, CompiledGraph, END, GraphBuilder, Mapping, Middleware, Next, NodeContext, NodeError,
    NodeEvent, Observer, Phase, RunInfo, RunPorts, SignalDescriptor, State, Update,
};
use serde_json::{Map, json};

use crate::{Notes, compile, graph, log, logs, nothing};

/// Records each event as one line.
#[derive(Clone, Default)]
struct Records(Notes);

impl Observer for Records {
    fn observe<'a>(
        &'a self,
        event: &'a NodeEvent,
        run: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        self.0.add(line(event, run));
        Box::pin(async { Ok(()) })
    }
}

fn line(event: &NodeEvent, run: &RunInfo) -> String {
    let logged = |state: &State| log(state).join(",");
    let end = match &event.phase {
        Phase::Started => String::new(),
        Phase::Completed(Ok(_)) => format!(" -> [{}]", logged(event.post_state().unwrap())),
        Phase::Completed(Err(_)) => format!(" failed: {}", event.error().unwrap().diagnostic()),
        Phase::Suspended(_) => format!(" waits for {}", event.descriptor().unwrap().signal_id),
    };
    let parents: Vec<_> = event.parent_states.iter().map(logged).collect();
    format!(
        "{} {} {}.{} {:?} [{}]{end} {parents:?}",
        event.phase.as_str(),
        event.place.namespace().join("/"),
        event.place.step(),
        event.place.attempt_index(),
        run.session_id(),
        logged(&event.pre_state),
    )
}

fn line_of_two() -> GraphBuilder {
    graph()
        .add_node_fn("a", logs)
        .add_node_fn("b", logs)
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", END)
}

#[tokio::test]
async fn each_node_begins_and_ends() {
    let records = Records::default();
    let graph = compile(line_of_two().observe(records.clone())).unwrap();
    let _done = graph.invoke(nothing().with_session_id("s")).await;
    graph.drain().await;
    assert_eq!(
        records.0.taken(),
        [
            r#"started a 0.0 Some("s") [] []"#,
            r#"completed a 0.0 Some("s") [] -> [a] []"#,
            r#"started b 1.0 Some("s") [a] []"#,
            r#"completed b 1.0 Some("s") [a] -> [a,b] []"#,
        ]
    );
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
async fn a_node_that_suspends_does_not_complete_and_those_around_it_neither() {
    let records = Records::default();
    let build = || {
        let outer = graph()
            .add_node_fn("a", logs)
            .add_subgraph("sub", compile(gated()).unwrap(), Mapping::new())
            .entry("a")
            .add_edge("a", "sub")
            .add_edge("sub", END);
        compile(outer.observe(records.clone())).unwrap()
    };
    let graph = build();
    let waiting = graph.invoke(nothing()).await.suspended().unwrap();
    graph.drain().await;
    assert_eq!(
        records.0.taken()[2..],
        [
            "started sub 1.0 None [a] []",
            r#"started sub/gate 2.0 None [] ["a"]"#,
            r#"suspended sub/gate 2.0 None [] waits for s ["a"]"#,
            "suspended sub 1.0 None [a] waits for s []",
        ]
    );
    let graph = build();
    let _done = graph.resume(waiting.paused, Map::new()).await;
    graph.drain().await;
    assert_eq!(
        records.0.taken(),
        [
            "started sub 1.0 None [a] []",
            r#"started sub/behind 3.0 None [] ["a"]"#,
            r#"completed sub/behind 3.0 None [] -> [behind] ["a"]"#,
            "completed sub 1.0 None [a] -> [a,behind] []",
        ]
    );
}

struct Twice;

impl Middleware for Twice {
    fn around<'a>(
        &'a self,
        _: NodeContext,
        next: Next<'a>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            let _first = next.run().await;
            next.run().await
        })
    }
}

#[tokio::test]
async fn every_attempt_has_its_events_and_every_failure_its_error() {
    type Case = (GraphBuilder, Vec<&'static str>);
    let one = |name: &'static str| graph().entry(name).add_edge(name, END);
    let failing = |_| async { Err(NodeError::new("no luck")) };
    let flaky = |ctx: NodeContext| async move {
        match ctx.attempt_index() {
            0 => Err(NodeError::new("no luck")),
            _ => logs(ctx).await,
        }
    };
    let cases: Vec<Case> = vec![
        (
            one("n").add_node_fn("n", failing),
            vec!["started n 0.0", "completed n 0.0 failed: no luck"],
        ),
        (
            one("n").add_node_fn("n", flaky).wrap(Twice),
            vec![
                "started n 0.0",
                "completed n 0.0 failed: no luck",
                "started n 0.1",
                "completed n 0.1 -> [n]",
            ],
        ),
        (
            // An attempt whose update is thrown away changes nothing.
            one("n").add_node_fn("n", logs).wrap(Twice),
            vec![
                "started n 0.0",
                "completed n 0.0 -> []",
                "started n 0.1",
                "completed n 0.1 -> [n]",
            ],
        ),
        (
            one("n").add_node_fn("n", |_| async {
                Ok(Update::new().with("log", json!("no list")))
            }),
            vec![
                "started n 0.0",
                "completed n 0.0 failed: the reducer `append` of the field `log` failed on the \
                 update of the node `n`: the update holds string, and only lists can be joined",
            ],
        ),
    ];
    for (builder, expected) in cases {
        let records = Records::default();
        let graph = compile(builder.observe(records.clone())).unwrap();
        let _outcome = graph.invoke(nothing()).await;
        let found: Vec<_> = records
            .0
            .taken()
            .iter()
            .map(|line| {
                let line = line.strip_suffix(" []").unwrap();
                line.replace(" None []", "")
            })
            .collect();
        assert_eq!(found, expected);
    }
}

/// Fails in one of several ways.
#[derive(Clone, Copy)]
enum Bad {
    PanicsAtOnce,
    PanicsLater,
    Fails,
}

impl Observer for Bad {
    fn observe<'a>(
        &'a self,
        _: &'a NodeEvent,
        _: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        assert!(!matches!(self, Self::PanicsAtOnce), "at once");
        Box::pin(async {
            tokio::task::yield_now().await;
            assert!(!matches!(self, Self::PanicsLater), "later");
            Err(NodeError::new("cannot watch"))
        })
    }
}

#[tokio::test]
async fn an_observer_that_fails_harms_nothing() {
    for bad in [Bad::PanicsAtOnce, Bad::PanicsLater, Bad::Fails] {
        let records = Records::default();
        let graph = line_of_two().observe(bad).observe(records.clone());
        let graph = compile(graph).unwrap();
        let done = graph.invoke(nothing()).await;
        assert_eq!(log(done.state()), ["a", "b"]);
        graph.drain().await;
        assert_eq!(records.0.taken().len(), 4);
    }
}

/// Takes its time.
struct Slow(Notes);

impl Observer for Slow {
    fn observe<'a>(
        &'a self,
        event: &'a NodeEvent,
        run: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        Box::pin(async {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            let (id, node) = (run.invocation_id(), event.place.node_name());
            self.0.add(format!("{id} {} {node}", event.phase.as_str()));
            Ok(())
        })
    }
}

const OF_ONE: [&str; 4] = ["started a", "completed a", "started b", "completed b"];

#[tokio::test]
async fn a_slow_observer_holds_up_no_node_and_is_told_all_in_the_end() {
    let notes = Notes::default();
    let graph = compile(line_of_two().observe(Slow(notes.clone()))).unwrap();
    let run = |id: &'static str| graph.invoke(nothing().with_invocation_id(id));
    let _done = run("1").await;
    assert_eq!(notes.taken(), [""; 0], "the run did not wait for it");
    let _done = run("2").await;
    graph.drain().await;
    let expected = ["1", "2"].map(|id| OF_ONE.map(|event| format!("{id} {event}")));
    assert_eq!(notes.taken(), expected.concat());
    graph.drain().await;
}

#[tokio::test]
async fn what_a_cancelled_drain_or_run_left_is_told_by_the_next() {
    let notes = Notes::default();
    let waits = graph()
        .add_node_fn("a", |_| std::future::pending())
        .entry("a")
        .add_edge("a", END);
    let graph = compile(waits.observe(Slow(notes.clone()))).unwrap();
    poll_once(graph.invoke(nothing().with_invocation_id("1")));
    poll_once(graph.drain());
    graph.drain().await;
    assert_eq!(notes.taken(), ["1 started a"]);
}

/// Polls a future, which must not end, once, and drops it.
fn poll_once<F: Future>(future: F) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
}

#[tokio::test]
async fn a_run_may_bring_its_own_observer() {
    let (of_graph, of_run) = (Records::default(), Records::default());
    let graph: CompiledGraph = compile(line_of_two().observe(of_graph.clone())).unwrap();
    let ports = RunPorts::new().with_observer(of_run.clone());
    let _done = graph.invoke(nothing().with_ports(ports)).await;
    let _done = graph.invoke(nothing()).await;
    graph.drain().await;
    assert_eq!((of_graph.0.taken().len(), of_run.0.taken().len()), (8, 4));
}
