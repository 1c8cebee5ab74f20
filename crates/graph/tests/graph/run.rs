//! Runs that go well.

use std::sync::Arc;

use logue_graph::{
    BoxFuture, CountingIds, END, EdgeTarget, Field, GraphBuilder, Invocation, Node, NodeContext,
    NodeError, RunOutcome, StateSchema, Update,
};
use serde_json::{Map, json};

use crate::{Notes, compile, graph, int, log, logs, nothing, only, schema};

#[tokio::test]
async fn a_line_of_nodes_runs_in_order() {
    let graph = compile(
        graph()
            .add_node_fn("a", logs)
            .add_node_fn("b", logs)
            .add_node_fn("c", logs)
            .entry("b")
            .add_edge("b", "a")
            .add_edge("a", "c")
            .add_edge("c", END),
    )
    .unwrap();
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["b", "a", "c"]);
    assert_eq!(done.steps, 3);
}

#[tokio::test]
async fn a_conditional_edge_sees_the_update_of_its_node() {
    let graph = compile(
        graph()
            .add_node_fn("model", logs)
            .add_node_fn("tools", logs)
            .entry("model")
            .add_conditional_edge("model", [EdgeTarget::node("tools"), END], |state| {
                if int(state, "count") < 5 {
                    "tools".into()
                } else {
                    END
                }
            })
            .add_edge("tools", "model"),
    )
    .unwrap();
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(
        log(&done.state),
        ["model", "tools", "model", "tools", "model"]
    );
}

#[tokio::test]
async fn a_node_may_be_called_end() {
    let graph = compile(
        graph()
            .add_node_fn("first", logs)
            .add_node_fn("END", logs)
            .entry("first")
            .add_edge("first", "END")
            .add_edge("END", END),
    )
    .unwrap();
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["first", "END"]);
}

#[tokio::test]
async fn fields_start_with_their_defaults_and_initial_fields_replace_them() {
    let schema =
        StateSchema::new().with(Field::appended("log", "string").with_default(json!(["default"])));
    let graph = GraphBuilder::new(schema)
        .add_node_fn("only", |_| async { Ok(Update::new()) })
        .entry("only")
        .add_edge("only", END)
        .compile(CountingIds::new())
        .unwrap();
    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(log(&done.state), ["default"]);

    let given = Invocation::new(Update::new().with("log", json!(["given"])));
    let done = graph.invoke(given).await.completed().unwrap();
    assert_eq!(
        log(&done.state),
        ["given"],
        "initial fields do not pass through the reducer"
    );
}

#[tokio::test]
async fn the_final_state_of_one_run_starts_the_next() {
    let graph = only(logs);
    let first = graph.invoke(nothing()).await.completed().unwrap();
    let second = graph
        .invoke(Invocation::from_state(first.state.clone()))
        .await
        .completed();
    assert_eq!(log(&second.unwrap().state), ["only", "only"]);
    assert_eq!(
        log(&first.state),
        ["only"],
        "the first outcome keeps its own state"
    );
}

#[tokio::test]
async fn every_node_is_told_the_same_ids_and_its_own_place() {
    let notes = Notes::default();
    let node = |notes: Notes| {
        move |ctx: NodeContext| {
            notes.add(format!(
                "{} {} {} {} {:?} {} {}",
                ctx.node_name(),
                ctx.step(),
                ctx.invocation_id(),
                ctx.correlation_id(),
                ctx.session_id(),
                ctx.attempt_index(),
                ctx.metadata().get("tenant").cloned().unwrap_or_default(),
            ));
            async { Ok(Update::new()) }
        }
    };
    let graph = compile(
        graph()
            .add_node_fn("a", node(notes.clone()))
            .add_node_fn("b", node(notes.clone()))
            .entry("a")
            .add_edge("a", "b")
            .add_edge("b", END),
    )
    .unwrap();

    let done = graph.invoke(nothing()).await.completed().unwrap();
    assert_eq!(
        notes.taken(),
        ["a 0 id-1 id-2 None 0 null", "b 1 id-1 id-2 None 0 null"]
    );
    assert_eq!(
        (done.invocation_id.as_str(), done.correlation_id.as_str()),
        ("id-1", "id-2")
    );
    assert_eq!(done.session_id, None);

    let mut metadata = Map::new();
    metadata.insert("tenant".to_owned(), json!("t"));
    let given = nothing()
        .with_invocation_id("i")
        .with_correlation_id("c")
        .with_session_id("s")
        .with_metadata(metadata);
    let done = graph.invoke(given).await.completed().unwrap();
    assert_eq!(
        notes.taken(),
        ["a 0 i c Some(\"s\") 0 \"t\"", "b 1 i c Some(\"s\") 0 \"t\""]
    );
    assert_eq!(done.session_id.as_deref(), Some("s"));

    let after = graph.invoke(nothing()).await;
    assert_eq!(
        after.invocation_id(),
        "id-3",
        "ids that were given used up none"
    );
}

#[tokio::test]
async fn ids_may_come_from_a_closure() {
    let graph = graph()
        .add_node_fn("only", logs)
        .entry("only")
        .add_edge("only", END);
    let graph = graph.compile(|| "fixed".to_owned()).unwrap();
    assert_eq!(graph.invoke(nothing()).await.invocation_id(), "fixed");
}

#[tokio::test]
async fn a_type_with_something_to_keep_is_a_node() {
    struct Speaks(String);
    impl Node for Speaks {
        fn run(&self, _: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
            Box::pin(async { Ok(Update::new().with("log", json!([self.0]))) })
        }
    }
    let shared: Arc<dyn Node> = Arc::new(Speaks("hello".to_owned()));
    let graph = graph()
        .add_node("a", Arc::clone(&shared))
        .add_node("b", shared)
        .entry("a")
        .add_edge("a", "b")
        .add_edge("b", END);
    let done = compile(graph)
        .unwrap()
        .invoke(nothing())
        .await
        .completed()
        .unwrap();
    assert_eq!(log(&done.state), ["hello", "hello"]);
}

#[tokio::test]
async fn invocations_of_one_graph_do_not_meet() {
    let graph = only(|ctx| async move {
        tokio::task::yield_now().await;
        logs(ctx).await
    });
    let mut running = Vec::new();
    for _ in 0..8 {
        let graph = graph.clone();
        running.push(tokio::spawn(async move { graph.invoke(nothing()).await }));
    }
    for run in running {
        let done = run.await.unwrap().completed().unwrap();
        assert_eq!(log(&done.state), ["only"]);
    }
}

#[tokio::test]
async fn a_run_may_take_exactly_as_many_steps_as_its_limit() {
    let line = || {
        graph()
            .add_node_fn("a", logs)
            .add_node_fn("b", logs)
            .entry("a")
            .add_edge("a", "b")
            .add_edge("b", END)
    };
    let enough = compile(line().max_steps(2)).unwrap();
    assert!(matches!(
        enough.invoke(nothing()).await,
        RunOutcome::Completed(_)
    ));

    let too_few = compile(line().max_steps(1)).unwrap();
    let errored = too_few.invoke(nothing()).await.errored().unwrap();
    assert_eq!(errored.error.category(), "max_steps_exceeded");
    assert_eq!(errored.error.node(), Some("b"));
    assert_eq!(log(&errored.state), ["a"], "what was done is kept");
    assert_eq!(errored.steps, 1);

    let allowed = too_few.invoke(nothing().with_max_steps(2)).await;
    assert!(
        matches!(allowed, RunOutcome::Completed(_)),
        "the invocation overrules the graph"
    );
}

#[tokio::test]
async fn a_circle_ends_at_the_default_limit() {
    let circle = graph()
        .add_node_fn("only", logs)
        .entry("only")
        .add_edge("only", "only");
    let errored = compile(circle)
        .unwrap()
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(errored.steps, logue_graph::DEFAULT_MAX_STEPS);
    assert_eq!(
        errored.error.to_string(),
        "the run took 1000 steps without reaching END; the next would have been the node `only`"
    );
}

#[test]
fn a_graph_shows_its_schema() {
    let graph = only(logs);
    assert_eq!(graph.schema(), &schema());
    assert_eq!(
        format!("{graph:?}"),
        r#"CompiledGraph { nodes: ["only"], .. }"#
    );
}
