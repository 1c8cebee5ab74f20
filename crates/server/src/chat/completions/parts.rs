//! The parts of an answer of Chat Completions.

use serde_json::Value;

use crate::chat::problem::Problem;

/// A part of an answer.
#[derive(Clone)]
pub(super) enum Part {
    /// Visible text.
    Text(String),
    /// The answer of another request to the model follows.
    Next,
    /// The end.
    End(Result<AnswerEnd, Problem>),
}

/// The end of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerEnd {
    /// The whole visible text.
    pub(crate) text: String,
    /// `stop`, `length` or `content_filter`.
    pub(super) finish: &'static str,
    pub(super) usage: Option<Value>,
    /// The signal for which the turn waits.
    pub(crate) signal_id: Option<String>,
}
