//! An agent without a model: what it does is in the words that it is told.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, NodeContext, NodeError,
    RunEvent, SignalDescriptor, StateSchema, Target, Update,
};
use logue_message::{ChatMessage, ToolCall};
use serde_json::{Value, json};

/// `plain`, `tool` and `tools` answer, the latter two after effects; `wait` suspends; `fail` fails;
/// `slow` takes a while, `stuck` for ever.
pub(crate) fn graph(effects: PathBuf) -> CompiledGraph {
    let effects: Arc<Path> = effects.into();
    let schema = StateSchema::new()
        .with(Field::appended("messages", "ChatMessage"))
        .with(Field::new("approval", FieldType::String))
        .with(Field::new("turns", FieldType::Int));
    let builder = GraphBuilder::new(schema)
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
            Ok(Update::new().with("messages", vec![reply.to_json()]))
        })
        .entry("model")
        .add_conditional_edge(
            "model",
            [Target::node("tools"), Target::node("hold"), END],
            |state| {
                let last = state.list("messages").and_then(|list| list.last());
                let calls = last.and_then(|message| message.get("tool_calls"));
                let text = last.and_then(|message| message.get("content"));
                match (calls, text.and_then(Value::as_str)) {
                    (Some(_), _) => Target::node("tools"),
                    (None, Some(text)) if text.starts_with("pending") => Target::node("hold"),
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
fn said(ctx: &NodeContext) -> String {
    let messages = ctx.state().list("messages");
    let said = messages.into_iter().flatten().rev().find_map(|message| {
        let is_user = message.get("role").and_then(Value::as_str) == Some("user");
        is_user.then(|| message.get("content").and_then(Value::as_str))?
    });
    said.unwrap_or_default().to_owned()
}

async fn model(ctx: NodeContext) -> Result<Update, NodeError> {
    let said = said(&ctx);
    let last = ctx.state().list("messages").and_then(|list| list.last());
    let role = last
        .and_then(|message| message.get("role"))
        .and_then(Value::as_str);
    let answered = role == Some("tool");
    let turns = ctx
        .state()
        .json("turns")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    ctx.emit(RunEvent::Text(said.clone()));
    let reply = match said.split(' ').next().unwrap_or_default() {
        "fail" => {
            let error = NodeError::new("the model is away").with_category("provider_unavailable");
            return Err(error);
        }
        kind @ ("tool" | "tools") if !answered => {
            let calls = if kind == "tool" { 1 } else { 3 };
            let calls = (0..calls)
                .map(|n| ToolCall::new(format!("call-{}-{n}", ctx.invocation_id()), "work", "{}"));
            ChatMessage::assistant("").with_tool_calls(calls.collect())
        }
        "wait" => ChatMessage::assistant(format!("pending {said}")),
        kind => {
            match kind {
                "slow" => tokio::time::sleep(Duration::from_millis(30)).await,
                // The owner is to be stopped here; whoever takes over need not wait.
                "stuck" => tokio::time::sleep(Duration::from_millis(250)).await,
                _ => {}
            }
            ChatMessage::assistant(format!("answer to {said}"))
        }
    };
    let reply = reply.to_json();
    ctx.journal(reply.clone()).await?;
    Ok(Update::new()
        .with("messages", vec![reply])
        .with("turns", json!(turns + 1)))
}

async fn tools(ctx: NodeContext, effects: Arc<Path>) -> Result<Update, NodeError> {
    let last = ctx
        .state()
        .list("messages")
        .and_then(|list| list.last())
        .cloned();
    let message = ChatMessage::from_json(&last.unwrap_or_default()).map_err(NodeError::new)?;
    let mut results = Vec::new();
    for call in message.tool_calls {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&effects);
        let mut file = file.map_err(NodeError::wrap)?;
        file.write_all(format!("{}\n", call.id).as_bytes())
            .map_err(NodeError::wrap)?;
        file.sync_data().map_err(NodeError::wrap)?;
        let result = ChatMessage::tool(call.id, "worked").to_json();
        ctx.journal(result.clone()).await?;
        results.push(result);
    }
    Ok(Update::new().with("messages", results))
}
