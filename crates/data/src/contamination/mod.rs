//! Texts of benchmarks in training data, found by runs of equal words.
//!
//! A run of [`DEFAULT_RUN`] words that a message and a benchmark have in common is a finding, as in the
//! contamination study of GPT-3 (Brown et al., "Language Models are Few-Shot Learners", 2020,
//! appendix C). Rows of a benchmark that are shorter, but have at least [`SHORTEST_ROW`] words, are
//! found as a whole, which are the limits of the same study. Findings are extended to both sides, and have
//! the words in the message and the row of the benchmark.

mod index;
mod spans;

use serde_json::Value;

use crate::row_turns::turns;

pub use index::{BenchmarkIndex, BenchmarkRow};
pub use spans::ContaminatedSpan;

/// The words of a run by default.
pub const DEFAULT_RUN: usize = 13;
/// The least words of a row of a benchmark that is shorter than a run.
pub const SHORTEST_ROW: usize = 8;

/// Returns the texts of a row of a benchmark: the turns of a conversation, else all strings of a
/// JSON value, else the line as text.
pub fn benchmark_texts(line: &[u8]) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return vec![String::from_utf8_lossy(line).into_owned()];
    };
    if value.is_object()
        && let Ok(turns) = turns(line, &[])
    {
        return turns
            .into_iter()
            .map(|turn| turn.text.into_owned())
            .collect();
    }
    let mut texts = Vec::new();
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(members) => open.extend(members.values().rev()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}
