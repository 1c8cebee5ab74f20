//! Chat cases: messages sent to a chat, signals for its turns, and its listeners.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use logue_harness::chat::{
    BusyPolicy, ChatHarness, ChatTurnOutcome, PausedPolicy, SendOptions, SignalTarget, Subscription,
};
use logue_harness::store::{SharedStore, Store};
use logue_harness::turns::DispatchPath;
use serde_json::json;

use crate::chat_outcomes::{check_outcome, covers, message};
use crate::chat_store::ChatStore;
use crate::checks::{Checks, EarlierRuns};
use crate::runs::{NoRun, World, migrations, refused};
use crate::seen::{Machine, lock};
use crate::vocabulary::{
    ArrivalExpected, Case, ChatTurn, ChatTurnExpected, FinalHistory, HarnessDef, ReadError,
    SignalStep, UNKNOWN,
};

type Told = Arc<Mutex<Vec<ChatTurnOutcome>>>;

/// A chat in one process, with its listeners.
struct Process<'a> {
    case: &'a Case,
    world: &'a World,
    store: Arc<ChatStore>,
    chat: ChatHarness,
    listeners: BTreeMap<String, Listener>,
}

struct Listener {
    session: String,
    told: Told,
    subscription: Subscription,
}

/// A turn and what was seen of it.
struct Turned {
    outcome: ChatTurnOutcome,
    /// Whether the store was asked for anything, and whether a node ran, if nothing else did then.
    alone: Option<(bool, bool)>,
}

/// Sends the messages of a case and says what was answered.
pub(crate) async fn run_case(
    case: &Case,
    def: &HarnessDef,
    turns: &[ChatTurn],
    world: &World,
    checks: &mut Checks,
) {
    if def.mode != "sessioned" {
        return checks.fail("a chat is sessioned");
    }
    let behavior = case.session_store.as_ref().map(|def| def.parts().1);
    let store = ChatStore::new(behavior.unwrap_or_default());
    let chat = match chat(case, world, &store) {
        Ok(chat) => chat,
        Err(no_run) => return refused(case, no_run, checks),
    };
    checks.holds(case.expected_error.is_none(), "the chat is not refused");
    let mut process = Process {
        case,
        world,
        store,
        chat,
        listeners: BTreeMap::new(),
    };
    process.seed(checks).await;
    let mut suspended = EarlierRuns::default();
    let mut rest = turns;
    while let Some((first, behind)) = rest.split_first() {
        let beside = behind.iter().take_while(|turn| turn.concurrent).count();
        let (beside, later) = behind.split_at(beside);
        rest = later;
        if first.fresh_process {
            process.begin_anew(checks).await;
        }
        let group: Vec<_> = std::iter::once(first).chain(beside).collect();
        let turned = process.turns(def, &group, checks).await;
        for (turn, turned) in group.into_iter().zip(turned) {
            checks.at(turn.name.clone().unwrap_or_else(|| "turn".to_owned()));
            let Some(turned) = turned else {
                checks.fail("the turn was lost");
                continue;
            };
            let outcome = &turned.outcome;
            if let Some(id) = invocation_id(outcome) {
                suspended.note(turn.name.as_deref(), id, outcome.as_str());
            }
            process.check_turn(turn, &turned, checks).await;
            for signal in &turn.then_signals {
                process.signal(signal, &suspended, checks).await;
            }
        }
    }
    for signal in &case.signal_arrivals {
        process.signal(signal, &suspended, checks).await;
    }
    checks.at("");
    process.always(checks).await;
}

fn invocation_id(outcome: &ChatTurnOutcome) -> Option<&str> {
    match outcome {
        ChatTurnOutcome::Completed(turn) => Some(&turn.invocation_id),
        ChatTurnOutcome::Suspended(turn) => Some(&turn.invocation_id),
        ChatTurnOutcome::Errored(turn) => turn.invocation_id.as_deref(),
    }
}

fn chat(case: &Case, world: &World, store: &Arc<ChatStore>) -> Result<ChatHarness, NoRun> {
    let graph = world.graph(case)?;
    let shared: SharedStore = Arc::clone(store) as SharedStore;
    let ids = Arc::clone(&world.ids);
    let builder = ChatHarness::builder(graph, shared, Arc::new(Machine), ids);
    let builder = builder.with_migrations(migrations(case, &world.seen)?);
    builder
        .build()
        .map_err(|error| NoRun::refused("compile", "chat_graph_invalid", &error))
}

fn options(def: &HarnessDef, turn: &ChatTurn) -> Result<SendOptions, ReadError> {
    let unknown = |what: &str, name: &str| ReadError {
        category: UNKNOWN,
        message: format!("there is no {what} `{name}`"),
    };
    let mut options = SendOptions::new();
    if let Some(key) = &turn.idempotency_key {
        options = options.with_idempotency_key(key);
    }
    let busy = match turn.busy.as_deref() {
        None | Some("enqueue") => BusyPolicy::Enqueue,
        Some("reject") => BusyPolicy::Reject,
        Some("interrupt") => BusyPolicy::Interrupt,
        Some("rollback") => BusyPolicy::Rollback,
        Some(other) => return Err(unknown("policy", other)),
    };
    let paused = match def.while_paused.as_deref() {
        None | Some("proceed") => PausedPolicy::Proceed,
        Some("reject") => PausedPolicy::Reject,
        Some(other) => return Err(unknown("policy", other)),
    };
    Ok(options.with_busy(busy).with_while_paused(paused))
}

impl Process<'_> {
    /// Starts a new process on the store. Listeners keep their positions.
    async fn begin_anew(&mut self, checks: &mut Checks) {
        match chat(self.case, self.world, &self.store) {
            Ok(chat) => self.chat = chat,
            Err(_) => return checks.fail("the chat of the new process is refused"),
        }
        for listener in self.listeners.values_mut() {
            let cursor = listener.subscription.cursor().await.unwrap_or(0);
            let told = Arc::clone(&listener.told);
            let session = &listener.session;
            listener.subscription = self.chat.subscribe_from(session, cursor, move |outcome| {
                lock(&told).push(outcome.clone());
            });
        }
    }

    /// Puts a session into the store, as an earlier program has left it.
    async fn seed(&self, checks: &mut Checks) {
        use logue_harness::sessions::{SessionRecord, SessionStore, StoreSessions};
        let Some(seeded) = &self.case.seeded_session else {
            return;
        };
        let id = seeded
            .session_id
            .clone()
            .or_else(|| self.case.session_id.clone());
        let shared: SharedStore = Arc::clone(self.store.kept()) as SharedStore;
        let view = StoreSessions::new(shared, Arc::new(Machine), "an earlier program");
        let mut record = SessionRecord::new(id.unwrap_or_default(), seeded.state.clone());
        record.schema_version = seeded.schema_version.clone();
        if let Err(error) = view.save(record, None).await {
            checks.fail(format!("the session cannot be put into the store: {error}"));
        }
    }

    /// Runs turns at the same time, begun in order; none of what was lost.
    async fn turns(
        &mut self,
        def: &HarnessDef,
        group: &[&ChatTurn],
        checks: &mut Checks,
    ) -> Vec<Option<Turned>> {
        let alone = group.len() == 1;
        let mut running = Vec::new();
        for turn in group {
            if let Some(name) = &turn.subscribe_listener {
                self.subscribe(name, &turn.session_id, checks).await;
            }
            let options = match options(def, turn) {
                Ok(options) => options,
                Err(error) => {
                    checks.fail(error.to_string());
                    SendOptions::new()
                }
            };
            let chat = self.chat.clone();
            let (session, message) = (turn.session_id.clone(), turn.user_message.clone());
            let (asked, bodies) = (self.store.asked(), self.world.seen.bodies());
            let (store, seen) = (Arc::clone(&self.store), Arc::clone(&self.world.seen));
            running.push(tokio::spawn(async move {
                let outcome = chat.send_json(&session, &message, options).await;
                let used = (store.asked() > asked, seen.bodies() > bodies);
                Turned {
                    outcome,
                    alone: alone.then_some(used),
                }
            }));
            // The first one is accepted and runs before the next one is said.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
        let mut turned = Vec::new();
        for one in running {
            turned.push(one.await.ok());
        }
        self.chat.graph().drain().await;
        turned
    }

    async fn subscribe(&mut self, name: &str, session: &str, checks: &mut Checks) {
        let told = Told::default();
        let telling = Arc::clone(&told);
        let subscribed = self
            .chat
            .subscribe(session, move |outcome| lock(&telling).push(outcome.clone()))
            .await;
        match subscribed {
            Ok(subscription) => {
                let listener = Listener {
                    session: session.to_owned(),
                    told,
                    subscription,
                };
                self.listeners.insert(name.to_owned(), listener);
            }
            Err(error) => checks.fail(format!("nobody can listen: {error}")),
        }
    }

    async fn signal(&mut self, step: &SignalStep, suspended: &EarlierRuns, checks: &mut Checks) {
        let words = step.invocation_of.as_ref();
        let invocation = words.map(|name| suspended.meant(&format!("<from {name}>")));
        let invocation = match invocation.transpose() {
            Ok(invocation) => invocation,
            Err(error) => return checks.fail(error),
        };
        let (target, name) = match (&step.signal_id, &invocation) {
            (Some(signal), None) => (SignalTarget::Signal(signal), signal),
            (None, Some(invocation)) => (SignalTarget::Invocation(invocation), invocation),
            _ => return checks.fail("a signal is for a signal_id or for an invocation_of"),
        };
        checks.at(format!("signal {name}"));
        if step.fresh_process {
            self.begin_anew(checks).await;
        }
        let before: BTreeMap<_, _> = self
            .listeners
            .iter()
            .map(|(name, listener)| (name.clone(), lock(&listener.told).len()))
            .collect();
        let given = self.chat.signal(target, step.signal_payload.clone()).await;
        self.chat.graph().drain().await;
        match (given, &step.refused) {
            (Ok(outcome), None) => {
                if let Some(expected) = &step.expected {
                    check_outcome(expected, &outcome, checks);
                    if let Some(state) = &expected.final_state {
                        let session = self
                            .listeners
                            .values()
                            .next()
                            .map(|one| one.session.clone());
                        let session = session.or_else(|| self.case.session_id.clone());
                        self.check_history(&session.unwrap_or_default(), state, checks)
                            .await;
                    }
                }
            }
            (Ok(outcome), Some(refused)) => {
                let found = outcome.as_str();
                checks.holds(
                    false,
                    format!("the signal is not refused with {refused}: {found}"),
                );
            }
            (Err(error), None) => {
                let category = error.category();
                checks.holds(false, format!("the signal is refused: {category}: {error}"));
            }
            (Err(error), Some(refused)) => {
                checks.equal(
                    "why the signal is refused",
                    &refused.as_str(),
                    &error.category(),
                );
            }
        }
        if let Some(expected) = &step.expected_listener_callback {
            self.check_callback(expected, &before, checks);
        }
    }

    fn check_callback(
        &self,
        expected: &ArrivalExpected,
        before: &BTreeMap<String, usize>,
        checks: &mut Checks,
    ) {
        let Some(listener) = self.listeners.get(&expected.listener) else {
            return checks.fail(format!("nobody listens as {}", expected.listener));
        };
        let told = lock(&listener.told).clone();
        let before = before.get(&expected.listener).copied().unwrap_or(0);
        match expected.times {
            Some(times) => checks.equal("how often the listener was told", &times, &told.len()),
            None => checks.equal(
                "how often the listener was told of it",
                &1,
                &(told.len() - before),
            ),
        }
        let Some(outcome) = told.last() else {
            return;
        };
        let expected = ChatTurnExpected {
            outcome: expected.outcome.clone(),
            replies: expected.replies.clone(),
            error_bucket: expected.error_bucket.clone(),
            error_category: expected.error_category.clone(),
            reply: expected.reply.clone(),
            ..ChatTurnExpected::default()
        };
        check_outcome(&expected, outcome, checks);
    }

    async fn check_turn(&self, turn: &ChatTurn, turned: &Turned, checks: &mut Checks) {
        let (expected, outcome) = (&turn.expected, &turned.outcome);
        check_outcome(expected, outcome, checks);
        if let Some(path) = &expected.dispatch_path {
            let found = json!(outcome.path().map(DispatchPath::as_str));
            checks.same("the path", path, Some(&found));
        }
        if let (Some(wanted), Some((_, ran))) = (expected.graph_ran, turned.alone) {
            checks.equal("that a node ran", &wanted, &ran);
        }
        if let Some(state) = &expected.final_state {
            self.check_history(&turn.session_id, state, checks).await;
        }
        if let (ChatTurnOutcome::Errored(errored), Some((asked, ran))) = (outcome, turned.alone) {
            let refused = [
                "chat_message_shape_invalid",
                "harness_session_id_unresolved",
            ];
            if refused.contains(&errored.error_category.as_str()) {
                checks.holds(!asked, "the store was asked for a message that is refused");
                checks.holds(!ran, "a node ran for a message that is refused");
            }
        }
    }

    async fn check_history(&self, session: &str, expected: &FinalHistory, checks: &mut Checks) {
        let kept = self.store.kept();
        let info = kept.session(session).await.ok().flatten();
        let length = info.as_ref().map_or(0, |info| info.seq);
        let all = usize::try_from(length).unwrap_or(usize::MAX);
        let history = kept.history(session, 0, all).await.unwrap_or_default();
        if let Some(count) = expected.messages_count {
            checks.equal("the number of messages", &count, &history.len());
        }
        if let Some(wanted) = &expected.messages {
            checks.equal("the number of messages", &wanted.len(), &history.len());
            for (number, (wanted, found)) in wanted.iter().zip(&history).enumerate() {
                message(&format!("message {}", number + 1), wanted, found, checks);
            }
        }
        if let Some(wanted) = &expected.messages_history_contains {
            let mut behind = history.iter();
            for wanted in wanted {
                let found = behind.by_ref().any(|found| covers(wanted, found));
                checks.holds(found, format!("the history lacks {wanted} at its place"));
            }
        }
        if let Some(fields) = &expected.fields {
            let found = info.map(|info| info.fields).unwrap_or_default();
            for (name, value) in fields {
                checks.same(&format!("the stored field {name}"), value, found.get(name));
            }
        }
    }

    /// Checks the end of every case: the store is sound and all inboxes are empty.
    async fn always(&self, checks: &mut Checks) {
        let kept = self.store.kept();
        match kept.verify(None).await {
            Ok(verified) => {
                checks.holds(
                    verified.faults.is_empty(),
                    format!("the store: {:?}", verified.faults),
                );
            }
            Err(error) => checks.fail(format!("the store cannot be verified: {error}")),
        }
    }
}
