//! The engine through its public interface: one file for each thing that it promises.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails fails its test"
)]

mod branches;
mod cancellation;
mod category;
mod compile;
mod cost;
mod fan_outs;
mod list;
mod middleware;
mod observers;
mod ports;
mod random_graphs;
mod random_nesting;
mod reducers;
mod resume;
mod run;
mod runtime_errors;
mod schema;
mod spans;
mod state;
mod subgraphs;
mod suspension;
mod timers;
mod typed;

use std::sync::{Arc, Mutex};

use logue_graph::{
    CompileError, CompiledGraph, CountingIds, EdgeTarget, Field, FieldType, GraphBuilder,
    Invocation, List, NodeContext, NodeError, State, StateSchema, Update,
};
use serde_json::{Value, json};

/// `log` takes items of text to append, `count` a number, `note` anything.
fn schema() -> StateSchema {
    StateSchema::new()
        .with(Field::appended("log", "string"))
        .with(Field::new("count", FieldType::Int))
        .with(Field::new("note", FieldType::Any))
}

/// A graph over [`schema`].
fn graph() -> GraphBuilder {
    GraphBuilder::new(schema())
}

fn compile<E: 'static>(builder: GraphBuilder<E>) -> Result<CompiledGraph<E>, CompileError> {
    builder.compile(CountingIds::new())
}

/// A node that appends its own name to `log` and adds one to `count`.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a node")]
fn logs<E: 'static>(
    ctx: NodeContext<E>,
) -> impl Future<Output = Result<Update, NodeError>> + Send + 'static {
    let name = ctx.node_name().to_owned();
    let count = int(ctx.state(), "count") + 1;
    async move {
        Ok(Update::new()
            .with("log", json!([name]))
            .with("count", json!(count)))
    }
}

/// An update that appends a text to `log`.
fn logs_text(text: &str) -> Update {
    Update::new().with("log", json!([text]))
}

fn int(state: &State, field: &str) -> i64 {
    state
        .json(field)
        .and_then(Value::as_i64)
        .expect("the field holds an int")
}

/// The items of `log`.
fn log(state: &State) -> Vec<&str> {
    let items = state.list("log").into_iter().flat_map(List::iter);
    items
        .map(|item| item.as_str().expect("the log holds text"))
        .collect()
}

fn nothing() -> Invocation {
    Invocation::new(Update::new())
}

/// A one-node graph that ends after the node.
fn only<F, Fut>(run: F) -> CompiledGraph
where
    F: Fn(NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    let builder = graph()
        .add_node_fn("only", run)
        .entry("only")
        .add_edge("only", EdgeTarget::End);
    compile(builder).expect("the graph is sound")
}

/// Something that several closures write to and the test reads afterwards.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Adds a note when it is dropped.
struct NoteOnDrop(Notes, &'static str);

impl Drop for NoteOnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// Fails if a file of this directory is not declared above, so that its tests would not run.
#[test]
#[expect(clippy::disallowed_methods, reason = "lists the test files")]
fn every_test_file_is_declared() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph");
    let declarations = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        assert!(
            stem == "main" || declarations.contains(&format!("mod {stem};")),
            "{name} is not declared"
        );
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<CompiledGraph>();
    is_send_and_sync::<NodeContext>();
    is_send_and_sync::<logue_graph::RunOutcome>();
    is_send_and_sync::<logue_graph::PausedRun>();
    is_send_and_sync::<logue_graph::MergedResume>();
    is_send_and_sync::<State>();
    is_send_and_sync::<logue_graph::RunPorts>();
}
