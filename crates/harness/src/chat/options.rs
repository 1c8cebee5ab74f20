//! Options and settings of a chat.

use std::time::Duration;

use crate::classification::ErrorBucket;
use crate::clock::Timestamp;
use crate::store::CancelMode;

/// The policy for a message that arrives while its session is busy.
///
/// A session is busy while another of its turns runs or waits to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BusyPolicy {
    /// It waits in the inbox for its turn.
    #[default]
    Enqueue,
    /// It is refused with `session_busy` and stored nowhere.
    Reject,
    /// The running turn ends; what it completed stays in the history.
    Interrupt,
    /// The running turn ends; only its started calls and their results become history.
    Rollback,
}

impl BusyPolicy {
    pub(super) const fn cancel(self) -> Option<CancelMode> {
        match self {
            Self::Enqueue | Self::Reject => None,
            Self::Interrupt => Some(CancelMode::Interrupt),
            Self::Rollback => Some(CancelMode::Rollback),
        }
    }
}

/// The policy for a message while a turn of its session waits for a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PausedPolicy {
    /// Runs the message as an ordinary turn.
    ///
    /// The waiting turn resumes after it when its signal arrives.
    #[default]
    Proceed,
    /// It is refused with `session_awaiting_signal`, which names the signal, and stored nowhere.
    Reject,
}

/// The policy for a turn whose process died after it had begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnCrash {
    /// The next owner continues it until it ends.
    ///
    /// Finished calls keep their results, an interrupted one gets the result `E-TOOL-CANCELLED`,
    /// and calls that were not started run. The graph runs again from its entry with these
    /// messages. After three recoveries the turn ends as with [`Stop`](Self::Stop). One after a process
    /// that was asked to end ([`ProcessLeases::release_all`]) does not count.
    ///
    /// [`ProcessLeases::release_all`]: crate::store::ProcessLeases::release_all
    #[default]
    Continue,
    /// The turn ends as `turn_interrupted`; its messages become history.
    ///
    /// A turn that its owner left because the store failed continues.
    Stop,
}

/// Options of one [`send_with`](super::ChatHarness::send_with).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendOptions {
    /// The name under which the same message may be delivered again: it is one turn, and each
    /// delivery gets its outcome.
    pub idempotency_key: Option<String>,
    /// The policy while another turn runs.
    pub busy: BusyPolicy,
    /// The policy while a turn waits for a signal.
    pub while_paused: PausedPolicy,
    /// The position of the outcome that the message must follow.
    pub only_after: Option<u64>,
    /// The time of creation of the session by which the message was permitted.
    pub only_created_at: Option<Timestamp>,
}

impl SendOptions {
    /// The options that `send` has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the message, so that it can be delivered again without being said again.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Chooses what to do while another turn runs.
    #[must_use]
    pub fn with_busy(mut self, busy: BusyPolicy) -> Self {
        self.busy = busy;
        self
    }

    /// Refuses the message with `session_write_conflict` unless the session has this time of creation.
    ///
    /// It is stored nowhere if the session was removed since it was read, also if another one has its
    /// id.
    #[must_use]
    pub fn with_only_created_at(mut self, at: Timestamp) -> Self {
        self.only_created_at = Some(at);
        self
    }

    /// Refuses the message with `session_busy` unless it follows the outcome at this position.
    ///
    /// It is stored nowhere if another turn runs, waits to run or has ended since then.
    #[must_use]
    pub fn with_only_after(mut self, outcome: u64) -> Self {
        self.only_after = Some(outcome);
        self
    }

    /// Chooses what to do while a turn waits for a signal.
    #[must_use]
    pub fn with_while_paused(mut self, while_paused: PausedPolicy) -> Self {
        self.while_paused = while_paused;
        self
    }
}

/// Durations and cache sizes of a chat. The defaults suit an interactive program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatConfig {
    /// The time for which an owner holds a session without renewal.
    ///
    /// It is also the time that others wait when an owner dies. The lease is renewed three times in
    /// that time.
    pub lease: Duration,
    /// The interval at which to check whether another process is done.
    pub poll: Duration,
    /// The number of sessions whose states are kept in memory.
    pub cached_sessions: usize,
}

impl Default for ChatConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            poll: Duration::from_millis(20),
            cached_sessions: 64,
        }
    }
}

impl ChatConfig {
    /// Changes how long a session is an owner's without being renewed.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Changes how often to look whether another process is done.
    #[must_use]
    pub const fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Changes how many sessions' states are kept in memory.
    #[must_use]
    pub const fn with_cached_sessions(mut self, cached_sessions: usize) -> Self {
        self.cached_sessions = cached_sessions;
        self
    }
}

/// Words for users. The bucket's meaning is fixed, its wording is not.
pub trait ErrorMessages: Send + Sync {
    /// The text shown to the user for an error of this bucket.
    ///
    /// A user-correctable one must repeat enough of the diagnostic that the user can act on it.
    fn reply(&self, bucket: ErrorBucket, category: &str, diagnostic: &str) -> String;
}

impl<F: Fn(ErrorBucket, &str, &str) -> String + Send + Sync> ErrorMessages for F {
    fn reply(&self, bucket: ErrorBucket, category: &str, diagnostic: &str) -> String {
        self(bucket, category, diagnostic)
    }
}

/// The words of the specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultErrorMessages;

impl ErrorMessages for DefaultErrorMessages {
    fn reply(&self, bucket: ErrorBucket, _category: &str, diagnostic: &str) -> String {
        bucket.default_reply(diagnostic)
    }
}
