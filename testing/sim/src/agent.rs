//! An agent without a model, whose input selects its behavior.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use logue_graph::{
    CompiledGraph, END, EdgeTarget, ElementType, Field, FieldType, GraphBuilder, List, NodeContext,
    NodeError, Reducer, SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{Continuation, messages_field};
use logue_message::{ChatMessage, Role};
use serde_json::{Value, json};
use testkit::Random;

use crate::store::{SimStore, give_way};
use crate::world::{Effects, lock};

/// The provider of a world.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Mutex<Outages>>);

struct Outages {
    random: Random,
    over: bool,
    after_effects: u64,
}

impl Provider {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Outages {
            random: Random::new(seed),
            over: false,
            after_effects: 0,
        })))
    }

    /// Ends all failures.
    pub(crate) fn heal(&self) {
        lock(&self.0).over = true;
    }

    /// Returns the number of requests that failed after an effect.
    pub(crate) fn failed_after_effects(&self) -> u64 {
        lock(&self.0).after_effects
    }

    /// Fails a request once in so many times, in one of several ways.
    fn ask(&self, one_in: usize, after_effect: bool) -> Result<(), NodeError> {
        let mut outages = lock(&self.0);
        if outages.over || outages.random.below(one_in) != 0 {
            return Ok(());
        }
        outages.after_effects += u64::from(after_effect);
        let ways = ["provider_unavailable", "provider_rate_limit"];
        let way = ways.get(outages.random.below(ways.len()));
        let error = NodeError::new("the model is away");
        Err(error.with_category(way.copied().unwrap_or_default()))
    }
}

/// The turns that continued after the death of an owner: session, entry and recovery.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<Mutex<Continued>>);

#[derive(Default)]
struct Continued {
    known: BTreeSet<(String, u64, u64)>,
    repeated: Option<String>,
}

impl Starts {
    /// Notes the start of a turn that continues. Each recovery has a number of its own.
    fn note(&self, ctx: &NodeContext, store: &SimStore) {
        let continuation = Continuation::from_metadata(ctx.metadata());
        let recoveries = continuation.map_or(0, |continuation| continuation.recoveries);
        if recoveries == 0 || ctx.place().step() > 0 {
            return;
        }
        let session = ctx.session_id().unwrap_or_default();
        let start = (session.to_owned(), store.claimed(session), recoveries);
        let mut continued = lock(&self.0);
        let words = format!("{start:?} began twice, so its recovery was not noted");
        if !continued.known.insert(start) {
            continued.repeated.get_or_insert(words);
        }
    }

    /// Returns the first recovery that was not counted.
    pub(crate) fn repeated(&self) -> Option<String> {
        lock(&self.0).repeated.clone()
    }
}

/// Builds an agent whose input selects its behavior.
pub(crate) fn graph(
    effects: Effects,
    (before, starts): (Provider, Starts),
    store: &SimStore,
) -> CompiledGraph {
    let (after, store) = (before.clone(), store.clone());
    let schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("approval", FieldType::String))
        .with(
            Field::new("orders", FieldType::List(ElementType::String))
                .with_reducer(Reducer::Append),
        )
        .with(Field::new("turns", FieldType::Int));
    let builder = GraphBuilder::new(schema)
        .add_node_fn("model", move |ctx| {
            starts.note(&ctx, &store);
            model(ctx, before.clone())
        })
        .add_node_fn("tools", move |ctx| tools(ctx, Arc::clone(&effects)))
        .add_node_fn("hold", |ctx| async move {
            let key = last(&ctx).1;
            match ctx
                .suspend(SignalDescriptor::new(format!("sig-{key}")))
                .await {}
        })
        .add_node_fn("after", move |ctx| resumed(ctx, after.clone()))
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
    let ids = Arc::new(AtomicU64::new(0));
    match builder.compile(move || format!("run-{}", ids.fetch_add(1, Ordering::Relaxed))) {
        Ok(graph) => graph,
        Err(error) => unreachable!("{error}"),
    }
}

/// Returns the command and the key of the last user message.
fn last(ctx: &NodeContext) -> (String, String) {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let mut said = messages.into_iter().flatten().rev();
    let said = said.find(|message| message.role == Role::User);
    let said = said.map(ChatMessage::text).unwrap_or_default();
    let (kind, key) = said.split_once(' ').unwrap_or_default();
    (kind.to_owned(), key.to_owned())
}

async fn resumed(ctx: NodeContext, provider: Provider) -> Result<Update, NodeError> {
    provider.ask(4, false)?;
    let approval = ctx.state().json("approval").and_then(Value::as_str);
    let reply = ChatMessage::assistant(format!("resumed with {}", approval.unwrap_or("")));
    ctx.journal(reply.to_json()).await?;
    Ok(Update::new().with("messages", vec![reply]))
}

async fn model(ctx: NodeContext, provider: Provider) -> Result<Update, NodeError> {
    give_way(2).await;
    let (kind, key) = last(&ctx);
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let answered = messages
        .and_then(List::last)
        .is_some_and(|last| last.role == Role::Tool);
    let turns = ctx
        .state()
        .json("turns")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    // A call of this message that ran, or has an unknown outcome, is not repeated without a person.
    let is_own = |call: &logue_message::ToolCall| call.id.starts_with(&format!("{key}-"));
    let is_guarded = Continuation::from_metadata(ctx.metadata())
        .is_some_and(|continuation| continuation.guarded.iter().any(is_own));
    if kind == "fail" {
        provider.ask(2, false)?;
    } else if answered || is_guarded {
        provider.ask(3, true)?;
    }
    let reply = match kind.as_str() {
        "empty" => return Ok(Update::new()),
        "tool" | "tools" if !answered && !is_guarded => {
            let calls = if kind == "tool" { 1 } else { 3 };
            // The call id contains the invocation, which distinguishes an effect from its repetition.
            let calls: Vec<_> = (0..calls)
                .map(|n| {
                    let id = format!("{key}-{}-{n}", ctx.invocation_id());
                    logue_message::ToolCall::new(id, "work", "{}")
                })
                .collect();
            ChatMessage::assistant("").with_tool_calls(calls)
        }
        "wait" => ChatMessage::assistant(format!("pending {key}")),
        _ => ChatMessage::assistant(format!("answer to {key}")),
    };
    // The decision precedes all work that depends on it.
    ctx.journal(reply.to_json()).await?;
    let update = Update::new().with("turns", json!(turns + 1));
    if reply.tool_calls.is_empty() {
        let update = update.with("orders", json!([key]));
        return Ok(update.with("messages", vec![reply]));
    }
    Ok(update.with("messages", vec![reply]))
}

async fn tools(ctx: NodeContext, effects: Effects) -> Result<Update, NodeError> {
    let messages = ctx.state().list_of::<ChatMessage>("messages");
    let Some(last) = messages.and_then(List::last) else {
        return Err(NodeError::new("no calls"));
    };
    let calls = last.tool_calls.clone();
    let mut results = Vec::new();
    for call in calls {
        give_way(1).await;
        *lock(&effects).entry(call.id.clone()).or_default() += 1;
        give_way(1).await;
        let result = ChatMessage::tool(call.id.clone(), "worked");
        ctx.journal(result.to_json()).await?;
        results.push(result);
    }
    Ok(Update::new().with("messages", results))
}
