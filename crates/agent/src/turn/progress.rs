//! The counters and pending calls of a turn, as fields of the graph's state.
//!
//! A state outlives its turn: in a session the next turn starts from it. Counters therefore carry the
//! id of their invocation, and another invocation starts at zero.

use logue_graph::{NodeError, State, Update};
use logue_harness::chat::Continuation;
use logue_message::{ChatMessage, Content, ToolCall};
use logue_model::FinishReason;
use serde_json::{Map, Value, json};

use crate::permission::approval::PendingCall;
use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::rules::Permission;
use crate::turn::budget::Spend;

/// The field with the counts.
pub(crate) const TURN: &str = "turn";
/// The field with the pending calls.
pub(crate) const CALLS: &str = "calls";

/// The counts of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    invocation: String,
    /// The number of requests to the model.
    pub(crate) requests: u64,
    /// The number of requests of the agents that its tools called.
    pub(crate) agent_requests: u64,
    /// The number of processes that died in the turn.
    recoveries: u64,
    /// The number of approval requests to a person.
    pub(crate) approvals: u64,
    /// The tokens and costs of the turn and its agents.
    pub(crate) spent: Spend,
    /// The causes of failed calls, for operators.
    failures: Vec<ToolFailure>,
    cut: String,
}

/// The number of failed calls whose cause is kept.
const MAX_FAILURES: usize = 16;
/// The length limit of a cause, in bytes.
const MAX_CAUSE: usize = 2_048;

/// The cause of a failed call, which its result does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolFailure {
    call_id: String,
    diagnostic: String,
}

impl ToolFailure {
    fn from_json(failure: &Value) -> Option<Self> {
        let text = |name: &str| Some(failure.get(name)?.as_str()?.to_owned());
        Some(Self {
            call_id: text("call_id")?,
            diagnostic: text("diagnostic")?,
        })
    }

    fn to_json(&self) -> Value {
        json!({"call_id": self.call_id, "diagnostic": self.diagnostic})
    }
}

impl Progress {
    /// Returns the counts of `invocation`: those of the state, or zero if they belong to another.
    pub(crate) fn from_state(state: &State, invocation: &str) -> Self {
        Self::from_json(state.json(TURN), invocation)
    }

    /// Returns the counts of `invocation` by the value of [`TURN`].
    pub(crate) fn from_json(turn: Option<&Value>, invocation: &str) -> Self {
        let initial = Self {
            invocation: invocation.to_owned(),
            ..Self::default()
        };
        let Some(turn) = turn else {
            return initial;
        };
        if turn.get("invocation").and_then(Value::as_str) != Some(invocation) {
            return initial;
        }
        let count = |key: &str| turn.get(key).and_then(Value::as_u64);
        Self {
            requests: count("requests").unwrap_or(0),
            agent_requests: count("agent_requests").unwrap_or(0),
            recoveries: count("recoveries").unwrap_or(0),
            approvals: count("approvals").unwrap_or(0),
            failures: turn
                .get("failures")
                .and_then(Value::as_array)
                .map(|failures| failures.iter().filter_map(ToolFailure::from_json).collect())
                .unwrap_or_default(),
            spent: turn.get("spent").map(Spend::from_json).unwrap_or_default(),
            cut: turn
                .get("cut")
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned(),
            ..initial
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut json = json!({
            "invocation": self.invocation,
            "requests": self.requests,
            "agent_requests": self.agent_requests,
            "recoveries": self.recoveries,
            "approvals": self.approvals,
            "spent": self.spent.to_json(),
            "cut": self.cut,
        });
        if !self.failures.is_empty() {
            json["failures"] = self.failures.iter().map(ToolFailure::to_json).collect();
        }
        json
    }

    /// Records the cause of a failed call.
    pub(crate) fn failed(&mut self, call_id: &str, mut diagnostic: String) {
        diagnostic.truncate(diagnostic.floor_char_boundary(MAX_CAUSE));
        if self.failures.len() < MAX_FAILURES {
            let call_id = call_id.to_owned();
            self.failures.push(ToolFailure {
                call_id,
                diagnostic,
            });
        }
    }

    /// Counts the requests of processes that died: each may have made one that it did not note.
    ///
    /// The state may have the counts of another turn, so the approvals of this one are counted again.
    pub(crate) fn recovered(&mut self, continuation: &Continuation) {
        let recoveries = continuation.recoveries;
        self.requests += recoveries.saturating_sub(self.recoveries);
        self.recoveries = recoveries;
        self.approvals = self.approvals.max(continuation.suspensions);
    }

    /// Returns the counts as a field of the state.
    pub(crate) fn as_field(&self) -> Map<String, Value> {
        Map::from_iter([(TURN.to_owned(), self.to_json())])
    }

    /// Records the end and the costs of the latest answer.
    pub(crate) fn answered(&mut self, reason: FinishReason, spent: Spend) {
        self.cut = match reason {
            FinishReason::Length | FinishReason::ContentFilter => reason.as_str().to_owned(),
            _ => String::new(),
        };
        self.spent.add(spent);
    }

    /// Returns the reason for which the latest answer is truncated, if it is.
    pub(crate) fn cut(&self) -> Option<FinishReason> {
        match self.cut.as_str() {
            "length" => Some(FinishReason::Length),
            "content_filter" => Some(FinishReason::ContentFilter),
            _ => None,
        }
    }
}

/// Returns the update with `calls` as the pending calls; an empty list clears them.
pub(crate) fn with_calls(update: Update, calls: &[PendingCall]) -> Update {
    if calls.is_empty() {
        return update.with(CALLS, json!({}));
    }
    let permissions: Vec<&str> = calls
        .iter()
        .map(|gated| gated.decision.permission.as_str())
        .collect();
    let rulings: Vec<Value> = calls.iter().map(PendingCall::decision_to_json).collect();
    let redacted: Vec<bool> = calls.iter().map(|gated| gated.redacted).collect();
    let calls = calls.iter().map(|gated| gated.call.clone()).collect();
    let mut kept = json!({
        "message": message_of(calls).to_json(),
        "permissions": permissions,
        "rulings": rulings,
    });
    if redacted.contains(&true) {
        kept["redacted"] = json!(redacted);
    }
    update.with(CALLS, kept)
}

/// Returns a message that contains only calls.
pub(crate) fn message_of(calls: Vec<ToolCall>) -> ChatMessage {
    ChatMessage::assistant(Content::Absent).with_tool_calls(calls)
}

/// Returns whether calls are pending.
pub(crate) fn has_calls(state: &State) -> bool {
    state
        .json(CALLS)
        .is_some_and(|calls| calls.get("message").is_some())
}

/// Returns whether a pending call requires approval.
pub(crate) fn asks(state: &State) -> bool {
    let permissions = state.json(CALLS).and_then(|calls| calls.get("permissions"));
    let permissions = permissions.and_then(Value::as_array).into_iter().flatten();
    permissions
        .filter_map(Value::as_str)
        .any(|word| word == Permission::Ask.as_str())
}

/// Returns the pending calls.
pub(crate) fn calls(state: &State) -> Result<Vec<PendingCall>, NodeError> {
    let Some(kept) = state.json(CALLS) else {
        return Ok(Vec::new());
    };
    let Some(message) = kept.get("message") else {
        return Ok(Vec::new());
    };
    let message = ChatMessage::from_json(message);
    let message = message.map_err(|error| NodeError::new(error.to_string()))?;
    let permission = |at: usize| {
        let word = kept
            .get("permissions")
            .and_then(|all| all.get(at)?.as_str());
        // An unknown permission denies the call.
        word.and_then(Permission::parse).unwrap_or(Permission::Deny)
    };
    let calls = message.tool_calls.into_iter().enumerate();
    Ok(calls
        .map(|(at, call)| {
            let decision = PermissionDecision {
                permission: permission(at),
                by: DecisionSource::Declared,
            };
            let mut gated = PendingCall::new(call, decision);
            let redacted = kept.get("redacted").and_then(|all| all.get(at)?.as_bool());
            gated.redacted = redacted.unwrap_or(false);
            gated.restore_decision(kept.get("rulings").and_then(|all| all.get(at)));
            gated
        })
        .collect())
}
