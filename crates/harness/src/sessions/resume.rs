//! The resumption of a suspended run: first a check, then the claim, then the run.

use std::sync::Arc;

use serde_json::{Map, Value};

use logue_graph::{EngineError, PausedRun, RunPorts};

use crate::resumption::{ResumedFields, migrate};

use super::bound_session::BoundSession;
use super::error::SessionError;
use super::outcome::{FailedRun, SessionOutcome};
use super::paused::{PausedRecord, PausedStatus};
use super::runtime::Sessions;

impl<E: Send + 'static> Sessions<E> {
    /// Gives a suspended run its signal and resumes it under its own id.
    ///
    /// The payload replaces fields of the state. What does not fit is refused before the run is
    /// claimed, so that a better payload may follow; the claim is given to one caller only. What runs in between
    /// have saved stays: a field that the run did not write, or that its reducer combines, continues
    /// from the session. A run that suspended in another version of the schema is migrated.
    ///
    /// Dropping the future after the claim leaves the run claimed: part of it has happened, and
    /// must not happen again.
    pub async fn resume(
        &self,
        invocation_id: &str,
        payload: &Map<String, Value>,
        ports: RunPorts<E>,
    ) -> SessionOutcome {
        let (ready, record, bound, fields) = match self.prepare(invocation_id, payload).await {
            Ok(prepared) => prepared,
            Err(error) => return FailedRun::before(error, Some(invocation_id)).into(),
        };
        match self.paused.claim(invocation_id, record.round).await {
            Ok(true) => {}
            Ok(false) => {
                let error = invalid(invocation_id, "another caller has resumed it");
                return FailedRun::before(error, Some(invocation_id)).into();
            }
            Err(source) => {
                let error = SessionError::PersistenceFailed { source };
                return FailedRun::before(error, Some(invocation_id)).into();
            }
        }
        let ports = match &bound {
            Some(bound) => ports.with_session(Arc::clone(bound)),
            None => ports,
        };
        let mut outcome = ready.with_ports(ports).run().await;
        fields.finish(&mut outcome);
        let kept = self.keep(outcome, bound.as_deref(), record.round + 1).await;
        let ended = match &kept {
            SessionOutcome::Suspended(_) => return kept,
            SessionOutcome::Completed(_) => PausedStatus::Completed,
            // What ended before its session could be saved has ended.
            SessionOutcome::Errored(failed) if failed.completed.is_some() => {
                PausedStatus::Completed
            }
            SessionOutcome::Errored(_) => PausedStatus::Errored,
        };
        // A record that stays claimed cannot be resumed either, and the run has its outcome.
        drop(self.paused.finish(invocation_id, ended).await);
        kept
    }

    /// Everything that can be refused, before anything is changed.
    async fn prepare(
        &self,
        invocation_id: &str,
        payload: &Map<String, Value>,
    ) -> Result<
        (
            logue_graph::MergedResume<E>,
            PausedRecord,
            Option<Arc<BoundSession>>,
            ResumedFields,
        ),
        SessionError,
    > {
        let record = self.paused.paused(invocation_id).await;
        let record = record.map_err(|error| SessionError::loading(invocation_id, error))?;
        let record = record.ok_or_else(|| invalid(invocation_id, "no run of that id waits"))?;
        if record.status != PausedStatus::Suspended {
            let reason = format!("it is {}", record.status.as_str());
            return Err(invalid(invocation_id, reason));
        }
        let unfit = |error: EngineError| match error {
            EngineError::SuspensionResumePayloadInvalid { cause } => SessionError::PayloadInvalid {
                invocation_id: invocation_id.to_owned(),
                reason: cause.to_string(),
            },
            other => invalid(invocation_id, other.to_string()),
        };
        let mut paused = PausedRun::from_json(&record.run).map_err(unfit)?;
        let schema = self.graph.schema();
        migrate(
            &mut paused,
            payload,
            &self.migrations,
            &self.projection,
            schema,
        )?;
        let mut fields = ResumedFields::default();
        let mut bound = None;
        if let (Some(session_id), Some(_)) = (&record.session_id, &self.store) {
            let loaded = self.load(session_id).await?;
            // What is saved only in the middle of runs may be older than the suspended state.
            if self.auto_save {
                let current = loaded.fields.iter();
                fields = ResumedFields::merge(&mut paused, current, payload, schema);
            }
            bound = Some(Arc::new(loaded.bound));
        }
        let ready = paused.merge(&self.graph, payload).map_err(unfit)?;
        Ok((ready, record, bound, fields))
    }
}

fn invalid(invocation_id: &str, reason: impl Into<String>) -> SessionError {
    SessionError::RecordInvalid {
        invocation_id: invocation_id.to_owned(),
        reason: reason.into(),
    }
}
