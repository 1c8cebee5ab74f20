//! Ports of a run.

use std::sync::{Arc, Mutex};

use logue_graph::{
    BoxFuture, CompiledGraph, END, GraphBuilder, Invocation, Journal, Mapping, NodeError,
    NodeLocation, RunEvent, RunOutcome, RunPorts, SessionSaver, SignalDescriptor, State, Update,
};
use serde_json::{Map, Value, json};

use crate::{Notes, compile, graph, log, logs, nothing, only, schema};

/// The events of the test's nodes.
enum Said {
    Text(&'static str),
    Call(u64),
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text}"),
            Self::Call(id) => write!(f, "call {id}"),
        }
    }
}

fn listening(notes: &Notes) -> RunPorts<Said> {
    let notes = notes.clone();
    RunPorts::new().with_events(move |from: &NodeLocation, event: RunEvent<Said>| {
        let namespace = from.namespace().join("/");
        notes.add(format!("{namespace}.{} {event:?}", from.attempt_index()));
    })
}

#[tokio::test]
async fn events_come_as_they_happen_with_where_they_come_from() {
    let talks = GraphBuilder::<Said>::for_events(schema())
        .add_node_fn("talks", |ctx| async move {
            ctx.emit(Said::Text("Hel"));
            ctx.emit(Said::Call(1));
            logs(ctx).await
        })
        .add_node_fn("gate", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("s")).await {}
        })
        .add_node_fn("fails", |_| async { Err(NodeError::new("no luck")) })
        .entry("talks")
        .add_edge("talks", "gate")
        .add_edge("gate", "fails")
        .add_edge("fails", END);
    let outer = GraphBuilder::for_events(schema())
        .add_subgraph("sub", compile(talks).unwrap(), Mapping::new())
        .entry("sub")
        .add_edge("sub", END);
    let graph = compile(outer).unwrap();
    let notes = Notes::default();
    let start = Invocation::new(Update::new()).with_ports(listening(&notes));
    let waiting = graph.invoke(start).await.suspended().unwrap();
    assert_eq!(
        notes.taken(),
        [
            "sub.0 NodeStarted",
            "sub/talks.0 NodeStarted",
            "sub/talks.0 Emitted(Hel)",
            "sub/talks.0 Emitted(call 1)",
            "sub/talks.0 NodeEnded(Completed)",
            "sub/gate.0 NodeStarted",
            "sub/gate.0 NodeEnded(Suspended)",
            "sub.0 NodeEnded(Suspended)",
        ]
    );
    let merged = waiting.paused.merge(&graph, &Map::new()).unwrap();
    let failed = merged.with_ports(listening(&notes)).run().await;
    assert!(matches!(failed, RunOutcome::Errored(_)));
    assert_eq!(
        notes.taken(),
        [
            "sub.0 NodeStarted",
            "sub/fails.0 NodeStarted",
            "sub/fails.0 NodeEnded(Failed)",
            "sub.0 NodeEnded(Failed)",
        ]
    );
}

/// Keeps entries, or fails.
#[derive(Clone, Default)]
struct Book {
    entries: Arc<Mutex<Vec<(String, Value)>>>,
    full: bool,
}

impl Journal for Book {
    fn note(&self, from: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        let node = from.node_name().to_owned();
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.full {
                return Err(NodeError::new("full").with_category("journal_full"));
            }
            self.entries.lock().unwrap().push((node, entry));
            Ok(())
        })
    }
}

fn journals() -> CompiledGraph {
    only(|ctx| async move {
        ctx.journal(json!({ "role": "user" })).await?;
        Err(NodeError::new("and then the node failed"))
    })
}

#[tokio::test]
async fn notes_are_made_before_the_node_ends() {
    let book = Book::default();
    let ports = RunPorts::new().with_journal(book.clone());
    let failed = journals().invoke(nothing().with_ports(ports)).await;
    assert_eq!(
        failed.errored().unwrap().error.diagnostic(),
        "and then the node failed"
    );
    assert_eq!(
        *book.entries.lock().unwrap(),
        [("only".to_owned(), json!({ "role": "user" }))]
    );

    let full = Book {
        full: true,
        ..Book::default()
    };
    let ports = RunPorts::new().with_journal(full);
    let failed = journals().invoke(nothing().with_ports(ports)).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.derived_category(), "journal_full");

    let failed = journals().invoke(nothing()).await.errored().unwrap();
    assert_eq!(failed.error.diagnostic(), "and then the node failed");
}

/// Keeps saved states, or fails.
#[derive(Clone, Default)]
struct Saved {
    states: Arc<Mutex<Vec<Vec<String>>>>,
    fails: Option<NodeError>,
}

impl SessionSaver for Saved {
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(async move {
            if let Some(error) = self.fails.clone() {
                return Err(error);
            }
            let logged = log(&state).into_iter().map(str::to_owned);
            self.states.lock().unwrap().push(logged.collect());
            Ok(())
        })
    }
}

/// `a`; `b`, which saves with its own update and reports the result; `c`, which fails.
fn saving(update: Value) -> CompiledGraph {
    let builder = graph()
        .add_node_fn("a", logs)
        .add_node_fn("b", move |ctx| {
            let update = update.clone();
            async move {
                ctx.save_session(None).await?;
                let update = Update::new().with("log", update);
                ctx.save_session(Some(&update)).await?;
                Ok(update)
            }
        })
        .add_node_fn("c", |_| async { Err(NodeError::new("no luck")) })
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_edge("c", END);
    compile(builder).unwrap()
}

async fn failure(graph: &CompiledGraph, saved: &Saved, start: Invocation) -> (String, String) {
    let ports = RunPorts::new().with_session(saved.clone());
    let failed = graph
        .invoke(start.with_ports(ports))
        .await
        .errored()
        .unwrap();
    let category = failed.error.derived_category().to_owned();
    (failed.node.unwrap(), category)
}

fn of(node: &str, category: &str) -> (String, String) {
    (node.to_owned(), category.to_owned())
}

#[tokio::test]
async fn a_session_is_saved_with_the_nodes_own_update_before_a_later_failure() {
    let (graph, saved) = (saving(json!(["b"])), Saved::default());
    let session = || nothing().with_session_id("s");
    let failed = failure(&graph, &saved, session()).await;
    assert_eq!(failed, of("c", "node_exception"));
    assert_eq!(*saved.states.lock().unwrap(), [vec!["a"], vec!["a", "b"]]);

    // Without a session there is nothing to save.
    let failed = failure(&graph, &saved, nothing()).await;
    assert_eq!(failed, of("c", "node_exception"));
    assert_eq!(saved.states.lock().unwrap().len(), 2);
    let failed = graph.invoke(session()).await.errored().unwrap();
    assert_eq!(failed.node.as_deref(), Some("c"));
}

#[tokio::test]
async fn a_save_that_fails_is_the_nodes_to_handle() {
    let session = || nothing().with_session_id("s");
    let graph = saving(json!(["b"]));
    for (error, category) in [
        (NodeError::new("disk"), "session_save_failed"),
        (
            NodeError::new("late").with_category("session_write_conflict"),
            "session_write_conflict",
        ),
    ] {
        let saved = Saved {
            fails: Some(error),
            ..Saved::default()
        };
        assert_eq!(failure(&graph, &saved, session()).await, of("b", category));
    }
    let wrong = saving(json!([1]));
    let failed = failure(&wrong, &Saved::default(), session()).await;
    assert_eq!(failed, of("b", "state_validation_error"));

    let outer = crate::graph()
        .add_subgraph("sub", graph, Mapping::new())
        .entry("sub")
        .add_edge("sub", END);
    let outer = compile(outer).unwrap();
    let failed = failure(&outer, &Saved::default(), session()).await;
    assert_eq!(failed, of("sub", "session_save_failed"));
}
