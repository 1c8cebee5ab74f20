//! The decisions of people about calls, from the audit of a session.

use logue_agent::{AuditRecord, DecisionSource};
use logue_harness::Timestamp;
use logue_message::{ChatMessage, Role};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The sentence with which the result of an edited call begins.
const REPLACED: &str = "A person replaced the arguments of this call with: ";

/// A decision of a person.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) is_allowed: bool,
    /// The arguments that ran instead of those of the model, if they are known.
    pub(super) edited: Option<String>,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

impl Decision {
    pub(super) fn to_json(&self) -> Value {
        let decision = match (self.is_allowed, &self.edited) {
            (false, _) => "deny",
            (true, None) => "approve",
            (true, Some(_)) => "edit",
        };
        let mut value = json!({
            "call_id": self.call,
            "tool": self.tool,
            "decision": decision,
            "at": self.at.0,
        });
        if let Some(edited) = &self.edited {
            value["edited_arguments"] = json!(edited);
        }
        if !self.note.is_empty() {
            value["note"] = json!(self.note);
        }
        value
    }
}

/// Returns the decisions that people made; rules and trust are not labels.
pub(super) fn of_people(
    records: &[(AuditRecord, Timestamp)],
    messages: &[ChatMessage],
) -> Vec<Decision> {
    let by_people = records
        .iter()
        .filter(|(record, _)| record.agent.is_none() && is_of_person(&record.by));
    by_people
        .map(|(record, at)| Decision {
            call: record.call_id.clone(),
            tool: record.tool.clone(),
            is_allowed: record.decision == "allow",
            edited: record.edited.as_ref().and_then(|edit| {
                let arguments = edited_arguments(&record.call_id, messages)?;
                // A tool could print the sentence itself; the hash of the audit is the proof.
                (hash(&arguments) == edit.arguments).then_some(arguments)
            }),
            note: record.note.clone(),
            at: *at,
        })
        .collect()
}

fn is_of_person(source: &DecisionSource) -> bool {
    matches!(
        source,
        DecisionSource::Terminal { .. } | DecisionSource::Signal { .. }
    )
}

/// Returns the arguments that the result of a call names as those that ran.
fn edited_arguments(call: &str, messages: &[ChatMessage]) -> Option<String> {
    let is_result = |message: &&ChatMessage| {
        message.role == Role::Tool && message.tool_call_id.as_deref() == Some(call)
    };
    let text = messages.iter().find(is_result)?.text();
    let rest = if let Some(rest) = text.strip_prefix(REPLACED) {
        rest.to_owned()
    } else {
        // The result of an envelope has the sentence as a member.
        let envelope: Value = serde_json::from_str(&text).ok()?;
        let notice = envelope.get("notice")?.as_str()?;
        notice.strip_prefix(REPLACED)?.to_owned()
    };
    let mut values = serde_json::Deserializer::from_str(&rest).into_iter::<&RawValue>();
    Some(values.next()?.ok()?.get().to_owned())
}

fn hash(arguments: &str) -> String {
    format!("sha256:{:x}", Sha256::digest(arguments.as_bytes()))
}
