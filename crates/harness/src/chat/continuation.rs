//! Continuation of a turn that failed or whose process died.
//!
//! The graph runs again from its entry, with the state that the turn had. The metadata of the run
//! gives its nodes the rest.

use logue_message::ToolCall;
use serde_json::{Map, Value, json};

const KEY: &str = "continuation";
const RECOVERIES: &str = "recoveries";
const OPEN_CALLS: &str = "open_calls";
const GUARDED: &str = "guarded";
const SUSPENSIONS: &str = "suspensions";

/// The data of a turn that continues, from the metadata of its run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Continuation {
    /// The number of processes that died or were asked to end in this attempt.
    pub recoveries: u64,
    /// The ids of the latest calls that were not started, and may run.
    pub open_calls: Vec<String>,
    /// The calls with an unknown outcome, which no equal call may repeat without a person.
    pub guarded: Vec<ToolCall>,
    /// The number of times that the turn has been suspended.
    ///
    /// A signal id that contains the next number is not used twice.
    pub suspensions: u64,
}

impl Continuation {
    /// Reads the metadata of a run; `None` at its first attempt.
    pub fn from_metadata(metadata: &Map<String, Value>) -> Option<Self> {
        let value = metadata.get(KEY)?;
        let list = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let ids = list(OPEN_CALLS).filter_map(Value::as_str);
        Some(Self {
            recoveries: value.get(RECOVERIES).and_then(Value::as_u64).unwrap_or(0),
            open_calls: ids.map(str::to_owned).collect(),
            guarded: list(GUARDED).filter_map(call_from_json).collect(),
            suspensions: value.get(SUSPENSIONS).and_then(Value::as_u64).unwrap_or(0),
        })
    }

    pub(super) fn to_metadata(&self) -> Map<String, Value> {
        let value = json!({
            RECOVERIES: self.recoveries,
            OPEN_CALLS: self.open_calls,
            GUARDED: calls_to_json(&self.guarded),
            SUSPENSIONS: self.suspensions,
        });
        Map::from_iter([(KEY.to_owned(), value)])
    }
}

/// Calls as JSON: id, tool and the text of the arguments.
pub(super) fn calls_to_json(calls: &[ToolCall]) -> Vec<Value> {
    let calls = calls.iter();
    calls
        .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments.as_str()}))
        .collect()
}

/// Reads the calls that [`calls_to_json`] wrote.
pub(super) fn calls_from_json(calls: &[Value]) -> Vec<ToolCall> {
    calls.iter().filter_map(call_from_json).collect()
}

fn call_from_json(value: &Value) -> Option<ToolCall> {
    let text = |key: &str| value.get(key)?.as_str();
    Some(ToolCall::new(
        text("id")?,
        text("name")?,
        text("arguments")?,
    ))
}
