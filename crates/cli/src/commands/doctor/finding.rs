//! The results of checks.

use serde_json::{Map, Value};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No problem.
    Good,
    /// Some features will not work, or not as expected.
    Doubtful,
    /// Prompts cannot run.
    Bad,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// The subject of the check.
    pub(super) check: &'static str,
    pub(super) standing: Standing,
    /// The message for users.
    pub(super) message: String,
    /// The remedies.
    pub(super) help: Vec<String>,
    /// The result as JSON fields, for programs.
    pub(super) facts: Map<String, Value>,
}

impl Finding {
    pub(super) fn new(check: &'static str, standing: Standing, message: impl Into<String>) -> Self {
        Self {
            check,
            standing,
            message: message.into(),
            help: Vec::new(),
            facts: Map::new(),
        }
    }

    pub(super) fn good(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Standing::Good, message)
    }

    pub(super) fn doubtful(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Standing::Doubtful, message)
    }

    pub(super) fn bad(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Standing::Bad, message)
    }

    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    pub(super) fn with_fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}
