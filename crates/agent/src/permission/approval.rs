//! Approval of tool calls by a person: the request, the decision and its effect.
//!
//! A turn that requires approval suspends with a descriptor whose metadata lists the calls. The
//! signal's payload has the field `approval`: `approve` or `deny` for all calls, or an object with
//! one of them per call id. A call that the object omits does not run. The field `note` may contain
//! text for the model, and the field `edits` arguments that replace those of a call, by its id.
//!
//! The metadata contains a preview of each call (`calls[].preview`) and a fingerprint
//! (`calls[].fingerprint`) of its tool, its arguments and the files that it executes. It is compared
//! before the call runs, so that the call that runs is the call that was approved. With
//! `timeout_seconds`, a signal after that time counts as a denial.

use std::time::Duration;

use logue_graph::{FieldValue, PausedRun, SignalDescriptor, State};
use logue_harness::Timestamp;
use logue_harness::store::Suspension;
use logue_message::{CallKind, ChatMessage, Role, ToolCall};
use logue_source::{escape_json, escape_unambiguous};
use logue_tools::{Preview, Toolbox};
use serde_json::{Map, Value, json};

use crate::permission::audit::AUDIT_FAILED;
use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::edit::{EDITS, EditedCall, requested_arguments, stored_arguments};
use crate::permission::permissions::Permissions;
use crate::permission::rules::Permission;
use crate::turn::progress::TURN;

/// The field of the state, and of a signal's payload, with the decision.
pub const APPROVAL: &str = "approval";
/// The field of the state, and of a signal's payload, with text for the model.
pub const NOTE: &str = "note";

/// The field of a signal's payload with the name of the person who decided.
pub const DECIDED_BY: &str = "decided_by";

/// The decision of a request that expired. Signals must not contain it.
const EXPIRED: &str = "expired";
/// The key of the descriptor with the connection to the model.
pub const CONNECTION: &str = "connection";
/// The key of the descriptor with the seconds until a decision is due.
const TIMEOUT: &str = "timeout_seconds";
/// The name on the message that lists pending calls. It is shown to people and never sent to a
/// model.
const SPEAKER: &str = "logue-approval";
/// The maximum number of bytes of a note about an approved call.
const NOTE_BYTES: usize = 4_096;
/// The maximum number of characters of a call's arguments that are shown.
const ARGUMENTS: usize = 200;

/// A call between the model's response and its execution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingCall {
    pub(crate) call: ToolCall,
    pub(crate) decision: PermissionDecision,
    /// The note of the person who decided, or why it does not count.
    pub(crate) note: String,
    /// The preview shown with the request.
    pub(crate) preview: Option<Preview>,
    /// The fingerprint of the call when approval was requested.
    pub(crate) fingerprint: Option<String>,
    /// The arguments that replace those of the call.
    pub(crate) edited: Option<EditedCall>,
    /// Whether the arguments lack a text that must not be stored.
    pub(crate) redacted: bool,
}

/// The decision of a person about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Deny,
    /// No decision was made within this number of seconds.
    Expired(u64),
}

/// The decision that a signal carries.
pub(crate) struct ApprovalSignal<'a> {
    approval: &'a Value,
    pub(crate) note: &'a str,
    decided_by: Option<&'a str>,
    signal_id: String,
}

impl Decision {
    fn parse(word: &Value) -> Option<Self> {
        match word.as_str() {
            Some("approve") => Some(Self::Approve),
            Some("deny") => Some(Self::Deny),
            _ => None,
        }
    }
}

impl<'a> ApprovalSignal<'a> {
    /// Reads the state's decision on the `n`-th approval of an invocation.
    pub(crate) fn from_state(state: &'a State, invocation: &str, n: u64) -> Self {
        let decided_by = state.json(DECIDED_BY).and_then(Value::as_str);
        Self {
            approval: state.json(APPROVAL).unwrap_or(&Value::Null),
            note: state.json(NOTE).and_then(Value::as_str).unwrap_or(""),
            decided_by: decided_by.filter(|name| !name.is_empty()),
            signal_id: signal_id(invocation, n),
        }
    }

    pub(crate) fn decision(&self, call: &str) -> Option<Decision> {
        // A call may have any id, but no signal can contain a number under this key.
        if let Some(seconds) = self.approval.get(EXPIRED).and_then(Value::as_u64) {
            return Some(Decision::Expired(seconds));
        }
        Decision::parse(self.approval.get(call).unwrap_or(self.approval))
    }

    pub(crate) fn authority(&self, decision: Option<Decision>) -> DecisionSource {
        let signal_id = self.signal_id.clone();
        match decision {
            Some(Decision::Expired(seconds)) => DecisionSource::Expired { signal_id, seconds },
            _ => DecisionSource::Signal {
                signal_id,
                decided_by: self.decided_by.map(str::to_owned),
            },
        }
    }
}

impl PendingCall {
    pub(crate) fn new(call: ToolCall, decision: PermissionDecision) -> Self {
        Self {
            call,
            decision,
            note: String::new(),
            preview: None,
            fingerprint: None,
            edited: None,
            redacted: false,
        }
    }

    /// Returns the call that runs.
    pub(crate) fn effective(&self) -> ToolCall {
        match &self.edited {
            Some(edited) => edited.applied(&self.call),
            None => self.call.clone(),
        }
    }

    /// Returns the sentence for the model with the note of an approval.
    ///
    /// The note is a JSON string, so that its end is certain.
    pub(crate) fn approval_notice(&self, signal: &ApprovalSignal<'_>) -> Option<String> {
        let is_signalled = self.decision.permission == Permission::Ask
            && signal.decision(&self.call.id) == Some(Decision::Approve);
        let is_terminal = self.decision.permission == Permission::Allow
            && matches!(self.decision.by, DecisionSource::Terminal { .. });
        let note = match (is_signalled, is_terminal) {
            (true, _) => signal.note,
            (_, true) => &self.note,
            _ => return None,
        };
        if note.trim().is_empty() {
            return None;
        }
        let end = note.floor_char_boundary(NOTE_BYTES);
        let kept = note.get(..end).unwrap_or_default();
        let more = if end < note.len() { "…" } else { "" };
        let quoted = json!(format!("{kept}{more}"));
        Some(format!("A person approved this call and said: {quoted}"))
    }

    /// Returns whether the call may run, or the result that the model receives instead.
    pub(crate) fn verdict(&self, signal: &ApprovalSignal<'_>) -> Result<(), String> {
        let name = &self.call.name;
        let noted = |words: String, note: &str| {
            if note.is_empty() {
                words
            } else {
                format!("{words} They said: {note}")
            }
        };
        let denied = || format!("A person denied this call of `{name}`, so it was not run.");
        match (self.decision.permission, &self.decision.by) {
            (Permission::Allow, _) => Ok(()),
            (Permission::Deny, DecisionSource::Terminal { .. }) => Err(noted(denied(), &self.note)),
            (Permission::Deny, DecisionSource::Unrecorded) => Err(format!(
                "{AUDIT_FAILED}: this call of `{name}` was not run, because the decision about it could \
                 not be recorded."
            )),
            (Permission::Deny, by) => Err(by.refusal(name)),
            (Permission::Ask, _) => match signal.decision(&self.call.id) {
                Some(Decision::Approve) => Ok(()),
                Some(Decision::Deny) => Err(noted(denied(), signal.note)),
                Some(Decision::Expired(seconds)) => Err(format!(
                    "No decision about this call of `{name}` was made within {seconds} s, so it was not run."
                )),
                None => Err(noted(
                    format!("This call of `{name}` was not approved, so it was not run."),
                    signal.note,
                )),
            },
        }
    }
}

/// Builds the message that lists pending calls for people.
pub(crate) fn pending_message(waiting: &[&ToolCall]) -> ChatMessage {
    let mut text = String::from("Waiting for approval: ");
    text.push_str(&reason(waiting));
    for call in waiting {
        text.push_str(&format!(
            "\n- {} {}",
            escape_unambiguous(&call.name),
            shortened(call)
        ));
    }
    ChatMessage::assistant(text).with_name(SPEAKER)
}

/// Returns whether a message only lists pending calls.
///
/// Such a message is shown to people: no model has written it, and none receives it.
pub fn is_pending(message: &ChatMessage) -> bool {
    message.role == Role::Assistant && message.name.as_deref() == Some(SPEAKER)
}

/// Describes the signal that resumes a turn: the `n`-th approval of an invocation.
pub(crate) fn descriptor(
    invocation: &str,
    n: u64,
    waiting: &[&PendingCall],
    permissions: &Permissions,
    toolbox: &Toolbox,
) -> SignalDescriptor {
    let calls: Vec<Value> = waiting
        .iter()
        .map(|gated| {
            let call = &gated.call;
            let arguments = call.arguments.object().map(Value::Object);
            let arguments = arguments.unwrap_or_else(|_| json!(call.arguments.as_str()));
            let mut question = json!({"id": call.id, "name": call.name, "arguments": arguments});
            if let Some(preview) = &gated.preview {
                question["preview"] = json!(preview.text);
            }
            if let Some(fingerprint) = &gated.fingerprint {
                question["fingerprint"] = json!(fingerprint);
            }
            if let Some(tool) = toolbox.get(&call.name) {
                question["parameters"] = tool.definition().parameters.clone();
            }
            if gated.redacted {
                question["redacted"] = json!(true);
            }
            if call.kind == CallKind::Custom {
                question["kind"] = json!("custom");
            }
            question["why"] = json!(gated.decision.by);
            question
        })
        .collect();
    let named: Vec<&ToolCall> = waiting.iter().map(|gated| &gated.call).collect();
    let mut metadata = json!({"calls": calls, "reason": reason(&named)});
    if let Some(seconds) = permissions.timeout_seconds {
        metadata[TIMEOUT] = json!(seconds);
    }
    if let Some(connection) = &permissions.connection {
        metadata[CONNECTION] = connection.as_ref().clone();
    }
    SignalDescriptor {
        signal_id: signal_id(invocation, n),
        metadata: Some(metadata),
    }
}

/// Completes the copy of a suspended turn, which has the id of a new invocation.
///
/// Returns the name of its signal. It belongs to
/// [`fork_session`](logue_harness::chat::fork_session).
pub fn rename_pending(paused: &mut PausedRun, _earlier: &str) -> String {
    let id = paused.invocation_id().to_owned();
    let mut turn = paused.field(TURN).map(FieldValue::to_json);
    if let Some(Value::Object(turn)) = &mut turn {
        // The limits of the turn count the requests before its copy.
        turn.insert("invocation".to_owned(), json!(id));
    }
    let turn = turn.unwrap_or_default();
    let approvals = turn.get("approvals").and_then(Value::as_u64);
    let name = signal_id(&id, approvals.unwrap_or(1));
    paused.set_field(TURN, turn);
    name
}

fn signal_id(invocation: &str, n: u64) -> String {
    let short: String = invocation.chars().filter(|c| *c != '-').take(12).collect();
    format!("approve-{short}-{n}")
}

/// Returns the time at which a pending decision expires, or `None` if it never does.
pub fn deadline(waiting: &Suspension) -> Option<Timestamp> {
    deadline_after(waiting.metadata.as_ref(), waiting.since)
}

/// Returns the time at which a decision expires that has been pending since a time.
///
/// `metadata` is that of the descriptor. `None` if the decision never expires.
pub fn deadline_after(metadata: Option<&Value>, since: Timestamp) -> Option<Timestamp> {
    let seconds = metadata?.get(TIMEOUT)?.as_u64()?;
    Some(since.after(Duration::from_secs(seconds)))
}

/// Returns the payload of a signal that approves, or denies, every pending call.
///
/// ```
/// use logue_agent::approval_payload;
///
/// assert_eq!(approval_payload(true)["approval"], "approve");
/// ```
pub fn approval_payload(approve: bool) -> Map<String, Value> {
    let decision = if approve { "approve" } else { "deny" };
    Map::from_iter([(APPROVAL.to_owned(), json!(decision))])
}

/// Returns the payload that replaces a decision that is too late.
pub(crate) fn expired(waiting: &Suspension, now: Timestamp) -> Option<Map<String, Value>> {
    let is_late = deadline(waiting)? <= now;
    let seconds = waiting.metadata.as_ref()?.get(TIMEOUT)?;
    let expiry = json!({ EXPIRED: seconds });
    is_late.then(|| Map::from_iter([(APPROVAL.to_owned(), expiry)]))
}

/// The form of a decision, for errors.
const FORM: &str = "`approval` is \"approve\", \"deny\", or an object that gives one of them for \
                    each call by its id";

/// Checks that a signal's payload decides about the calls of `descriptor`.
///
/// The tools check edited arguments when the signal is accepted.
///
/// # Errors
/// Returns a description of the first problem in the payload.
pub fn check_approval(
    descriptor: &SignalDescriptor,
    payload: &Map<String, Value>,
) -> Result<(), String> {
    for field in [NOTE, DECIDED_BY] {
        if payload.get(field).is_some_and(|text| !text.is_string()) {
            return Err(format!("`{field}` is a text"));
        }
    }
    let is_known = |key: &String| [APPROVAL, NOTE, DECIDED_BY, EDITS].contains(&key.as_str());
    if let Some(field) = payload.keys().find(|key| !is_known(key)) {
        return Err(format!("unknown field `{field}` in an approval: {FORM}"));
    }
    let ids = call_ids(descriptor.metadata.as_ref());
    check_decisions(payload.get(APPROVAL), &ids)?;
    match payload.get(EDITS) {
        None => Ok(()),
        Some(Value::Object(edits)) => edits
            .iter()
            .try_for_each(|(id, arguments)| check_edit(payload, &ids, id, arguments)),
        Some(_) => Err("`edits` is an object with the arguments of calls by their ids".to_owned()),
    }
}

/// Checks that an edit replaces the arguments of an approved call.
fn check_edit(
    payload: &Map<String, Value>,
    ids: &[&str],
    id: &str,
    arguments: &Value,
) -> Result<(), String> {
    if !ids.contains(&id) {
        let known = ids.join(", ");
        return Err(format!("no call `{id}` waits; these do: {known}"));
    }
    let approval = payload.get(APPROVAL).unwrap_or(&Value::Null);
    let decision = Decision::parse(approval.get(id).unwrap_or(approval));
    if decision != Some(Decision::Approve) {
        return Err(format!("the call `{id}` is edited and not approved"));
    }
    if !(arguments.is_object() || arguments.is_string()) {
        return Err(format!(
            "the edited arguments of `{id}` are neither an object nor the text of one"
        ));
    }
    Ok(())
}

/// Checks that a decision is about every call, and about no other.
fn check_decisions(approval: Option<&Value>, ids: &[&str]) -> Result<(), String> {
    match approval {
        None => Err(format!("the payload has no `approval`: {FORM}")),
        Some(Value::Object(decisions)) => {
            for (id, word) in decisions {
                if !ids.contains(&id.as_str()) {
                    return Err(format!(
                        "no call `{id}` waits; these do: {}",
                        ids.join(", ")
                    ));
                }
                if Decision::parse(word).is_none() {
                    return Err(format!("the approval of `{id}` is {word}: {FORM}"));
                }
            }
            match ids.iter().find(|id| !decisions.contains_key(**id)) {
                Some(id) => Err(format!("`approval` has no decision about the call `{id}`")),
                None => Ok(()),
            }
        }
        Some(word) if Decision::parse(word).is_some() => Ok(()),
        Some(word) => Err(format!("`approval` is {word}: {FORM}")),
    }
}

/// Returns the ids of the calls that a suspended turn lists.
fn call_ids(metadata: Option<&Value>) -> Vec<&str> {
    let calls = metadata.and_then(|metadata| metadata.get("calls")?.as_array());
    let calls = calls.into_iter().flatten();
    calls.filter_map(|call| call.get("id")?.as_str()).collect()
}

/// Describes the earlier decision of a signal if a later one differs for a call.
///
/// Notes may differ. A decision that was not made in time is a denial.
pub(crate) fn contradiction(
    waiting: &Suspension,
    earlier: &Map<String, Value>,
    later: &Map<String, Value>,
) -> Option<String> {
    let ids = call_ids(waiting.metadata.as_ref());
    let words = |payload: &Map<String, Value>| -> Vec<&'static str> {
        let signal = ApprovalSignal {
            approval: payload.get(APPROVAL).unwrap_or(&Value::Null),
            note: "",
            decided_by: None,
            signal_id: String::new(),
        };
        let decisions = ids.iter().map(|id| signal.decision(id));
        decisions.map(decision_word).collect()
    };
    let metadata = waiting.metadata.as_ref();
    let mut first = words(earlier);
    let differs = |(id, word): (&&str, &&str)| {
        *word == APPROVED
            && stored_arguments(metadata, earlier, id) != requested_arguments(metadata, later, id)
    };
    if first == words(later) && !ids.iter().zip(&first).any(differs) {
        return None;
    }
    let edits = earlier.get(EDITS);
    for (id, word) in ids.iter().zip(&mut first) {
        if edits.is_some_and(|edits| edits.get(*id).is_some()) {
            *word = "approved with edited arguments";
        }
    }
    let seconds = earlier
        .get(APPROVAL)
        .and_then(|approval| approval.get(EXPIRED));
    if let Some(seconds) = seconds {
        return Some(format!(
            "denied, as no decision was made within {seconds} s"
        ));
    }
    let text = match first.first() {
        Some(word) if first.iter().all(|other| other == word) => (*word).to_owned(),
        _ => {
            let each = ids.iter().zip(&first);
            let each = each.map(|(id, word)| format!("`{}` {word}", escape_unambiguous(id)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    let person = earlier.get(DECIDED_BY).and_then(Value::as_str);
    Some(match person {
        Some(person) => format!("{text} by {}", escape_unambiguous(person)),
        None => format!("{text} by a signal without a name"),
    })
}

const APPROVED: &str = "approved";

const fn decision_word(decision: Option<Decision>) -> &'static str {
    match decision {
        Some(Decision::Approve) => APPROVED,
        Some(Decision::Deny | Decision::Expired(_)) | None => "denied",
    }
}

fn reason(waiting: &[&ToolCall]) -> String {
    match waiting {
        [only] => {
            let name = escape_unambiguous(&only.name);
            format!("the tool `{name}` runs only if a person agrees.")
        }
        calls => format!("{} calls run only if a person agrees.", calls.len()),
    }
}

fn shortened(call: &ToolCall) -> String {
    let text = escape_json(call.arguments.as_str());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(ARGUMENTS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
