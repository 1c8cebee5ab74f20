//! Mistakes that are found before anything runs.

use logue_graph::{
    CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, Reducer, State, StateSchema,
};
use serde_json::json;

use crate::{compile, graph, logs};

/// A node `a` that is the entry.
fn with_a() -> GraphBuilder {
    graph().add_node_fn("a", logs).entry("a")
}

#[test]
fn every_mistake_has_a_name_and_says_where_it_is() {
    let cases: Vec<(GraphBuilder, &str, &str)> = vec![
        (graph(), "no_declared_entry", "the graph has no entry"),
        (
            graph().add_node_fn("a", logs).add_edge("a", END),
            "no_declared_entry",
            "the graph has no entry",
        ),
        (
            with_a().add_edge("a", END).entry("z"),
            "no_declared_entry",
            "the entry `z` is not a node of the graph",
        ),
        (
            with_a()
                .add_node_fn("b", logs)
                .add_edge("a", END)
                .add_edge("b", "a"),
            "unreachable_node",
            "the node `b` cannot be reached from the entry",
        ),
        (
            with_a()
                .add_node_fn("b", logs)
                .add_conditional_edge("a", [END, EdgeTarget::node("a")], |_: &State| END)
                .add_edge("b", "b"),
            "unreachable_node",
            "the node `b` cannot be reached from the entry",
        ),
        (
            with_a().add_edge("a", "z"),
            "dangling_edge",
            "the edge from `a` to `z` refers to an unknown node",
        ),
        (
            with_a().add_edge("a", "END"),
            "dangling_edge",
            "the edge from `a` to `END` refers to an unknown node",
        ),
        (
            with_a().add_edge("a", END).add_edge("z", END),
            "dangling_edge",
            "the edge from `z` to END refers to an unknown node",
        ),
        (
            with_a().add_conditional_edge("a", [END, EdgeTarget::node("z")], |_: &State| END),
            "dangling_edge",
            "the edge from `a` to `z` refers to an unknown node",
        ),
        (
            with_a().add_edge("a", END).add_edge("a", END),
            "multiple_outgoing_edges",
            "the node `a` has more than one outgoing edge",
        ),
        (
            with_a()
                .add_edge("a", END)
                .add_conditional_edge("a", [END], |_: &State| END),
            "multiple_outgoing_edges",
            "the node `a` has more than one outgoing edge",
        ),
        (
            with_a(),
            "missing_outgoing_edge",
            "the node `a` has no outgoing edge; one to END ends the run",
        ),
        (
            with_a().add_conditional_edge("a", [], |_: &State| END),
            "missing_outgoing_edge",
            "the node `a` has no outgoing edge; one to END ends the run",
        ),
        (
            with_a().add_node_fn("a", logs).add_edge("a", END),
            "duplicate_node",
            "the node `a` is added twice",
        ),
    ];
    for (builder, name, message) in cases {
        let plan = format!("{builder:?}");
        let error = compile(builder).expect_err(&plan);
        assert_eq!(
            (error.name(), error.to_string().as_str()),
            (name, message),
            "{plan}"
        );
    }
}

#[test]
fn a_schema_is_checked_with_the_graph() {
    let list = || Field::new("f", FieldType::parse("list").unwrap());
    let cases = [
        (
            vec![list(), list().with_reducer(Reducer::Append)],
            "conflicting_reducers",
            "the field `f` has two reducers, `last_write_wins` and `append`",
        ),
        (
            vec![list(), list()],
            "duplicate_field",
            "the field `f` is declared twice",
        ),
        (
            vec![Field::new("f", FieldType::Int).with_default(json!("1"))],
            "invalid_default",
            "invalid default: the field `f` takes int, not string",
        ),
    ];
    for (fields, name, message) in cases {
        let schema = fields
            .into_iter()
            .fold(StateSchema::new(), StateSchema::with);
        let builder = GraphBuilder::new(schema)
            .add_node_fn("a", logs)
            .entry("a")
            .add_edge("a", END);
        let error = builder.compile(CountingIds::new()).expect_err(message);
        assert_eq!((error.name(), error.to_string().as_str()), (name, message));
    }
}

#[test]
fn a_long_chain_compiles_without_a_deep_stack() {
    let count = 100_000;
    let mut builder = graph().entry("0");
    for index in 0..count {
        builder = builder.add_node_fn(index.to_string(), logs);
        let next = if index + 1 == count {
            END
        } else {
            EdgeTarget::node((index + 1).to_string())
        };
        builder = builder.add_edge(index.to_string(), next);
    }
    assert!(compile(builder).is_ok());
}
