//! Every rule by which a field takes an update.

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, Reducer, State, StateSchema,
    Update,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A graph whose field `f` has that reducer.
fn over(field_type: FieldType, reducer: Reducer) -> CompiledGraph {
    let field = Field::new("f", field_type).with_reducer(reducer);
    GraphBuilder::new(StateSchema::new().with(field))
        .add_node_fn("only", |_| async { Ok(Update::new()) })
        .entry("only")
        .add_edge("only", END)
        .compile(CountingIds::new())
        .unwrap()
}

/// The type of the values that a reducer is tried on.
fn fitting(reducer: &Reducer) -> FieldType {
    match reducer {
        Reducer::LastWriteWins => FieldType::Any,
        Reducer::Merge | Reducer::MergeAll => FieldType::Map,
        _ => FieldType::list_of("any"),
    }
}

fn state(graph: &CompiledGraph, value: &Value) -> State {
    graph.state(Update::new().with("f", value.clone())).unwrap()
}

/// The result of merging `new` into `old`.
fn reduced(reducer: &Reducer, old: &Value, new: &Value) -> Result<Value, String> {
    let graph = over(fitting(reducer), reducer.clone());
    let mut state = state(&graph, old);
    let held = state.clone();
    let result = state.apply(Update::new().with("f", new.clone()));
    assert_eq!(&held.to_json()["f"], old, "a held state does not change");
    match result {
        Ok(()) => Ok(state.to_json()["f"].clone()),
        Err(error) => {
            assert_eq!(state, held, "a refused update leaves nothing");
            Err(error.to_string())
        }
    }
}

fn rule(text: &str) -> Reducer {
    Reducer::parse(text).expect(text)
}

#[test]
fn what_each_rule_does() {
    let cases = [
        (
            "last_write_wins",
            json!([1]),
            json!({ "a": 1 }),
            json!({ "a": 1 }),
        ),
        ("append", json!([1]), json!([1, [2]]), json!([1, 1, [2]])),
        ("append", json!([]), json!([1]), json!([1])),
        (
            "merge",
            json!({ "a": { "x": 1 }, "b": 2 }),
            json!({ "a": { "y": 1 }, "c": 3 }),
            json!({ "a": { "y": 1 }, "b": 2, "c": 3 }),
        ),
        ("merge", json!({}), json!({ "a": 1 }), json!({ "a": 1 })),
        ("merge", json!({ "a": 1 }), json!({}), json!({ "a": 1 })),
        (
            "concat_flatten",
            json!([0]),
            json!([[1, 2], [], [[3]], 4]),
            json!([0, 1, 2, [3], 4]),
        ),
        (
            "merge_all",
            json!({ "a": 1 }),
            json!([{ "b": 1 }, { "b": 2, "c": 3 }]),
            json!({ "a": 1, "b": 2, "c": 3 }),
        ),
        (
            "merge_all",
            json!({ "a": 1 }),
            json!({ "b": 2 }),
            json!({ "a": 1, "b": 2 }),
        ),
        ("merge_all", json!({ "a": 1 }), json!([]), json!({ "a": 1 })),
        (
            "bounded_append(3)",
            json!([1, 2]),
            json!([3]),
            json!([1, 2, 3]),
        ),
        (
            "bounded_append(3)",
            json!([1, 2]),
            json!([3, 4]),
            json!([2, 3, 4]),
        ),
        (
            "bounded_append(3)",
            json!([]),
            json!([1, 2, 3, 4, 5]),
            json!([3, 4, 5]),
        ),
        ("bounded_append(0)", json!([1]), json!([2]), json!([])),
        ("bounded_append(1)", json!([1, 2, 3]), json!([]), json!([3])),
        (
            "dedupe_append",
            json!([1, 1]),
            json!([1, 2, 2.0, 2]),
            json!([1, 1, 2, 2.0]),
        ),
        (
            "dedupe_append",
            json!([0]),
            json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0]),
            json!([0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ),
        (
            "merge_by_key(id)",
            json!([{ "id": 1, "a": 1 }, { "no id": true }, { "id": 2 }, { "id": 1 }]),
            json!([{ "id": 3 }, { "id": 1, "b": 2 }, { "id": 3, "c": 3 }]),
            json!([{ "id": 1, "a": 1, "b": 2 }, { "no id": true }, { "id": 2 }, { "id": 1 }, { "id": 3, "c": 3 }]),
        ),
    ];
    for (name, old, new, expected) in cases {
        let result = reduced(&rule(name), &old, &new);
        assert_eq!(result, Ok(expected), "{name}: {old} and {new}");
    }
}

#[test]
fn what_each_rule_refuses() {
    let cases = [
        (
            "append",
            json!([1]),
            json!(1),
            "the update holds int, and only lists can be joined",
        ),
        (
            "concat_flatten",
            json!([]),
            json!({}),
            "the update holds map, and only lists can be joined",
        ),
        (
            "bounded_append(2)",
            json!([]),
            json!("x"),
            "the update holds string, and only lists can be joined",
        ),
        (
            "dedupe_append",
            json!([]),
            json!(null),
            "the update holds null, and only lists can be joined",
        ),
        (
            "merge",
            json!({}),
            json!([]),
            "the update holds list, and only maps can be merged",
        ),
        (
            "merge_all",
            json!({}),
            json!(1.5),
            "the update holds float, and only maps can be merged",
        ),
        (
            "merge_all",
            json!({}),
            json!([{}, 1]),
            "element 1 of the update is int, and only maps can be merged",
        ),
        (
            "merge_by_key(id)",
            json!([]),
            json!([{ "id": 1 }, { "x": 1 }]),
            "element 1 of the update has no `id`",
        ),
        (
            "merge_by_key(id)",
            json!([]),
            json!([[]]),
            "element 0 of the update has no `id`",
        ),
    ];
    for (name, old, new, cause) in cases {
        let error = reduced(&rule(name), &old, &new).unwrap_err();
        let expected = format!("the reducer `{name}` of the field `f` failed: {cause}");
        assert_eq!(error, expected);
    }
}

#[test]
fn what_a_rule_makes_of_an_update_must_fit_the_field() {
    let graph = over(FieldType::list_of("int"), Reducer::ConcatFlatten);
    let mut taken = state(&graph, &json!([1]));
    taken
        .apply(Update::new().with("f", json!([[2], 3])))
        .unwrap();
    assert_eq!(taken.to_json()["f"], json!([1, 2, 3]));
    let error = taken.apply(Update::new().with("f", json!([["x"]])));
    assert_eq!(
        error.unwrap_err().to_string(),
        "the field `f` takes list<int>, not string as element 0"
    );
}

#[test]
fn names_are_read_as_they_are_written() {
    let rules = [
        "last_write_wins",
        "append",
        "merge",
        "concat_flatten",
        "merge_all",
        "bounded_append(20)",
        "dedupe_append",
        "merge_by_key(tool_call_id)",
    ];
    for name in rules {
        let reducer = rule(name);
        assert_eq!(reducer.to_string(), name);
        assert!(name.starts_with(reducer.as_str()));
    }
    for name in [
        "",
        "unheard_of",
        "Append",
        "bounded_append",
        "bounded_append(-1)",
        "bounded_append(x",
        "merge_by_key",
        "merge_by_key()",
    ] {
        assert_eq!(Reducer::parse(name), None, "{name}");
    }
}

#[test]
fn a_long_list_is_changed_in_its_place_only() {
    // Across the tail, a full leaf and two levels of branches.
    for index in [0, 31, 32, 1_023, 1_024, 1_999] {
        let old: Vec<_> = (0..2_000).map(|id| json!({ "id": id })).collect();
        let graph = over(FieldType::list_of("map"), Reducer::merge_by_key("id"));
        let mut taken = state(&graph, &json!(old));
        let before = taken.clone();
        let new = json!([{ "id": index, "new": true }]);
        taken.apply(Update::new().with("f", new)).unwrap();
        let (before, after) = (before.list("f").unwrap(), taken.list("f").unwrap());
        assert_eq!(after.len(), 2_000);
        for (at, (old, new)) in before.iter().zip(after).enumerate() {
            assert_eq!(std::ptr::eq(old, new), at != index, "item {at}");
        }
        assert_eq!(after.get(index), Some(&json!({ "id": index, "new": true })));
        assert_eq!(before.get(index), Some(&json!({ "id": index })));
    }
}

fn small() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..4_i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        (0..3_i64, 0..3_i64).prop_map(|(id, x)| json!({ "id": id, "x": x })),
    ]
}

fn ids() -> impl Strategy<Value = Vec<Value>> {
    let item = (
        0..6_i64,
        prop::option::of(0..9_i64),
        prop::option::of(0..9_i64),
    );
    let map = item.prop_map(|(id, x, y)| {
        let mut map = json!({ "id": id });
        for (key, value) in [("x", x), ("y", y)] {
            if let Some(value) = value {
                map[key] = value.into();
            }
        }
        map
    });
    prop::collection::vec(map, 0..30)
}

fn maps() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", small(), 0..4).prop_map(|map| json!(map))
}

/// Two updates one after the other.
fn twice(reducer: &Reducer, old: &Value, first: &Value, second: &Value) -> Value {
    let between = reduced(reducer, old, first).unwrap();
    reduced(reducer, &between, second).unwrap()
}

fn joined(first: &[Value], second: &[Value]) -> Value {
    json!([first, second].concat())
}

proptest! {
    /// For lists, two updates do what one does that holds both.
    #[test]
    fn rules_for_lists_do_not_see_where_updates_are_cut(
        old in prop::collection::vec(small(), 0..50),
        first in prop::collection::vec(small(), 0..50),
        second in prop::collection::vec(small(), 0..50),
        bound in 0..60_usize,
    ) {
        for reducer in [
            Reducer::Append,
            Reducer::ConcatFlatten,
            Reducer::BoundedAppend(bound),
            Reducer::DedupeAppend,
        ] {
            let old = json!(old);
            let at_once = reduced(&reducer, &old, &joined(&first, &second)).unwrap();
            let parts = twice(&reducer, &old, &json!(first), &json!(second));
            prop_assert_eq!(at_once, parts, "{}", reducer);
        }
    }

    #[test]
    fn merging_by_key_is_the_same_at_once_and_in_parts(old in ids(), first in ids(), second in ids()) {
        let reducer = Reducer::merge_by_key("id");
        // Only maps of the state that share their key are told apart by being the first.
        let old = reduced(&reducer, &json!([]), &json!(old)).unwrap();
        let at_once = reduced(&reducer, &old, &joined(&first, &second)).unwrap();
        prop_assert_eq!(&at_once, &twice(&reducer, &old, &json!(first), &json!(second)));
        let again = reduced(&reducer, &at_once, &at_once).unwrap();
        prop_assert_eq!(again, at_once, "what is there changes nothing");
    }

    #[test]
    fn merging_is_associative_and_idempotent(old in maps(), first in maps(), second in maps()) {
        for reducer in [Reducer::Merge, Reducer::MergeAll] {
            let parts = twice(&reducer, &old, &first, &second);
            let between = reduced(&Reducer::Merge, &first, &second).unwrap();
            prop_assert_eq!(&parts, &reduced(&reducer, &old, &between).unwrap());
            prop_assert_eq!(&parts, &reduced(&reducer, &parts, &second).unwrap());
        }
        let listed = reduced(&Reducer::MergeAll, &old, &json!([first, second])).unwrap();
        prop_assert_eq!(listed, twice(&Reducer::Merge, &old, &first, &second));
    }

    #[test]
    fn no_rule_panics_on_anything(
        name in prop::sample::select(vec![
            "last_write_wins", "append", "merge", "concat_flatten", "merge_all",
            "bounded_append(2)", "dedupe_append", "merge_by_key(id)",
        ]),
        old in prop_oneof![small(), maps(), ids().prop_map(Value::from)],
        new in prop_oneof![small(), maps(), ids().prop_map(Value::from)],
    ) {
        let graph = over(FieldType::Any, rule(name));
        let mut state = state(&graph, &old);
        let before = state.clone();
        if state.apply(Update::new().with("f", new)).is_err() {
            prop_assert_eq!(state, before);
        }
    }
}
