//! Durable timers and retries of nodes.
//!
//! Both suspend the run until a time, which is in the metadata of the signal. The program that keeps the
//! run sends the signal once its clock has reached the time. The count of attempts is part of the
//! paused run, so it survives the process.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use serde_json::{Value, json};

use crate::pause::suspension::SignalDescriptor;

/// The entry of the metadata with the time.
const TIMER: &str = "timer";
const WAKE_AT: &str = "wake_at";

/// The retries of a node that fails.
///
/// An attempt fails with one of the categories; the run is then suspended for the backoff, and resumes
/// with the node. An attempt that wrote to the journal is not repeated, because it may have had effects.
///
/// ```
/// use std::time::Duration;
///
/// use logue_graph::RetryPolicy;
///
/// let policy = RetryPolicy::new(5)
///     .with_backoff(Duration::from_secs(1), Duration::from_secs(60))
///     .on("provider_unavailable");
/// assert_eq!(policy.backoff(3), Duration::from_secs(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    max_attempts: usize,
    first: Duration,
    longest: Duration,
    categories: Vec<String>,
}

impl RetryPolicy {
    /// Creates a policy with this number of attempts in total, and no backoff.
    ///
    /// It retries nothing until it has a category.
    pub fn new(max_attempts: usize) -> Self {
        Self {
            max_attempts,
            first: Duration::ZERO,
            longest: Duration::ZERO,
            categories: Vec::new(),
        }
    }

    /// Sets the time after the first attempt, and its limit.
    ///
    /// It doubles with each further attempt.
    #[must_use]
    pub const fn with_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// Adds a category of errors that are retried.
    #[must_use]
    pub fn on(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Returns the time between an attempt, counted from 1, and the next one.
    pub fn backoff(&self, attempt: usize) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// Returns the wait after a failed attempt, if another one follows.
    pub(crate) fn wait(&self, attempt: usize, category: Option<&str>) -> Option<Duration> {
        let is_retried = category.is_some_and(|one| self.categories.iter().any(|own| own == one));
        (is_retried && attempt < self.max_attempts).then(|| self.backoff(attempt))
    }
}

impl SignalDescriptor {
    /// Returns the time that a run waits for, in milliseconds since 1970.
    ///
    /// None if it waits for something else.
    pub fn wake_at(&self) -> Option<u64> {
        wake_at(self.metadata.as_ref())
    }

    /// Creates the signal of a timer.
    pub(crate) fn timer(signal_id: String, at: u64) -> Self {
        Self::new(signal_id).with_metadata(json!({ TIMER: { WAKE_AT: at } }))
    }

    /// Adds the failure after which the run waits.
    pub(crate) fn after_failure(mut self, attempt: usize, error: &str) -> Self {
        if let Some(Value::Object(metadata)) = &mut self.metadata {
            let failure = json!({ "attempt": attempt, "error": error });
            metadata.insert("retry".to_owned(), failure);
        }
        self
    }
}

/// Returns the time in the metadata of a suspension, if it waits for one.
///
/// It is in milliseconds since 1970.
pub fn wake_at(metadata: Option<&Value>) -> Option<u64> {
    metadata?.get(TIMER)?.get(WAKE_AT)?.as_u64()
}

/// The timers and notes of the attempts of one step.
#[derive(Debug, Default)]
pub(crate) struct StepNotes {
    /// The number of timers that are over.
    pub(crate) fired: usize,
    /// The number of timers that the attempt has asked for.
    pub(crate) asked: AtomicUsize,
    /// Set once an attempt writes to the journal.
    pub(crate) journalled: AtomicBool,
}
