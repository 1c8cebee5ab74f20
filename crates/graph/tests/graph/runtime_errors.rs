//! Runs that fail: which error, in which node, and with which state.

use logue_graph::{
    END, EdgeTarget, EngineError, Errored, GraphBuilder, Invocation, NodeError, Reducer, State,
    Update,
};
use serde_json::json;

use crate::{Notes, compile, graph, log, logs, nothing};

/// `a` logs; `b` does what the test is about; `c` must not run.
fn around(build: impl FnOnce(GraphBuilder) -> GraphBuilder, notes: &Notes) -> GraphBuilder {
    let notes = notes.clone();
    let builder = graph()
        .add_node_fn("a", logs)
        .add_node_fn("c", move |_| {
            notes.add("c ran");
            async { Ok(Update::new()) }
        })
        .entry("a")
        .add_edge("a", "b")
        .add_edge("c", END);
    build(builder)
}

/// The failure of a run whose `b` is built by `build`. The state must be that after `a`.
async fn failure(build: impl FnOnce(GraphBuilder) -> GraphBuilder) -> Errored {
    let notes = Notes::default();
    let graph = compile(around(build, &notes)).unwrap();
    let errored = graph
        .invoke(nothing().with_session_id("s"))
        .await
        .errored()
        .unwrap();
    assert_eq!(notes.taken(), [""; 0]);
    assert_eq!(log(&errored.state), ["a"]);
    assert_eq!(errored.state.json("note"), Some(&json!(null)));
    assert_eq!(errored.node.as_deref(), Some("b"));
    assert_eq!(errored.steps, 1);
    assert_eq!(errored.session_id.as_deref(), Some("s"));
    assert_eq!(errored.invocation_id, "id-1");
    errored
}

fn returns(update: Update) -> impl FnOnce(GraphBuilder) -> GraphBuilder {
    move |builder| {
        builder
            .add_node_fn("b", move |_| {
                let update = update.clone();
                async { Ok(update) }
            })
            .add_edge("b", "c")
    }
}

#[tokio::test]
async fn a_node_that_fails() {
    let errored = failure(|builder| {
        builder
            .add_node_fn("b", |_| async { Err(NodeError::new("no luck")) })
            .add_edge("b", "c")
    })
    .await;
    assert!(matches!(errored.error, EngineError::NodeException { .. }));
    assert_eq!(errored.error.category(), "node_exception");
    assert_eq!(errored.error.to_string(), "the node `b` failed");
    assert_eq!(errored.error.diagnostic(), "no luck");
}

#[tokio::test]
async fn an_update_of_a_field_that_is_not_declared() {
    let update = Update::new()
        .with("note", json!("new"))
        .with("nowhere", json!(1));
    let errored = failure(returns(update)).await;
    assert_eq!(errored.error.category(), "state_validation_error");
    assert_eq!(
        errored.error.to_string(),
        "invalid update of the node `b`: the state has no field `nowhere`"
    );
}

#[tokio::test]
async fn an_update_of_the_wrong_type() {
    let update = Update::new()
        .with("note", json!("new"))
        .with("count", json!("three"));
    let errored = failure(returns(update)).await;
    assert_eq!(errored.error.category(), "state_validation_error");
    assert_eq!(
        errored.error.diagnostic(),
        "invalid update of the node `b`: the field `count` takes int, not string"
    );
}

#[tokio::test]
async fn a_reducer_that_refuses_names_field_reducer_node_and_cause() {
    let errored = failure(returns(Update::new().with("log", json!("not a list")))).await;
    let EngineError::ReducerError {
        field,
        reducer,
        node,
        cause,
    } = &errored.error
    else {
        panic!("{:?}", errored.error)
    };
    assert_eq!(
        (field.as_str(), reducer, node.as_str()),
        ("log", &Reducer::Append, "b")
    );
    assert_eq!(
        cause,
        "the update holds string, and only lists can be joined"
    );
    assert_eq!(errored.error.category(), "reducer_error");
    assert_eq!(errored.error.derived_category(), "reducer_error");
}

/// `b` updates, and its conditional edge may go to `c` or END.
fn branches<R: logue_graph::IntoRoute>(
    route: impl Fn(&State) -> R + Send + Sync + 'static,
) -> impl FnOnce(GraphBuilder) -> GraphBuilder {
    move |builder| {
        builder
            .add_node_fn("b", |_| async {
                Ok(Update::new()
                    .with("note", json!("new"))
                    .with("log", json!(["b"])))
            })
            .add_conditional_edge("b", [EdgeTarget::node("c"), END], route)
    }
}

#[tokio::test]
async fn a_choice_that_the_edge_does_not_declare() {
    // `z` does not exist at all; `a` does, but the edge does not name it.
    for name in ["z", "a"] {
        let errored = failure(branches(move |_: &State| EdgeTarget::node(name))).await;
        assert_eq!(errored.error.category(), "routing_error");
        assert_eq!(
            errored.error.to_string(),
            format!(
                "the edge from the node `b` chose `{name}`, which it does not declare as a target"
            )
        );
    }
}

#[tokio::test]
async fn an_edge_that_fails() {
    let errored = failure(branches(|state: &State| {
        assert_eq!(
            state.json("note"),
            Some(&json!("new")),
            "an edge sees the update"
        );
        Err(NodeError::new("cannot decide"))
    }))
    .await;
    assert_eq!(errored.error.category(), "edge_exception");
    assert_eq!(errored.error.derived_category(), "edge_exception");
    assert_eq!(errored.error.diagnostic(), "cannot decide");
}

#[tokio::test]
async fn an_initial_state_that_does_not_fit_starts_nothing() {
    let notes = Notes::default();
    let graph = compile(around(returns(Update::new()), &notes)).unwrap();
    for fields in [
        json!({ "count": 1, "log": ["x", 2] }),
        json!({ "count": 1, "nowhere": 0 }),
    ] {
        let serde_json::Value::Object(fields) = fields else {
            panic!("an object")
        };
        let errored = graph
            .invoke(Invocation::new(fields))
            .await
            .errored()
            .unwrap();
        assert_eq!(errored.error.category(), "state_validation_error");
        assert_eq!((errored.node, errored.steps), (None, 0));
        assert_eq!(errored.state, graph.state(Update::new()).unwrap());
        assert!(
            errored
                .error
                .to_string()
                .starts_with("invalid initial state: ")
        );
    }
}
