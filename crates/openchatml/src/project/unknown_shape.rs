//! The error for rows of an unknown shape.

use std::collections::BTreeSet;

/// The known shapes of a row: a name for errors, the keys, and the form that reads it.
const SHAPES: [(&str, &[&str]); 13] = [
    (
        "`messages` with `role` and `content` (openai)",
        &["messages", "tools", "role", "content"],
    ),
    (
        "`conversations` with `from` and `value` (sharegpt)",
        &["conversations", "from", "value", "human", "gpt"],
    ),
    (
        "`input` items (responses)",
        &["input", "instructions", "items", "tools"],
    ),
    (
        "`instruction`, `input`, `output` (instruction)",
        &["instruction", "input", "output", "response", "context"],
    ),
    (
        "`prompt` with `completions` and their `labels`, texts and as many booleans (instruction)",
        &["prompt", "completions", "labels"],
    ),
    (
        "`prompt` and `completion` (instruction)",
        &["prompt", "completion", "label", "text"],
    ),
    (
        "`messages` with `rejected_response`, a text or messages (preference)",
        &["messages", "rejected_response"],
    ),
    (
        "`query` and `response` (instruction)",
        &["query", "response", "history", "answer", "question"],
    ),
    (
        "`query`, `tools`, `answers` (instruction)",
        &["query", "tools", "answers", "function_description"],
    ),
    (
        "`conversations` instead of `system` and `chat` as texts (sharegpt)",
        &["system", "chat"],
    ),
    (
        "`chosen` and `rejected` (preference)",
        &["prompt", "chosen", "rejected", "accepted"],
    ),
    (
        "`input` with `preferred_output` (preference)",
        &["input", "preferred_output", "non_preferred_output"],
    ),
    (
        "`data` with a list of texts (instruction)",
        &["data", "id", "turns"],
    ),
];

/// A JSON text in an unknown shape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownShape {
    /// The keys of its first row or message; none without objects.
    pub keys: Vec<String>,
    /// The nearest known shape, for an error message.
    pub nearest: &'static str,
    /// The name and the remedy, if the shape is one that is not read.
    pub log: Option<LogShape>,
}

/// A file of another program that contains conversations among other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogShape {
    /// Its name, for an error message.
    pub name: &'static str,
    /// The place of its conversations, for an error message.
    pub content: &'static str,
    /// The command that extracts its conversations.
    pub remedy: &'static str,
}

/// A log of `inspect_ai`.
const INSPECT: LogShape = LogShape {
    name: "a log of inspect_ai",
    content: "its conversations are the `messages` of its `samples`",
    remedy: "extract them: jq -c '.samples[] | {messages}' LOG > rows.jsonl",
};

impl std::fmt::Display for UnknownShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.keys.is_empty() {
            f.write_str("JSON without a conversation")?;
        } else {
            let keys = self.keys.iter().map(|key| format!("{key:?}"));
            let keys: Vec<String> = keys.collect();
            let shape = self.log.map_or("unknown shape", |log| log.name);
            write!(f, "{shape} with the keys {}", keys.join(", "))?;
        }
        if let Some(log) = self.log {
            return write!(f, "; {}", log.content);
        }
        write!(f, "; the nearest known one has {}", self.nearest)
    }
}

impl std::error::Error for UnknownShape {}

/// Returns the error for a row with these keys.
pub(super) fn unknown(keys: &[String]) -> UnknownShape {
    let folded = |key: &str| {
        let key = key.to_ascii_lowercase().replace(['_', '-'], "");
        key.trim_end_matches('s').to_owned()
    };
    let own: BTreeSet<String> = keys.iter().map(|key| folded(key)).collect();
    let score = |known: &[&str]| {
        known
            .iter()
            .filter(|key| own.contains(&folded(key)))
            .count()
    };
    let mut nearest = SHAPES[0];
    for shape in SHAPES {
        if score(shape.1) > score(nearest.1) {
            nearest = shape;
        }
    }
    UnknownShape {
        keys: keys.iter().take(20).cloned().collect(),
        nearest: nearest.0,
        log: has_keys(keys, &["eval", "samples"]).then_some(INSPECT),
    }
}

fn has_keys(keys: &[String], wanted: &[&str]) -> bool {
    wanted.iter().all(|key| keys.iter().any(|own| own == key))
}
