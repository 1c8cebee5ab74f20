//! The labels that a turn sets on its session.

use logue_harness::store::{BoundLabel, LabelResult, SessionInfo, SharedStore};
use logue_harness::{Clock as _, SystemClock, Timestamp};
use serde_json::Value;

use crate::exit::{CliError, Exit};
use crate::setup::store::{shown_id, store_failure};

/// Sets labels of a session.
///
/// A session that has taken the id of a known one since gets none: it may belong to others.
pub(crate) struct SessionLabels<'a> {
    store: &'a SharedStore,
    session: &'a str,
    /// The time of creation of the known session; `None` for a new one.
    created_at: Option<Timestamp>,
}

impl<'a> SessionLabels<'a> {
    /// Returns the labels of a session as it was read; a missing one is created.
    pub(crate) fn new(
        store: &'a SharedStore,
        session: &'a str,
        known: Option<&SessionInfo>,
    ) -> Self {
        Self {
            store,
            session,
            created_at: known.map(|info| info.created_at),
        }
    }

    /// Returns the time of creation of the session, if it was read.
    pub(crate) const fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// Sets a label.
    ///
    /// # Errors
    /// Returns an error if the store fails, or the session was removed.
    pub(crate) async fn set(&self, name: &str, value: Value) -> Result<(), CliError> {
        let Some(created_at) = self.created_at else {
            let now = SystemClock.now();
            let set = self.store.set_label(self.session, name, value, now).await;
            return set.map_err(|error| store_failure(&error));
        };
        self.set_bound(created_at, name, value, false).await?;
        Ok(())
    }

    /// Sets a label unless the session has one of the name. Returns the earlier value.
    ///
    /// # Errors
    /// Returns an error if the store fails, or the session was removed.
    pub(crate) async fn set_once(
        &self,
        name: &str,
        value: Value,
    ) -> Result<Option<Value>, CliError> {
        let Some(created_at) = self.created_at else {
            let now = SystemClock.now();
            let set = self.store.set_label_once(self.session, name, value, now);
            return set.await.map_err(|error| store_failure(&error));
        };
        self.set_bound(created_at, name, value, true).await
    }

    async fn set_bound(
        &self,
        created_at: Timestamp,
        name: &str,
        value: Value,
        only_if_new: bool,
    ) -> Result<Option<Value>, CliError> {
        let label = BoundLabel {
            name: name.to_owned(),
            value,
            only_created_at: created_at,
            only_if_new,
            now: SystemClock.now(),
        };
        let set = self.store.set_bound_label(self.session, label).await;
        match set.map_err(|error| store_failure(&error))? {
            LabelResult::Kept(earlier) => Ok(Some(earlier)),
            LabelResult::OtherSession => Err(replaced(self.session)),
            _ => Ok(None),
        }
    }
}

/// Returns the error of a turn whose session was removed since it was read.
pub(crate) fn replaced(session: &str) -> CliError {
    let session = shown_id(session);
    let message = format!("the session `{session}` was removed after the message was checked");
    CliError::new(Exit::Busy, "session_write_conflict", message)
        .with_help("nothing was sent: send the message again to begin a new session")
}
