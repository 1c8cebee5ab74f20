//! A conversation holds valid messages only, whatever a node appends.

use std::sync::Arc;

use logue_graph::{CountingIds, END, GraphBuilder, List, NodeContext, StateSchema, Update};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
use logue_harness::store::{MemoryStore, Store as _};
use logue_message::{ChatMessage, ToolCall};
use serde_json::{Value, json};

use super::stage::{RealClock, category, texts};

/// A chat whose node appends the JSON that the user wrote, or counts the messages.
fn chat(store: &Arc<MemoryStore>) -> ChatHarness {
    let schema = StateSchema::new().with(messages_field());
    let graph = GraphBuilder::new(schema)
        .add_node_fn("echo", |ctx: NodeContext| async move {
            let messages = ctx.state().list_of::<ChatMessage>("messages");
            let count = messages.map_or(0, List::len);
            let text = messages.and_then(List::last).map(ChatMessage::text);
            let reply: Result<Value, _> = serde_json::from_str(&text.unwrap_or_default());
            let count = json!({ "role": "assistant", "content": format!("message {count}") });
            Ok(Update::new().with("messages", vec![reply.unwrap_or(count)]))
        })
        .entry("echo")
        .add_edge("echo", END)
        .compile(CountingIds::new())
        .unwrap();
    let store = Arc::clone(store);
    ChatHarness::new(graph, store, RealClock::new(), Arc::new(CountingIds::new())).unwrap()
}

#[tokio::test]
async fn a_node_that_appends_an_invalid_message_fails_and_the_session_continues() {
    let invalid = [
        json!({ "role": "robot", "content": "beep" }),
        json!({ "role": "assistant" }),
        json!({ "role": "tool", "content": "no call" }),
        json!({ "role": "user", "content": "x", "tool_calls": [{ "id": "c", "name": "n" }] }),
        json!("text"),
        json!(7),
    ];
    let store = Arc::new(MemoryStore::new());
    for (turn, message) in invalid.iter().enumerate() {
        let chat = chat(&store);
        let asked = ChatMessage::user(message.to_string());
        let failed = chat.send("s", asked).await;
        assert_eq!(category(&failed), "state_validation_error", "{message}");
        let history = store.history("s", 0, 100).await.unwrap();
        assert_eq!(history.len(), 2 * turn, "nothing of the turn is stored");

        let next = chat.send("s", ChatMessage::user("hello")).await;
        assert_eq!(texts(&next), [format!("message {}", 2 * turn + 1)]);
    }
}

#[tokio::test]
async fn a_failed_turn_names_the_message_and_its_violation() {
    let chat = chat(&Arc::new(MemoryStore::new()));
    let asked = ChatMessage::user(json!({ "role": "robot" }).to_string());
    let ChatTurnOutcome::Errored(failed) = chat.send("s", asked).await else {
        panic!("the turn completed");
    };
    assert!(
        failed.diagnostic.contains("element 0") && failed.diagnostic.contains("`robot`"),
        "{}",
        failed.diagnostic
    );
}

#[tokio::test]
async fn appended_json_becomes_a_message_of_the_next_turn() {
    let store = Arc::new(MemoryStore::new());
    let call = ToolCall::new("c1", "work", "{\"n\": 1.50}");
    let reply = ChatMessage::assistant("").with_tool_calls(vec![call]);
    let asked = ChatMessage::user(reply.to_json().to_string());
    let outcome = chat(&store).send("s", asked).await;
    assert_eq!(outcome.messages(), std::slice::from_ref(&reply));
    let history = store.history("s", 1, 1).await.unwrap();
    assert_eq!(history, [reply.to_json()]);
    // Another process reads the session from the store.
    let result = ChatMessage::tool("c1", "done").to_json().to_string();
    let outcome = chat(&store).send("s", ChatMessage::user(result)).await;
    assert_eq!(outcome.messages(), [ChatMessage::tool("c1", "done")]);
}
