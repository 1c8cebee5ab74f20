//! Continuation of a session's turn that failed or whose process died.
//!
//! The graph starts again at its entry. The conversation ends with the messages of the turn, so the
//! model is asked next, unless calls of its last answer were not started or it had answered.

use logue_graph::{List, NodeContext, NodeError, State};
use logue_harness::chat::Continuation;
use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::Value;

use crate::permission::approval::{APPROVAL, PendingCall, is_pending};
use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::rules::Permission;
use crate::turn::assistant::MESSAGES;
use crate::turn::listener::TurnEvent;
use crate::turn::progress::calls;
use crate::turn::redacted::TurnRedaction;

/// Returns the continuation of a turn, at its first step only.
pub(crate) fn begun_continuation(ctx: &NodeContext<TurnEvent>) -> Option<Continuation> {
    let is_first = ctx.step() == 0;
    Continuation::from_metadata(ctx.metadata()).filter(|_| is_first)
}

/// Returns whether a person has decided about the pending calls.
pub(crate) fn is_decided(state: &State) -> bool {
    state
        .json(APPROVAL)
        .is_some_and(|approval| !approval.is_null())
}

/// Returns the calls that run before the model is asked; none if it had answered.
///
/// `None` means that the model is asked next.
pub(crate) fn next_calls(
    state: &State,
    continuation: &Continuation,
    redaction: &TurnRedaction,
) -> Result<Option<Vec<PendingCall>>, NodeError> {
    let none = List::new();
    let conversation: &List<ChatMessage> = state.list_of(MESSAGES).unwrap_or(&none);
    let is_open = |call: &ToolCall| continuation.open_calls.contains(&call.id);
    let open: Vec<PendingCall> = if is_decided(state) {
        let pending = calls(state)?.into_iter();
        pending.filter(|gated| is_open(&gated.call)).collect()
    } else {
        let mut latest_first = conversation.iter().rev();
        // Another turn may have come after a suspended one.
        let answer = latest_first.find(|message| message.tool_calls.iter().any(is_open));
        let calls = answer.into_iter().flat_map(|answer| &answer.tool_calls);
        let calls = calls.filter(|call| is_open(call)).cloned();
        let undecided = calls.map(|call| PendingCall {
            // The call was stored and did not run in its process.
            redacted: redaction.is_redacted(&call),
            ..undecided(call)
        });
        undecided.collect()
    };
    let has_answered = conversation.last().is_some_and(|last| {
        last.role == Role::Assistant
            && last.tool_calls.is_empty()
            && !last.interrupted
            && !is_pending(last)
    });
    Ok((!open.is_empty() || has_answered).then_some(open))
}

/// Returns a call about which the gate is to decide.
fn undecided(call: ToolCall) -> PendingCall {
    let decision = PermissionDecision {
        permission: Permission::Ask,
        by: DecisionSource::Declared,
    };
    PendingCall::new(call, decision)
}

/// Returns whether a call, as it is stored, equals one with an unknown outcome.
pub(crate) fn repeats_interrupted(ctx: &NodeContext<TurnEvent>, call: &ToolCall) -> bool {
    let Some(continuation) = Continuation::from_metadata(ctx.metadata()) else {
        return false;
    };
    let mut guarded = continuation.guarded.iter();
    guarded.any(|other| other.name == call.name && has_same_arguments(other, call))
}

fn has_same_arguments(one: &ToolCall, other: &ToolCall) -> bool {
    let texts = (one.arguments.as_str(), other.arguments.as_str());
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let values = (read(texts.0), read(texts.1));
    texts.0 == texts.1 || (values.0.is_some() && values.0 == values.1)
}
