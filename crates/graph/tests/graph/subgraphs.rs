//! Graphs that stand in for nodes.

use logue_graph::{
    CompiledGraph, END, Field, FieldType, GraphBuilder, Mapping, NodeError, SignalDescriptor,
    StateSchema, Update,
};
use serde_json::{Map, json};

use crate::resume::{pause, payload, travelled};
use crate::{compile, graph, int, log, logs, nothing};

/// `inner`, which logs, over the usual schema.
fn leaf() -> CompiledGraph {
    let builder = graph().add_node_fn("inner", logs).entry("inner");
    compile(builder.add_edge("inner", END)).unwrap()
}

/// `before`, `sub` and `after`.
fn around(sub: CompiledGraph, mapping: Mapping) -> GraphBuilder {
    graph()
        .add_node_fn("before", logs)
        .add_subgraph("sub", sub, mapping)
        .add_node_fn("after", logs)
        .entry("before")
        .add_edge("before", "sub")
        .add_edge("sub", "after")
        .add_edge("after", END)
}

#[tokio::test]
async fn what_passes_in_and_out() {
    let cases = [
        // Nothing in; out by name, through the reducers: `count` is the subgraph's own 1.
        (Mapping::new(), vec!["before", "inner", "after"], 2),
        // With an input too, the old items are output again after themselves.
        (
            Mapping::new()
                .with_input("log", "log")
                .with_input("count", "count"),
            vec!["before", "before", "inner", "after"],
            3,
        ),
        // Named outputs replace those by name.
        (
            Mapping::new()
                .with_input("count", "count")
                .with_output("count", "count"),
            vec!["before", "after"],
            3,
        ),
        (Mapping::new().without_outputs(), vec!["before", "after"], 2),
    ];
    for (mapping, logged, count) in cases {
        let found = format!("{mapping:?}");
        let graph = compile(around(leaf(), mapping)).unwrap();
        let done = graph.invoke(nothing()).await.completed().unwrap();
        assert_eq!(log(&done.state), logged, "{found}");
        assert_eq!(int(&done.state, "count"), count, "{found}");
        assert_eq!(done.steps, 3, "{found}");
    }
}

#[test]
fn a_mapping_of_fields_that_are_not_there_is_found_when_compiling() {
    let cases = [
        (Mapping::new().with_input("x", "log"), "x", "its subgraph"),
        (Mapping::new().with_input("log", "x"), "x", "its graph"),
        (Mapping::new().with_output("x", "log"), "x", "its graph"),
        (Mapping::new().with_output("log", "x"), "x", "its subgraph"),
    ];
    for (mapping, field, side) in cases {
        let error = compile(around(leaf(), mapping)).unwrap_err();
        assert_eq!(error.name(), "mapping_references_undeclared_field");
        let found =
            format!("the node `sub` refers to the field `{field}`, which {side} does not declare");
        assert_eq!(error.to_string(), found);
    }
}

#[tokio::test]
async fn an_input_that_does_not_fit_fails_the_node() {
    let schema = StateSchema::new().with(Field::new("text", FieldType::String));
    let sub = GraphBuilder::new(schema)
        .add_node_fn("inner", |_| async { Ok(Update::new()) })
        .entry("inner")
        .add_edge("inner", END);
    let mapping = Mapping::new().with_input("text", "count");
    let graph = compile(around(compile(sub).unwrap(), mapping)).unwrap();
    let failed = graph.invoke(nothing()).await.errored().unwrap();
    assert_eq!(failed.error.category(), "node_exception");
    assert_eq!(failed.error.derived_category(), "state_validation_error");
    assert_eq!(failed.namespace, ["sub"]);
    assert_eq!(log(&failed.state), ["before"]);
}

#[tokio::test]
async fn a_failure_inside_says_where_and_why() {
    let fails = || {
        graph()
            .add_node_fn("deep", |_| async {
                Err(NodeError::new("no luck").with_category("provider_unavailable"))
            })
            .entry("deep")
            .add_edge("deep", END)
    };
    let middle = around(compile(fails()).unwrap(), Mapping::new());
    let outer = around(compile(middle).unwrap(), Mapping::new());
    let failed = compile(outer).unwrap().invoke(nothing()).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.category(), "node_exception");
    assert_eq!(failed.error.derived_category(), "provider_unavailable");
    assert_eq!(failed.error.diagnostic(), "no luck");
    assert_eq!(failed.node.as_deref(), Some("sub"));
    assert_eq!(failed.namespace, ["sub", "sub", "deep"]);
    assert_eq!(
        log(&failed.state),
        ["before"],
        "nothing of the subgraph is left"
    );

    let uncategorised = graph()
        .add_node_fn("deep", |_| async { Err(NodeError::new("no luck")) })
        .entry("deep")
        .add_edge("deep", END);
    let outer = around(compile(uncategorised).unwrap(), Mapping::new());
    let failed = compile(outer).unwrap().invoke(nothing()).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.derived_category(), "node_exception");
    assert_eq!(failed.error.diagnostic(), "no luck");
}

#[tokio::test]
async fn a_subgraph_has_its_own_limit_of_steps() {
    let circle = graph()
        .add_node_fn("inner", logs)
        .entry("inner")
        .add_edge("inner", "inner")
        .max_steps(7);
    let outer = around(compile(circle).unwrap(), Mapping::new());
    let failed = compile(outer).unwrap().invoke(nothing()).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.derived_category(), "max_steps_exceeded");
    assert_eq!(failed.namespace, ["sub", "inner"]);
}

/// `ahead`, `gate`, which suspends, and `behind`.
fn gated(rerun: bool) -> CompiledGraph {
    let builder = graph()
        .add_node_fn("ahead", logs)
        .add_node_fn("gate", move |ctx| async move {
            if ctx.state().json("note") == Some(&json!("go")) {
                return logs(ctx).await;
            }
            let descriptor = SignalDescriptor::new("deep").with_metadata(json!({ "kind": "x" }));
            if rerun {
                match ctx.suspend_and_rerun(descriptor).await {}
            }
            match ctx.suspend(descriptor).await {}
        })
        .add_node_fn("behind", logs)
        .entry("ahead")
        .add_edge("ahead", "gate")
        .add_edge("gate", "behind")
        .add_edge("behind", END);
    compile(builder).unwrap()
}

fn nested(rerun: bool) -> CompiledGraph {
    let mapping = || Mapping::new().with_output("log", "log");
    let middle = around(gated(rerun), mapping());
    compile(around(compile(middle).unwrap(), mapping())).unwrap()
}

#[tokio::test]
async fn a_suspension_two_graphs_deep_goes_on_where_it_was() {
    for (rerun, gate) in [(false, &[][..]), (true, &["gate"])] {
        let waiting = pause(&nested(rerun)).await;
        assert_eq!(waiting.node_name, "gate");
        assert_eq!(waiting.namespace, ["sub", "sub", "gate"]);
        assert_eq!(waiting.descriptor.metadata, Some(json!({ "kind": "x" })));
        assert_eq!(log(&waiting.state), ["before"]);
        assert_eq!(waiting.step, 1);
        let paused = travelled(&waiting.paused);
        let positions: Vec<_> = paused
            .completed_positions()
            .iter()
            .map(|position| (position.namespace.join("/"), position.step))
            .collect();
        let mut expected = vec![
            ("before".to_owned(), 0),
            ("sub/before".to_owned(), 2),
            ("sub/sub/ahead".to_owned(), 4),
        ];
        if !rerun {
            expected.push(("sub/sub/gate".to_owned(), 5));
        }
        assert_eq!(positions, expected);

        let signal = payload(json!({ "note": "go" }));
        let done = nested(rerun).resume(paused, signal).await;
        let done = done.completed().unwrap();
        let inside = [
            &["before", "before", "ahead"],
            gate,
            &["behind", "after", "after"],
        ];
        assert_eq!(log(&done.state), inside.concat());
        assert_eq!(done.state.json("note"), Some(&json!("go")));
        assert_eq!(done.steps, 3);
    }
}

#[tokio::test]
async fn a_signal_reaches_every_graph_on_the_way_that_declares_its_field() {
    let schema = StateSchema::new()
        .with(Field::new("approved", FieldType::Bool))
        .with(Field::new("inner_only", FieldType::String));
    let sub = GraphBuilder::new(schema)
        .add_node_fn("gate", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("s")).await {}
        })
        .add_node_fn("reads", |ctx| async move {
            assert_eq!(ctx.state().json("approved"), Some(&json!(true)));
            let given = ctx.state().json("inner_only").cloned();
            Ok(Update::new().with("inner_only", given.unwrap_or_default()))
        })
        .entry("gate")
        .add_edge("gate", "reads")
        .add_edge("reads", END);
    let mapping = Mapping::new().with_output("note", "inner_only");
    let graph = compile(around(compile(sub).unwrap(), mapping)).unwrap();
    let paused = pause(&graph).await.paused;
    let wrong = payload(json!({ "approved": "yes" }));
    let error = paused.merge(&graph, &wrong).unwrap_err();
    assert_eq!(error.category(), "suspension_resume_payload_invalid");
    let given = json!({ "approved": true, "inner_only": "hello", "count": 40, "dropped": 1 });
    let done = graph.resume(paused, payload(given)).await;
    assert_eq!(done.state().json("note"), Some(&json!("hello")));
    assert_eq!(int(done.state(), "count"), 41, "the outer state has it too");
}

#[tokio::test]
async fn contexts_inside_know_the_way() {
    let reports = || {
        graph()
            .add_node_fn("inner", |ctx| async move {
                let found = format!("{} {}", ctx.place().namespace().join("/"), ctx.step());
                Ok(Update::new().with("log", json!([found])))
            })
            .entry("inner")
            .add_edge("inner", END)
    };
    let middle = compile(around(compile(reports()).unwrap(), Mapping::new())).unwrap();
    let graph = compile(around(middle, Mapping::new())).unwrap();
    let done = graph.invoke(nothing()).await;
    let expected = ["before", "before", "sub/sub/inner 4", "after", "after"];
    assert_eq!(log(done.state()), expected);
}

#[tokio::test]
async fn a_suspension_kept_from_a_subgraph_fails_the_run_around_it() {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (keep, use_late) = (kept.clone(), kept);
    let sub = graph()
        .add_node_fn("inner", move |ctx| {
            *keep.lock().unwrap() = Some(ctx.clone());
            logs(ctx)
        })
        .entry("inner")
        .add_edge("inner", END);
    let late = graph()
        .add_node_fn("late", move |_| {
            let ctx = use_late.lock().unwrap().take().unwrap();
            async move { match ctx.suspend(SignalDescriptor::new("late")).await {} }
        })
        .entry("late")
        .add_edge("late", END);
    let graph = graph()
        .add_subgraph("first", compile(sub).unwrap(), Mapping::new())
        .add_subgraph("second", compile(late).unwrap(), Mapping::new())
        .entry("first")
        .add_edge("first", "second")
        .add_edge("second", END);
    let failed = compile(graph).unwrap().invoke(nothing()).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.category(), "suspension_in_unsupported_context");
    assert_eq!(failed.error.node(), Some("inner"));
    assert_eq!(log(&failed.state), ["inner"]);
}

#[tokio::test]
async fn a_record_of_a_graph_that_was_rebuilt_otherwise_is_refused() {
    let paused = pause(&nested(false)).await.paused;
    let flat = around(leaf(), Mapping::new());
    let other = compile(flat).unwrap();
    let error = paused.merge(&other, &Map::new()).unwrap_err();
    assert_eq!(error.category(), "suspension_record_invalid");
}
