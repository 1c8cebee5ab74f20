//! An agent without a model, whose input selects its behavior.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_graph::{
    CompiledGraph, CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, List, NodeContext,
    NodeError, SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{Continuation, messages_field};
use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::{Value, json};

/// The model of a turn has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun;

/// Builds the graph of the agent.
///
/// `plain`, `tool` and `tools` answer, the latter two after effects; `wait` suspends; `fail` fails;
/// with `PLAYER_AWAY` most requests after an effect fail as well, in three ways; `slow`
/// takes 30 ms and `stuck` 250 ms.
pub(crate) fn graph(effects: PathBuf) -> CompiledGraph<Begun> {
    let effects: Arc<Path> = effects.into();
    let schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("approval", FieldType::String))
        .with(Field::new("turns", FieldType::Int));
    let builder = GraphBuilder::for_events(schema)
        .add_node_fn("model", model)
        .add_node_fn("tools", move |ctx| tools(ctx, Arc::clone(&effects)))
        .add_node_fn("hold", |ctx| async move {
            let signal = said(&ctx)
                .split(' ')
                .next_back()
                .unwrap_or_default()
                .to_owned();
            match ctx
                .suspend(SignalDescriptor::new(format!("sig-{signal}")))
                .await {}
        })
        .add_node_fn("after", |ctx| async move {
            let approval = ctx
                .state()
                .json("approval")
                .and_then(Value::as_str)
                .unwrap_or("");
            let reply = ChatMessage::assistant(format!("resumed {approval}"));
            Ok(Update::new().with("messages", vec![reply]))
        })
        .entry("model")
        .add_conditional_edge(
            "model",
            [EdgeTarget::node("tools"), EdgeTarget::node("hold"), END],
            |state| {
                let messages = state.list_of::<ChatMessage>("messages");
                match messages.and_then(List::last) {
                    Some(last) if !last.tool_calls.is_empty() => EdgeTarget::node("tools"),
                    Some(last) if last.text().starts_with("pending") => EdgeTarget::node("hold"),
                    _ => END,
                }
            },
        )
        .add_edge("tools", "model")
        .add_edge("hold", "after")
        .add_edge("after", END);
    match builder.compile(CountingIds::new()) {
        Ok(graph) => graph,
        Err(error) => unreachable!("{error}"),
    }
}

/// The last words of the user.
fn said(ctx: &NodeContext<Begun>) -> String {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let mut said = messages.into_iter().flatten().rev();
    let said = said.find(|message| message.role == Role::User);
    said.map(ChatMessage::text).unwrap_or_default()
}

/// The way in which the provider fails a request after an effect, if it does.
///
/// It is unavailable, too busy, or cuts its answer.
fn away() -> Option<&'static str> {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    std::env::var_os("PLAYER_AWAY")?;
    let seed = REQUESTS.fetch_add(1, Ordering::Relaxed) + std::process::id() as usize;
    let ways = [
        "provider_unavailable",
        "provider_rate_limit",
        "provider_invalid_response",
    ];
    ways.get(seed % 5).copied()
}

async fn model(ctx: NodeContext<Begun>) -> Result<Update, NodeError> {
    let said = said(&ctx);
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let last = messages.and_then(List::last);
    let answered = last.is_some_and(|last| last.role == Role::Tool);
    let turns = ctx
        .state()
        .json("turns")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    ctx.emit(Begun);
    if answered && let Some(category) = away() {
        return Err(NodeError::new("the model is away").with_category(category));
    }
    // A call of this message that ran, or has an unknown outcome, is not repeated without a person.
    let arguments = json!({ "said": said }).to_string();
    let is_own = |call: &ToolCall| call.arguments.as_str() == arguments;
    let is_guarded = Continuation::from_metadata(ctx.metadata())
        .is_some_and(|continuation| continuation.guarded.iter().any(is_own));
    let reply = match said.split(' ').next().unwrap_or_default() {
        "fail" => {
            let error = NodeError::new("the model is away").with_category("provider_unavailable");
            return Err(error);
        }
        kind @ ("tool" | "tools") if !answered && !is_guarded => {
            let calls = if kind == "tool" { 1 } else { 3 };
            let calls = (0..calls).map(|n| {
                let id = format!("call-{}-{n}", ctx.invocation_id());
                ToolCall::new(id, "work", arguments.as_str())
            });
            ChatMessage::assistant("").with_tool_calls(calls.collect())
        }
        "wait" => ChatMessage::assistant(format!("pending {said}")),
        kind => {
            match kind {
                "slow" => tokio::time::sleep(Duration::from_millis(30)).await,
                // The test stops the owner here; the next owner need not wait.
                "stuck" => tokio::time::sleep(Duration::from_millis(250)).await,
                _ => {}
            }
            ChatMessage::assistant(format!("answer to {said}"))
        }
    };
    ctx.journal(reply.to_json()).await?;
    Ok(Update::new()
        .with("messages", vec![reply])
        .with("turns", json!(turns + 1)))
}

async fn tools(ctx: NodeContext<Begun>, effects: Arc<Path>) -> Result<Update, NodeError> {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let message = messages.and_then(List::last).cloned();
    let mut results = Vec::new();
    for call in message
        .map(|message| message.tool_calls)
        .unwrap_or_default()
    {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&effects);
        let mut file = file.map_err(NodeError::from_error)?;
        file.write_all(format!("{}\n", call.id).as_bytes())
            .map_err(NodeError::from_error)?;
        file.sync_data().map_err(NodeError::from_error)?;
        let result = ChatMessage::tool(call.id, "worked");
        ctx.journal(result.to_json()).await?;
        results.push(result);
    }
    Ok(Update::new().with("messages", results))
}
