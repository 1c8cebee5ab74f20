//! Nodes that run different graphs at once.

use logue_graph::{
    CompiledGraph, END, ErrorPolicy, Mapping, NodeError, ParallelBranches, SignalDescriptor,
};
use serde_json::{Map, json};

use crate::resume::{pause, travelled};
use crate::{compile, graph, int, log, logs, nothing};

/// A branch over the usual schema that logs after some pauses.
fn branch(name: &'static str, pauses: usize) -> CompiledGraph {
    let builder = graph().add_node_fn(name, move |ctx| async move {
        for _ in 0..pauses {
            tokio::task::yield_now().await;
        }
        assert!(ctx.place().branch_name().is_some());
        logs(ctx).await
    });
    compile(builder.entry(name).add_edge(name, END)).unwrap()
}

fn branches(branches: ParallelBranches) -> CompiledGraph {
    let builder = graph()
        .add_branches("all", branches)
        .add_node_fn("after", logs)
        .entry("all")
        .add_edge("all", "after")
        .add_edge("after", END);
    compile(builder).unwrap()
}

#[tokio::test]
async fn branches_are_merged_in_their_order() {
    let all = ParallelBranches::new()
        .branch("slow", branch("a", 20), Mapping::new())
        .branch("quick", branch("b", 0), Mapping::new());
    let done = branches(all).invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["a", "b", "after"]);
    assert_eq!(
        int(&done.state, "count"),
        2,
        "the last branch wins, then `after` counts"
    );
    let none = branches(ParallelBranches::new()).invoke(nothing()).await;
    assert_eq!(log(none.state()), ["after"]);
}

fn fails() -> CompiledGraph {
    let builder = graph().add_node_fn("f", |_| async {
        Err(NodeError::new("no luck").with_category("provider_unavailable"))
    });
    compile(builder.entry("f").add_edge("f", END)).unwrap()
}

#[tokio::test]
async fn a_branch_that_fails_fails_the_node_or_is_collected() {
    let all = |policy| {
        let all = ParallelBranches::new()
            .branch("bad", fails(), Mapping::new())
            .branch("good", branch("b", 3), Mapping::new())
            .error_policy(policy);
        branches(all.errors_to("note"))
    };
    let failed = all(ErrorPolicy::FailFast)
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(failed.error.derived_category(), "provider_unavailable");
    assert_eq!(failed.namespace, ["all", "f"]);
    let done = all(ErrorPolicy::Collect).invoke(nothing()).await;
    assert_eq!(log(done.state()), ["b", "after"]);
    let error =
        json!({ "branch_name": "bad", "category": "provider_unavailable", "message": "no luck" });
    assert_eq!(done.state().to_json()["note"], json!([error]));
}

fn waits() -> CompiledGraph {
    let builder = graph()
        .add_node_fn("gate", |ctx| async move {
            tokio::task::yield_now().await;
            match ctx.suspend(SignalDescriptor::new("s")).await {}
        })
        .add_node_fn("behind", logs);
    let builder = builder.entry("gate").add_edge("gate", "behind");
    compile(builder.add_edge("behind", END)).unwrap()
}

#[tokio::test]
async fn a_suspended_branch_goes_on_and_completed_ones_keep_their_results() {
    let all = |policy| {
        let all = ParallelBranches::new()
            .branch("late", branch("late", 50), Mapping::new())
            .branch("gated", waits(), Mapping::new())
            .branch("quick", branch("quick", 0), Mapping::new());
        branches(all.error_policy(policy))
    };
    let waiting = pause(&all(ErrorPolicy::FailFast)).await;
    assert_eq!(
        waiting.descriptor.metadata,
        Some(json!({ "branch_name": "gated" }))
    );
    assert_eq!(waiting.namespace, ["all", "gate"]);
    let paused = travelled(&waiting.paused);
    let done = all(ErrorPolicy::FailFast).resume(paused, Map::new()).await;
    let done = done.completed().unwrap();
    assert_eq!(log(&done.state), ["late", "behind", "quick", "after"]);

    let failed = all(ErrorPolicy::Collect)
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(failed.error.category(), "suspension_in_unsupported_context");
}

#[tokio::test]
async fn a_record_of_a_branch_that_is_gone_is_refused() {
    let with = |name| branches(ParallelBranches::new().branch(name, waits(), Mapping::new()));
    let paused = pause(&with("old")).await.paused;
    let error = paused.merge(&with("new"), &Map::new()).unwrap_err();
    assert_eq!(error.category(), "suspension_record_invalid");
}
