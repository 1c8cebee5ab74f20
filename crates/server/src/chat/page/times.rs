//! The times that calls of tools took, from the events of their turns.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::api::Api;
use super::super::problem::Problem;

/// The most events that are read, the latest ones.
const MOST: usize = 1_000;

/// The beginnings of the events that are read.
const BEGINNINGS: [&str; 4] = [
    "{\"type\":\"tool.ended\"",
    "{\"type\":\"turn.completed\"",
    "{\"type\":\"turn.suspended\"",
    "{\"type\":\"turn.failed\"",
];

/// The parts of an event that times require.
#[derive(Deserialize)]
struct TimedEvent {
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    milliseconds: Option<u64>,
    /// The calls of an agent are not in the history.
    #[serde(default)]
    agent: Option<Value>,
    #[serde(default)]
    from: u64,
    #[serde(default)]
    to: u64,
}

/// The time of a call, and the positions among which its result is.
struct CallTime {
    call_id: String,
    milliseconds: u64,
    from: u64,
    to: u64,
}

/// Adds `milliseconds` to the results of calls whose events are still logged.
///
/// # Errors
/// Returns a problem if the log cannot be read.
pub(crate) async fn add_times(
    api: &Api,
    session: &str,
    shown: &mut [Value],
) -> Result<(), Problem> {
    if !shown.iter().any(|item| item["message"]["role"] == "tool") {
        return Ok(());
    }
    let log = api.turns.hub.log();
    let events = log.latest(session, &BEGINNINGS, MOST).await?;
    let times = times_of(events.iter().map(|event| (event.entry, &*event.text)));
    for item in shown {
        let Some(position) = item["position"].as_u64() else {
            continue;
        };
        let id = &item["message"]["tool_call_id"];
        let mut own = times
            .iter()
            .filter(|time| time.call_id == *id && (time.from..time.to).contains(&position));
        // An id that a turn has used twice has no known time.
        if let (Some(time), None) = (own.next(), own.next()) {
            item["milliseconds"] = json!(time.milliseconds);
        }
    }
    Ok(())
}

/// Returns the times of the calls of ended turns. The positions are known by the outcomes.
fn times_of<'a>(events: impl Iterator<Item = (u64, &'a str)>) -> Vec<CallTime> {
    let mut times = Vec::new();
    let mut open: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
    for (entry, text) in events {
        let Ok(event) = serde_json::from_str::<TimedEvent>(text) else {
            continue;
        };
        match event.milliseconds {
            Some(milliseconds) if event.agent.is_none() => {
                let ended = (event.call_id, milliseconds);
                open.entry(entry).or_default().push(ended);
            }
            _ if event.to > event.from => {
                let (from, to) = (event.from, event.to);
                let ended = open.remove(&entry).unwrap_or_default().into_iter();
                times.extend(ended.map(|(call_id, milliseconds)| CallTime {
                    call_id,
                    milliseconds,
                    from,
                    to,
                }));
            }
            _ => {}
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(events: &[&str]) -> Vec<(String, u64, u64)> {
        let events = events.iter().map(|text| (1, *text));
        let times = times_of(events).into_iter();
        times
            .map(|time| (time.call_id, time.milliseconds, time.from))
            .collect()
    }

    #[test]
    fn a_time_belongs_to_the_messages_of_its_turn() {
        let ended = r#"{"type":"tool.ended","turn":1,"call_id":"c1","milliseconds":7}"#;
        let outcome = r#"{"type":"turn.completed","turn":1,"from":4,"messages":[1],"to":6}"#;
        assert_eq!(found(&[ended, outcome]), [("c1".to_owned(), 7, 4)]);
        // Neither a call without a stored result nor one of an agent has a time.
        assert_eq!(found(&[ended]), []);
        let nothing = r#"{"type":"turn.failed","turn":1,"from":4,"messages":[],"to":4}"#;
        assert_eq!(found(&[ended, nothing]), []);
        let nested = r#"{"type":"tool.ended","call_id":"c1","milliseconds":7,"agent":{"src":"a"}}"#;
        assert_eq!(found(&[nested, outcome]), []);
        let unknown = r#"{"type":"tool.ended","call_id":"c1"}"#;
        assert_eq!(found(&[unknown, outcome]), []);
    }
}
