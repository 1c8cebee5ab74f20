//! Runs that wait for a signal, as they are stored: the port, and two stores as one.

use std::sync::Arc;

use serde_json::Value;

use super::record::{
    LoadedSession, SessionRecord, SessionResult, SessionStore, SessionSummary, SummaryFilter,
};

/// The progress of a paused run. Only a suspended run can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PausedStatus {
    /// It waits for its signal.
    Suspended,
    /// A caller has claimed it to resume it.
    Claimed,
    /// It was resumed and reached its end.
    Completed,
    /// It was resumed and failed.
    Errored,
}

impl PausedStatus {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}

/// A paused run as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PausedRecord {
    /// The run, which keeps its id when it is resumed.
    pub invocation_id: String,
    /// The session that it belongs to, if any.
    pub session_id: Option<String>,
    /// The name under which its signal is to come.
    pub signal_id: String,
    /// The progress of the run.
    pub status: PausedStatus,
    /// The number of earlier pauses: a second suspension is another record to claim.
    pub round: u64,
    /// Everything that the run needs to resume; `Null` once it is over.
    pub run: Value,
}

/// The record of a session to be saved with something else or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionWrite {
    /// The record.
    pub record: SessionRecord,
    /// The version that it must have, if that matters.
    pub expected_version: Option<u64>,
}

/// Keeps paused runs.
pub trait PausedStore: Send + Sync {
    /// Saves a paused run together with the record of its session.
    ///
    /// It replaces an earlier one of the same invocation. Either both can be seen or neither.
    /// Returns the session's version.
    ///
    /// # Errors
    /// It could not be written; nothing is changed, and nothing can be resumed that could not before.
    fn pause(
        &self,
        paused: PausedRecord,
        beside: Option<SessionWrite>,
    ) -> SessionResult<'_, Option<u64>>;

    /// The latest record of an invocation.
    ///
    /// # Errors
    /// It could not be read.
    fn paused<'a>(&'a self, invocation_id: &'a str) -> SessionResult<'a, Option<PausedRecord>>;

    /// Takes a suspended record for oneself: `true` for exactly one caller for each round.
    ///
    /// # Errors
    /// It could not be written.
    fn claim<'a>(&'a self, invocation_id: &'a str, round: u64) -> SessionResult<'a, bool>;

    /// Records the end of a claimed run. Its resume data may be dropped.
    ///
    /// # Errors
    /// It could not be written.
    fn finish<'a>(&'a self, invocation_id: &'a str, status: PausedStatus) -> SessionResult<'a, ()>;

    /// The runs that wait for a signal of that name, oldest wait first.
    ///
    /// # Errors
    /// They could not be read.
    fn waiting<'a>(&'a self, signal_id: &'a str) -> SessionResult<'a, Vec<PausedRecord>>;
}

impl<S: PausedStore + ?Sized> PausedStore for Arc<S> {
    fn pause(
        &self,
        paused: PausedRecord,
        beside: Option<SessionWrite>,
    ) -> SessionResult<'_, Option<u64>> {
        (**self).pause(paused, beside)
    }

    fn paused<'a>(&'a self, invocation_id: &'a str) -> SessionResult<'a, Option<PausedRecord>> {
        (**self).paused(invocation_id)
    }

    fn claim<'a>(&'a self, invocation_id: &'a str, round: u64) -> SessionResult<'a, bool> {
        (**self).claim(invocation_id, round)
    }

    fn finish<'a>(&'a self, invocation_id: &'a str, status: PausedStatus) -> SessionResult<'a, ()> {
        (**self).finish(invocation_id, status)
    }

    fn waiting<'a>(&'a self, signal_id: &'a str) -> SessionResult<'a, Vec<PausedRecord>> {
        (**self).waiting(signal_id)
    }
}

/// A store of sessions and another one of paused runs as one.
///
/// Two media have no common transaction. The session is saved first and restored if the paused run
/// cannot be saved; a process that dies in between leaves a session that is ahead and
/// nothing to resume.
#[derive(Clone, Debug)]
pub struct CombinedStore<S, P> {
    sessions: S,
    paused: P,
}

impl<S: SessionStore, P: PausedStore> CombinedStore<S, P> {
    /// Both stores as one. The second one is never given a session to save.
    pub const fn new(sessions: S, paused: P) -> Self {
        Self { sessions, paused }
    }

    async fn put_back(&self, session_id: &str, before: Option<LoadedSession>, written: u64) {
        // The last save takes precedence, so a conflict does not count as a failure here.
        drop(match before {
            Some(before) => {
                let saved = self.sessions.save(before.record, Some(written)).await;
                saved.map(drop)
            }
            None => self.sessions.delete(session_id).await,
        });
    }
}

impl<S: SessionStore, P: PausedStore> PausedStore for CombinedStore<S, P> {
    fn pause(
        &self,
        paused: PausedRecord,
        beside: Option<SessionWrite>,
    ) -> SessionResult<'_, Option<u64>> {
        Box::pin(async move {
            let Some(write) = beside else {
                return self.paused.pause(paused, None).await;
            };
            let session_id = write.record.session_id.clone();
            let before = self.sessions.load(&session_id).await?;
            let expected = write.expected_version;
            let version = self.sessions.save(write.record, expected).await?;
            if let Err(error) = self.paused.pause(paused, None).await {
                self.put_back(&session_id, before, version).await;
                return Err(error);
            }
            Ok(Some(version))
        })
    }

    fn paused<'a>(&'a self, invocation_id: &'a str) -> SessionResult<'a, Option<PausedRecord>> {
        self.paused.paused(invocation_id)
    }

    fn claim<'a>(&'a self, invocation_id: &'a str, round: u64) -> SessionResult<'a, bool> {
        self.paused.claim(invocation_id, round)
    }

    fn finish<'a>(&'a self, invocation_id: &'a str, status: PausedStatus) -> SessionResult<'a, ()> {
        self.paused.finish(invocation_id, status)
    }

    fn waiting<'a>(&'a self, signal_id: &'a str) -> SessionResult<'a, Vec<PausedRecord>> {
        self.paused.waiting(signal_id)
    }
}

impl<S: SessionStore, P: PausedStore> SessionStore for CombinedStore<S, P> {
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>> {
        self.sessions.load(session_id)
    }

    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64> {
        self.sessions.save(record, expected_version)
    }

    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()> {
        self.sessions.delete(session_id)
    }

    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>> {
        self.sessions.list(filter)
    }
}
