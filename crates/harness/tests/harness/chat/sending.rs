//! `send`: what it says, refuses and keeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use logue_graph::{CountingIds, END, Field, FieldType, GraphBuilder, Reducer, StateSchema, Update};
use logue_harness::ErrorBucket;
use logue_harness::chat::{
    ChatGraphError, ChatHarness, ChatTurnOutcome, SendOptions, messages_field,
};
use logue_harness::store::MemoryStore;
use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};

use super::stage::{RealClock, Stage, category, texts};

#[tokio::test]
async fn turns_go_on_from_one_another() {
    let stage = Stage::new();
    let chat = stage.harness();
    assert_eq!(
        texts(&chat.send("s", ChatMessage::user("hello")).await),
        ["you said hello"]
    );
    let outcome = chat.send("s", ChatMessage::user("tool x")).await;
    assert_eq!(texts(&outcome), ["", "worked", "you said tool x"]);
    let ChatTurnOutcome::Completed(turn) = &outcome else {
        panic!("{outcome:?}")
    };
    let state = turn.final_state.as_ref().unwrap();
    assert_eq!(state.list_of::<ChatMessage>("messages").unwrap().len(), 6);
    // A process that never saw the session goes on from the store, other fields included.
    let other = stage.harness();
    let outcome = other.send("s", ChatMessage::user("hello")).await;
    let ChatTurnOutcome::Completed(turn) = outcome else {
        panic!("{outcome:?}")
    };
    let turns = turn.final_state.unwrap().json("turns").cloned();
    assert_eq!(turns, Some(serde_json::json!(4)));
    // The first process sees what the other one added; an equal message is a message of its own.
    assert_eq!(
        texts(&chat.send("s", ChatMessage::user("hello")).await),
        ["you said hello"]
    );
    assert_eq!(
        stage.history("s").await,
        [
            "user: hello",
            "assistant: you said hello",
            "user: tool x",
            "assistant: [call-1]",
            "tool: worked",
            "assistant: you said tool x",
            "user: hello",
            "assistant: you said hello",
            "user: hello",
            "assistant: you said hello",
        ]
    );
    assert_eq!(stage.history("another").await, [""; 0]);
}

#[tokio::test]
async fn a_turn_may_add_nothing() {
    let stage = Stage::new();
    let outcome = stage
        .harness()
        .send("s", ChatMessage::user("nothing"))
        .await;
    assert_eq!((outcome.as_str(), texts(&outcome).len()), ("completed", 0));
    assert_eq!(stage.history("s").await, ["user: nothing"]);
}

#[tokio::test]
async fn a_failed_turn_leaves_the_history_as_it_was() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("hello")).await);
    let before = stage.store.session("s").await.unwrap().unwrap();
    let outcome = chat.send("s", ChatMessage::user("fail now")).await;
    let ChatTurnOutcome::Errored(turn) = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(turn.error_bucket, ErrorBucket::RetryableTransient);
    assert_eq!(turn.error_category, "provider_unavailable");
    assert_eq!(
        turn.reply,
        ChatMessage::system("I had trouble responding. Try again in a moment.")
    );
    let after = stage.store.session("s").await.unwrap().unwrap();
    assert_eq!((before.seq, before.fields), (after.seq, after.fields));
    // The words are safe.
    let entry = stage.store.entry("s", 2).await.unwrap().unwrap();
    assert!(format!("{:?}", entry.work).contains("fail now"));
    // And the session goes on.
    assert_eq!(
        texts(&chat.send("s", ChatMessage::user("b")).await),
        ["you said b"]
    );
}

#[tokio::test]
async fn what_has_no_valid_shape_reaches_nothing() {
    let call = || vec![ToolCall::new("c", "t", "{}")];
    let image = || Content::Blocks(vec![ContentBlock::thinking("hm")]);
    let mut no_id = ChatMessage::tool("", "x");
    no_id.tool_call_id = None;
    let mut with_id = ChatMessage::user("x");
    with_id.tool_call_id = Some("c".to_owned());
    let stage = Stage::new();
    let chat = stage.harness();
    for (message, field) in [
        (ChatMessage::user(""), "content"),
        (ChatMessage::user(Content::Blocks(vec![])), "content"),
        (ChatMessage::user(Content::Absent), "content"),
        (ChatMessage::user(image()), "content[0]"),
        (ChatMessage::user("x").with_tool_calls(call()), "tool_calls"),
        (with_id, "tool_call_id"),
        (ChatMessage::system(""), "content"),
        (
            ChatMessage::system(Content::Blocks(vec![ContentBlock::text("x")])),
            "content",
        ),
        (
            ChatMessage::system("x").with_tool_calls(call()),
            "tool_calls",
        ),
        (ChatMessage::assistant(""), "content"),
        (no_id, "tool_call_id"),
        (ChatMessage::tool("", "x"), "tool_call_id"),
        (
            ChatMessage::tool("c", Content::Blocks(vec![ContentBlock::text("x")])),
            "content",
        ),
    ] {
        let outcome = chat.send("s", message.clone()).await;
        let ChatTurnOutcome::Errored(turn) = &outcome else {
            panic!("{message:?}: {outcome:?}")
        };
        assert_eq!(
            turn.error_category, "chat_message_shape_invalid",
            "{message:?}"
        );
        assert_eq!(turn.error_bucket, ErrorBucket::UserCorrectable);
        assert!(
            turn.diagnostic.starts_with(field),
            "{message:?}: {}",
            turn.diagnostic
        );
        assert!(turn.reply.text().contains(&turn.diagnostic));
    }
    let outcome = chat.send("", ChatMessage::user("x")).await;
    assert_eq!(category(&outcome), "harness_session_id_unresolved");
    assert!(stage.store.session("s").await.unwrap().is_none());
}

#[tokio::test]
async fn one_key_is_one_turn_however_often_it_is_delivered() {
    let stage = Stage::new();
    let chats = [stage.harness(), stage.harness()];
    let options = SendOptions::new().with_idempotency_key("k");
    let deliveries: Vec<_> = (0..5)
        .map(|n| {
            let (chat, options) = (chats[n % 2].clone(), options.clone());
            tokio::spawn(async move {
                chat.send_with("s", ChatMessage::user("tool x"), options)
                    .await
            })
        })
        .collect();
    for delivery in deliveries {
        assert_eq!(
            texts(&delivery.await.unwrap()),
            ["", "worked", "you said tool x"]
        );
    }
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    assert_eq!(stage.history("s").await.len(), 4);
}

#[tokio::test]
async fn sessions_do_not_wait_for_one_another() {
    let stage = Stage::new();
    let chat = stage.harness();
    let blocked = tokio::spawn({
        let chat = chat.clone();
        async move { chat.send("one", ChatMessage::user("block")).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(
        texts(&chat.send("two", ChatMessage::user("b")).await),
        ["you said b"]
    );
    assert!(!blocked.is_finished());
    stage.gate.add_permits(1);
    assert_eq!(texts(&blocked.await.unwrap()), ["unblocked"]);
}

#[tokio::test]
async fn turns_of_one_session_stand_in_one_order() {
    let stage = Stage::new();
    let chats = [stage.harness(), stage.harness(), stage.harness()];
    let senders: Vec<_> = (0..6)
        .map(|sender| {
            let chat = chats[sender % 3].clone();
            tokio::spawn(async move {
                for number in 0..10 {
                    let text = format!("{sender} {number}");
                    let outcome = chat.send("s", ChatMessage::user(text.as_str())).await;
                    assert_eq!(texts(&outcome), [format!("you said {text}")]);
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    let history = stage.history("s").await;
    assert_eq!(history.len(), 120);
    let mut next = [0; 6];
    for turn in history.chunks(2) {
        let text = turn[0].strip_prefix("user: ").unwrap();
        assert_eq!(
            turn[1],
            format!("assistant: you said {text}"),
            "turns are not interleaved"
        );
        let (sender, number) = text.split_once(' ').unwrap();
        let sender: usize = sender.parse().unwrap();
        assert_eq!(
            number.parse::<usize>().unwrap(),
            next[sender],
            "each sender's order is kept"
        );
        next[sender] += 1;
    }
}

#[tokio::test]
async fn words_for_users_and_buckets_can_be_replaced() {
    let stage = Stage::new();
    let chat = stage
        .builder()
        .with_classifier(|category: &str| match category {
            "provider_unavailable" => ErrorBucket::UserCorrectable,
            _ => ErrorBucket::SessionTerminating,
        })
        .with_error_messages(|bucket: ErrorBucket, category: &str, diagnostic: &str| {
            format!("{bucket}/{category}/{diagnostic}")
        })
        .build()
        .unwrap();
    let outcome = chat.send("s", ChatMessage::user("fail")).await;
    let ChatTurnOutcome::Errored(turn) = outcome else {
        panic!("{outcome:?}")
    };
    let words = "user_correctable/provider_unavailable/the model is away";
    assert_eq!(turn.reply.text(), words);
}

#[tokio::test]
async fn a_graph_without_a_conversation_is_refused() {
    let refused = |field: Option<Field>| {
        let schema = field
            .into_iter()
            .fold(StateSchema::new(), StateSchema::with);
        let graph = GraphBuilder::new(schema)
            .add_node_fn("only", |_| async { Ok(Update::new()) })
            .entry("only")
            .add_edge("only", END)
            .compile(CountingIds::new())
            .unwrap();
        let store = Arc::new(MemoryStore::new());
        ChatHarness::new(graph, store, RealClock::new(), Arc::new(CountingIds::new())).unwrap_err()
    };
    assert_eq!(refused(None), ChatGraphError::NoMessages);
    let text = Field::new("messages", FieldType::String);
    assert_eq!(
        refused(Some(text)),
        ChatGraphError::NoList(FieldType::String)
    );
    let untyped = Field::appended("messages", "ChatMessage");
    assert_eq!(
        refused(Some(untyped)),
        ChatGraphError::NoList(FieldType::list_of("ChatMessage"))
    );
    let replaced = messages_field().with_reducer(Reducer::LastWriteWins);
    assert!(matches!(
        refused(Some(replaced)),
        ChatGraphError::NotAppended(_)
    ));
}
