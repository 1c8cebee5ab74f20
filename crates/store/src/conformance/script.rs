//! Arbitrary operations with equal results on a store and on the one in memory.
//!
//! A script is a list of numbers. Each is read as an operation on one of a few sessions, with one of
//! the leases that the script got so far, old ones too, so that refusals are as frequent as successes.

use std::fmt::Debug;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, CancelMode, Commit, Disposition, EntryPayload, Lease, LeaseResult, MemoryStore,
    NewEntry, NewOutcome, NewSuspension, OutcomeKind, SessionFilter, SessionFork, SharedStore,
    Store, StoreError, SuspensionFilter, SuspensionStatus,
};
use serde_json::{Map, Value, json};

use super::fixtures::sound;
use super::{Checked, ContractViolation, category, same};

/// Runs a script on an empty store and on an empty [`MemoryStore`], and compares them.
///
/// It compares the result of each operation and finally all stored content. Any list of numbers is a
/// script.
///
/// # Errors
/// Returns [`ContractViolation`] for the first result that differs.
pub async fn compare(store: &dyn Store, script: &[u64]) -> Result<(), ContractViolation> {
    let model = MemoryStore::new();
    let mut player = Player::default();
    let mut other = Player::default();
    for (step, &bits) in script.iter().enumerate() {
        let found = player.play(store, bits).await;
        let expected = other.play(&model, bits).await;
        same(&format!("step {step} ({bits:#x})"), found, expected)?;
    }
    same("the end", player.all(store).await, other.all(&model).await)?;
    sound(store).await.map(drop)
}

pub(super) async fn arbitrary_operations_are_answered_as_in_memory(store: SharedStore) -> Checked {
    compare(&*store, &arbitrary(0x5eed, 600)).await
}

/// Returns a script of arbitrary operations.
pub(super) fn arbitrary(mut state: u64, length: usize) -> Vec<u64> {
    (0..length)
        .map(|_| {
            // The generator of splitmix64; the choice is arbitrary.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        })
        .collect()
}

/// Runs a script on a store, and returns the ids of its sessions.
pub(super) async fn play(store: &dyn Store, script: &[u64]) -> [&'static str; 3] {
    let mut player = Player::default();
    for &bits in script {
        player.play(store, bits).await;
    }
    SESSIONS
}

const SESSIONS: [&str; 3] = ["s", "t", "u"];

/// Two acquisitions by one holder, and another holder.
const OWNERS: [&str; 3] = ["a#1", "a#2", "b"];

/// The state of a script: its leases and its clock.
#[derive(Default)]
struct Player {
    leases: Vec<Lease>,
    now: u64,
    invocations: u64,
}

/// Reads a number in parts.
struct Bits(u64);

impl Bits {
    fn below(&mut self, bound: u64) -> u64 {
        let value = self.0 % bound;
        self.0 /= bound;
        value
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    fn pick<T: Copy>(&mut self, options: &[T], otherwise: T) -> T {
        let count = u64::try_from(options.len()).unwrap_or(1).max(1);
        let index = usize::try_from(self.below(count)).unwrap_or_default();
        options.get(index).copied().unwrap_or(otherwise)
    }
}

impl Player {
    async fn play(&mut self, store: &dyn Store, bits: u64) -> String {
        let mut bits = Bits(bits);
        let kind = bits.below(26);
        self.now += bits.below(9);
        let now = Timestamp(self.now);
        let session = bits.pick(&SESSIONS, "s");
        match kind {
            0..=2 => {
                let entry = NewEntry {
                    work: EntryPayload::Message {
                        message: json!({ "at": self.now }),
                    },
                    key: bits.flip().then(|| format!("k{}", bits.below(4))),
                    digest: None,
                    retries: None,
                    only_if_idle: bits.below(4) == 0,
                    only_after: (bits.below(8) == 0).then(|| bits.below(3)),
                    only_created_at: None,
                    cancel: mode(bits.below(6)),
                    now,
                };
                debug_text(store.enqueue(session, entry).await)
            }
            3 | 4 => {
                let owner = bits.pick(&OWNERS, "b");
                let ttl = Duration::from_millis(bits.below(40));
                let answer = store.acquire(session, owner, now, ttl).await;
                if let Ok(LeaseResult::Lease(lease)) = &answer {
                    self.leases.push(lease.clone());
                }
                debug_text(answer)
            }
            24 | 25 => {
                let owner = bits.pick(&OWNERS, "b");
                let ttl = Duration::from_millis(bits.below(40));
                self.invocations += 1;
                let new_id = format!("i{}", self.invocations);
                let mut answer = store.begin(session, owner, &new_id, now, ttl).await;
                if let Ok(BeginResult::Turn(begun)) = &mut answer {
                    self.leases.push(begun.lease.clone());
                    if let Some(info) = &mut begun.info {
                        info.fields.sort_keys();
                        info.labels.sort_keys();
                    }
                }
                debug_text(answer)
            }
            5..=16 => self.with_lease(store, kind, &mut bits).await,
            17 | 18 => {
                let invocation = self.invocation(&mut bits);
                let payload = Map::from_iter([("now".to_owned(), json!(self.now))]);
                debug_text(store.signal(&invocation, None, payload, now).await)
            }
            19 => {
                let asked = mode(bits.below(2)).unwrap_or(CancelMode::Interrupt);
                debug_text(store.request_cancel(session, asked).await)
            }
            20 => {
                let name = bits.pick(&["x", "y"], "x");
                if bits.flip() {
                    let set = store.set_label_once(session, name, json!(self.now), now);
                    return debug_text(set.await);
                }
                debug_text(store.set_label(session, name, json!(self.now), now).await)
            }
            21 => {
                let into = bits.pick(&SESSIONS, "s");
                debug_text(
                    store
                        .fork(session, SessionFork::new(bits.below(6), into, now))
                        .await,
                )
            }
            // Deletion is rare, so that sessions grow.
            22 if bits.below(8) == 0 => debug_text(store.delete(session).await),
            _ => self.look(store, session, &mut bits).await,
        }
    }

    /// Runs an operation that requires a lease, with one of the latest leases.
    async fn with_lease(&mut self, store: &dyn Store, kind: u64, bits: &mut Bits) -> String {
        let age = usize::try_from(bits.below(8).saturating_sub(4)).unwrap_or_default();
        let Some(lease) = self.leases.iter().rev().nth(age).cloned() else {
            return "no lease".to_owned();
        };
        let now = Timestamp(self.now);
        let front = store.inbox(&lease.session).await.unwrap_or_default();
        let running = front
            .into_iter()
            .next()
            .and_then(|entry| entry.invocation_id);
        let invocation = match running {
            Some(running) if bits.below(8) > 0 => running,
            _ => self.invocation(bits),
        };
        match kind {
            5 | 6 => {
                self.invocations += 1;
                let new_id = format!("i{}", self.invocations);
                debug_text(store.claim_next(&lease, &new_id, now).await)
            }
            7 => debug_text(
                store
                    .renew(&lease, now, Duration::from_millis(bits.below(40)))
                    .await,
            ),
            8 if bits.flip() => debug_text(store.release(&lease).await),
            8..=10 => {
                let notes = (0..bits.below(3)).map(|note| json!([note, self.now]));
                debug_text(store.journal(&lease, &invocation, notes.collect()).await)
            }
            _ => {
                let info = store.session(&lease.session).await;
                let seq = info.ok().flatten().map_or(0, |info| info.seq);
                let expected = if bits.below(8) == 0 { seq + 1 } else { seq };
                let commit = self.commit(invocation, expected, bits);
                if bits.flip() {
                    return debug_text(store.commit_and_release(&lease, commit).await);
                }
                debug_text(store.commit(&lease, commit).await)
            }
        }
    }

    fn commit(&self, invocation_id: String, expected_seq: u64, bits: &mut Bits) -> Commit {
        let messages = (0..bits.below(3)).map(|message| json!({ "m": message, "at": self.now }));
        let outcome = |kind| NewOutcome {
            kind,
            replies_from: expected_seq,
            body: Value::Null,
        };
        let settle = match bits.below(8) {
            0 => None,
            1 => Some(Disposition::Requeue),
            2..=4 => Some(Disposition::Suspended {
                suspension: NewSuspension {
                    signal_id: bits.pick(&["mail", "call"], "mail").to_owned(),
                    metadata: bits.flip().then(|| json!(self.now)),
                    record: json!([self.now]),
                },
                outcome: outcome(OutcomeKind::Suspended),
            }),
            kind => Some(Disposition::Done {
                outcome: outcome(match kind {
                    5 => OutcomeKind::Errored,
                    6 => OutcomeKind::Cancelled,
                    _ => OutcomeKind::Completed,
                }),
                keep_journal: bits.flip(),
                keep_suspension: false,
            }),
        };
        Commit {
            invocation_id,
            expected_seq,
            messages: messages.collect(),
            fields: (0..bits.below(2))
                .map(|_| ("f".to_owned(), json!(self.now)))
                .collect(),
            schema_version: bits.flip().then(|| "1".to_owned()),
            settle,
            now: Timestamp(self.now),
        }
    }

    /// One of the latest invocations.
    fn invocation(&self, bits: &mut Bits) -> String {
        format!("i{}", self.invocations.saturating_sub(bits.below(4)))
    }

    async fn look(&self, store: &dyn Store, session: &str, bits: &mut Bits) -> String {
        let status = bits.pick(
            &[
                None,
                Some(SuspensionStatus::Suspended),
                Some(SuspensionStatus::Signalled),
                Some(SuspensionStatus::Resumed),
            ],
            None,
        );
        let filter = SuspensionFilter {
            session: bits.flip().then(|| session.to_owned()),
            signal_id: bits.flip().then(|| "mail".to_owned()),
            status,
            is_usable: false,
        };
        let from = bits.below(5);
        [
            debug_text(store.suspensions(filter).await),
            debug_text(store.history(session, from, 3).await),
            debug_text(store.outcomes_since(session, from, 3).await),
            debug_text(store.entry(session, from).await),
            debug_text(store.outcome_of(session, from).await),
        ]
        .join("\n")
    }

    /// Everything that can be read.
    async fn all(&self, store: &dyn Store) -> String {
        let mut list = store.list(SessionFilter::default()).await;
        for info in list.iter_mut().flatten() {
            // The order of names is unspecified.
            info.fields.sort_keys();
            info.labels.sort_keys();
        }
        let mut all = vec![
            debug_text(list),
            debug_text(store.suspensions(SuspensionFilter::default()).await),
        ];
        for session in SESSIONS {
            all.push(debug_text(store.inbox(session).await));
            all.push(debug_text(store.history(session, 0, usize::MAX).await));
            all.push(debug_text(
                store.outcomes_since(session, 0, usize::MAX).await,
            ));
            for invocation in (0..=self.invocations).map(|number| format!("i{number}")) {
                all.push(debug_text(store.notes(session, &invocation).await));
            }
        }
        for invocation in (0..=self.invocations).map(|number| format!("i{number}")) {
            all.push(debug_text(store.suspension(&invocation).await));
        }
        all.join("\n")
    }
}

fn mode(bits: u64) -> Option<CancelMode> {
    match bits {
        0 => Some(CancelMode::Interrupt),
        1 => Some(CancelMode::Rollback),
        _ => None,
    }
}

/// Formats a result as text; of errors, only the parts that all stores share.
fn debug_text<T: Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Fenced { epoch, current, .. }) => format!("fenced {epoch} {current}"),
        Err(StoreError::Conflict {
            expected, found, ..
        }) => format!("conflict {expected} {found}"),
        Err(error) => category(&error).to_owned(),
    }
}
