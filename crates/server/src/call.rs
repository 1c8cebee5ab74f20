//! One call: a prompt with an input, run with a history of its own.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{
    HostError, Listener, NoTranscript, PrepareError, Prompt, PromptSource, SourceError, TurnEnd,
    TurnError, load_prompt, prepare,
};
use logue_message::ChatMessage;

use crate::host::PromptHost;

/// The error of a call that has no response.
#[derive(Debug)]
pub(crate) struct CallError {
    /// The stable code or category.
    code: String,
    message: String,
    help: Option<String>,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl CallError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            help: None,
        }
    }
}

impl From<SourceError> for CallError {
    fn from(error: SourceError) -> Self {
        let found = error.diagnostic;
        Self::new(found.code.as_str(), found.message)
    }
}

impl From<PrepareError> for CallError {
    fn from(error: PrepareError) -> Self {
        Self {
            help: error.help().map(str::to_owned),
            ..Self::new(error.category(), error.to_string())
        }
    }
}

impl From<HostError> for CallError {
    fn from(error: HostError) -> Self {
        PrepareError::from(error).into()
    }
}

impl From<TurnError> for CallError {
    fn from(error: TurnError) -> Self {
        Self {
            code: error.category,
            message: error.message,
            help: error.help,
        }
    }
}

/// Evaluates the prompt in a file. No tool is set up.
pub(crate) async fn evaluate(host: &dyn PromptHost, file: &Path) -> Result<Prompt, CallError> {
    let source = PromptSource::read(file)?;
    let environment = host.environment(file)?;
    let loaded = load_prompt(&environment, &source).await?;
    loaded.close().await;
    Ok(loaded.prompt)
}

/// Returns the last message of the prompt in a file that receives `input`.
///
/// Dropping the future cancels everything that the call has started.
pub(crate) async fn answer(
    host: &dyn PromptHost,
    file: &Path,
    input: &str,
    listener: Arc<dyn Listener>,
) -> Result<String, CallError> {
    let source = PromptSource::read(file)?.with_input(input);
    let environment = host.environment(file)?;
    let prepared = prepare(&environment, source).await?;
    let connections = prepared.connections();
    let turn = prepared.into_turn(Box::new(NoTranscript));
    let turn = turn.map_err(|error| CallError::new(error.category(), error.to_string()))?;
    let ended = turn.run(listener, None).await;
    connections.close().await;
    let TurnEnd::Completed(report) = ended? else {
        let message = "a tool call requires approval, which a call of the server cannot get";
        return Err(CallError::new("suspended", message));
    };
    if let Some(cut) = report.truncated {
        let message = format!("the answer is cut ({})", cut.as_str());
        return Err(CallError {
            help: Some("raise `max_tokens` in the prompt's `<config>`".to_owned()),
            ..CallError::new("answer_cut", message)
        });
    }
    let last = report.replies.last();
    Ok(last.map(ChatMessage::text).unwrap_or_default())
}
