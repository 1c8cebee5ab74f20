//! Runs of sessions that suspend, and other runs in between.

use std::sync::Arc;
use std::time::Duration;

use logue_graph::{
    CompiledGraph, CountingIds, END, EdgeTarget, ElementType, Field, FieldType, GraphBuilder,
    Invocation, NodeError, Reducer, RunPorts, SignalDescriptor, StateSchema, Update,
};
use logue_harness::sessions::{
    MemorySessionStore, Migrations, Projection, SessionOutcome, SessionStore, Sessions,
};
use logue_harness::{BoxFuture, Clock, Timestamp};
use serde_json::{Map, Value, json};

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Adds its order and keeps its stage; waits if the input says so.
fn graph(version: &str, note: &'static str) -> CompiledGraph {
    let texts = FieldType::List(ElementType::String);
    let schema = StateSchema::new()
        .with(Field::new("input", FieldType::String))
        .with(Field::new("orders", texts).with_reducer(Reducer::Append))
        .with(Field::new("stage", FieldType::String))
        .with(Field::new(note, FieldType::String))
        .with_version(version);
    GraphBuilder::new(schema)
        .add_node_fn("begin", move |ctx| async move {
            let input = ctx.state().json("input").cloned().unwrap_or_default();
            let update = Update::new()
                .with("orders", json!([input]))
                .with("stage", input.clone());
            Ok::<_, NodeError>(match input.as_str() {
                Some("note") => update.with(note, input),
                _ => update,
            })
        })
        .add_node_fn("hold", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("go")).await {}
        })
        .entry("begin")
        .add_conditional_edge(
            "begin",
            [EdgeTarget::node("hold"), END],
            |state| match state.json("input").and_then(Value::as_str) {
                Some("wait") => EdgeTarget::node("hold"),
                _ => END,
            },
        )
        .add_edge("hold", END)
        .compile(CountingIds::new())
        .unwrap()
}

fn sessions(graph: CompiledGraph, store: &Arc<MemorySessionStore>) -> Sessions {
    let kept = Projection::fields(["orders", "stage"]).with("memo", note_of(&graph));
    let migrations = Migrations::new().with("1", "2", |mut fields| {
        fields.insert("migrated".to_owned(), json!(true));
        Ok(fields)
    });
    Sessions::new(graph, Arc::new(Stopped))
        .with_store(Arc::clone(store))
        .with_projection(kept)
        .unwrap()
        .with_migrations(migrations.unwrap())
}

fn note_of(graph: &CompiledGraph) -> String {
    let last = graph.schema().fields().last();
    last.map(|field| field.name().to_owned())
        .unwrap_or_default()
}

async fn run(sessions: &Sessions, id: &str, input: &str) -> SessionOutcome {
    let invocation = Invocation::new(Update::new().with("input", json!(input)));
    let invocation = invocation.with_session_id("s").with_invocation_id(id);
    sessions.invoke(invocation).await
}

#[tokio::test]
async fn a_run_resumes_with_what_its_session_has_kept_since() {
    for (version, note) in [("1", "note"), ("2", "remark")] {
        let store = Arc::new(MemorySessionStore::new(Arc::new(Stopped)));
        let first = sessions(graph("1", "note"), &store);
        assert_eq!(run(&first, "i", "wait").await.as_str(), "suspended");
        assert_eq!(run(&first, "j", "note").await.as_str(), "completed");
        assert_eq!(run(&first, "k", "last").await.as_str(), "completed");

        let later = sessions(graph(version, note), &store);
        let outcome = later.resume("i", &Map::new(), RunPorts::new()).await;
        assert_eq!(outcome.as_str(), "completed", "{outcome:?}");
        let loaded = store.load("s").await.unwrap().unwrap().record;
        assert_eq!(
            Value::Object(loaded.state),
            json!({ "orders": ["wait", "note", "last"], "stage": "last", "memo": "note" })
        );
        let state = outcome.state().unwrap();
        assert_eq!(state.json("input"), Some(&json!("wait")));
    }
}
