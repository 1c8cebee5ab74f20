//! Nodes that run a graph for each item of a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_graph::{
    CompiledGraph, END, ErrorPolicy, FanOut, Field, FieldType, GraphBuilder, Invocation, Mapping,
    NodeContext, NodeError, ParallelBranches, Reducer, SignalDescriptor, StateSchema, Update,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::resume::{pause, payload, travelled};
use crate::{NoteOnDrop, Notes, compile, graph, int, logs, nothing};

/// The graph of an instance: `item` and what else it is given in, `result` out.
fn instance<F, Fut>(run: F) -> CompiledGraph
where
    F: Fn(NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    let schema = StateSchema::new()
        .with(Field::new("item", FieldType::Any))
        .with(Field::new("factor", FieldType::Int).with_default(json!(10)))
        .with(Field::new("approved", FieldType::Bool))
        .with(Field::new("result", FieldType::Any));
    let builder = GraphBuilder::new(schema)
        .add_node_fn("process", run)
        .entry("process")
        .add_edge("process", END);
    compile(builder).unwrap()
}

fn item(ctx: &NodeContext) -> i64 {
    int(ctx.state(), "item")
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a node")]
fn multiplied(ctx: NodeContext) -> Update {
    let result = item(&ctx) * int(ctx.state(), "factor");
    Update::new().with("result", json!(result))
}

/// A graph of one fan-out over `items`, which goes to `results`, `states` and `errors`.
fn fan_out(build: impl FnOnce(FanOut) -> FanOut, instance: CompiledGraph) -> CompiledGraph {
    let list = || FieldType::list_of("any");
    let schema = StateSchema::new()
        .with(Field::new("items", list()))
        .with(Field::new("scale", FieldType::Int))
        .with(Field::new("approved", FieldType::Bool))
        .with(Field::new("results", list()).with_reducer(Reducer::Append))
        .with(Field::new("states", list()))
        .with(Field::new("errors", list()));
    let fan_out = FanOut::new(instance, "items", "item").collect("results", "result");
    let builder = GraphBuilder::new(schema)
        .add_fan_out("each", build(fan_out))
        .entry("each")
        .add_edge("each", END);
    compile(builder).unwrap()
}

fn items(items: Value) -> Invocation {
    Invocation::new(Update::new().with("items", items).with("scale", json!(3)))
}

#[tokio::test]
async fn results_come_in_the_order_of_the_items() {
    let slow_first = instance(|ctx| async move {
        // The first item ends last.
        for _ in 0..(5 - item(&ctx)) {
            tokio::task::yield_now().await;
        }
        Ok(multiplied(ctx))
    });
    for at_once in [0, 1, 2, 100] {
        let graph = fan_out(|fan_out| fan_out.concurrency(at_once), slow_first.clone());
        let done = graph.invoke(items(json!([1, 2, 3, 4]))).await;
        let state = done.completed().unwrap().state.to_json();
        assert_eq!(state["results"], json!([10, 20, 30, 40]));
    }
    let graph = fan_out(|fan_out| fan_out, slow_first);
    let done = graph.invoke(items(json!([]))).await.completed().unwrap();
    assert_eq!(done.state.to_json()["results"], json!([]));
}

#[tokio::test]
async fn instances_see_their_item_and_what_is_mapped() {
    let whole = |fan_out: FanOut| {
        fan_out
            .with_input("factor", "scale")
            .collect_states("states")
    };
    let graph = fan_out(whole, instance(|ctx| async move { Ok(multiplied(ctx)) }));
    let done = graph.invoke(items(json!([7]))).await.completed().unwrap();
    let state = done.state.to_json();
    assert_eq!(state["results"], json!([21]));
    let whole = json!([{ "item": 7, "factor": 3, "approved": false, "result": 21 }]);
    assert_eq!(state["states"], whole);
}

#[tokio::test]
async fn no_more_run_at_once_than_allowed_and_as_many_as_allowed_do() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    let counting = instance(move |ctx| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(multiplied(ctx))
        }
    });
    for (at_once, peak) in [(1, 1), (3, 3), (50, 20)] {
        most.store(0, Ordering::SeqCst);
        let graph = fan_out(|fan_out| fan_out.concurrency(at_once), counting.clone());
        let twenty: Vec<_> = (0..20).collect();
        let _done = graph
            .invoke(items(json!(twenty)))
            .await
            .completed()
            .unwrap();
        assert_eq!(most.load(Ordering::SeqCst), peak);
    }
}

/// Item 1 fails; the others wait for long, unless they may end.
fn one_fails(notes: &Notes, others_end: bool) -> CompiledGraph {
    let notes = notes.clone();
    instance(move |ctx| {
        let notes = notes.clone();
        async move {
            if item(&ctx) == 1 {
                tokio::task::yield_now().await;
                return Err(NodeError::new("no luck").with_category("provider_rate_limit"));
            }
            let _held = NoteOnDrop(notes, "ended");
            if !others_end {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
            }
            Ok(multiplied(ctx))
        }
    })
}

#[tokio::test]
async fn a_failure_cancels_the_others_or_is_collected() {
    let notes = Notes::default();
    let graph = fan_out(|fan_out| fan_out, one_fails(&notes, false));
    let failed = graph.invoke(items(json!([0, 1, 2]))).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.derived_category(), "provider_rate_limit");
    assert_eq!(failed.namespace, ["each", "process"]);
    assert_eq!(notes.taken(), ["ended", "ended"], "cancelled");

    let collect = |fan_out: FanOut| {
        fan_out
            .error_policy(ErrorPolicy::Collect)
            .errors_to("errors")
    };
    let graph = fan_out(collect, one_fails(&notes, true));
    let done = graph.invoke(items(json!([0, 1, 2]))).await;
    let state = done.completed().unwrap().state.to_json();
    assert_eq!(state["results"], json!([0, 20]));
    let error =
        json!({ "fan_out_index": 1, "category": "provider_rate_limit", "message": "no luck" });
    assert_eq!(state["errors"], json!([error]));
}

/// Suspends on the items that are listed, unless approved, and leaves notes of what runs.
fn asks(notes: &Notes, asking: &'static [i64], rerun: bool) -> CompiledGraph {
    let notes = notes.clone();
    let schema = StateSchema::new()
        .with(Field::new("item", FieldType::Int))
        .with(Field::new("approved", FieldType::Bool))
        .with(Field::new("result", FieldType::Any));
    let builder = GraphBuilder::new(schema)
        .add_node_fn("ask", move |ctx| {
            let notes = notes.clone();
            async move {
                let item = item(&ctx);
                notes.add(format!("ask {item}"));
                let approved = ctx.state().json("approved") == Some(&json!(true));
                if asking.contains(&item) && !approved {
                    let descriptor = SignalDescriptor::new(format!("s{item}"));
                    if rerun {
                        match ctx.suspend_and_rerun(descriptor).await {}
                    }
                    match ctx.suspend(descriptor).await {}
                }
                if item > 100 {
                    std::future::pending::<()>().await;
                }
                Ok(Update::new())
            }
        })
        .add_node_fn("answer", |ctx| async move {
            // A while, so that others would come first if they could.
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            let approved = ctx.state().json("approved").cloned();
            let result = json!([ctx.place().fan_out_index(), item(&ctx), approved]);
            Ok(Update::new().with("result", result))
        })
        .entry("ask")
        .add_edge("ask", "answer")
        .add_edge("answer", END);
    compile(builder).unwrap()
}

#[tokio::test]
async fn a_suspended_instance_goes_on_and_completed_ones_keep_their_results() {
    for rerun in [false, true] {
        let notes = Notes::default();
        let build = || fan_out(|fan_out| fan_out.concurrency(2), asks(&notes, &[12], rerun));
        let outcome = build().invoke(items(json!([10, 11, 12, 13]))).await;
        let waiting = outcome.suspended().unwrap();
        assert_eq!(
            waiting.descriptor.metadata,
            Some(json!({ "fan_out_index": 2 }))
        );
        assert_eq!(waiting.namespace, ["each", "ask"]);
        assert_eq!(notes.taken(), ["ask 10", "ask 11", "ask 12"]);

        let mut paused = travelled(&waiting.paused);
        // The instances keep the items that they began with.
        paused.set_field("items", json!([]));
        let signal = payload(json!({ "approved": true }));
        let done = build().resume(paused, signal).await.completed().unwrap();
        let again = if rerun {
            &["ask 12", "ask 13"][..]
        } else {
            &["ask 13"]
        };
        assert_eq!(notes.taken(), again, "10 and 11 do not run again");
        let results = json!([
            [0, 10, false],
            [1, 11, false],
            [2, 12, true],
            [3, 13, false]
        ]);
        assert_eq!(done.state.to_json()["results"], results);
        assert_eq!(done.state.json("approved"), Some(&json!(true)));
    }
}

#[tokio::test]
async fn every_instance_may_suspend_and_no_signal_is_lost() {
    let notes = Notes::default();
    let build = || fan_out(|fan_out| fan_out, asks(&notes, &[0, 1, 2], false));
    let mut outcome = build().invoke(items(json!([0, 1, 2]))).await;
    for index in 0..3 {
        let waiting = outcome.suspended().unwrap();
        assert_eq!(waiting.descriptor.signal_id, format!("s{index}"));
        let paused = travelled(&waiting.paused);
        outcome = build()
            .resume(paused, payload(json!({ "approved": true })))
            .await;
    }
    let done = outcome.completed().unwrap();
    let results = json!([[0, 0, true], [1, 1, true], [2, 2, true]]);
    assert_eq!(done.state.to_json()["results"], results);
    let asked = notes.taken();
    let first = asked.iter().filter(|note| *note == "ask 0").count();
    assert_eq!(
        first, 1,
        "an instance that has its signal is not cancelled: {asked:?}"
    );
}

#[tokio::test]
async fn siblings_of_a_suspended_instance_are_cancelled_and_run_again() {
    let notes = Notes::default();
    let build = || fan_out(|fan_out| fan_out, asks(&notes, &[1], false));
    let waiting = build()
        .invoke(items(json!([200, 1])))
        .await
        .suspended()
        .unwrap();
    assert_eq!(notes.taken(), ["ask 200", "ask 1"]);
    let merged = waiting.paused.merge(&build(), &Map::new()).unwrap();
    let run = tokio::time::timeout(Duration::from_millis(20), merged.run());
    assert!(run.await.is_err(), "the item 200 waits for ever");
    assert_eq!(notes.taken(), ["ask 200"]);
}

#[tokio::test]
async fn where_errors_are_collected_nothing_may_suspend() {
    let notes = Notes::default();
    let collect = |fan_out: FanOut| fan_out.error_policy(ErrorPolicy::Collect);
    let graph = fan_out(collect, asks(&notes, &[1], false));
    let failed = graph.invoke(items(json!([0, 1]))).await.errored().unwrap();
    assert_eq!(failed.error.category(), "suspension_in_unsupported_context");
    assert_eq!(
        failed.error.to_string(),
        "the suspension \"s1\" of the node `each` came from an inner graph, where errors are collected"
    );
}

#[tokio::test]
async fn metadata_is_annotated_without_loss() {
    let cases = [
        (None, json!({ "fan_out_index": 0 })),
        (
            Some(json!({ "a": 1, "fan_out_index": "mine" })),
            json!({ "a": 1, "fan_out_index": 0 }),
        ),
        (
            Some(json!([1])),
            json!({ "value": [1], "fan_out_index": 0 }),
        ),
        (
            Some(json!(null)),
            json!({ "value": null, "fan_out_index": 0 }),
        ),
    ];
    for (metadata, expected) in cases {
        let given = metadata.clone();
        let asks = instance(move |ctx| {
            let metadata = given.clone();
            async move {
                let signal_id = "s".to_owned();
                match ctx
                    .suspend(SignalDescriptor {
                        signal_id,
                        metadata,
                    })
                    .await {}
            }
        });
        let waiting = fan_out(|fan_out| fan_out, asks)
            .invoke(items(json!([0])))
            .await;
        let waiting = waiting.suspended().unwrap();
        assert_eq!(waiting.descriptor.metadata, Some(expected), "{metadata:?}");
    }
}

#[tokio::test]
async fn thousands_of_instances_run_at_once_and_the_last_may_suspend() {
    let asks = instance(|ctx| async move {
        tokio::task::yield_now().await;
        if item(&ctx) == 4_999 && ctx.state().json("approved") != Some(&json!(true)) {
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            match ctx.suspend_and_rerun(SignalDescriptor::new("last")).await {}
        }
        Ok(multiplied(ctx))
    });
    let graph = fan_out(|fan_out| fan_out, asks);
    let all: Vec<_> = (0..5_000).collect();
    let outcome = graph.invoke(items(json!(all))).await;
    let paused = travelled(&outcome.suspended().unwrap().paused);
    let done = graph
        .resume(paused, payload(json!({ "approved": true })))
        .await;
    let results: Vec<_> = all.iter().map(|item| item * 10).collect();
    assert_eq!(done.state().to_json()["results"], json!(results));
}

#[tokio::test]
async fn the_last_field_that_is_named_for_a_target_counts() {
    let twice = |fan_out: FanOut| {
        fan_out
            .collect("states", "item")
            .collect("states", "factor")
    };
    let graph = fan_out(twice, instance(|ctx| async move { Ok(multiplied(ctx)) }));
    let done = graph.invoke(items(json!([1, 2]))).await;
    assert_eq!(done.state().to_json()["states"], json!([10, 10]));
}

#[tokio::test]
async fn items_that_are_no_list_fail_the_node() {
    let schema = StateSchema::new().with(Field::new("items", FieldType::Any));
    let each = FanOut::new(
        instance(|ctx| async move { Ok(multiplied(ctx)) }),
        "items",
        "item",
    );
    let graph = GraphBuilder::new(schema)
        .add_fan_out("each", each)
        .entry("each")
        .add_edge("each", END);
    let failed = compile(graph)
        .unwrap()
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(failed.error.derived_category(), "state_validation_error");
    assert_eq!(
        failed.error.diagnostic(),
        "the field `items` is not a list of items"
    );
}

#[test]
fn fields_that_are_not_there_are_found_when_compiling() {
    type Build = fn(CompiledGraph) -> FanOut;
    let cases: [(Build, &str); 7] = [
        (|graph| FanOut::new(graph, "x", "count"), "x"),
        (|graph| FanOut::new(graph, "log", "y"), "y"),
        (
            |graph| FanOut::new(graph, "log", "note").collect("x", "note"),
            "x",
        ),
        (
            |graph| FanOut::new(graph, "log", "note").collect("log", "y"),
            "y",
        ),
        (
            |graph| FanOut::new(graph, "log", "note").collect_states("z"),
            "z",
        ),
        (
            |graph| FanOut::new(graph, "log", "note").with_input("x", "note"),
            "x",
        ),
        (
            |graph| FanOut::new(graph, "log", "note").errors_to("e"),
            "e",
        ),
    ];
    let leaf = || compile(graph().add_node_fn("a", logs).entry("a").add_edge("a", END)).unwrap();
    for (build, field) in cases {
        let outer = graph()
            .add_fan_out("each", build(leaf()))
            .entry("each")
            .add_edge("each", END);
        let error = compile(outer).unwrap_err();
        assert_eq!(error.name(), "mapping_references_undeclared_field");
        assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
    }
    let twice = ParallelBranches::new()
        .branch("b", leaf(), Mapping::new())
        .branch("b", leaf(), Mapping::new());
    let outer = graph()
        .add_branches("all", twice)
        .entry("all")
        .add_edge("all", END);
    assert_eq!(compile(outer).unwrap_err().name(), "duplicate_branch");
}

#[tokio::test]
async fn a_fan_out_inside_a_branch_inside_a_subgraph_suspends_and_goes_on() {
    let notes = Notes::default();
    let build = || {
        let each = fan_out(|fan_out| fan_out, asks(&notes, &[1], false));
        let mapping = Mapping::new()
            .with_input("items", "note")
            .with_output("log", "results");
        let schema = StateSchema::new()
            .with(Field::appended("log", "any"))
            .with(Field::new("note", FieldType::Any).with_default(json!([0, 1, 2])));
        let both = ParallelBranches::new().branch("only", each, mapping);
        let middle = GraphBuilder::new(schema)
            .add_branches("all", both)
            .entry("all")
            .add_edge("all", END);
        let schema = StateSchema::new().with(Field::appended("log", "any"));
        let outer = GraphBuilder::new(schema)
            .add_subgraph("sub", compile(middle).unwrap(), Mapping::new())
            .entry("sub")
            .add_edge("sub", END);
        compile(outer).unwrap()
    };
    let waiting = pause(&build()).await;
    assert_eq!(waiting.namespace, ["sub", "all", "each", "ask"]);
    let metadata = json!({ "fan_out_index": 1, "branch_name": "only" });
    assert_eq!(waiting.descriptor.metadata, Some(metadata));
    let signal = payload(json!({ "approved": true }));
    let done = build().resume(travelled(&waiting.paused), signal).await;
    let results = json!([[0, 0, false], [1, 1, true], [2, 2, false]]);
    assert_eq!(done.completed().unwrap().state.to_json()["log"], results);
}

proptest! {
    /// Whatever suspends in whatever order, the run ends with what it would have given at once.
    #[test]
    fn random_fan_outs_end_with_every_result(
        asking in prop::collection::vec((any::<bool>(), 0..4_usize), 0..8),
        at_once in 1..10_usize,
    ) {
        let plan = asking.clone();
        let instance = move || {
            let plan = plan.clone();
            instance(move |ctx| {
                let place = usize::try_from(item(&ctx)).unwrap();
                let (asks, pauses) = plan[place];
                async move {
                    for _ in 0..pauses {
                        tokio::task::yield_now().await;
                    }
                    if asks && ctx.state().json("approved") != Some(&json!(true)) {
                        let descriptor = SignalDescriptor::new(place.to_string());
                        match ctx.suspend_and_rerun(descriptor).await {}
                    }
                    Ok(multiplied(ctx))
                }
            })
        };
        let build = || fan_out(|fan_out| fan_out.concurrency(at_once), instance());
        let all: Vec<_> = (0..asking.len()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut outcome = runtime.block_on(build().invoke(items(json!(all))));
        let mut signals = Vec::new();
        while outcome.as_str() == "suspended" {
            let waiting = outcome.suspended().unwrap();
            prop_assert!(signals.len() < asking.len(), "{signals:?}");
            signals.push(waiting.descriptor.signal_id.parse::<usize>().unwrap());
            let signal = payload(json!({ "approved": true }));
            let paused = travelled(&waiting.paused);
            outcome = runtime.block_on(build().resume(paused, signal));
        }
        signals.sort_unstable();
        let expected: Vec<_> = (0..asking.len()).filter(|place| asking[*place].0).collect();
        prop_assert_eq!(signals, expected, "each asks once");
        let results: Vec<_> = all.iter().map(|item| item * 10).collect();
        let done = outcome.completed().unwrap();
        prop_assert_eq!(&done.state.to_json()["results"], &json!(results));
    }
}
