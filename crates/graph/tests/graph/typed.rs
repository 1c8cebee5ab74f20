//! States as structs.

use std::collections::BTreeMap;

use logue_graph::{END, GraphBuilder, Invocation, NodeContext, NodeError, StateSchema, Update};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{compile, nothing};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mood {
    #[default]
    Calm,
    Angry {
        at: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Wrapped(Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct All {
    flag: bool,
    count: u32,
    ratio: f64,
    text: String,
    maybe: Option<String>,
    listed: Option<Vec<i64>>,
    pair: (i32, String),
    map: BTreeMap<String, Vec<bool>>,
    mood: Mood,
    wrapped: Wrapped,
    nested: Vec<Vec<Option<u8>>>,
}

fn filled() -> All {
    All {
        flag: true,
        count: 7,
        ratio: 0.5,
        text: "é".to_owned(),
        maybe: Some("yes".to_owned()),
        listed: Some(vec![-1, 2]),
        pair: (-3, "p".to_owned()),
        map: BTreeMap::from([("k".to_owned(), vec![true])]),
        mood: Mood::Calm,
        wrapped: Wrapped(vec![1, 2]),
        nested: vec![vec![Some(1), None], vec![]],
    }
}

fn builder() -> GraphBuilder {
    let mut defaults = filled();
    defaults.maybe = None;
    defaults.listed = None;
    GraphBuilder::new(StateSchema::from_defaults(&defaults).unwrap())
        .entry("only")
        .add_edge("only", END)
}

#[tokio::test]
async fn a_struct_goes_in_and_comes_out_as_it_was() {
    let graph = builder().add_typed_node("only", |all: All, _: NodeContext| async move {
        assert_eq!(all, filled());
        Ok(Value::Object(serde_json::Map::new()))
    });
    let start = Invocation::new(Update::from_patch(&filled()).unwrap());
    let done = compile(graph)
        .unwrap()
        .invoke(start)
        .await
        .completed()
        .unwrap();
    assert_eq!(done.state.to::<All>().unwrap(), filled());
}

#[derive(Deserialize)]
struct Part {
    mood: Mood,
    maybe: Option<Wrapped>,
    #[serde(default)]
    not_in_the_state: u8,
}

#[derive(Serialize)]
struct Patch {
    maybe: Option<Wrapped>,
    count: u32,
}

#[tokio::test]
async fn a_node_may_read_a_part_and_change_another() {
    let graph = builder().add_typed_node("only", |part: Part, ctx: NodeContext| async move {
        assert_eq!(part.mood, Mood::Calm);
        assert_eq!((part.maybe.is_none(), part.not_in_the_state), (true, 0));
        let count = u32::try_from(ctx.step()).unwrap() + 40;
        Ok(Patch {
            maybe: Some(Wrapped(vec![9])),
            count,
        })
    });
    let done = compile(graph).unwrap().invoke(nothing()).await;
    let part: Part = done.state().to().unwrap();
    assert_eq!(part.maybe, Some(Wrapped(vec![9])));
    assert_eq!(done.state().json("count"), Some(&json!(40)));
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_of_the_node() {
    #[derive(Deserialize)]
    struct Other {
        #[expect(dead_code, reason = "never read")]
        text: u8,
    }
    let graph = builder().add_typed_node("only", |_: Other, _| async { Ok(json!({})) });
    let failed = compile(graph)
        .unwrap()
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(failed.error.derived_category(), "state_validation_error");
    assert!(
        failed
            .error
            .diagnostic()
            .starts_with("cannot read the state as the node's struct: ")
    );

    let graph = builder().add_typed_node("only", |_: Part, _| async { Ok(json!([1])) });
    let failed = compile(graph)
        .unwrap()
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(
        failed.error.diagnostic(),
        "invalid state: expected a value with named fields"
    );
    let unwritable = BTreeMap::from([((1, 2), 3)]);
    assert!(Update::from_patch(&unwritable).is_err());
    let angry = Mood::Angry { at: "x".to_owned() };
    assert!(
        StateSchema::from_defaults(&angry).is_ok(),
        "an object in JSON"
    );
    let graph = builder().add_typed_node("only", |_: Part, _| async {
        Err::<Patch, _>(NodeError::new("no luck"))
    });
    let failed = compile(graph)
        .unwrap()
        .invoke(nothing())
        .await
        .errored()
        .unwrap();
    assert_eq!(failed.error.diagnostic(), "no luck");
}
