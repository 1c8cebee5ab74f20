//! Interrupts: the calls of suspended turns that wait for a person.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use logue_agent::{APPROVAL, DECIDED_BY, EDITS, NOTE};
use logue_harness::store::{Suspension, SuspensionStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input::{ResumeEntry, ResumeStatus};
use crate::chat::problem::Problem;
use crate::chat::time::utc;

/// The answer to an interrupt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    approved: bool,
    #[serde(default)]
    edited_args: Option<Value>,
    #[serde(default)]
    note: Option<String>,
}

/// The decision about one suspended turn.
pub(super) struct Decision {
    pub(super) waiting: Suspension,
    pub(super) payload: Map<String, Value>,
}

/// Returns the interrupts of a signal, one for each call that waits.
pub(super) fn interrupts(signal: &Value) -> Vec<Value> {
    let signal_id = signal.get("signal_id").and_then(Value::as_str);
    let signal_id = signal_id.unwrap_or_default();
    let expires = signal.get("expires_at").and_then(Value::as_u64);
    let calls = calls_of(signal).iter();
    calls
        .map(|call| interrupt(signal_id, call, expires))
        .collect()
}

/// Returns the ids of the interrupts of a suspended turn.
fn ids(waiting: &Suspension) -> Vec<String> {
    let calls = waiting.metadata.as_ref().map(calls_of).unwrap_or_default();
    let ids = calls.iter().map(|call| id(&waiting.signal_id, call));
    ids.collect()
}

fn calls_of(signal: &Value) -> &[Value] {
    let calls = signal.get("calls").and_then(Value::as_array);
    calls.map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(call: &'a Value, name: &str) -> &'a str {
    call.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn id(signal_id: &str, call: &Value) -> String {
    format!("{signal_id}/{}", text(call, "id"))
}

fn interrupt(signal_id: &str, call: &Value, expires: Option<u64>) -> Value {
    let tool = text(call, "name");
    let arguments = call.get("arguments").cloned().unwrap_or_default();
    let effect = match call.get("preview").and_then(Value::as_str) {
        Some(preview) => preview.to_owned(),
        None => arguments.to_string(),
    };
    let mut about = json!({"signalId": signal_id, "tool": tool, "arguments": arguments});
    for name in ["preview", "fingerprint", "why", "redacted"] {
        if let Some(value) = call.get(name) {
            about[name] = value.clone();
        }
    }
    let mut interrupt = json!({
        "id": id(signal_id, call), "reason": "tool_call", "toolCallId": text(call, "id"),
        "message": format!("The tool `{tool}` runs only if a person agrees.\n\n{effect}"),
        "responseSchema": response_schema(call), "metadata": {"logue": about},
    });
    if let Some(at) = expires {
        interrupt["expiresAt"] = json!(utc(at));
    }
    interrupt
}

/// Returns the JSON Schema of the answers to the interrupt of a call.
fn response_schema(call: &Value) -> Value {
    let arguments = match call.get("parameters") {
        Some(parameters) => parameters.clone(),
        None if text(call, "kind") == "custom" => json!({"type": "string"}),
        None => json!({"type": "object"}),
    };
    json!({"type": "object", "additionalProperties": false, "required": ["approved"],
    "properties": {
        "approved": {"type": "boolean",
            "description": "Whether the call runs."},
        "editedArgs": arguments,
        "note": {"type": "string",
            "description": "A text for the model."},
    }})
}

/// Returns the decisions that answers make.
///
/// Answers to interrupts that were decided before are checked by their signals: the same decision
/// has the same outcome.
///
/// # Errors
/// Returns a problem if an interrupt is unknown, has no answer, or has an invalid one.
pub(super) fn decisions(
    entries: &[ResumeEntry],
    suspensions: &[Suspension],
    person: Option<&str>,
) -> Result<Vec<Decision>, Problem> {
    let mut answers = BTreeMap::new();
    for entry in entries {
        let id = entry.interrupt_id.as_str();
        if answers.insert(id, entry).is_some() {
            return Err(invalid(format!("the interrupt `{id}` has two answers")));
        }
    }
    let has_answer = |waiting: &&Suspension| {
        let mut ids = ids(waiting).into_iter();
        ids.any(|id| answers.contains_key(id.as_str()))
    };
    let mut answered: Vec<&Suspension> = suspensions.iter().filter(has_answer).collect();
    let known: Vec<String> = answered.iter().flat_map(|waiting| ids(waiting)).collect();
    if let Some(id) = answers
        .keys()
        .find(|id| !known.iter().any(|known| known == *id))
    {
        let detail = format!("no turn of the thread waits for the interrupt `{id}`");
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "signal_not_found",
            detail,
        ));
    }
    let is_open = |waiting: &&Suspension| waiting.status == SuspensionStatus::Suspended;
    // All open interrupts need an answer, unless an earlier answer is only repeated.
    if answered.iter().any(is_open) {
        answered = suspensions
            .iter()
            .filter(|waiting| is_open(waiting) || has_answer(waiting))
            .collect();
    }
    let missing = answered.iter().flat_map(|waiting| ids(waiting));
    let missing: Vec<String> = missing
        .filter(|id| !answers.contains_key(id.as_str()))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(invalid(format!("`resume` has no answer to {missing}"))
            .with_help("answer every open interrupt of the thread, or cancel it"));
    }
    let decisions = answered.into_iter();
    decisions
        .map(|waiting| decision(waiting, &answers, person))
        .collect()
}

fn decision(
    waiting: &Suspension,
    answers: &BTreeMap<&str, &ResumeEntry>,
    person: Option<&str>,
) -> Result<Decision, Problem> {
    let (mut approval, mut edits, mut notes) = (Map::new(), Map::new(), Vec::new());
    let calls = waiting.metadata.as_ref().map(calls_of).unwrap_or_default();
    for call in calls {
        let id = id(&waiting.signal_id, call);
        let Some(entry) = answers.get(id.as_str()) else {
            continue;
        };
        let answer = answer(entry)?;
        let word = if answer.approved { "approve" } else { "deny" };
        approval.insert(text(call, "id").to_owned(), json!(word));
        if let Some(arguments) = answer.edited_args {
            edits.insert(text(call, "id").to_owned(), arguments);
        }
        if let Some(note) = answer.note.filter(|note| !note.is_empty()) {
            notes.push((text(call, "name"), note));
        }
    }
    let mut payload = Map::from_iter([(APPROVAL.to_owned(), Value::Object(approval))]);
    if !edits.is_empty() {
        payload.insert(EDITS.to_owned(), Value::Object(edits));
    }
    let note = match notes.as_slice() {
        [] => None,
        [(_, note)] => Some(note.clone()),
        notes => {
            let lines = notes.iter().map(|(name, note)| format!("{name}: {note}"));
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
    };
    if let Some(note) = note {
        payload.insert(NOTE.to_owned(), json!(note));
    }
    if let Some(person) = person {
        payload.insert(DECIDED_BY.to_owned(), json!(person));
    }
    Ok(Decision {
        waiting: waiting.clone(),
        payload,
    })
}

/// Reads the answer to an interrupt; one that was cancelled denies its call.
fn answer(entry: &ResumeEntry) -> Result<Answer, Problem> {
    let id = &entry.interrupt_id;
    if entry.status == ResumeStatus::Cancelled {
        return Ok(Answer {
            approved: false,
            edited_args: None,
            note: None,
        });
    }
    let payload = entry.payload.clone().unwrap_or_default();
    let answer: Answer = serde_json::from_value(payload)
        .map_err(|error| invalid(format!("the answer to `{id}` is invalid: {error}")))?;
    if answer.edited_args.is_some() && !answer.approved {
        return Err(invalid(format!(
            "the answer to `{id}` has `editedArgs` and does not approve"
        )));
    }
    Ok(answer)
}

fn invalid(detail: String) -> Problem {
    let code = "suspension_resume_payload_invalid";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
}
