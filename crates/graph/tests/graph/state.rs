//! States, updates and reducers without a run.

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, List, Reducer, StateError,
    StateSchema, Update,
};
use serde_json::{Value, json};

use crate::{log, logs, only};

/// A graph over one field `f`.
fn over(field: Field) -> CompiledGraph {
    GraphBuilder::new(StateSchema::new().with(field))
        .add_node_fn("only", |_| async { Ok(Update::new()) })
        .entry("only")
        .add_edge("only", END)
        .compile(CountingIds::new())
        .unwrap()
}

fn field(kind: &str) -> Field {
    Field::new("f", FieldType::parse(kind).unwrap())
}

#[test]
fn a_field_takes_its_type_and_nothing_else() {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!(u64::MAX),
        json!(1.0),
        json!("text"),
        json!({ "k": 1 }),
        json!([]),
        json!([1, 2]),
        json!(["a"]),
    ];
    let all: Vec<usize> = (0..values.len()).collect();
    let cases = [
        ("any", all),
        ("bool", vec![1]),
        ("int", vec![2, 3]),
        ("float", vec![2, 3, 4]),
        ("string", vec![5]),
        ("str", vec![5]),
        ("map", vec![6]),
        ("list", vec![7, 8, 9]),
        ("list<int>", vec![7, 8]),
        ("list[string]", vec![7, 9]),
        ("list[ChatMessage]", vec![7, 8, 9]),
    ];
    for (kind, taken) in cases {
        let graph = over(field(kind));
        for (index, value) in values.iter().enumerate() {
            let update = || Update::new().with("f", value.clone());
            let entered = graph.state(update());
            let merged = graph.state(Update::new()).and_then(|mut state| {
                state.apply(update())?;
                Ok(state)
            });
            assert_eq!(entered.is_ok(), taken.contains(&index), "{kind} {value}");
            assert_eq!(entered, merged, "{kind} {value}");
            if let Ok(state) = entered {
                assert_eq!(Value::Object(state.to_json()), json!({ "f": value }));
            }
        }
    }
}

#[test]
fn a_wrong_value_is_named_precisely() {
    let graph = over(field("list<int>").with_reducer(Reducer::Append));
    let mut state = graph
        .state(Update::new().with("f", json!([1, 2, 3])))
        .unwrap();
    let error = state
        .apply(Update::new().with("f", json!([4, "5"])))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the field `f` takes list<int>, not string as element 1"
    );

    let error = state.apply(Update::new().with("g", json!(1))).unwrap_err();
    assert_eq!(
        error,
        StateError::UndeclaredField {
            field: "g".to_owned()
        }
    );
    assert_eq!(error.to_string(), "the state has no field `g`");
}

#[test]
fn append_joins_lists_only() {
    let cases = [
        (
            "any",
            json!(null),
            json!([1]),
            "the state holds null, and only lists can be joined",
        ),
        (
            "list",
            json!([1]),
            json!(2),
            "the update holds int, and only lists can be joined",
        ),
        (
            "any",
            json!({}),
            json!("x"),
            "the state holds map, and only lists can be joined",
        ),
    ];
    for (kind, old, new, cause) in cases {
        let graph = over(
            field(kind)
                .with_default(old.clone())
                .with_reducer(Reducer::Append),
        );
        let mut state = graph.state(Update::new()).unwrap();
        let error = state.apply(Update::new().with("f", new)).unwrap_err();
        let expected = StateError::Reducer {
            field: "f".to_owned(),
            reducer: Reducer::Append,
            cause: cause.to_owned(),
        };
        assert_eq!(error, expected);
        assert_eq!(state.get("f").unwrap().to_json(), old);
    }
    let graph = over(
        field("any")
            .with_default(json!([1]))
            .with_reducer(Reducer::Append),
    );
    let mut state = graph.state(Update::new()).unwrap();
    state
        .apply(Update::new().with("f", json!([2, [3]])))
        .unwrap();
    assert_eq!(state.get("f").unwrap().to_json(), json!([1, 2, [3]]));
}

#[test]
fn the_last_write_wins_whole() {
    let graph = over(field("map").with_default(json!({ "a": 1 })));
    let mut state = graph.state(Update::new()).unwrap();
    state
        .apply(Update::new().with("f", json!({ "b": 2 })))
        .unwrap();
    assert_eq!(state.json("f"), Some(&json!({ "b": 2 })));

    let graph = over(field("list").with_default(json!([1, 2])));
    let mut state = graph.state(Update::new()).unwrap();
    state.apply(Update::new().with("f", json!([3]))).unwrap();
    assert_eq!(state.get("f").unwrap().to_json(), json!([3]));
}

#[test]
fn an_update_is_merged_whole_or_not_at_all() {
    let graph = only(logs);
    let start = Update::new()
        .with("log", json!(["old"]))
        .with("count", json!(1));
    let mut state = graph.state(start).unwrap();
    let before = state.clone();
    for wrong in [
        ("nowhere", json!(1)),
        ("count", json!("two")),
        ("log", json!("text")),
    ] {
        let update = Update::new()
            .with("note", json!("new"))
            .with("log", json!(["new"]))
            .with(wrong.0, wrong.1);
        assert!(state.apply(update).is_err());
        assert_eq!(state, before);
    }
}

#[test]
fn a_clone_of_a_state_does_not_see_what_comes_later() {
    let graph = only(logs);
    let mut state = graph
        .state(Update::new().with("log", json!(["a"])))
        .unwrap();
    let before = state.clone();
    state
        .apply(
            Update::new()
                .with("log", json!(["b"]))
                .with("count", json!(2)),
        )
        .unwrap();
    assert_eq!((log(&before), log(&state)), (vec!["a"], vec!["a", "b"]));
    assert_ne!(before, state);
    assert_eq!(
        format!("{before:?}"),
        r#"{"log": [String("a")], "count": Number(0), "note": Null}"#
    );
}

#[test]
fn a_state_is_read_by_field() {
    let graph = only(logs);
    let state = graph.state(Update::new().with("note", json!([1]))).unwrap();
    assert_eq!(state.list("note").map(List::len), Some(1));
    assert_eq!(state.json("note"), None, "a list is not held as JSON");
    assert_eq!(state.json("count"), Some(&json!(0)));
    assert_eq!(state.list("count"), None);
    assert!(state.get("nowhere").is_none());
    let names: Vec<_> = state.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["log", "count", "note"]);
    assert_eq!(
        state.schema().field("log").unwrap().reducer(),
        &Reducer::Append
    );
}

#[test]
fn an_update_has_one_value_for_a_field() {
    let mut update = Update::new().with("a", json!(1)).with("b", json!(2));
    update.set("a", json!(3));
    let entries: Vec<_> = update
        .iter()
        .map(|(name, value)| (name, value.to_json()))
        .collect();
    assert_eq!(entries, [("a", json!(3)), ("b", json!(2))]);
    assert_eq!(
        update.get("b").and_then(|value| value.as_json()),
        Some(&json!(2))
    );
    assert_eq!((update.len(), update.is_empty()), (2, false));

    let Value::Object(map) = json!({ "b": 1, "a": 2 }) else {
        panic!("an object")
    };
    let names: Vec<_> = Update::from(map)
        .iter()
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(names, ["b", "a"], "the order of the object is kept");
}

#[tokio::test]
async fn a_state_of_another_graph_is_checked() {
    let other = over(field("any").with_default(json!("text")));
    let same_name = over(field("int"));
    let state = other.state(Update::new()).unwrap();
    let invocation = logue_graph::Invocation::from_state(state);
    let errored = same_name.invoke(invocation).await.errored().unwrap();
    assert_eq!(errored.error.category(), "state_validation_error");

    let state = other.state(Update::new().with("f", json!(3))).unwrap();
    let invocation = logue_graph::Invocation::from_state(state);
    let done = same_name.invoke(invocation).await.completed().unwrap();
    assert_eq!(done.state.json("f"), Some(&json!(3)));
}
