//! A small agent that does what it is told, on a store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use logue_graph::{
    CompiledGraph, CountingIds, END, Field, FieldType, GraphBuilder, NodeContext, NodeError,
    RunEvent, SignalDescriptor, StateSchema, Target, Update,
};
use logue_harness::chat::{ChatHarness, ChatLimits, ChatTurnOutcome};
use logue_harness::store::{MemoryStore, SharedStore};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::{ChatMessage, ToolCall};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// The machine's clock.
#[derive(Debug)]
pub(crate) struct RealClock(Instant);

impl RealClock {
    #[expect(clippy::disallowed_methods, reason = "tests run in real time")]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000).after(self.0.elapsed())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// What the agent does is decided by these.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) store: SharedStore,
    clock: Arc<RealClock>,
    ids: Arc<AtomicU64>,
    /// How often a tool worked.
    pub(crate) effects: Arc<AtomicU64>,
    /// A turn that is told to `block` goes on when this is opened.
    pub(crate) gate: Arc<Semaphore>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn over(store: SharedStore) -> Self {
        Self {
            store,
            clock: RealClock::new(),
            ids: Arc::default(),
            effects: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// A process that has just been started.
    pub(crate) fn harness(&self) -> ChatHarness {
        let ids = Arc::clone(&self.ids);
        let ids = move || format!("id-{}", ids.fetch_add(1, Ordering::Relaxed));
        let limits = ChatLimits::default()
            .with_lease(Duration::from_millis(150))
            .with_poll(Duration::from_millis(2));
        ChatHarness::new(
            self.graph(),
            Arc::clone(&self.store),
            self.clock.clone(),
            Arc::new(ids),
        )
        .unwrap()
        .with_limits(limits)
    }

    pub(crate) fn graph(&self) -> CompiledGraph {
        let schema = StateSchema::new()
            .with(Field::appended("messages", "ChatMessage"))
            .with(Field::new("approval", FieldType::String))
            .with(Field::new("turns", FieldType::Int));
        let (effects, gate) = (Arc::clone(&self.effects), Arc::clone(&self.gate));
        GraphBuilder::new(schema)
            .add_node_fn("model", move |ctx| model(ctx, Arc::clone(&gate)))
            .add_node_fn("tools", move |ctx| tools(ctx, Arc::clone(&effects)))
            .add_node_fn("hold", |ctx| async move {
                let descriptor = SignalDescriptor::new(format!("sig-{}", said(&ctx)))
                    .with_metadata(json!({ "why": "approval" }));
                match ctx.suspend(descriptor).await {}
            })
            .add_node_fn("after", |ctx| async move {
                let approval = ctx
                    .state()
                    .json("approval")
                    .and_then(Value::as_str)
                    .unwrap_or("");
                if approval == "crash" {
                    return Err(NodeError::new("no").with_category("provider_unavailable"));
                }
                let reply = ChatMessage::assistant(format!("resumed: {approval}"));
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
                        (None, Some(text)) if text.starts_with("waiting") => Target::node("hold"),
                        _ => END,
                    }
                },
            )
            .add_edge("tools", "model")
            .add_edge("hold", "after")
            .add_conditional_edge("after", [Target::node("hold"), END], |state| {
                match state.json("approval").and_then(Value::as_str) {
                    Some("again") => Target::node("hold"),
                    _ => END,
                }
            })
            .compile(CountingIds::new())
            .unwrap()
    }

    /// The texts of a session's history, with their roles.
    pub(crate) async fn history(&self, session: &str) -> Vec<String> {
        let messages = self.store.history(session, 0, usize::MAX).await.unwrap();
        let messages = messages
            .iter()
            .map(|message| ChatMessage::from_json(message).unwrap());
        messages
            .map(|message| {
                let calls: Vec<_> = message
                    .tool_calls
                    .iter()
                    .map(|call| call.id.as_str())
                    .collect();
                let calls = if calls.is_empty() {
                    String::new()
                } else {
                    format!("[{}]", calls.join(","))
                };
                format!("{}: {}{calls}", message.role.as_str(), message.text())
            })
            .collect()
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

async fn model(ctx: NodeContext, gate: Arc<Semaphore>) -> Result<Update, NodeError> {
    let said = said(&ctx);
    let last = ctx.state().list("messages").and_then(|list| list.last());
    let role = last
        .and_then(|message| message.get("role"))
        .and_then(Value::as_str);
    let turns = ctx
        .state()
        .json("turns")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let mut messages = Vec::new();
    match said.split(' ').next().unwrap_or_default() {
        "fail" => {
            let error = NodeError::new("the model is away").with_category("provider_unavailable");
            return Err(error);
        }
        "nothing" => return Ok(Update::new()),
        "wait" => messages.push(ChatMessage::assistant(format!("waiting for {said}"))),
        "tool" | "toolblock" if role == Some("user") => {
            let call = ToolCall::new(format!("call-{turns}"), "work", "{}");
            messages.push(ChatMessage::assistant("").with_tool_calls(vec![call]));
        }
        "block" | "toolblock" => {
            drop(gate.acquire().await);
            messages.push(ChatMessage::assistant("unblocked"));
        }
        _ => {
            ctx.emit(RunEvent::Text("you said ".to_owned()));
            ctx.emit(RunEvent::Text(said.clone()));
            messages.push(ChatMessage::assistant(format!("you said {said}")));
        }
    }
    let messages: Vec<Value> = messages.iter().map(ChatMessage::to_json).collect();
    for message in &messages {
        ctx.journal(message.clone()).await?;
    }
    Ok(Update::new()
        .with("messages", messages)
        .with("turns", json!(turns + 1)))
}

async fn tools(ctx: NodeContext, effects: Arc<AtomicU64>) -> Result<Update, NodeError> {
    let last = ctx
        .state()
        .list("messages")
        .and_then(|list| list.last())
        .cloned();
    let message = ChatMessage::from_json(&last.unwrap_or_default()).map_err(NodeError::new)?;
    let mut results = Vec::new();
    for call in message.tool_calls {
        effects.fetch_add(1, Ordering::SeqCst);
        let result = ChatMessage::tool(call.id, "worked").to_json();
        ctx.journal(result.clone()).await?;
        results.push(result);
    }
    Ok(Update::new().with("messages", results))
}

/// The texts of the messages that an outcome carries.
pub(crate) fn texts(outcome: &ChatTurnOutcome) -> Vec<String> {
    outcome.messages().iter().map(ChatMessage::text).collect()
}

/// The category of a failed turn.
pub(crate) fn category(outcome: &ChatTurnOutcome) -> &str {
    match outcome {
        ChatTurnOutcome::Errored(turn) => &turn.error_category,
        other => other.as_str(),
    }
}
