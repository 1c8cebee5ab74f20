//! The result of an evaluation.

use logue_message::ChatMessage;
use logue_source::Diagnostic;

use crate::document::element::Config;
use crate::document::tool::ToolDecl;

/// What a document means.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The settings; all empty without a `<config>`.
    pub config: Config,
    /// The tools that the model may call, without those that have an error. A built-in that only
    /// exists elsewhere is among them, to be refused by name.
    pub tools: Vec<ToolDecl>,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// What could not be evaluated (errors) and what was left out (warnings).
    pub diagnostics: Vec<Diagnostic>,
}

impl Evaluation {
    /// Whether a diagnostic is an error: the messages then lack something.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
