//! The events of earlier attempts at a turn in the log.

use std::collections::HashMap;

use logue_harness::chat::TurnNote;
use logue_harness::events::EventLog;
use logue_harness::store::{Store, StoreError};
use logue_message::{ToolCall, cancelled_result};
use serde_json::Value;

use super::turn_events::event_kind;

/// The number of events that are read at once.
const PAGE: usize = 256;

/// The events of earlier attempts at a turn.
#[derive(Debug, Default)]
pub(super) struct EarlierAttempts {
    /// Whether there are any, apart from the acceptance.
    pub(super) have_events: bool,
    /// Whether the last one says that the turn continues: nothing has happened since.
    pub(super) are_announced: bool,
    /// The beginnings of calls without an end.
    pub(super) open_calls: Vec<Value>,
}

/// Reads the events of an entry.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub(super) async fn earlier_attempts(
    log: &dyn EventLog,
    session: &str,
    entry: u64,
) -> Result<EarlierAttempts, StoreError> {
    let mut attempts = EarlierAttempts::default();
    let before = entry.saturating_sub(1);
    let Some(first) = log.first_after_entry(session, before).await? else {
        return Ok(attempts);
    };
    let mut after = first.saturating_sub(1);
    loop {
        let page = log.since(session, after, PAGE).await?;
        let Some(last) = page.events.last() else {
            return Ok(attempts);
        };
        after = last.seq;
        for event in page.events.iter().filter(|event| event.entry == entry) {
            let kind = event_kind(&event.text);
            attempts.have_events |= kind != "turn.accepted";
            attempts.are_announced = kind == "turn.recovered";
            note_call(&mut attempts.open_calls, &event.text);
        }
    }
}

/// Returns the results of interrupted calls as the model receives them.
///
/// A call whose result is not in the journal of the turn has an unknown outcome. The calls of agents
/// that a call runs have no result.
///
/// # Errors
/// Returns an error if the store fails.
pub(super) async fn noted_results(
    store: &dyn Store,
    (session, entry): (&str, u64),
    calls: &[Value],
) -> Result<Vec<Option<String>>, StoreError> {
    let mut results = HashMap::new();
    if !calls.is_empty()
        && let Some(entry) = store.entry(session, entry).await?
        && let Some(invocation) = entry.invocation_id
    {
        for noted in store.notes(session, &invocation).await? {
            if let Ok(TurnNote::Message(message) | TurnNote::Step { message, .. }) =
                TurnNote::from_json(&noted.note)
            {
                // Ids of calls may repeat.
                for call in &message.tool_calls {
                    results.remove(&call.id);
                }
                if let Some(id) = message.tool_call_id.clone() {
                    results.insert(id, message.text());
                }
            }
        }
    }
    let result = |call: &Value| {
        let text = |name: &str| call[name].as_str().unwrap_or_default();
        let known = results.get(text("call_id")).cloned();
        let known = known.unwrap_or_else(|| {
            let call = ToolCall::new(text("call_id"), text("name"), "{}");
            cancelled_result(&call).text()
        });
        call["agent"].is_null().then_some(known)
    };
    Ok(calls.iter().map(result).collect())
}

/// Adds the beginning of a call, or removes it at its end.
fn note_call(open: &mut Vec<Value>, text: &str) {
    let kind = event_kind(text);
    if !matches!(kind, "tool.started" | "tool.ended") {
        return;
    }
    let Ok(event) = serde_json::from_str::<Value>(text) else {
        return;
    };
    if kind == "tool.started" {
        open.push(event);
        return;
    }
    // Agents that a call runs have calls of their own.
    let is_same =
        |open: &Value| open["call_id"] == event["call_id"] && open["agent"] == event["agent"];
    if let Some(place) = open.iter().position(is_same) {
        open.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::note_call;

    #[test]
    fn open_calls_are_those_without_an_end() {
        let piece = r#"{"type":"answer.delta","turn":1,"text":"a"}"#;
        let started = r#"{"type":"tool.started","turn":1,"call_id":"c"}"#;
        let of_agent = r#"{"type":"tool.started","turn":1,"call_id":"c","agent":{"src":"a"}}"#;
        let ended = r#"{"type":"tool.ended","turn":1,"call_id":"c"}"#;
        let open = |events: &[&str]| {
            let mut open = Vec::new();
            for event in events {
                note_call(&mut open, event);
            }
            open.len()
        };
        assert_eq!(open(&[piece, started]), 1);
        assert_eq!(open(&[started, of_agent, ended]), 1);
        assert_eq!(open(&[started, ended, piece]), 0);
    }
}
