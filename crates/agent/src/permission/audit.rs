//! The record of what was decided about calls, and by what.
//!
//! A record is made before its call runs. Where it cannot be made, the call does not run: an effect
//! that nobody can account for later is worse than none.

use std::sync::Arc;

use logue_harness::store::SharedStore;
use logue_harness::{BoxFuture, Clock};
use logue_message::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::permission::decision_source::Authority;
use crate::transcript::redaction::Redaction;

/// The category of a turn whose decisions could not be recorded.
pub const AUDIT_FAILED: &str = "audit_write_failed";

/// Characters of what was shown that a record keeps.
const SHOWN: usize = 4096;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The turn.
    pub invocation_id: String,
    /// The call.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// `sha256:` of the arguments, byte by byte as the model said them.
    pub arguments: String,
    /// The agent that made the call, if it was not the prompt itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The command or change that the person saw, or the arguments; at most 4096 characters.
    pub shown: String,
    /// What the call was bound to when it was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// `allow` or `deny`.
    pub decision: String,
    /// What decided.
    pub by: Authority,
    /// What the person said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl AuditRecord {
    /// A record as it was kept.
    ///
    /// # Errors
    /// It is none that this version knows.
    pub fn deserialized(kept: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(kept)
    }

    /// What arguments are known by.
    pub(crate) fn hash_of(call: &ToolCall) -> String {
        format!("sha256:{:x}", Sha256::digest(call.arguments.as_str()))
    }

    /// As it is kept: with what is secret taken out, and cut. The cut comes second, so that no half
    /// of a secret stays.
    pub(crate) fn to_json(&self, redaction: &Redaction) -> Value {
        let mut record = self.clone();
        let shown = redaction.text(&self.shown);
        record.shown = match shown.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
            None => shown.into_owned(),
        };
        record.note = redaction.text(&self.note).into_owned();
        // Every field is text, so this is an object.
        serde_json::to_value(record).unwrap_or_default()
    }
}

/// Why a record could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was decided could not be recorded: {0}")]
pub struct AuditError(pub String);

/// Keeps records of decisions.
pub trait AuditLog: Send + Sync {
    /// Adds records, which are durable when the future completes.
    ///
    /// # Errors
    /// They could not be kept.
    fn record(&self, records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>>;
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoAudit;

impl AuditLog for NoAudit {
    fn record(&self, _: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Keeps records beside the session that they are of.
pub struct SessionAudit {
    store: SharedStore,
    session: String,
    redaction: Redaction,
    clock: Arc<dyn Clock>,
}

impl SessionAudit {
    /// The audit of a session.
    pub fn new(
        store: SharedStore,
        session: impl Into<String>,
        redaction: Redaction,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            store,
            session: session.into(),
            redaction,
            clock,
        }
    }
}

impl AuditLog for SessionAudit {
    fn record(&self, records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(async move {
            let Some(first) = records.first() else {
                return Ok(());
            };
            let invocation = first.invocation_id.clone();
            let records = records.iter().map(|record| record.to_json(&self.redaction));
            let now = self.clock.now();
            let kept = self
                .store
                .audit(&self.session, &invocation, records.collect(), now);
            kept.await.map_err(|error| AuditError(error.to_string()))
        })
    }
}
