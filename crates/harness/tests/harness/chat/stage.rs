//! A small agent that does what it is reported, on a store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use logue_graph::{
    CompiledGraph, CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, List, NodeContext,
    NodeError, SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{
    ChatConfig, ChatHarness, ChatHarnessBuilder, ChatTurnOutcome, Continuation, messages_field,
};
use logue_harness::store::{MemoryStore, SharedStore};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::{ChatMessage, Role, ToolCall};
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
    /// How many requests fail after a tool worked.
    pub(crate) away: Arc<AtomicU64>,
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
            away: Arc::default(),
        }
    }

    /// A process that has just been started.
    pub(crate) fn harness(&self) -> ChatHarness<String> {
        self.builder().build().unwrap()
    }

    /// The builder of a process.
    pub(crate) fn builder(&self) -> ChatHarnessBuilder<String> {
        let ids = Arc::clone(&self.ids);
        let ids = move || format!("id-{}", ids.fetch_add(1, Ordering::Relaxed));
        let limits = ChatConfig::default()
            .with_lease(Duration::from_millis(150))
            .with_poll(Duration::from_millis(2));
        ChatHarness::builder(
            self.graph(),
            Arc::clone(&self.store),
            self.clock.clone(),
            Arc::new(ids),
        )
        .with_config(limits)
    }

    pub(crate) fn graph(&self) -> CompiledGraph<String> {
        let schema = StateSchema::new()
            .with(messages_field())
            .with(Field::new("approval", FieldType::String))
            .with(Field::new("turns", FieldType::Int));
        let (effects, gate) = (Arc::clone(&self.effects), Arc::clone(&self.gate));
        let away = Arc::clone(&self.away);
        GraphBuilder::for_events(schema)
            .add_node_fn("model", move |ctx| {
                model(ctx, Arc::clone(&gate), Arc::clone(&away))
            })
            .add_node_fn("tools", move |ctx| tools(ctx, Arc::clone(&effects)))
            .add_node_fn("hold", |ctx| async move {
                let descriptor = SignalDescriptor::new(format!("sig-{}", user_text(&ctx)))
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
                        Some(last) if last.text().starts_with("waiting") => {
                            EdgeTarget::node("hold")
                        }
                        _ => END,
                    }
                },
            )
            .add_edge("tools", "model")
            .add_edge("hold", "after")
            .add_conditional_edge(
                "after",
                [EdgeTarget::node("hold"), END],
                |state| match state.json("approval").and_then(Value::as_str) {
                    Some("again") => EdgeTarget::node("hold"),
                    _ => END,
                },
            )
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
fn user_text(ctx: &NodeContext<String>) -> String {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let mut newest_first = messages.into_iter().flatten().rev();
    let message = newest_first.find(|message| message.role == Role::User);
    message.map(ChatMessage::text).unwrap_or_default()
}

async fn model(
    ctx: NodeContext<String>,
    gate: Arc<Semaphore>,
    away: Arc<AtomicU64>,
) -> Result<Update, NodeError> {
    let text = user_text(&ctx);
    let conversation = ctx.state().list_of::<ChatMessage>("messages");
    let role = conversation.and_then(List::last).map(|last| last.role);
    let turns = ctx
        .state()
        .json("turns")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let take_one = |left: u64| left.checked_sub(1);
    let is_away = || away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one);
    if role == Some(Role::Tool) && is_away().is_ok() {
        let error = NodeError::new("the model is away").with_category("provider_unavailable");
        return Err(error);
    }
    let continuation = Continuation::from_metadata(ctx.metadata());
    let guarded = continuation.map_or(0, |continuation| continuation.guarded.len());
    let mut messages = Vec::new();
    match text.split(' ').next().unwrap_or_default() {
        "fail" => {
            let error = NodeError::new("the model is away").with_category("provider_unavailable");
            return Err(error);
        }
        "nothing" => return Ok(Update::new()),
        "once" if role == Some(Role::User) && guarded == 0 => {
            let call = ToolCall::new("call-once", "work", "{}");
            messages.push(ChatMessage::assistant("").with_tool_calls(vec![call]));
        }
        "guarded" | "once" => {
            messages.push(ChatMessage::assistant(format!("{guarded} guarded")));
        }
        "nap" => {
            tokio::time::sleep(Duration::from_millis(150)).await;
            messages.push(ChatMessage::assistant("awake"));
        }
        "wait" => messages.push(ChatMessage::assistant(format!("waiting for {text}"))),
        "tool" | "toolblock" if role == Some(Role::User) => {
            let call = ToolCall::new(format!("call-{turns}"), "work", "{}");
            messages.push(ChatMessage::assistant("").with_tool_calls(vec![call]));
        }
        "block" | "toolblock" => {
            drop(gate.acquire().await);
            messages.push(ChatMessage::assistant("unblocked"));
        }
        _ => {
            ctx.emit("you said ".to_owned());
            ctx.emit(text.clone());
            messages.push(ChatMessage::assistant(format!("you said {text}")));
        }
    }
    for message in &messages {
        ctx.journal(message.to_json()).await?;
    }
    Ok(Update::new()
        .with("messages", messages)
        .with("turns", json!(turns + 1)))
}

async fn tools(ctx: NodeContext<String>, effects: Arc<AtomicU64>) -> Result<Update, NodeError> {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let message = messages.and_then(List::last).cloned();
    let mut results = Vec::new();
    for call in message
        .map(|message| message.tool_calls)
        .unwrap_or_default()
    {
        effects.fetch_add(1, Ordering::SeqCst);
        let result = ChatMessage::tool(call.id, "worked");
        ctx.journal(result.to_json()).await?;
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
