//! The cost of a step must not depend on the size of the state. Counted, not timed: a
//! counting allocator sees every copy, and the addresses of items show that they stayed in place.
#![expect(
    unsafe_code,
    reason = "an allocator that counts can only be written with unsafe"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

use logue_graph::{
    CompiledGraph, CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, Invocation, List,
    State, StateSchema, Update,
};
use serde_json::{Value, json};

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that `work` allocates on this thread, freed or not.
fn bytes<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATED.with(Cell::get);
    let result = work();
    (ALLOCATED.with(Cell::get) - before, result)
}

fn message(n: usize) -> Value {
    json!({ "role": "user", "content": format!("message {n} {}", "x".repeat(1_000)) })
}

fn schema() -> StateSchema {
    StateSchema::new()
        .with(Field::appended("messages", "ChatMessage"))
        .with(Field::new("usage", FieldType::Int))
}

/// Ten rounds of `model` and `tools`, each of which appends one message. Snapshots that nodes are
/// given go to `kept`, if there is one.
fn agent(kept: Option<Arc<Mutex<Vec<State>>>>) -> CompiledGraph {
    let node = move |ctx: logue_graph::NodeContext| {
        if let Some(kept) = &kept {
            kept.lock().unwrap().push(ctx.state().clone());
        }
        let usage = ctx
            .state()
            .json("usage")
            .and_then(Value::as_i64)
            .unwrap_or(0)
            + 1;
        async move {
            let update = Update::new().with("messages", vec![json!({ "content": "new" })]);
            Ok(update.with("usage", json!(usage)))
        }
    };
    GraphBuilder::new(schema())
        .add_node_fn("model", node.clone())
        .add_node_fn("tools", node)
        .entry("model")
        .add_conditional_edge(
            "model",
            [EdgeTarget::node("tools"), END],
            |state| match state.json("usage").and_then(Value::as_i64) {
                Some(usage) if usage < 19 => "tools".into(),
                _ => END,
            },
        )
        .add_edge("tools", "model")
        .compile(CountingIds::new())
        .unwrap()
}

fn filled(graph: &CompiledGraph, length: usize) -> State {
    let messages: List = (0..length).map(message).collect();
    graph
        .state(Update::new().with("messages", messages))
        .unwrap()
}

/// The bytes of a turn of 19 steps over a state of that length, and the states before and after.
fn turn(graph: &CompiledGraph, length: usize) -> (usize, State, State) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let state = filled(graph, length);
    let before = state.clone();
    let (spent, outcome) = bytes(|| runtime.block_on(graph.invoke(Invocation::from_state(state))));
    let done = outcome.completed().unwrap();
    assert_eq!(done.steps, 19);
    (spent, before, done.state)
}

fn assert_shared(before: &State, after: &State) {
    let (before, after) = (
        before.list("messages").unwrap(),
        after.list("messages").unwrap(),
    );
    assert_eq!(after.len(), before.len() + 19);
    assert!(
        before
            .iter()
            .zip(after)
            .all(|(old, new)| std::ptr::eq(old, new))
    );
}

#[test]
fn a_turn_over_ten_thousand_messages_costs_what_one_over_ten_does() {
    let graph = agent(None);
    let _warm = turn(&graph, 10);
    let (small, ..) = turn(&graph, 10);
    let (large, before, after) = turn(&graph, 10_000);
    assert_shared(&before, &after);
    // 10 MB of messages lie there. A deeper tree and a fuller tail may cost some pointers.
    assert!(
        large < small + 2_048,
        "{small} bytes over 10 messages, {large} over 10,000"
    );
}

#[test]
fn nodes_that_keep_their_snapshots_force_no_copy_of_items() {
    let kept = Arc::default();
    let graph = agent(Some(Arc::clone(&kept)));
    let (small, ..) = turn(&graph, 10);
    let (large, before, after) = turn(&graph, 10_000);
    assert_shared(&before, &after);
    assert_eq!(kept.lock().unwrap().len(), 2 * 19);
    // A kept snapshot makes each append copy the tail's pointers: 32 at most, and the tree's path.
    assert!(
        large < small + 19 * 1_024,
        "{small} bytes over 10 messages, {large} over 10,000"
    );
}

#[test]
fn an_append_to_a_state_that_nobody_else_holds_is_in_place() {
    let graph = agent(None);
    let update = || Update::new().with("messages", vec![json!({ "content": "new" })]);
    let appended = |length: usize, hold: bool| {
        let mut state = filled(&graph, length);
        let held = hold.then(|| state.clone());
        let update = update();
        let (spent, ()) = bytes(|| state.apply(update).unwrap());
        drop(held);
        spent
    };
    // 10,001 is 312 full leaves and 17 items in the tail, whose vector has room for 32: all that
    // is allocated is the list of checked fields, whose size is that of the update.
    assert_eq!(appended(10_001, false), appended(32 + 17, false));
    assert!(appended(10_001, false) < 128, "{}", appended(10_001, false));
    let held = appended(10_001, true);
    assert!(
        held < 1_024,
        "a held state costs the tail's pointers, not {held} bytes"
    );
}

#[test]
fn a_step_that_cannot_fail_behind_its_merge_merges_in_place() {
    let graph = GraphBuilder::new(schema())
        .add_node_fn("only", |_| async {
            Ok(Update::new().with("messages", vec![json!({ "content": "new" })]))
        })
        .entry("only")
        .add_edge("only", END)
        .compile(CountingIds::new())
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let run = |hold: bool| {
        let state = filled(&graph, 10_001);
        let held = hold.then(|| state.clone());
        let invocation = Invocation::from_state(state).with_invocation_id("i");
        let (spent, outcome) = bytes(|| runtime.block_on(graph.invoke(invocation)));
        assert_eq!(outcome.as_str(), "completed");
        drop(held);
        spent
    };
    let _warm = run(false);
    let (alone, shared) = (run(false), run(true));
    let tail = 17 * size_of::<usize>();
    assert!(
        alone + tail < shared,
        "{alone} bytes alone, {shared} with a second holder"
    );
}

#[test]
fn what_changes_nothing_allocates_nothing() {
    let graph = agent(None);
    let mut state = filled(&graph, 1_000);
    let (spent, copy) = bytes(|| {
        let copy = state.clone();
        state.apply(Update::new()).unwrap();
        copy
    });
    assert_eq!(spent, 0);
    assert_eq!(copy, state);
}

#[test]
fn a_list_that_is_loaded_is_taken_whole() {
    let graph = agent(None);
    let messages: List = (0..10_000).map(message).collect();
    let update = || Update::new().with("messages", messages.clone());
    let entered = update();
    let (spent, state) = bytes(|| graph.state(entered).unwrap());
    assert_eq!(state.list("messages").map(List::len), Some(10_000));
    assert!(spent < 1_024, "{spent} bytes to enter a list that is there");

    let mut state = graph.state(Update::new()).unwrap();
    let appended = update();
    let (spent, ()) = bytes(|| state.apply(appended).unwrap());
    assert_eq!(state.list("messages"), Some(&messages));
    assert!(spent < 1_024, "{spent} bytes to append a list to nothing");
}

#[test]
fn a_state_of_the_same_graph_enters_without_a_look_at_its_fields() {
    let entered = |fields: usize| {
        let schema = (0..fields).fold(StateSchema::new(), |schema, n| {
            schema.with(Field::new(format!("field {n}"), FieldType::Int))
        });
        let graph = GraphBuilder::new(schema)
            .add_node_fn("only", |_| async { Ok(Update::new()) })
            .entry("only")
            .add_edge("only", END)
            .compile(CountingIds::new())
            .unwrap();
        let state = graph
            .state(Update::new().with("field 7", json!(7)))
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let invocation = Invocation::from_state(state);
        let (spent, outcome) = bytes(|| runtime.block_on(graph.invoke(invocation)));
        assert_eq!(outcome.state().json("field 7"), Some(&json!(7)));
        spent
    };
    let _warm = entered(10);
    let (few, many) = (entered(10), entered(1_000));
    assert!(
        many < few + 256,
        "{few} bytes for 10 fields, {many} for 1,000"
    );
}
