//! The failures of a server's store, as lines on standard error.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use logue_harness::Timestamp;
use logue_harness::events::ListenState;
use logue_harness::store::{
    BeginResult, Commit, EnqueueResult, Lease, NewEntry, SharedStore, Store, StoreError,
    StoreLayer, StoreResult,
};
use logue_source::escape_line;
use serde_json::Value;

use crate::setup::store::store_failure;
use crate::terminal::print_error;

/// The time after which a failure that continues is written again.
const AGAIN: Duration = Duration::from_secs(30);
/// The shortest time between two different failures.
const OTHER: Duration = Duration::from_secs(1);
/// The time without a failure after which the store works again.
const CALM: Duration = Duration::from_secs(3);

/// The time for the answer of a store that has refused a change.
const ANSWER: Duration = Duration::from_secs(1);
/// The time for which a write that failed counts. A turn that cannot end is tried again earlier.
const REFUSED: Duration = Duration::from_secs(20);

/// The kind of a change: one may fail while others succeed.
#[derive(Clone, Copy)]
enum Write {
    Enqueue,
    Journal,
    Commit,
}

/// A store whose failures are written to standard error, at most one each second.
///
/// It is not ready while it refuses changes.
pub(crate) struct LoggedStore {
    inner: SharedStore,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// The last line, and when it was written.
    written: Option<(String, Instant)>,
    /// The number of failures since then.
    omitted: u64,
    /// The first and the last failure, until the store works again.
    failing: Option<(Instant, Instant)>,
    /// The last failure of each kind of [`Write`] that has not succeeded since.
    refused: [Option<(Instant, StoreError)>; 3],
}

impl LoggedStore {
    /// Wraps a store.
    pub(crate) fn new(inner: SharedStore) -> Self {
        Self {
            inner,
            log: Mutex::default(),
        }
    }

    fn note<T>(&self, write: Option<Write>, result: &Result<T, StoreError>) {
        let now = Instant::now();
        let failed = result.as_ref().err();
        let failed = failed.and_then(|error| Some((error, failure_line(error)?)));
        let mut log = self.lock();
        if let Some(write) = write {
            log.refused[write as usize] = failed.as_ref().map(|(error, _)| (now, (*error).clone()));
        }
        let line = match (failed, result) {
            (Some((_, line)), _) => log.fails(line, now),
            (None, Ok(_)) => log.works(now),
            (None, Err(_)) => None,
        };
        drop(log);
        if let Some(line) = line {
            print_error(&line);
        }
    }

    /// Runs a change.
    ///
    /// Its failure is that of the store until a change of its kind succeeds.
    fn write<'a, T: Send + 'static>(
        &'a self,
        write: Write,
        running: StoreResult<'a, T>,
    ) -> StoreResult<'a, T> {
        Box::pin(async move {
            let result = running.await;
            self.note(Some(write), &result);
            result
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Returns the line of a failure, unless it is too early for one.
    fn fails(&mut self, line: String, now: Instant) -> Option<String> {
        let first = self.failing.map_or(now, |(first, _)| first);
        self.failing = Some((first, now));
        if let Some((last, at)) = &self.written {
            let pause = if *last == line { AGAIN } else { OTHER };
            if now.duration_since(*at) < pause {
                self.omitted += 1;
                return None;
            }
        }
        let omitted = std::mem::take(&mut self.omitted);
        let text = match omitted {
            0 => format!("{line}\n"),
            omitted => format!("{line} ({omitted} more since the last line)\n"),
        };
        self.written = Some((line, now));
        Some(text)
    }

    /// Returns the line of a store that works again.
    fn works(&mut self, now: Instant) -> Option<String> {
        let (first, last) = self.failing?;
        // Other operations succeed while changes of a kind are refused.
        if now.duration_since(last) < CALM || self.refusal(now).is_some() {
            return None;
        }
        *self = Self::default();
        Some(match last.duration_since(first).as_secs() {
            0 => "store works again\n".to_owned(),
            seconds => format!("store works again: it failed for {seconds} s\n"),
        })
    }

    /// Returns the error of changes that are refused.
    fn refusal(&self, now: Instant) -> Option<&StoreError> {
        let mut refused = self.refused.iter().flatten();
        let recent = refused.find(|(at, _)| now.duration_since(*at) < REFUSED);
        recent.map(|(_, error)| error)
    }
}

/// Returns the line of a failure, or `None` for a refusal of a request.
fn failure_line(error: &StoreError) -> Option<String> {
    let is_failure = matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::NotAStore(_)
            | StoreError::ReadOnly(_)
            | StoreError::Newer { .. }
            | StoreError::Damaged(_)
    );
    is_failure.then(|| {
        let failure = store_failure(error);
        format!(
            "store failed: {}: {}",
            failure.code,
            escape_line(&error.to_string())
        )
    })
}

/// Writes whether notifications of other nodes arrive.
pub(crate) fn print_listening(state: &ListenState) {
    print_error(&match state {
        ListenState::Down(reason) => format!(
            "listen failed: {}; changes of other nodes are found by polling\n",
            escape_line(reason)
        ),
        _ => "listening for notifications of other nodes\n".to_owned(),
    });
}

impl StoreLayer for LoggedStore {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        let running = operation(&*self.inner);
        Box::pin(async move {
            let result = running.await;
            self.note(None, &result);
            result
        })
    }

    fn ready(&self) -> StoreResult<'_, ()> {
        let refusal = self.lock().refusal(Instant::now()).cloned();
        let running = self.forward(|store| store.ready());
        Box::pin(async move {
            let Some(refusal) = refusal else {
                return running.await;
            };
            // The answer of the store names the cause, which the error of a change may not. A store
            // that is slow as well has the known cause.
            match tokio::time::timeout(ANSWER, running).await {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Err(refusal),
            }
        })
    }

    fn enqueue<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        self.write(Write::Enqueue, self.inner.enqueue(session, entry))
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        let running = self.inner.journal(lease, invocation_id, notes);
        self.write(Write::Journal, running)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.write(Write::Commit, self.inner.commit(lease, commit))
    }

    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult> {
        self.forward(move |store| store.begin(session, owner, invocation_id, now, ttl))
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let running = self.inner.commit_and_release(lease, commit);
        self.write(Write::Commit, running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rare_and_count_what_they_omit() {
        let mut log = Log::default();
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let failed = |log: &mut Log, line: &str, millis| log.fails(line.to_owned(), at(millis));
        assert_eq!(failed(&mut log, "a", 0).as_deref(), Some("a\n"));
        assert_eq!(failed(&mut log, "b", 900), None);
        assert_eq!(failed(&mut log, "a", 2_000), None);
        let other = failed(&mut log, "b", 2_100);
        assert_eq!(other.as_deref(), Some("b (2 more since the last line)\n"));
        assert_eq!(log.works(at(5_000)), None);
        let works = log.works(at(5_100));
        assert_eq!(
            works.as_deref(),
            Some("store works again: it failed for 2 s\n")
        );
        assert_eq!(log.works(at(9_000)), None);
    }
    #[test]
    fn refused_changes_are_not_over_when_others_succeed() {
        let mut log = Log::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let full = StoreError::NotAStore("full".to_owned());
        for seconds in [0, 15] {
            log.refused[Write::Commit as usize] = Some((at(seconds), full.clone()));
            log.fails("full".to_owned(), at(seconds));
            assert_eq!(log.works(at(seconds + 14)), None);
            assert!(log.refusal(at(seconds + 14)).is_some());
        }
        log.refused[Write::Commit as usize] = None;
        let works = log.works(at(20));
        assert_eq!(
            works.as_deref(),
            Some("store works again: it failed for 15 s\n")
        );
        // A single failure has no duration, and counts until it is old.
        log.refused[Write::Commit as usize] = Some((at(30), full));
        log.fails("full".to_owned(), at(30));
        assert_eq!(log.works(at(49)), None);
        assert_eq!(log.works(at(50)).as_deref(), Some("store works again\n"));
    }
}
