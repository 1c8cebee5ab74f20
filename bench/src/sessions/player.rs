//! A process of the table of sessions: the actions of `bench/peers/sessions/*.py` with this
//! workspace's crates.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use logue_graph::{
    CountingIds, END, EdgeTarget, GraphBuilder, List, NodeError, StateSchema, Update,
};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, SendOptions, messages_field};
use logue_harness::store::{SharedStore, Store as _};
use logue_message::{ChatMessage, Role, ToolCall};
use logue_store::SqliteStore;
use serde_json::Value;

use crate::harness::{Failed, Machine};

/// The session of every action.
const SESSION: &str = "s";

pub(crate) fn run(words: &[&str]) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(act(words))
}

async fn act(words: &[&str]) -> Result<(), Failed> {
    match *words {
        ["write", store, writer, turns] => {
            let chat = chat(store, None, 0)?;
            for turn in 0..turns.parse()? {
                let text = format!("{writer}-{turn}");
                match say(&chat, &text).await {
                    Ok(_) => println!("answered {text}"),
                    Err(error) => eprintln!("{text}: {error}"),
                }
                std::io::stdout().flush()?;
            }
        }
        ["read", store] => {
            let store = SqliteStore::open(store)?;
            for message in store.history(SESSION, 0, usize::MAX).await? {
                if message.get("role").and_then(Value::as_str) == Some("user") {
                    let content = message.get("content").and_then(Value::as_str);
                    println!("{}", content.unwrap_or_default());
                }
            }
        }
        ["retry", store, effects] => {
            let chat = chat(store, Some(effects.into()), 1)?;
            drop(say(&chat, "go").await);
            println!("{}", say(&chat, "go").await?);
        }
        ["rate", store, turns] => {
            let chat = chat(store, None, 0)?;
            say(&chat, "first").await?;
            let begun = Instant::now();
            for turn in 0..turns.parse::<u32>()? {
                say(&chat, &format!("{turn} {}", answer())).await?;
            }
            println!("{}", begun.elapsed().as_secs_f64());
        }
        _ => return Err("unknown action".into()),
    }
    Ok(())
}

fn answer() -> String {
    "The quick brown fox jumps over the lazy dog. ".repeat(4)
}

/// Sends a message under its own text as the key.
async fn say(chat: &ChatHarness, text: &str) -> Result<String, Failed> {
    let options = SendOptions::new().with_idempotency_key(text);
    let outcome = chat.send_with(SESSION, ChatMessage::user(text), options);
    match outcome.await {
        ChatTurnOutcome::Completed(turn) => {
            let last = turn.replies.last().map(ChatMessage::text);
            Ok(last.unwrap_or_default())
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// Builds one model node and one tool node. The first requests after a tool result fail.
fn chat(store: &str, effects: Option<PathBuf>, failures: u64) -> Result<ChatHarness, Failed> {
    let store: SharedStore = Arc::new(SqliteStore::open(store)?);
    let left = Arc::new(AtomicU64::new(failures));
    let has_tools = effects.is_some();
    let schema = StateSchema::new().with(messages_field());
    let graph = GraphBuilder::new(schema)
        .add_node_fn("model", move |ctx| {
            let left = Arc::clone(&left);
            async move {
                let messages = ctx.state().list_of::<ChatMessage>("messages");
                let last = messages.and_then(List::last);
                let is_user = last.is_some_and(|last| last.role == Role::User);
                let reply = if is_user && has_tools {
                    let call = ToolCall::new(format!("call-{}", ctx.invocation_id()), "work", "{}");
                    ChatMessage::assistant("").with_tool_calls(vec![call])
                } else if left.load(Ordering::Relaxed) > 0 {
                    left.fetch_sub(1, Ordering::Relaxed);
                    return Err(NodeError::new("503").with_category("provider_unavailable"));
                } else {
                    ChatMessage::assistant(answer())
                };
                if has_tools {
                    ctx.journal(reply.to_json()).await?;
                }
                Ok(Update::new().with("messages", vec![reply]))
            }
        })
        .add_node_fn("tools", move |ctx| {
            let effects = effects.clone().unwrap_or_default();
            async move {
                let messages = ctx.state().list_of::<ChatMessage>("messages");
                let calls = messages.and_then(List::last).map(|last| &last.tool_calls);
                let mut results = Vec::new();
                for call in calls.into_iter().flatten() {
                    let file = std::fs::OpenOptions::new()
                        .append(true)
                        .create(true)
                        .open(&effects);
                    let written = file.and_then(|mut file| writeln!(file, "{}", call.id));
                    written.map_err(NodeError::from_error)?;
                    let result = ChatMessage::tool(call.id.clone(), "worked");
                    ctx.journal(result.to_json()).await?;
                    results.push(result);
                }
                Ok(Update::new().with("messages", results))
            }
        })
        .entry("model")
        .add_conditional_edge("model", [EdgeTarget::node("tools"), END], |state| {
            let messages = state.list_of::<ChatMessage>("messages");
            match messages.and_then(List::last) {
                Some(last) if !last.tool_calls.is_empty() => EdgeTarget::node("tools"),
                _ => END,
            }
        })
        .add_edge("tools", "model")
        .compile(CountingIds::new())?;
    let owner = format!("bench-{}", std::process::id());
    let count = AtomicU64::new(0);
    let ids = move || format!("{owner}-{}", count.fetch_add(1, Ordering::Relaxed));
    Ok(ChatHarness::new(
        graph,
        store,
        Arc::new(Machine),
        Arc::new(ids),
    )?)
}
