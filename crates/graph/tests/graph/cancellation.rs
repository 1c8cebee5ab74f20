//! Runs whose future is dropped.

use std::future::pending;
use std::time::Duration;

use logue_graph::{END, Update};

use crate::{NoteOnDrop, Notes, compile, graph, logs, nothing};

#[tokio::test]
async fn dropping_a_run_drops_the_node_where_it_waits() {
    let notes = Notes::default();
    let (running, later) = (notes.clone(), notes.clone());
    let graph = compile(
        graph()
            .add_node_fn("waits", move |_| {
                let notes = running.clone();
                async move {
                    let _held = NoteOnDrop(notes.clone(), "dropped");
                    notes.add("started");
                    pending::<()>().await;
                    notes.add("went on");
                    Ok(Update::new())
                }
            })
            .add_node_fn("later", move |_| {
                later.add("later ran");
                async { Ok(Update::new()) }
            })
            .entry("waits")
            .add_edge("waits", "later")
            .add_edge("later", END),
    )
    .unwrap();
    let timeout = tokio::time::timeout(Duration::from_millis(10), graph.invoke(nothing()));
    assert!(timeout.await.is_err());
    assert_eq!(notes.taken(), ["started", "dropped"]);
}

#[tokio::test]
async fn a_run_of_nodes_that_never_wait_can_be_cancelled() {
    // Without a pause between steps the run would reach its limit, late, and not be cancelled.
    let graph = graph()
        .add_node_fn("only", |_| async { Ok(Update::new()) })
        .entry("only")
        .add_edge("only", "only")
        .max_steps(1_000_000);
    let graph = compile(graph).unwrap();
    let timeout = tokio::time::timeout(Duration::from_millis(10), graph.invoke(nothing()));
    assert!(timeout.await.is_err());
}

#[tokio::test]
async fn nothing_runs_before_a_run_is_polled() {
    let graph = compile(
        graph()
            .add_node_fn("only", logs)
            .entry("only")
            .add_edge("only", END),
    );
    let graph = graph.unwrap();
    drop(graph.invoke(nothing()));
    assert_eq!(graph.invoke(nothing()).await.invocation_id(), "id-1");
}
