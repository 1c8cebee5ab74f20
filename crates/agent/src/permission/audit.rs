//! The record of decisions about calls.
//!
//! A record is written before its call runs. If it cannot be written, the call does not run: an
//! effect without a record is worse than no effect.

use std::sync::Arc;

use logue_harness::store::SharedStore;
use logue_harness::{BoxFuture, Clock};
use logue_message::{Arguments, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::permission::decision_source::DecisionSource;
use crate::permission::edit::EditedCall;
use crate::transcript::redaction::Redaction;

/// The category of a turn whose decisions could not be recorded.
pub const AUDIT_FAILED: &str = "audit_write_failed";

/// Characters of what was shown that a record keeps.
const SHOWN: usize = 4096;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The turn.
    pub invocation_id: String,
    /// The call.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// `sha256:` of the arguments, byte by byte as the model sent them.
    pub arguments: String,
    /// The agent that made the call, if it was not the prompt itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The command or change that the person saw, or the arguments; at most 4096 characters.
    pub shown: String,
    /// The fingerprint of the call when it was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The arguments with which the person replaced those of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<AuditEdit>,
    /// `allow` or `deny`.
    pub decision: String,
    /// The source of the decision.
    pub by: DecisionSource,
    /// The note of the person who decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The edited arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEdit {
    /// `sha256:` of the arguments that ran.
    pub arguments: String,
    /// The command or change of the edited call, or its arguments; at most 4096 characters.
    pub shown: String,
    /// The fingerprint of the edited call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl AuditEdit {
    pub(crate) fn new(edited: &EditedCall) -> Self {
        Self {
            arguments: hash(&edited.arguments),
            shown: edited.shown().to_owned(),
            fingerprint: edited.fingerprint.clone(),
        }
    }
}

impl AuditRecord {
    /// Reads a stored record.
    ///
    /// # Errors
    /// Returns an error if this version does not support the record.
    pub fn deserialized(kept: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(kept)
    }

    /// Hashes the arguments of a call.
    pub(crate) fn hash_of(call: &ToolCall) -> String {
        hash(&call.arguments)
    }

    /// Returns the stored form: redacted, then cut, so that no half of a secret remains.
    pub(crate) fn to_json(&self, redaction: &Redaction) -> Value {
        let mut record = self.clone();
        record.shown = shortened(&redaction.text(&self.shown));
        if let Some(edited) = &mut record.edited {
            edited.shown = shortened(&redaction.text(&edited.shown));
        }
        record.note = redaction.text(&self.note).into_owned();
        // Every field is text, so this is an object.
        serde_json::to_value(record).unwrap_or_default()
    }
}

fn hash(arguments: &Arguments) -> String {
    format!("sha256:{:x}", Sha256::digest(arguments.as_str()))
}

fn shortened(shown: &str) -> String {
    match shown.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
        None => shown.to_owned(),
    }
}

/// The error of a record that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the decision could not be recorded: {0}")]
pub struct AuditError(pub String);

/// Stores the records of decisions.
pub trait AuditLog: Send + Sync {
    /// Adds records, which are durable when the future completes.
    ///
    /// # Errors
    /// Returns an error if the records could not be stored.
    fn record(&self, records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>>;
}

/// Discards all records.
#[derive(Clone, Copy, Debug)]
pub struct NoAudit;

impl AuditLog for NoAudit {
    fn record(&self, _: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Stores records beside their session.
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
