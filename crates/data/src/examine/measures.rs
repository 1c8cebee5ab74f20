//! The measures of rows and of data sets.

use std::collections::BTreeMap;

use openchatml::{Channel, FrameRole, Transcript};
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::tokenizer::Tokenizer;

/// The measures of a row. Those of both conversations of a pair are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMeasures {
    /// The form of the row.
    pub form: &'static str,
    /// The bytes of the row.
    pub bytes: u64,
    /// The messages, by role.
    pub messages: BTreeMap<&'static str, u64>,
    /// The tokens of the texts, without those of a template.
    pub tokens: u64,
    /// The tokens of the texts of the assistant: reasoning, calls and answers.
    pub assistant_tokens: u64,
    /// The tokens of reasoning.
    pub reasoning_tokens: u64,
    /// The calls, by the name of the tool.
    pub calls: BTreeMap<String, u64>,
    /// The declared tools.
    pub tools: u64,
    /// The losses of reading the row, by severity and kind.
    pub losses: BTreeMap<String, u64>,
}

impl RowMeasures {
    pub(super) fn add(&mut self, transcript: &Transcript, tokenizer: &mut dyn Tokenizer) {
        let mut ids = Vec::new();
        for frame in &transcript.frames {
            ids.clear();
            tokenizer.encode(&frame.body, &mut ids);
            let tokens = ids.len() as u64;
            self.tokens += tokens;
            *self
                .messages
                .entry(frame.role.as_str().unwrap_or("tool"))
                .or_default() += 1;
            if frame.role == FrameRole::Assistant {
                self.assistant_tokens += tokens;
                if frame.effective_channel() == Channel::Analysis {
                    self.reasoning_tokens += tokens;
                }
            }
            if frame.is_call() {
                let name = frame.to.clone().unwrap_or_default();
                let name = name.strip_prefix("functions.").unwrap_or(&name);
                *self.calls.entry(name.to_owned()).or_default() += 1;
            }
        }
        self.tools += transcript.tools.len() as u64;
    }
}

/// The most names of tools and forms that are counted apart.
const MAX_NAMES: usize = 1_000;

/// The measures of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// The rows that could be read.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The rows of each form.
    pub forms: BTreeMap<String, u64>,
    /// The messages of each role.
    pub messages: BTreeMap<String, u64>,
    /// The calls of each tool.
    pub calls: BTreeMap<String, u64>,
    /// The tokens of a row.
    pub tokens: Histogram,
    /// The tokens of the assistant in a row.
    pub assistant_tokens: Histogram,
    /// The tokens of reasoning in a row.
    pub reasoning_tokens: Histogram,
    /// The messages of a row.
    pub turns: Histogram,
    /// The calls of a row.
    pub calls_of_row: Histogram,
    /// The tools that a row declares.
    pub tools: Histogram,
    /// The losses of reading the rows, by severity and kind.
    pub losses: BTreeMap<String, u64>,
}

impl Measures {
    /// Adds a row.
    pub fn add(&mut self, row: &RowMeasures) {
        self.rows += 1;
        self.bytes += row.bytes;
        count(&mut self.forms, row.form, 1);
        for (role, messages) in &row.messages {
            count(&mut self.messages, role, *messages);
        }
        for (name, calls) in &row.calls {
            count(&mut self.calls, name, *calls);
        }
        for (name, losses) in &row.losses {
            count(&mut self.losses, name, *losses);
        }
        self.tokens.add(row.tokens);
        self.assistant_tokens.add(row.assistant_tokens);
        self.reasoning_tokens.add(row.reasoning_tokens);
        self.turns.add(row.messages.values().sum());
        self.calls_of_row.add(row.calls.values().sum());
        self.tools.add(row.tools);
    }

    /// Adds the rows of another part of the data set.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        for (counts, more) in [
            (&mut self.forms, &other.forms),
            (&mut self.messages, &other.messages),
            (&mut self.calls, &other.calls),
            (&mut self.losses, &other.losses),
        ] {
            for (name, number) in more {
                count(counts, name, *number);
            }
        }
        self.tokens.merge(&other.tokens);
        self.assistant_tokens.merge(&other.assistant_tokens);
        self.reasoning_tokens.merge(&other.reasoning_tokens);
        self.turns.merge(&other.turns);
        self.calls_of_row.merge(&other.calls_of_row);
        self.tools.merge(&other.tools);
    }
}

/// Counts a name; names beyond the limit are counted as `…`.
fn count(counts: &mut BTreeMap<String, u64>, name: &str, number: u64) {
    let is_known = counts.contains_key(name);
    let name = if is_known || counts.len() < MAX_NAMES {
        name
    } else {
        "…"
    };
    *counts.entry(name.to_owned()).or_default() += number;
}
