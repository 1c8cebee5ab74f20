//! The events of a turn as JSON.

use logue_agent::{TurnEvent, TurnReport};
use logue_message::Role;
use serde_json::{Value, json};

/// Returns the JSON form of an event; `None` for events without one.
pub(super) fn json_event(event: TurnEvent) -> Option<Value> {
    let (agent, event) = match event {
        TurnEvent::OfAgent { agent, event } => (Some(agent), *event),
        event => (None, event),
    };
    let mut line = match event {
        TurnEvent::Retrying {
            attempt,
            wait,
            category,
            message,
        } => json!({"event": "model.retry", "attempt": attempt,
                "wait_seconds": wait.as_secs_f64(), "category": category, "message": message}),
        TurnEvent::Reasking { reason } => {
            json!({"event": "model.schema_retry", "reason": reason})
        }
        TurnEvent::Unchecked { tool, why } => {
            json!({"event": "tool.schema_unavailable", "name": tool, "reason": why})
        }
        TurnEvent::ImagesDropped(count) => {
            json!({"event": "tool.images_dropped", "count": count})
        }
        TurnEvent::ToolStarted(call) => json!({"event": "tool.call",
                "call_id": call.id, "name": call.name, "arguments": call.arguments.as_str()}),
        TurnEvent::ToolFailed { call, diagnostic } => json!({"event": "tool.failed",
                "call_id": call.id, "name": call.name, "diagnostic": diagnostic}),
        TurnEvent::ToolEnded { call, ok, text, .. } => json!({"event": "tool.result",
                "call_id": call.id, "name": call.name, "ok": ok, "content": text}),
        // The text of an agent is not shown to the user.
        _ if agent.is_some() => return None,
        TurnEvent::Delta(text) => json!({"event": "response.delta", "text": text}),
        TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
            let text = message.text();
            if text.is_empty() {
                return None;
            }
            json!({"event": "message.completed", "role": "assistant", "content": text})
        }
        _ => return None,
    };
    if let (Some(agent), Some(event)) = (agent, line.as_object_mut()) {
        let place = json!({"src": agent.src, "call_id": agent.call_id, "depth": agent.depth});
        event.insert("agent".to_owned(), place);
    }
    Some(line)
}

/// Returns the token counts of the turn.
pub(super) fn usage(report: &TurnReport) -> Option<Value> {
    report.usage.map(
        |usage| json!({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}),
    )
}

/// Returns the cost of the turn in US dollars, without binary rounding errors.
pub(super) fn cost(report: &TurnReport) -> Option<f64> {
    report.cost.map(|cost| (cost * 1e9).round() / 1e9)
}
