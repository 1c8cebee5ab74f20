//! The background work of a server: recovery, timers, outcomes of other processes, old events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::chat::{ChatTurnOutcome, wake_time};
use logue_harness::events::SessionChanges;
use logue_harness::store::{SessionFilter, StoreError, SuspensionFilter, SuspensionStatus};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::host::TurnAgent;
use super::problem::Problem;
use super::turns::{TurnOrigin, Turns, message_of};

/// The interval between two checks for changes by other processes.
const LOOK: Duration = Duration::from_millis(200);
/// The interval between two checks of timers, deadlines and left turns.
const TIMERS: Duration = Duration::from_secs(2);
/// The longest wait between two attempts of a turn.
///
/// The first wait is [`TIMERS`], and each further one is twice as long. An attempt may cost a request
/// to the model.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// The number of sessions whose outcomes are logged at once.
///
/// It is less than the number of connections of a store.
const LOGGED_AT_ONCE: usize = 2;
/// The interval between two removals of old events.
const TRIM: Duration = Duration::from_secs(600);

/// The background work of a server. Cloning shares its state.
///
/// Each part runs in a task of its own: a statement that waits for a silent connection delays no
/// other part, and no other session.
#[derive(Clone)]
pub(super) struct Supervisor {
    turns: Arc<Turns>,
    event_age: Duration,
    /// The sessions whose entries this server processes.
    busy: Arc<Marks>,
    /// The sessions whose turns could not end, with the time of the next attempt.
    waits: Arc<Waits>,
    /// The sessions whose outcomes this server logs.
    logging: Arc<Marks>,
    /// The number of sessions whose outcomes are logged at once.
    permits: Arc<Semaphore>,
    /// The sessions whose outcomes may be missing in their logs.
    behind: Arc<Marks>,
}

type Marks = std::sync::Mutex<BTreeSet<String>>;

/// The waits before the next attempts, by session.
#[derive(Default)]
struct Waits(std::sync::Mutex<BTreeMap<String, Wait>>);

/// The wait before the next attempt of a turn.
#[derive(Clone, Copy)]
struct Wait {
    length: Duration,
    until: Instant,
}

impl Waits {
    /// Returns whether the next attempt may begin.
    fn is_over(&self, session: &str) -> bool {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = waits.get(session);
        wait.is_none_or(|wait| wait.until <= Instant::now())
    }

    /// Notes the end of an attempt. Each failure makes the wait twice as long.
    fn note(&self, session: &str, has_failed: bool) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = waits.remove(session);
        if !has_failed {
            return;
        }
        let length = earlier.map_or(TIMERS, |wait| (wait.length * 2).min(LONGEST_WAIT));
        let until = Instant::now() + length;
        waits.insert(session.to_owned(), Wait { length, until });
    }

    /// Removes the sessions that have no work.
    fn retain(&self, pending: &BTreeSet<&str>) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|session, _| pending.contains(session.as_str()));
    }
}

impl Supervisor {
    pub(super) fn new(turns: Arc<Turns>, event_age: Duration) -> Self {
        Self {
            turns,
            event_age,
            busy: Arc::default(),
            waits: Arc::default(),
            logging: Arc::default(),
            permits: Arc::new(Semaphore::new(LOGGED_AT_ONCE)),
            behind: Arc::default(),
        }
    }

    /// Works without end.
    pub(super) async fn run(self) {
        let mut seen = None;
        let mut foreign = None;
        let mut listening = None;
        let mut missed = BTreeSet::new();
        let mut timers = Instant::now();
        let mut trim = Instant::now();
        let (mut continuing, mut ending) = (None, None);
        loop {
            if !self.wait(&mut missed).await {
                let changes = self.turns.hub.log().foreign_changes().await.ok();
                if changes != foreign {
                    missed.extend(self.turns.hub.sweep());
                    foreign = changes;
                }
                missed = self.turns.hub.catch_up(missed).await;
                let version = self.turns.host.store().version().await.ok().flatten();
                if version.is_none() || version != seen {
                    lock(&self.behind).extend(self.turns.hub.sweep());
                    seen = version;
                }
                tokio::time::sleep(LOOK).await;
            }
            self.log_outcomes();
            let now = self.turns.hub.log().listening();
            // Other reasons of one silence are not reported.
            let kind = now.as_ref().map(std::mem::discriminant);
            if let Some(now) = now.filter(|_| kind != listening) {
                self.turns.host.listening_changed(&now);
                listening = kind;
            }
            if Instant::now() >= timers {
                // A store that is away is tried again.
                let own = self.clone();
                begin(&mut continuing, async move { own.continue_turns().await });
                let own = self.clone();
                begin(&mut ending, async move { own.end_removed().await });
                timers = Instant::now() + TIMERS;
            }
            if Instant::now() >= trim {
                let turns = Arc::clone(&self.turns);
                tokio::spawn(clean(turns, self.event_age));
                trim = Instant::now() + TRIM;
            }
        }
    }

    /// Waits for changes of followed sessions, and wakes their readers.
    ///
    /// Returns `false` if the log cannot wait, or is away.
    async fn wait(&self, missed: &mut BTreeSet<String>) -> bool {
        let hub = &self.turns.hub;
        let followed = hub.sweep();
        let Some(changes) = hub.log().changes(&followed) else {
            return false;
        };
        let changed: BTreeSet<String> = match changes.await {
            Err(_) => return false,
            Ok(SessionChanges::Sessions(changed)) => changed,
            Ok(_) => hub.sweep().into_iter().collect(),
        };
        lock(&self.behind).extend(changed.iter().cloned());
        missed.extend(changed);
        *missed = hub.catch_up(std::mem::take(missed)).await;
        true
    }

    /// Logs the outcomes of sessions that may be missing in their logs.
    ///
    /// A session stays among them while a turn of this server has it: that turn logs its outcome
    /// itself, and no other process stores one meanwhile.
    fn log_outcomes(&self) {
        let mut behind = lock(&self.behind);
        behind.extend(self.turns.sessions_behind());
        if behind.is_empty() {
            return;
        }
        let held = self.turns.held();
        let mut logging = lock(&self.logging);
        let (now, later): (BTreeSet<_>, BTreeSet<_>) = std::mem::take(&mut *behind)
            .into_iter()
            .partition(|session| !held.contains(session) && !logging.contains(session));
        *behind = later;
        logging.extend(now.iter().cloned());
        for session in now {
            let own = self.clone();
            tokio::spawn(async move {
                let _mark = Mark(&own.logging, &session);
                // The semaphore is never closed.
                let _permit = own.permits.acquire().await;
                if own.turns.log_outcomes(&session).await.is_err() {
                    lock(&own.behind).insert(session.clone());
                }
            });
        }
    }

    /// Ends the logs of followed sessions that were removed.
    async fn end_removed(&self) -> Result<(), StoreError> {
        let held = self.turns.held();
        for session in self.turns.hub.sweep() {
            if held.contains(&session) {
                continue;
            }
            let known = self.turns.host.store().session(&session).await?;
            if known.is_none() && !self.turns.runs(&session) {
                self.turns.hub.remove(&session).await?;
            }
        }
        Ok(())
    }

    /// Continues turns whose process ended or whose wait is over.
    async fn continue_turns(&self) -> Result<(), StoreError> {
        let store = self.turns.host.store();
        let due = self.due().await?;
        let filter = SessionFilter {
            is_pending: true,
            ..SessionFilter::default()
        };
        let mut found = store.list(filter).await?;
        for session in &due {
            if found.iter().all(|info| info.session != *session) {
                found.extend(store.session(session).await?);
            }
        }
        let pending = found.iter().map(|info| info.session.as_str()).collect();
        self.waits.retain(&pending);
        for info in found {
            if info.elsewhere.is_some() || !self.waits.is_over(&info.session) {
                continue;
            }
            let is_due = due.contains(&info.session);
            if info.pending == 0 && !is_due || self.turns.host.agent_of(&info).is_none() {
                continue;
            }
            if !lock(&self.busy).insert(info.session.clone()) {
                continue;
            }
            let own = self.clone();
            tokio::spawn(async move {
                let _mark = Mark(&own.busy, &info.session);
                let ended = continue_session(&own.turns, &info.session, is_due).await;
                own.waits.note(&info.session, !ended.unwrap_or_default());
            });
        }
        Ok(())
    }

    /// Returns the sessions with a turn whose wait is over.
    async fn due(&self) -> Result<BTreeSet<String>, StoreError> {
        let filter = SuspensionFilter {
            status: Some(SuspensionStatus::Suspended),
            is_usable: true,
            ..SuspensionFilter::default()
        };
        let now = self.turns.clock.now();
        let waiting = self.turns.host.store().suspensions(filter).await?;
        let due = waiting.into_iter().filter(|waiting| {
            let at = wake_time(waiting).or_else(|| logue_agent::deadline(waiting));
            at.is_some_and(|at| at <= now)
        });
        Ok(due.map(|waiting| waiting.session).collect())
    }
}

/// Removes old events, and the events of sessions that were removed.
async fn clean(turns: Arc<Turns>, event_age: Duration) {
    let log = turns.hub.log();
    let age = u64::try_from(event_age.as_millis()).unwrap_or(u64::MAX);
    let before = Timestamp(turns.clock.now().0.saturating_sub(age));
    // Appends take place between the steps.
    while log.trim(before).await.is_ok_and(|removed| removed > 0) {}
    for session in log.sessions().await.unwrap_or_default() {
        let known = turns.host.store().session(&session).await;
        if matches!(known, Ok(None)) && !turns.runs(&session) {
            // What failed is tried again after the next interval.
            drop(turns.hub.remove(&session).await);
        }
    }
}

/// Processes the first entry of a session that no task of this server processes.
///
/// Returns `false` if the store did not let its turn end.
async fn continue_session(
    turns: &Arc<Turns>,
    session: &str,
    is_due: bool,
) -> Result<bool, Problem> {
    let chat = turns.host.chat(session, TurnAgent::Stored).await?;
    if is_due {
        chat.chat.expire(session).await?;
    }
    let inbox = turns.host.store().inbox(session).await?;
    let Some(first) = inbox.first().filter(|_| !turns.runs(session)) else {
        return Ok(true);
    };
    let origin = TurnOrigin {
        message: message_of(first),
        is_taken_over: true,
        permit: None,
    };
    let (own, entry) = (session.to_owned(), first.entry);
    let turn = turns.start(session, chat, origin, move |chat| {
        chat.chat.entry_streaming(&own, entry)
    });
    let outcome = turn.await?.outcome().await;
    let has_failed =
        matches!(&outcome, Some(ChatTurnOutcome::Errored(errored)) if errored.transient);
    Ok(!has_failed)
}

/// Begins a part of the work, unless it still runs.
fn begin(
    running: &mut Option<JoinHandle<()>>,
    part: impl Future<Output = Result<(), StoreError>> + Send + 'static,
) {
    if running.as_ref().is_none_or(JoinHandle::is_finished) {
        *running = Some(tokio::spawn(async move { drop(part.await) }));
    }
}

/// The mark of a session in a set, which ends with the work for it.
struct Mark<'a>(&'a Marks, &'a str);

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(self.1);
    }
}

fn lock(marks: &Marks) -> MutexGuard<'_, BTreeSet<String>> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}
