//! Turns that run whether or not their client is connected.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{TurnEvent, TurnStop};
use logue_graph::IdSource;
use logue_harness::Clock;
use logue_harness::chat::{ChatEvent, ChatTurnOutcome, TurnStream};
use logue_harness::events::{EventBatch, ListenState, LogPosition};
use logue_harness::store::{EntryPayload, InboxEntry, StoreError};
use logue_message::ChatMessage;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::host::{ChatHost, SessionChat};
use super::hub::SessionHub;
use super::limits::{HeldPermits, TurnPermit};
use super::locks::SessionLocks;
use super::measure::{Measures, TurnMeter};
use super::outcomes::{MissingOutcomes, OWNER_FIRST, adopt, log_outcomes};
use super::sse::EventId;
use super::turn_events::TurnEvents;
use super::turn_log::TurnLog;
use super::turn_queue::TurnQueue;
use super::turn_span::TurnSpan;

/// The interval between two looks at outcomes that another process logs.
const LOOK: Duration = Duration::from_millis(50);

/// The running turns of a server.
pub(crate) struct Turns {
    pub(crate) host: Arc<dyn ChatHost>,
    pub(crate) hub: SessionHub,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) locks: SessionLocks,
    pub(crate) measures: Arc<Measures>,
    /// The permits of running turns.
    permits: HeldPermits,
    /// The outcomes that other processes have not logged yet.
    missing: MissingOutcomes,
    /// The number of running turns.
    running: watch::Sender<usize>,
    /// The running turns.
    tracked: std::sync::Mutex<Vec<TrackedTurn>>,
}

/// A running turn as the server sees it.
struct TrackedTurn {
    session: String,
    stop: TurnStop,
    /// Whether this process has its session; before that, the turn waits for others.
    is_holder: bool,
}

/// A turn that has begun.
pub(crate) struct RunningTurn {
    /// The entry of the inbox; `None` if the message was refused.
    pub(crate) entry: Option<u64>,
    /// The last event before the turn.
    pub(crate) after: EventId,
    /// The last event before its acceptance, if this turn has logged it.
    pub(crate) accepted_after: Option<EventId>,
    outcome: oneshot::Receiver<ChatTurnOutcome>,
}

impl RunningTurn {
    /// Waits for the outcome; `None` if the server ends before it.
    pub(crate) async fn outcome(self) -> Option<ChatTurnOutcome> {
        self.outcome.await.ok()
    }
}

/// The acceptance of a message.
struct Acceptance {
    entry: u64,
    /// The last event before it, if this turn has logged it.
    logged_after: Option<EventId>,
}

/// The acceptance of a turn whose events are logged.
struct LoggedAcceptance {
    /// The last event before it, if this turn has logged it.
    after: Option<EventId>,
    /// Whether no other task counts the turn.
    is_counted: bool,
}

/// The origin of a turn for the log.
#[derive(Default)]
pub(crate) struct TurnOrigin {
    /// The message that began it; a signal or a retry continues one.
    pub(crate) message: Option<ChatMessage>,
    /// Whether its acceptance may be in the log although no task logs its events.
    pub(crate) is_taken_over: bool,
    /// The permit of its client, held until it has ended; recovered turns need none.
    pub(crate) permit: Option<TurnPermit>,
}

impl TurnOrigin {
    /// Returns the origin of a turn that a message begins.
    pub(crate) fn message(message: ChatMessage) -> Self {
        Self {
            message: Some(message),
            ..Self::default()
        }
    }

    /// Adds the permit of the client.
    pub(crate) fn with_permit(mut self, permit: impl Into<Option<TurnPermit>>) -> Self {
        self.permit = permit.into();
        self
    }
}

impl Turns {
    pub(crate) fn new(
        host: Arc<dyn ChatHost>,
        hub: SessionHub,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self {
            host,
            hub,
            clock,
            ids,
            locks: SessionLocks::default(),
            measures: Arc::default(),
            permits: HeldPermits::default(),
            missing: MissingOutcomes::default(),
            running: watch::Sender::new(0),
            tracked: std::sync::Mutex::default(),
        }
    }

    /// Runs a turn to its end, and returns when its message is durable or refused.
    ///
    /// # Errors
    /// Returns an error if the log of the session cannot be read.
    pub(crate) async fn start(
        self: &Arc<Self>,
        session: &str,
        chat: SessionChat,
        origin: TurnOrigin,
        begin: impl FnOnce(SessionChat) -> TurnStream<TurnEvent>,
    ) -> Result<RunningTurn, StoreError> {
        let store = self.host.store();
        // Before the message is accepted: whenever this process ends, another one finds it missing.
        let position = adopt(&self.hub, &**store, &*self.clock, session).await?;
        let (accepted, acceptance) = oneshot::channel();
        let (ended, outcome) = oneshot::channel();
        let stop = chat.stop.clone();
        let span = TurnSpan::new(&self.host, &chat.agent, Some(session));
        let meter = TurnMeter::new(&self.measures, &chat.agent, span);
        let stream = begin(chat);
        let turns = Arc::clone(self);
        let session = session.to_owned();
        self.running.send_modify(|count| *count += 1);
        self.tracked().push(TrackedTurn {
            session: session.clone(),
            stop: stop.clone(),
            is_holder: false,
        });
        tokio::spawn(async move {
            // The count falls also if the task panics.
            let running = Running(&turns, stop);
            let outcome = turns
                .record((&session, &running), stream, origin, (accepted, meter))
                .await;
            if let Some(outcome) = outcome {
                drop(ended.send(outcome));
            }
        });
        let acceptance = acceptance.await.ok();
        Ok(RunningTurn {
            entry: acceptance.as_ref().map(|acceptance| acceptance.entry),
            after: EventId::of(position),
            accepted_after: acceptance.and_then(|acceptance| acceptance.logged_after),
            outcome,
        })
    }

    fn tracked(&self) -> std::sync::MutexGuard<'_, Vec<TrackedTurn>> {
        self.tracked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns whether this server runs a turn of a session.
    pub(crate) fn runs(&self, session: &str) -> bool {
        self.tracked().iter().any(|turn| turn.session == session)
    }

    /// Returns the sessions whose turns this process runs at the moment.
    pub(crate) fn held(&self) -> HashSet<String> {
        let tracked = self.tracked();
        let held = tracked.iter().filter(|turn| turn.is_holder);
        held.map(|turn| turn.session.clone()).collect()
    }

    /// Returns metrics in the text format of Prometheus.
    pub(crate) async fn metrics(&self) -> String {
        let running = *self.running.borrow();
        let store = self.host.store();
        if let Some(state) = self.hub.log().listening() {
            self.measures.set_listening(state == ListenState::Up);
        }
        self.measures.to_text(&**store, running).await
    }

    /// Waits until no turn runs, at most for `patience`.
    pub(crate) async fn drained(&self, patience: Duration) -> bool {
        let mut running = self.running.subscribe();
        let none = running.wait_for(|count| *count == 0);
        tokio::time::timeout(patience, none).await.is_ok()
    }

    fn running_stops(&self) -> Vec<TurnStop> {
        let tracked = self.tracked();
        tracked.iter().map(|turn| turn.stop.clone()).collect()
    }

    /// Makes the received parts of all answers durable, at most for `patience`.
    pub(crate) async fn save_parts(&self, patience: Duration) {
        let stops = self.running_stops();
        for stop in &stops {
            stop.request();
        }
        let saved = async {
            for stop in &stops {
                stop.saved().await;
            }
        };
        drop(tokio::time::timeout(patience, saved).await);
    }

    /// Drives a turn and logs its events.
    async fn record(
        &self,
        (session, running): (&str, &Running<'_>),
        mut stream: TurnStream<TurnEvent>,
        mut origin: TurnOrigin,
        (accepted, mut meter): (oneshot::Sender<Acceptance>, TurnMeter),
    ) -> Option<ChatTurnOutcome> {
        // Readers find recent events, and the position of the log, in memory.
        let _live = self.hub.live(session);
        let queue = TurnQueue::default();
        let mut permit = origin.permit.take();
        let span = meter.span().as_span().clone();
        let drive = async {
            let mut _held = None;
            while let Some(event) = stream.next().await {
                if let ChatEvent::Accepted { entry } = event
                    && let Some(permit) = permit.take()
                {
                    _held = Some(self.permits.hold(session, entry, permit));
                }
                queue.push(event);
            }
            queue.end();
        };
        let log = async {
            let meter = &mut meter;
            let mut turn_log: Option<TurnLog<'_>> = None;
            let mut accepted = Some(accepted);
            let mut is_holder = false;
            let mut outcome = None;
            loop {
                let received = queue.take().await;
                if received.is_empty() {
                    break;
                }
                for event in received {
                    meter.event(&event);
                    match event {
                        ChatEvent::Accepted { entry } => {
                            let begun = self.log_acceptance(session, entry, &origin).await;
                            if let Some(begun) = &begun {
                                if begun.is_counted {
                                    meter.begin(origin.message.as_ref());
                                }
                                let is_repeated = begun.after.is_none();
                                let turn = (session, entry);
                                let log = TurnLog::new(self, turn, is_repeated);
                                turn_log = Some(log);
                            }
                            if let Some(accepted) = accepted.take() {
                                let logged_after = begun.and_then(|begun| begun.after);
                                // The request may have ended.
                                drop(accepted.send(Acceptance {
                                    entry,
                                    logged_after,
                                }));
                            }
                        }
                        ChatEvent::Outcome(ended) => outcome = Some(*ended),
                        event => {
                            if !std::mem::replace(&mut is_holder, true) {
                                running.holds();
                            }
                            if let Some(log) = &mut turn_log {
                                log.event(event).await;
                            }
                        }
                    }
                }
                if let Some(log) = &mut turn_log {
                    log.append().await;
                }
            }
            if let Some(log) = &mut turn_log {
                log.finish().await;
            }
            (outcome, turn_log.and_then(|log| log.last_entry()))
        };
        let ((), (outcome, own)) = tokio::join!(drive.instrument(span), log);
        if let Some(outcome) = &outcome {
            // Without the store, the span has no link.
            drop(meter.span().link(&*self.clock, session, outcome).await);
        }
        // A failure is repeated by the supervisor.
        drop(match own {
            Some(own) => self.log_own_outcome(session, own).await,
            None => self.log_outcomes(session).await.map(drop),
        });
        outcome
    }

    /// Returns the sessions whose logs lack outcomes of other processes.
    pub(super) fn sessions_behind(&self) -> Vec<String> {
        self.missing.sessions()
    }

    /// Appends the outcomes of a session that its log does not contain.
    ///
    /// Returns `false` if some are left to the processes that ran their turns.
    pub(crate) async fn log_outcomes(&self, session: &str) -> Result<bool, StoreError> {
        self.log_outcomes_with(session, None).await
    }

    async fn log_outcomes_with(&self, session: &str, own: Option<u64>) -> Result<bool, StoreError> {
        let store = self.host.store();
        let log = (&self.hub, &self.permits, &self.missing);
        log_outcomes(log, &**store, &*self.clock, (session, own)).await
    }

    /// Appends the outcome of an entry whose events this process has appended, after earlier ones.
    pub(super) async fn log_own_outcome(&self, session: &str, own: u64) -> Result<(), StoreError> {
        let logged = self.log_outcomes_until(session, own, Some(own)).await;
        logged.map(drop)
    }

    /// Waits until the outcomes before an entry are logged, and returns whether they are.
    ///
    /// Appends those that their own processes do not log in time.
    pub(super) async fn log_earlier_outcomes(
        &self,
        session: &str,
        entry: u64,
    ) -> Result<bool, StoreError> {
        let last = entry.saturating_sub(1);
        self.log_outcomes_until(session, last, None).await
    }

    /// Appends the outcomes before an entry whose own processes had their time, without waiting.
    ///
    /// Returns whether all are logged.
    pub(super) async fn log_due_outcomes(
        &self,
        session: &str,
        entry: u64,
    ) -> Result<bool, StoreError> {
        let is_complete = self.log_outcomes_with(session, None).await?;
        Ok(is_complete || self.hub.position(session).await?.settled + 1 >= entry)
    }

    async fn log_outcomes_until(
        &self,
        session: &str,
        last: u64,
        own: Option<u64>,
    ) -> Result<bool, StoreError> {
        let end = Instant::now() + 2 * OWNER_FIRST;
        loop {
            if self.hub.position(session).await?.settled >= last {
                return Ok(true);
            }
            let is_complete = self.log_outcomes_with(session, own).await?;
            let is_logged = is_complete || self.hub.position(session).await?.settled >= last;
            if is_logged || Instant::now() >= end {
                return Ok(is_logged);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Logs the acceptance of an entry, once, after those of all earlier entries.
    ///
    /// Returns `None` if the log fails. A message that is delivered again has been accepted; its
    /// events are those of the task that runs its turn.
    async fn log_acceptance(
        &self,
        session: &str,
        entry: u64,
        origin: &TurnOrigin,
    ) -> Option<LoggedAcceptance> {
        let own = acceptance(entry, origin.message.as_ref());
        let mut has_looked = false;
        loop {
            let position = self.hub.position(session).await.ok()?;
            let has_earlier = position.settled + 1 < entry;
            if has_earlier && entry > position.accepted && !has_looked {
                // The turns that ended before this message was accepted end before it in the log.
                has_looked = true;
                // A failure is that of the append below.
                drop(self.log_earlier_outcomes(session, entry).await);
                continue;
            }
            if entry <= position.accepted {
                return Some(LoggedAcceptance {
                    after: None,
                    is_counted: origin.is_taken_over,
                });
            }
            let Some(mut events) = self
                .earlier_acceptances(session, position, entry)
                .await
                .ok()?
            else {
                continue;
            };
            events.extend(own.iter().cloned());
            let batch = EventBatch {
                progress: Some((position, position.with_accepted(entry))),
                lease: None,
                events,
                now: self.clock.now(),
            };
            match self.hub.append(session, batch).await {
                Ok(Some(now)) => {
                    let id = EventId::of(now);
                    return Some(LoggedAcceptance {
                        after: Some(id.at(id.seq.saturating_sub(1))),
                        is_counted: true,
                    });
                }
                Ok(None) => {
                    // Another process has moved the log, or it was lost and begins anew.
                    let store = self.host.store();
                    let begun = adopt(&self.hub, &**store, &*self.clock, session).await;
                    begun.ok()?;
                }
                Err(_) => return None,
            }
        }
    }

    /// Returns the acceptances before an entry that other nodes have not logged yet.
    ///
    /// Returns `None` if outcomes were logged instead, which moves the log.
    async fn earlier_acceptances(
        &self,
        session: &str,
        position: LogPosition,
        entry: u64,
    ) -> Result<Option<Vec<(u64, Arc<str>)>>, StoreError> {
        if position.accepted + 1 >= entry {
            return Ok(Some(Vec::new()));
        }
        let inbox = self.host.store().inbox(session).await?;
        let missing = (position.accepted + 1)..entry;
        let mut events = Vec::new();
        for earlier in inbox.iter().filter(|one| missing.contains(&one.entry)) {
            events.extend(acceptance(earlier.entry, message_of(earlier).as_ref()));
        }
        // Those that are settled enter the log with their outcomes.
        if (events.len() as u64) < entry - 1 - position.accepted {
            self.log_earlier_outcomes(session, entry).await?;
            if self.hub.position(session).await? != position {
                return Ok(None);
            }
        }
        Ok(Some(events))
    }
}

/// Returns the event of the acceptance of an entry.
fn acceptance(entry: u64, message: Option<&ChatMessage>) -> Vec<(u64, Arc<str>)> {
    let mut events = TurnEvents::new(entry);
    events.accepted(message);
    events.take()
}

/// Returns the message of an entry that is not a decision or a retry.
pub(super) fn message_of(entry: &InboxEntry) -> Option<ChatMessage> {
    match &entry.work {
        Some(EntryPayload::Message { message }) => ChatMessage::from_json(message).ok(),
        _ => None,
    }
}

/// The count of a running turn.
struct Running<'a>(&'a Turns, TurnStop);

impl Running<'_> {
    /// Notes that this process has the session of the turn.
    fn holds(&self) {
        let mut tracked = self.0.tracked();
        let own = tracked.iter_mut().find(|turn| turn.stop.is_same(&self.1));
        if let Some(own) = own {
            own.is_holder = true;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
        let own = &self.1;
        self.0.tracked().retain(|turn| !turn.stop.is_same(own));
    }
}
