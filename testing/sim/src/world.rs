//! The simulated world: nodes, clients, time and the seed that schedules them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logue_harness::chat::{
    BusyPolicy, ChatConfig, ChatHarness, ChatTurnOutcome, OnCrash, SendOptions, SignalTarget,
};
use logue_harness::store::{
    EntryState, ProcessLeases, SessionFilter, Store as _, Suspension, SuspensionFilter,
    SuspensionStatus,
};
use logue_message::ChatMessage;
use serde_json::{Map, json};
use testkit::Random;

use crate::agent::{Provider, Starts, graph};
use crate::clock::{MachineClock, Processes, TrueTime, WallClock};
use crate::laws;
use crate::settings::{Report, Settings};
use crate::store::SimStore;

/// The effects of tools, by call id.
pub(crate) type Effects = Arc<Mutex<BTreeMap<String, u64>>>;

/// The distinct outcomes that clients received, by message key.
pub(crate) type Told = Arc<Mutex<BTreeMap<String, Vec<ChatTurnOutcome>>>>;

type Task = Pin<Box<dyn Future<Output = ()>>>;

const NODES: usize = 2;

struct World {
    random: Random,
    time: TrueTime,
    /// The wall clock of each node.
    clocks: Vec<WallClock>,
    /// Whether all nodes are processes of one machine.
    one_machine: bool,
    running: Processes,
    stops: bool,
    store: SimStore,
    nodes: Vec<ChatHarness>,
    /// Each task with the node on which it runs; clients run on none.
    tasks: Vec<(Option<usize>, Task)>,
    effects: Effects,
    provider: Provider,
    starts: Starts,
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
        world.step(settings.crashes, settings.clock_steps);
        if settings.store_crashes > 0 {
            world.wear_stores(settings.store_crashes);
        }
    }
    world.heal()?;
    world.report.failed_after_effects = world.provider.failed_after_effects();
    world.report.unacknowledged_commits = world.store.unacknowledged();
    let World {
        store,
        effects,
        told,
        starts,
        mut report,
        ..
    } = world;
    let least = if settings.stops { 1 } else { 4 };
    laws::check(&store, &effects, &told, (&starts, least), &mut report)?;
    Ok(report)
}

impl World {
    fn new(seed: u64, settings: Settings) -> Self {
        let time = TrueTime::default();
        let running = Processes::default();
        let mut world = Self {
            random: Random::new(seed),
            clocks: (0..NODES).map(|_| WallClock::new(&time)).collect(),
            one_machine: seed.is_multiple_of(2),
            store: SimStore::new(seed ^ 0x5EED, settings, &time, &running),
            time,
            running,
            stops: settings.stops,
            nodes: Vec::new(),
            tasks: Vec::new(),
            effects: Effects::default(),
            provider: Provider::new(seed ^ 0xB00),
            starts: Starts::default(),
            told: Told::default(),
            mail: Arc::default(),
            ids: Arc::default(),
            done: Arc::default(),
            report: Report::default(),
        };
        world.nodes = (0..NODES)
            .filter_map(|node| world.node(node, node as u64))
            .collect();
        world
    }

    /// A node that has just been started and knows nothing.
    fn node(&self, node: usize, process: u64) -> Option<ChatHarness> {
        let (ids, effects) = (Arc::clone(&self.ids), Arc::clone(&self.effects));
        let new_id = move || format!("id-{}", ids.fetch_add(1, Ordering::Relaxed));
        let clock = Arc::new(self.clocks.get(node)?.clone());
        let limits = ChatConfig::default()
            .with_lease(Duration::from_secs(3))
            .with_poll(Duration::from_millis(30))
            .with_cached_sessions(2);
        let parts = (self.provider.clone(), self.starts.clone());
        let graph = graph(effects, parts, &self.store);
        lock(&self.running).insert(process);
        let machine = MachineClock {
            time: self.time.clone(),
            machine: if self.one_machine { 0 } else { node as u64 },
            process,
            running: Arc::clone(&self.running),
        };
        let store = ProcessLeases::with_clock(Arc::new(self.store.clone()), machine);
        let builder = ChatHarness::builder(graph, Arc::new(store), clock, Arc::new(new_id));
        let on_crash = if self.stops {
            OnCrash::Stop
        } else {
            OnCrash::Continue
        };
        let builder = builder.with_config(limits).with_on_crash(on_crash);
        match builder.build() {
            Ok(harness) => Some(harness),
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

    /// Kills the process of a node and starts another one.
    fn crash(&mut self) {
        let node = self.random.below(NODES);
        // Everything that ran there is gone, wherever it was.
        self.tasks.retain(|(on, _)| *on != Some(node));
        self.report.crashes += 1;
        let process = (NODES as u64) * self.report.crashes + (node as u64);
        lock(&self.running).retain(|old| old % (NODES as u64) != node as u64);
        if let Some(new) = self.node(node, process)
            && let Some(old) = self.nodes.get_mut(node)
        {
            *old = new;
        }
    }

    /// Ends a node for good; the other one gets everything that was sent to it.
    fn lose_first_node(&mut self) {
        self.tasks.retain(|(on, _)| *on != Some(0));
        lock(&self.running).retain(|process| process % (NODES as u64) != 0);
        if let [first, other] = self.nodes.as_mut_slice() {
            *first = other.clone();
        }
    }

    /// Crashes or flushes one of the stores from time to time.
    fn wear_stores(&mut self, crashes: usize) {
        let shard = self.random.below(self.store.memory().count());
        if self.random.below(crashes) == 0 {
            self.report.lost_operations += self.store.crash(shard);
            self.report.store_crashes += 1;
        }
        if self.random.below(50) == 0 {
            self.store.memory().flush(shard);
        }
    }

    /// Sets the wall clock of a node an hour forward or back.
    fn step_clock(&mut self) {
        const HOUR: i64 = 3_600_000;
        let millis = [HOUR, -HOUR][self.random.below(2)];
        let node = self.random.below(NODES);
        if let Some(clock) = self.clocks.get(node) {
            clock.step(millis);
            self.report.clock_steps += 1;
        }
    }

    fn step(&mut self, crashes: usize, clock_steps: usize) {
        if crashes > 0 && self.random.below(crashes) == 0 {
            self.crash();
        }
        if clock_steps > 0 && self.random.below(clock_steps) == 0 {
            self.step_clock();
        }
        if self.random.below(4) == 0 {
            let millis = [1, 5, 40, 700][self.random.below(4)];
            self.time.pass(millis);
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
        self.provider.heal();
        if !self.one_machine {
            self.lose_first_node();
        }
        for round in 0..400_000_u64 {
            self.step(0, 0);
            if round.is_multiple_of(500) {
                self.time.pass(1_000);
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
