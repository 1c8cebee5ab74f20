//! The simulated world: nodes, clients, time and the seed that schedules them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logue_graph::{
    CompiledGraph, END, EdgeTarget, ElementType, Field, FieldType, GraphBuilder, List, NodeContext,
    NodeError, Reducer, SignalDescriptor, StateSchema, Update,
};
use logue_harness::chat::{
    BusyPolicy, ChatConfig, ChatHarness, ChatTurnOutcome, Continuation, SendOptions, SignalTarget,
    messages_field,
};
use logue_harness::store::{
    EntryState, SessionFilter, Store as _, Suspension, SuspensionFilter, SuspensionStatus,
};
use logue_message::{ChatMessage, Role};
use serde_json::{Map, Value, json};
use testkit::Random;

use crate::clock::SimClock;
use crate::laws;
use crate::store::{SimStore, give_way};

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of conversations.
    pub sessions: usize,
    /// The number of clients; each sends to all conversations.
    pub clients: usize,
    /// The number of messages per client.
    pub messages: usize,
    /// The mean number of store operations per failure; 0 disables failures.
    pub failures: usize,
    /// The mean number of steps per crash; 0 disables crashes.
    pub crashes: usize,
    /// The number of steps before failures and crashes end.
    pub steps: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions: 2,
            clients: 3,
            messages: 5,
            failures: 40,
            crashes: 200,
            steps: 6_000,
        }
    }
}

/// The statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of polled futures.
    pub steps: u64,
    /// The number of crashed nodes.
    pub crashes: u64,
    /// The number of completed turns in all sessions.
    pub completed: u64,
    /// The number of failed, interrupted or cancelled turns.
    pub failed: u64,
    /// The number of turns that a signal resumed.
    pub resumed: u64,
    /// The number of effects.
    pub effects: u64,
}

/// The provider: away at times, until the world heals.
type Weather = Arc<Mutex<Option<Random>>>;

/// The effects of tools, by call id.
pub(crate) type Effects = Arc<Mutex<BTreeMap<String, u64>>>;

/// The distinct outcomes that clients received, by message key.
pub(crate) type Told = Arc<Mutex<BTreeMap<String, Vec<ChatTurnOutcome>>>>;

type Task = Pin<Box<dyn Future<Output = ()>>>;

const NODES: usize = 2;

struct World {
    random: Random,
    clock: SimClock,
    store: SimStore,
    nodes: Vec<ChatHarness>,
    /// Each task with the node on which it runs; clients run on none.
    tasks: Vec<(Option<usize>, Task)>,
    effects: Effects,
    weather: Weather,
    told: Told,
    /// The messages to deliver: session, text, key and policy.
    mail: Arc<Mutex<Vec<Mail>>>,
    ids: Arc<AtomicU64>,
    done: Arc<AtomicUsize>,
    report: Report,
}

#[derive(Clone)]
struct Mail {
    session: String,
    text: String,
    key: String,
    busy: BusyPolicy,
}

/// Runs a world and checks the invariants.
///
/// # Errors
/// Returns a description of the first violated invariant.
pub fn run(seed: u64, settings: Settings) -> Result<Report, String> {
    let mut world = World::new(seed, settings);
    for client in 0..settings.clients {
        world.client(client, settings);
    }
    for _ in 0..settings.steps {
        world.step(settings.crashes);
    }
    world.heal()?;
    laws::check(&world.store, &world.effects, &world.told, &mut world.report)?;
    Ok(world.report)
}

/// Returns the smallest settings with which a seed violates an invariant, and the violation.
pub fn shrink(seed: u64, settings: Settings) -> Option<(Settings, String)> {
    let mut worst = (settings, run(seed, settings).err()?);
    loop {
        let now = worst.0;
        let smaller = [
            Settings {
                clients: now.clients - 1,
                ..now
            },
            Settings {
                messages: now.messages - 1,
                ..now
            },
            Settings {
                sessions: now.sessions - 1,
                ..now
            },
            Settings { failures: 0, ..now },
            Settings { crashes: 0, ..now },
            Settings {
                steps: now.steps / 2,
                ..now
            },
        ];
        let broken = smaller.into_iter().find_map(|smaller| {
            let possible = smaller.clients > 0
                && smaller.messages > 0
                && smaller.sessions > 0
                && smaller != now;
            let why = possible.then(|| run(seed, smaller).err())??;
            Some((smaller, why))
        });
        match broken {
            Some(smaller) => worst = smaller,
            None => return Some(worst),
        }
    }
}

impl World {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            clock: SimClock::default(),
            store: SimStore::new(seed ^ 0x5EED, settings.failures),
            nodes: Vec::new(),
            tasks: Vec::new(),
            effects: Effects::default(),
            weather: Arc::new(Mutex::new(Some(Random::new(seed ^ 0xB00)))),
            told: Told::default(),
            mail: Arc::default(),
            ids: Arc::default(),
            done: Arc::default(),
            report: Report::default(),
        };
        world.nodes = (0..NODES).map(|node| world.node(node)).collect();
        world
    }

    /// A node that has just been started and knows nothing.
    fn node(&self, node: usize) -> ChatHarness {
        let (ids, effects) = (Arc::clone(&self.ids), Arc::clone(&self.effects));
        let new_id = move || format!("id-{}", ids.fetch_add(1, Ordering::Relaxed));
        let clock = Arc::new(self.clock.ahead(node as u64 * 70));
        let limits = ChatConfig::default()
            .with_lease(Duration::from_secs(3))
            .with_poll(Duration::from_millis(30))
            .with_cached_sessions(2);
        let graph = graph(effects, &self.weather);
        let store = Arc::new(self.store.clone());
        let builder = ChatHarness::builder(graph, store, clock, Arc::new(new_id));
        match builder.with_config(limits).build() {
            Ok(harness) => harness,
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Starts a client that sends messages in sequence and repeats each until it is answered.
    fn client(&mut self, client: usize, settings: Settings) {
        let (told, mail) = (Arc::clone(&self.told), Arc::clone(&self.mail));
        let done = Arc::clone(&self.done);
        let mut random = Random::new(self.random.next_u64());
        let task = async move {
            for number in 0..settings.messages {
                let session = format!("s{}", random.below(settings.sessions));
                let kind = ["plain", "tool", "tools", "fail", "wait", "empty"][random.below(6)];
                let key = format!("c{client}-{number:03}");
                let busy = match random.below(12) {
                    0 => BusyPolicy::Interrupt,
                    1 => BusyPolicy::Rollback,
                    _ => BusyPolicy::Enqueue,
                };
                let letter = Mail {
                    session,
                    text: format!("{kind} {key}"),
                    key: key.clone(),
                    busy,
                };
                loop {
                    for _ in 0..=random.below(3) {
                        lock(&mail).push(letter.clone());
                    }
                    // An outcome arrives, or the node crashed and the client sends again.
                    let mut patience = 400;
                    std::future::poll_fn(|_| {
                        patience -= 1;
                        let heard = lock(&told).get(&key).is_some_and(|told| has_final(told));
                        if heard || patience == 0 {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                    .await;
                    if lock(&told).get(&key).is_some_and(|told| has_final(told)) {
                        break;
                    }
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        };
        self.tasks.push((None, Box::pin(task)));
    }

    fn step(&mut self, crashes: usize) {
        if crashes > 0 && self.random.below(crashes) == 0 {
            let node = self.random.below(NODES);
            // Everything that ran there is gone, wherever it was.
            self.tasks.retain(|(on, _)| *on != Some(node));
            let new = self.node(node);
            if let Some(old) = self.nodes.get_mut(node) {
                *old = new;
            }
            self.report.crashes += 1;
        }
        if self.random.below(4) == 0 {
            let millis = [1, 5, 40, 700][self.random.below(4)];
            self.clock.pass(millis);
        }
        if self.random.below(60) == 0 {
            self.give_signals();
        }
        self.deliver();
        if self.tasks.is_empty() {
            return;
        }
        let chosen = self.random.below(self.tasks.len());
        let mut cx = Context::from_waker(Waker::noop());
        if let Some((_, task)) = self.tasks.get_mut(chosen)
            && task.as_mut().poll(&mut cx).is_ready()
        {
            drop(self.tasks.swap_remove(chosen));
        }
        self.report.steps += 1;
    }

    /// Hands what the clients want delivered to nodes, each letter to any of them.
    fn deliver(&mut self) {
        let letters = std::mem::take(&mut *lock(&self.mail));
        for letter in letters {
            let node = self.random.below(NODES);
            let Some(harness) = self.nodes.get(node).cloned() else {
                continue;
            };
            let told = Arc::clone(&self.told);
            let task = async move {
                let options = SendOptions::new()
                    .with_idempotency_key(&letter.key)
                    .with_busy(letter.busy);
                let said = ChatMessage::user(letter.text.as_str());
                let outcome = harness.send_with(&letter.session, said, options).await;
                if !is_unknown(&outcome) {
                    lock(&told).entry(letter.key).or_default().push(outcome);
                }
            };
            self.tasks.push((Some(node), Box::pin(task)));
        }
    }

    /// Gives each waiting turn its signal, on one node or on both, once or twice.
    fn give_signals(&mut self) {
        let memory = Arc::clone(self.store.memory());
        let all = SuspensionFilter::default();
        let Some(Ok(waiting)) = now_or_never(async { memory.suspensions(all).await }) else {
            return;
        };
        for suspension in waiting {
            if suspension.status == SuspensionStatus::Resumed || self.is_signalled(&suspension) {
                continue;
            }
            for _ in 0..=self.random.below(3) {
                let node = self.random.below(NODES);
                let Some(harness) = self.nodes.get(node).cloned() else {
                    continue;
                };
                let id = suspension.signal_id.clone();
                let payload = Map::from_iter([("approval".to_owned(), json!("yes"))]);
                let task = async move {
                    // A failed signal is sent again later.
                    drop(harness.signal(SignalTarget::Signal(&id), payload).await);
                };
                self.tasks.push((Some(node), Box::pin(task)));
            }
        }
    }

    /// Returns whether the signal of a turn waits or runs.
    ///
    /// A signalled turn that failed before it did anything is signalled again.
    fn is_signalled(&self, suspension: &Suspension) -> bool {
        let Some(entry) = suspension.entry else {
            return false;
        };
        let memory = self.store.memory();
        let entry = now_or_never(async { memory.entry(&suspension.session, entry).await });
        let entry = entry.and_then(Result::ok).flatten();
        entry.is_some_and(|entry| entry.state != EntryState::Settled)
    }

    /// Runs all work to its end without failures and crashes.
    fn heal(&mut self) -> Result<(), String> {
        self.store.heal();
        *lock(&self.weather) = None;
        for round in 0..400_000_u64 {
            self.step(0);
            if round.is_multiple_of(500) {
                self.clock.pass(1_000);
                let busy = self.tasks.iter().any(|(on, _)| on.is_some());
                if !busy && self.is_quiet() {
                    return Ok(());
                }
                self.sweep();
            }
        }
        Err(format!(
            "the world does not settle: {}",
            self.what_is_open()
        ))
    }

    /// Describes the unsettled work.
    fn what_is_open(&self) -> String {
        let memory = self.store.memory();
        let mut open = format!("{} tasks", self.tasks.len());
        for (key, told) in lock(&self.told).iter().filter(|(_, told)| !has_final(told)) {
            open.push_str(&format!("; {key} received {told:?}"));
        }
        let sessions = now_or_never(async { memory.list(SessionFilter::default()).await });
        for session in sessions.into_iter().flatten().flatten() {
            let inbox = now_or_never(async { memory.inbox(&session.session).await });
            let inbox = inbox.into_iter().flatten().flatten();
            let inbox: Vec<_> = inbox.map(|entry| format!("{entry:?}")).collect();
            open.push_str(&format!("; {}: {}", session.session, inbox.join(", ")));
        }
        let suspensions =
            now_or_never(async { memory.suspensions(SuspensionFilter::default()).await });
        for waiting in suspensions.into_iter().flatten().flatten() {
            if waiting.status != SuspensionStatus::Resumed {
                open.push_str(&format!("; {waiting:?}"));
            }
        }
        open
    }

    fn is_quiet(&self) -> bool {
        let memory = self.store.memory();
        let sessions = now_or_never(async { memory.list(SessionFilter::default()).await });
        let waiting = now_or_never(async { memory.suspensions(SuspensionFilter::default()).await });
        let settled =
            matches!(sessions, Some(Ok(sessions)) if sessions.iter().all(|s| s.pending == 0));
        let is_over = |one: &Suspension| one.status == SuspensionStatus::Resumed;
        let signalled = matches!(waiting, Some(Ok(waiting)) if waiting.iter().all(is_over));
        let clients = self.tasks.iter().all(|(on, _)| on.is_some());
        settled && signalled && clients && lock(&self.mail).is_empty()
    }

    /// Processes the pending entries of idle sessions.
    fn sweep(&mut self) {
        let memory = Arc::clone(self.store.memory());
        let Some(Ok(sessions)) =
            now_or_never(async { memory.list(SessionFilter::default()).await })
        else {
            return;
        };
        for session in sessions.into_iter().filter(|session| session.pending > 0) {
            let node = self.random.below(NODES);
            if let Some(harness) = self.nodes.get(node).cloned() {
                let task = async move {
                    drop(harness.process_pending(&session.session).await);
                };
                self.tasks.push((Some(node), Box::pin(task)));
            }
        }
    }
}

/// Returns whether the store was unavailable, so that the outcome settles nothing.
fn is_unknown(outcome: &ChatTurnOutcome) -> bool {
    matches!(outcome, ChatTurnOutcome::Errored(turn) if turn.invocation_id.is_none())
}

/// Returns whether a sender need not send its message again.
pub(crate) fn has_final(told: &[ChatTurnOutcome]) -> bool {
    told.iter().any(is_final)
}

/// Returns whether an outcome is an answer or a permanent failure.
pub(crate) fn is_final(outcome: &ChatTurnOutcome) -> bool {
    match outcome {
        ChatTurnOutcome::Errored(turn) => turn.error_category == "turn_cancelled",
        _ => true,
    }
}

/// Returns whether the provider is away for a request, which it is once in so many times.
fn is_away(weather: &Weather, one_in: usize) -> bool {
    let mut weather = lock(weather);
    weather
        .as_mut()
        .is_some_and(|random| random.below(one_in) == 0)
}

fn away() -> NodeError {
    NodeError::new("the model is away").with_category("provider_unavailable")
}

/// Builds an agent whose input selects its behavior.
fn graph(effects: Effects, weather: &Weather) -> CompiledGraph {
    let (before, after) = (Arc::clone(weather), Arc::clone(weather));
    let schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("approval", FieldType::String))
        .with(
            Field::new("orders", FieldType::List(ElementType::String))
                .with_reducer(Reducer::Append),
        )
        .with(Field::new("turns", FieldType::Int));
    let builder = GraphBuilder::new(schema)
        .add_node_fn("model", move |ctx| model(ctx, Arc::clone(&before)))
        .add_node_fn("tools", move |ctx| tools(ctx, Arc::clone(&effects)))
        .add_node_fn("hold", |ctx| async move {
            let key = last(&ctx).1;
            match ctx
                .suspend(SignalDescriptor::new(format!("sig-{key}")))
                .await {}
        })
        .add_node_fn("after", move |ctx| resumed(ctx, Arc::clone(&after)))
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

async fn resumed(ctx: NodeContext, weather: Weather) -> Result<Update, NodeError> {
    if is_away(&weather, 4) {
        return Err(away());
    }
    let approval = ctx.state().json("approval").and_then(Value::as_str);
    let reply = ChatMessage::assistant(format!("resumed with {}", approval.unwrap_or("")));
    ctx.journal(reply.to_json()).await?;
    Ok(Update::new().with("messages", vec![reply]))
}

async fn model(ctx: NodeContext, weather: Weather) -> Result<Update, NodeError> {
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
    if (kind == "fail" && is_away(&weather, 2)) || (answered && is_away(&weather, 3)) {
        return Err(away());
    }
    // A call with an unknown outcome is not repeated without a person.
    let is_guarded = Continuation::from_metadata(ctx.metadata())
        .is_some_and(|continuation| !continuation.guarded.is_empty());
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a future that never waits.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
