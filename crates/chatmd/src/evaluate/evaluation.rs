//! The result of an evaluation.

use logue_message::ChatMessage;
use logue_source::Diagnostic;

use crate::document::element::Config;
use crate::document::tool::ToolDecl;

/// The settings, tools and messages of a document.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// Settings; all empty without a `<config>`.
    pub config: Config,
    /// Tools that the model may call, without those that have an error.
    ///
    /// Unsupported built-ins are included, so that the caller can reject them by name.
    pub tools: Vec<ToolDecl>,
    /// Messages of the conversation.
    pub messages: Vec<ChatMessage>,
    /// Evaluation failures (errors) and omitted content (warnings).
    pub diagnostics: Vec<Diagnostic>,
}

impl Evaluation {
    /// Returns whether a diagnostic is an error; the messages are then incomplete.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
