//! Suspended turns beside turns that came between, in a file that is closed and opened again.

use std::path::Path;
use std::sync::Arc;

use logue_graph::{
    CompiledGraph, END, EdgeTarget, ElementType, Field, FieldType, GraphBuilder, List, NodeContext,
    Reducer, SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, SignalTarget, messages_field};
use logue_harness::sessions::Migrations;
use logue_harness::store::Store;
use logue_harness::{RandomIds, SystemClock};
use logue_message::{ChatMessage, Role};
use logue_store::SqliteStore;
use serde_json::{Map, Value, json};

/// The second version of the schema names `note` `remark` and has a `count`.
#[derive(Clone, Copy, PartialEq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn note(self) -> &'static str {
        match self {
            Self::One => "note",
            Self::Two => "remark",
        }
    }
}

fn text(ctx: &NodeContext, field: &str) -> String {
    let value = ctx.state().json(field).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

fn said(ctx: &NodeContext) -> String {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let mut messages = messages.into_iter().flatten().rev();
    let said = messages.find(|message| message.role == Role::User);
    said.map(ChatMessage::text).unwrap_or_default()
}

fn graph(version: Version) -> CompiledGraph {
    let texts = FieldType::List(ElementType::String);
    let mut schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("orders", texts).with_reducer(Reducer::Append))
        .with(Field::new("stage", FieldType::String))
        .with(Field::new("title", FieldType::String))
        .with(Field::new("approval", FieldType::String))
        .with(Field::new(version.note(), FieldType::String));
    schema = match version {
        Version::One => schema.with_version("1"),
        Version::Two => schema
            .with(Field::new("count", FieldType::Int))
            .with_version("2"),
    };
    let begin = move |ctx: NodeContext| async move {
        let said = said(&ctx);
        let update = Update::new()
            .with("orders", json!([said]))
            .with("stage", json!(format!("stage of {said}")))
            .with("title", json!(format!("title of {said}")));
        if said.starts_with("note") {
            return Ok(update.with(version.note(), json!(said)));
        }
        Ok::<_, logue_graph::NodeError>(update)
    };
    let after = move |ctx: NodeContext| async move {
        let orders = ctx.state().list("orders").into_iter().flatten();
        let orders: Vec<_> = orders.filter_map(Value::as_str).collect();
        let reply = format!(
            "{}; {}; {}; {}",
            text(&ctx, "approval"),
            orders.join(", "),
            text(&ctx, "stage"),
            text(&ctx, version.note()),
        );
        let reply = ChatMessage::assistant(reply);
        Ok::<_, logue_graph::NodeError>(Update::new().with("messages", vec![reply]))
    };
    GraphBuilder::new(schema)
        .add_node_fn("begin", begin)
        .add_node_fn("hold", |ctx| async move {
            match ctx.suspend(SignalDescriptor::new("go")).await {}
        })
        .add_node_fn("after", after)
        .entry("begin")
        .add_conditional_edge(
            "begin",
            [EdgeTarget::node("hold"), EdgeTarget::node("after")],
            |state| {
                let orders = state.list("orders").and_then(List::last);
                let waits = orders
                    .and_then(Value::as_str)
                    .is_some_and(|o| o.starts_with("wait"));
                EdgeTarget::node(if waits { "hold" } else { "after" })
            },
        )
        .add_edge("hold", "after")
        .add_conditional_edge("after", [EdgeTarget::node("hold"), END], |state| {
            let text = |field| state.json(field).and_then(Value::as_str);
            let is_own = text("stage").is_some_and(|stage| stage.contains("wait"));
            match text("approval") {
                Some("again") if is_own => EdgeTarget::node("hold"),
                _ => END,
            }
        })
        .compile(RandomIds)
        .unwrap()
}

/// A process that has just opened the file.
fn opened(path: &Path, version: Version) -> ChatHarness {
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let migrations = Migrations::new().with("1", "2", |mut fields| {
        if let Some(note) = fields.remove("note") {
            fields.insert("remark".to_owned(), note);
        }
        fields.insert("count".to_owned(), json!(1));
        Ok(fields)
    });
    ChatHarness::builder(
        graph(version),
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds),
    )
    .with_migrations(migrations.unwrap())
    .build()
    .unwrap()
}

async fn send(chat: &ChatHarness, text: &str) -> ChatTurnOutcome {
    chat.send("s", ChatMessage::user(text)).await
}

async fn signal(chat: &ChatHarness, word: &str) -> ChatTurnOutcome {
    let payload = Map::from_iter([("approval".to_owned(), json!(word))]);
    let target = SignalTarget::Signal("go");
    chat.signal(target, payload).await.unwrap()
}

fn reply(outcome: &ChatTurnOutcome) -> String {
    let texts: Vec<_> = outcome.messages().iter().map(ChatMessage::text).collect();
    texts.join(" | ")
}

async fn field(path: &Path, name: &str) -> Value {
    let store = SqliteStore::open(path).unwrap();
    let info = store.session("s").await.unwrap().unwrap();
    info.fields.get(name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn turns_in_between_are_merged_with_the_suspended_one() {
    let (_folder, path) = super::place();
    assert_eq!(
        send(&opened(&path, Version::One), "wait 1").await.as_str(),
        "suspended"
    );
    let between = opened(&path, Version::One);
    assert_eq!(
        reply(&send(&between, "order 2").await),
        "; wait 1, order 2; stage of order 2; "
    );
    drop(between);
    drop(send(&opened(&path, Version::One), "note 3").await);

    let resumed = signal(&opened(&path, Version::One), "again").await;
    // Its own stage, and the orders and the note of the others.
    assert_eq!(
        reply(&resumed),
        "again; wait 1, order 2, note 3; stage of wait 1; note 3"
    );
    assert_eq!(resumed.as_str(), "suspended");
    drop(send(&opened(&path, Version::One), "order 4").await);

    let resumed = signal(&opened(&path, Version::One), "yes").await;
    assert_eq!(
        reply(&resumed),
        "yes; wait 1, order 2, note 3, order 4; stage of wait 1; note 3"
    );
    assert_eq!(resumed.as_str(), "completed");
    assert_eq!(
        field(&path, "orders").await,
        json!(["wait 1", "order 2", "note 3", "order 4"])
    );
    // The resumed turn wrote these before the others, and not again.
    assert_eq!(field(&path, "title").await, "title of order 4");
    assert_eq!(field(&path, "stage").await, "stage of order 4");
    assert_eq!(field(&path, "approval").await, "yes");
}

#[tokio::test]
async fn a_suspended_turn_is_migrated_as_its_session_is() {
    for has_turn_between in [false, true] {
        let (_folder, path) = super::place();
        let first = opened(&path, Version::One);
        drop(send(&first, "note 0").await);
        assert_eq!(send(&first, "wait 1").await.as_str(), "suspended");
        drop(first);
        let mut expected = "yes; note 0, wait 1; stage of wait 1; note 0";
        if has_turn_between {
            drop(send(&opened(&path, Version::Two), "note 2").await);
            expected = "yes; note 0, wait 1, note 2; stage of wait 1; note 2";
        }
        let resumed = signal(&opened(&path, Version::Two), "yes").await;
        assert_eq!(reply(&resumed), expected);
        assert_eq!(field(&path, "count").await, 1);
        let store = SqliteStore::open(&path).unwrap();
        let info = store.session("s").await.unwrap().unwrap();
        assert_eq!(info.schema_version.as_deref(), Some("2"));
    }
}

#[tokio::test]
async fn a_migration_that_fails_consumes_no_signal() {
    let (_folder, path) = super::place();
    drop(send(&opened(&path, Version::One), "wait 1").await);
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let chat = ChatHarness::new(
        graph(Version::Two),
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds),
    );
    let refused = chat
        .unwrap()
        .signal(SignalTarget::Signal("go"), Map::new())
        .await;
    assert_eq!(
        refused.unwrap_err().category(),
        "session_state_migration_missing"
    );
    let resumed = signal(&opened(&path, Version::Two), "yes").await;
    assert_eq!(reply(&resumed), "yes; wait 1; stage of wait 1; ");
}
