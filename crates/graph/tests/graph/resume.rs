//! Runs that go on when their signal has come.

use logue_graph::{
    CompiledGraph, END, EdgeTarget, Field, FieldType, GraphBuilder, PausedRun, Reducer, RunOutcome,
    SignalDescriptor, StateSchema, Suspended, Update,
};
use serde_json::{Map, Value, json};

use crate::{compile, graph, int, log, logs, nothing};

/// The payload that a JSON object is.
pub(crate) fn payload(json: Value) -> Map<String, Value> {
    match json {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// A paused run as another process reads it.
pub(crate) fn travelled(paused: &PausedRun) -> PausedRun {
    let text = serde_json::to_string(&paused.to_json()).unwrap();
    let read = PausedRun::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(&read, paused, "nothing is lost on the way");
    read
}

pub(crate) async fn pause(graph: &CompiledGraph) -> Suspended {
    graph
        .invoke(nothing().with_session_id("s"))
        .await
        .suspended()
        .expect("the run suspends")
}

/// `before`, `gate`, which suspends, and `after`.
fn gated(rerun: bool) -> CompiledGraph {
    let builder = graph()
        .add_node_fn("before", logs)
        .add_node_fn("gate", move |ctx| async move {
            if int(ctx.state(), "count") > 1 {
                return logs(ctx).await;
            }
            let descriptor = SignalDescriptor::new("s");
            if rerun {
                match ctx.suspend_and_rerun(descriptor).await {}
            }
            match ctx.suspend(descriptor).await {}
        })
        .add_node_fn("after", logs)
        .entry("before")
        .add_edge("before", "gate")
        .add_edge("gate", "after")
        .add_edge("after", END);
    compile(builder).unwrap()
}

#[tokio::test]
async fn a_run_goes_on_behind_the_node_or_with_it() {
    for (rerun, run) in [
        (false, &["before", "after"][..]),
        (true, &["before", "gate", "after"]),
    ] {
        let graph = gated(rerun);
        let waiting = pause(&graph).await;
        // Another process has compiled the graph anew, and knows no state of this one.
        let done = gated(rerun)
            .resume(travelled(&waiting.paused), payload(json!({ "count": 5 })))
            .await
            .completed()
            .unwrap();
        assert_eq!(log(&done.state), run);
        assert_eq!(done.steps, 3);
        assert_eq!(done.invocation_id, "id-1");
        assert_eq!(done.correlation_id, "id-2");
        assert_eq!(done.session_id.as_deref(), Some("s"));
    }
}

#[tokio::test]
async fn a_payload_replaces_fields_whatever_their_reducers() {
    let graph = gated(false);
    let waiting = pause(&graph).await;
    let given = json!({ "log": ["from the signal"], "nowhere": 1 });
    let done = graph.resume(waiting.paused, payload(given)).await;
    assert_eq!(log(done.state()), ["from the signal", "after"]);
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_refused_before_the_record_is_used_up() {
    let graph = gated(false);
    let waiting = pause(&graph).await;
    let wrong = payload(json!({ "count": "three" }));
    let error = waiting.paused.merge(&graph, &wrong).unwrap_err();
    assert_eq!(error.category(), "suspension_resume_payload_invalid");
    assert_eq!(
        error.to_string(),
        "invalid signal payload: the field `count` takes int, not string"
    );
    let failed = graph.resume(waiting.paused.clone(), wrong).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.category(), "suspension_resume_payload_invalid");
    assert_eq!(log(&failed.state), ["before"]);
    assert_eq!((failed.node, failed.steps), (None, 1));
    assert_eq!(failed.invocation_id, "id-1");

    let right = payload(json!({ "count": 3 }));
    let merged = waiting.paused.merge(&graph, &right).unwrap();
    assert_eq!(int(merged.state().unwrap(), "count"), 3);
    assert!(matches!(merged.run().await, RunOutcome::Completed(_)));
}

#[tokio::test]
async fn the_edge_of_the_node_that_suspended_sees_the_signal() {
    let build = || {
        graph()
            .add_node_fn("gate", |ctx| async move {
                match ctx.suspend(SignalDescriptor::new("s")).await {}
            })
            .add_node_fn("yes", logs)
            .add_node_fn("no", logs)
            .entry("gate")
            .add_conditional_edge(
                "gate",
                [EdgeTarget::node("yes"), EdgeTarget::node("no"), END],
                |state| match state.json("note").and_then(Value::as_str) {
                    Some("yes") => "yes".into(),
                    Some("no") => "no".into(),
                    Some("end") => END,
                    _ => EdgeTarget::node("undeclared"),
                },
            )
            .add_edge("yes", END)
            .add_edge("no", END)
    };
    let graph = compile(build()).unwrap();
    for (note, run) in [("yes", vec!["yes"]), ("no", vec!["no"]), ("end", vec![])] {
        let waiting = pause(&graph).await;
        let signal = payload(json!({ "note": note }));
        let done = graph.resume(waiting.paused, signal).await;
        assert_eq!(log(&done.completed().unwrap().state), run);
    }
    let waiting = pause(&graph).await;
    let failed = graph.resume(waiting.paused, Map::new()).await;
    let failed = failed.errored().unwrap();
    assert_eq!(failed.error.category(), "routing_error");
    assert_eq!(failed.node.as_deref(), Some("gate"));
}

#[tokio::test]
async fn a_run_may_suspend_again_and_again() {
    let build = || {
        graph()
            .add_node_fn("ask", |ctx| async move {
                let count = int(ctx.state(), "count");
                if count == 3 {
                    return logs(ctx).await;
                }
                let descriptor = SignalDescriptor::new(format!("s{count}"));
                match ctx.suspend_and_rerun(descriptor).await {}
            })
            .entry("ask")
            .add_edge("ask", END)
    };
    let mut outcome = compile(build()).unwrap().invoke(nothing()).await;
    for count in 0..3 {
        let waiting = outcome.suspended().unwrap();
        assert_eq!(waiting.descriptor.signal_id, format!("s{count}"));
        assert_eq!((waiting.step, waiting.attempt_index), (0, 0));
        let signal = payload(json!({ "count": count + 1 }));
        let paused = travelled(&waiting.paused);
        outcome = compile(build()).unwrap().resume(paused, signal).await;
    }
    assert_eq!(log(outcome.state()), ["ask"]);
    assert_eq!(outcome.invocation_id(), "id-1");
}

#[tokio::test]
async fn a_list_may_be_kept_elsewhere_and_put_back() {
    let graph = gated(false);
    let mut paused = pause(&graph).await.paused;
    let kept = paused.take_field("log").unwrap();
    assert_eq!(kept.to_json(), json!(["before"]));
    assert!(paused.field("log").is_none());
    let mut paused = travelled(&paused);
    paused.set_field("log", json!(["before", "meanwhile"]));
    let done = graph.resume(paused, Map::new()).await;
    assert_eq!(log(done.state()), ["before", "meanwhile", "after"]);
}

#[tokio::test]
async fn a_record_says_what_ran() {
    for (rerun, ran) in [(false, vec!["before", "gate"]), (true, vec!["before"])] {
        let paused = travelled(&pause(&gated(rerun)).await.paused);
        let positions = paused.completed_positions();
        let names: Vec<_> = positions
            .iter()
            .flat_map(|position| &position.namespace)
            .collect();
        assert_eq!(names, ran);
        assert_eq!(paused.node_name(), "gate");
        assert_eq!(paused.namespace(), ["gate"]);
        assert_eq!(paused.node_completed(), !rerun);
        assert_eq!(paused.session_id(), Some("s"));
        assert_eq!(paused.steps(), 1);
    }
}

#[tokio::test]
async fn a_record_that_does_not_fit_is_refused() {
    let graph = gated(false);
    let paused = pause(&graph).await.paused;
    let good = paused.to_json();
    let changed = |pointer: &str, value: Value| {
        let mut json = good.clone();
        *json.pointer_mut(pointer).expect(pointer) = value;
        json
    };
    let unreadable = [
        json!(null),
        json!({}),
        json!("text"),
        changed("/version", json!(2)),
        changed("/frames", json!([])),
        changed("/frames", json!({})),
        changed("/frames/0/step", json!(-1)),
        changed("/frames/0/state", json!([])),
        changed("/descriptor", json!({})),
    ];
    for json in unreadable {
        let error = PausedRun::from_json(&json).unwrap_err();
        assert_eq!(error.category(), "suspension_record_invalid", "{json}");
    }
    let foreign = [
        changed("/frames/0/node", json!("elsewhere")),
        changed("/frames/0/state/count", json!("many")),
        changed("/frames/0/state", json!({ "nowhere": 1 })),
        changed("/frames", json!([good["frames"][0], good["frames"][0]])),
    ];
    for json in foreign {
        let paused = PausedRun::from_json(&json).unwrap();
        let failed = graph.resume(paused, Map::new()).await.errored().unwrap();
        assert_eq!(
            failed.error.category(),
            "suspension_record_invalid",
            "{json}"
        );
        assert_eq!(failed.invocation_id, "id-1");
    }
}

#[tokio::test]
async fn the_limit_of_steps_counts_those_before_the_suspension() {
    let graph = gated(false);
    let paused = pause(&graph).await.paused;
    let resume = |limit| {
        let merged = paused.merge(&graph, &Map::new()).unwrap();
        merged.with_max_steps(limit).run()
    };
    let failed = resume(2).await.errored().unwrap();
    assert_eq!(failed.error.category(), "max_steps_exceeded");
    assert_eq!(failed.error.node(), Some("after"));
    assert!(matches!(resume(3).await, RunOutcome::Completed(_)));
}

#[tokio::test]
async fn numbers_come_back_exactly() {
    let schema = StateSchema::new()
        .with(Field::new("n", FieldType::Any).with_reducer(Reducer::LastWriteWins));
    let graph = GraphBuilder::new(schema)
        .add_node_fn("gate", |ctx| async move {
            let number = json!([
                0.1 + 0.2,
                1e-320,
                8.98e307,
                5e-324,
                1.797_693_134_862_315_7e308
            ]);
            let descriptor = SignalDescriptor::new("s").with_metadata(number);
            match ctx.suspend(descriptor).await {}
        })
        .entry("gate")
        .add_edge("gate", END);
    let graph = compile(graph).unwrap();
    let start = Update::new().with("n", json!(0.123_456_789_012_345_67_f64));
    let outcome = graph.invoke(logue_graph::Invocation::new(start)).await;
    travelled(&outcome.suspended().unwrap().paused);
}
