//! Errors of a preparation.

use logue_harness::ErrorBucket;
use logue_model::ProviderError;
use logue_source::{Diagnostic, SourceMap};
use logue_tools::RootError;

use crate::prepare::host_error::HostError;
use crate::prompt::document::Prompt;
use crate::prompt::refine::RefineError;

/// The error of a prompt that cannot be prepared. No model request of the turn was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// A directory that the prompt may read cannot be opened.
    #[error("a root cannot be used: {0}")]
    Roots(#[source] RootError),
    /// The model that rewrites the prompt failed.
    #[error(transparent)]
    Refine(#[from] RefineError),
    /// The prompt contains errors, or declares a tool that cannot be used.
    #[error("{0}")]
    Invalid(Box<InvalidPrompt>),
    /// A prompt from the network declares tools.
    #[error("a prompt from the network may declare no tools")]
    ToolsFromNetwork,
    /// A tool of an untrusted prompt requires approval, and the turn cannot suspend.
    #[error(
        "{name} is not trusted, and its tool `{tool}` requires approval, which a turn \
         without a transcript cannot wait for"
    )]
    NotTrusted {
        /// The prompt.
        name: String,
        /// The tool.
        tool: String,
    },
    /// A permission rule of the command names a tool that the prompt does not have.
    #[error("a permission rule names the tool `{tool}`, which neither the prompt nor an agent has")]
    UnknownTool {
        /// The name in the rule.
        tool: String,
        /// The most similar name of a tool.
        suggestion: Option<String>,
    },
    /// The command sets a variable that the prompt does not declare.
    #[error("the prompt declares no variable `{name}`")]
    UnknownVariable {
        /// The name of the variable.
        name: String,
    },
    /// A tool requires approval, there is no approver, and the turn cannot suspend.
    #[error("a tool that requires approval needs a turn with a transcript")]
    NoApprover,
    /// The last response calls a function that only the caller can run.
    #[error("the call of `{tool}` ({call_id}) in {name} requires its result")]
    ResultRequired {
        /// The prompt.
        name: String,
        /// The id of the call.
        call_id: String,
        /// The function.
        tool: String,
    },
    /// The conversation has no message that a model could answer.
    #[error("{}", no_input(*.is_answered))]
    NoInput {
        /// Whether the conversation ends with a response of the model.
        is_answered: bool,
    },
    /// The requirements on the response cannot be met.
    #[error(transparent)]
    Requirements(ProviderError),
    /// A cost limit is set and the price of the model is unknown.
    #[error("a cost limit (--max-cost) is set, and the price of the model `{model}` is unknown")]
    NoPrice {
        /// The model.
        model: String,
    },
    /// A port of the host program failed.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The errors of a prompt, with the texts that they point into.
#[derive(Clone, Debug)]
pub struct InvalidPrompt {
    prompt: Prompt,
    errors: Vec<Diagnostic>,
}

impl InvalidPrompt {
    pub(crate) fn new(prompt: Prompt, errors: Vec<Diagnostic>) -> Self {
        Self { prompt, errors }
    }

    /// The errors, in the order of the text.
    pub fn errors(&self) -> &[Diagnostic] {
        &self.errors
    }

    /// Resolves the spans of the errors.
    pub fn source_map(&self) -> SourceMap<'_> {
        self.prompt.source_map()
    }
}

impl std::fmt::Display for InvalidPrompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errors.first() {
            Some(error) => {
                let place = self.source_map().place(error.primary.start);
                write!(f, "{place}: {}", error.message)
            }
            None => write!(f, "the prompt is invalid"),
        }
    }
}

impl PrepareError {
    /// The stable category or code.
    pub fn category(&self) -> &str {
        match self {
            Self::Roots(_) => "E-SOURCE-READ",
            Self::Refine(error) => &error.category,
            Self::Invalid(invalid) => invalid
                .errors
                .first()
                .map_or("E-SOURCE-READ", |error| error.code.as_str()),
            Self::ToolsFromNetwork => "E-MD-AGENT-FAILED",
            Self::NotTrusted { .. } => "prompt_not_trusted",
            Self::NoApprover
            | Self::NoPrice { .. }
            | Self::UnknownTool { .. }
            | Self::UnknownVariable { .. } => "usage",
            Self::ResultRequired { .. } => crate::turn::assistant::TOOL_RESULT_REQUIRED,
            Self::NoInput { .. } => "no_user_input",
            Self::Requirements(error) => error.category.as_str(),
            Self::Host(error) => &error.category,
        }
    }

    /// The party that can correct the error.
    pub fn bucket(&self) -> ErrorBucket {
        let is_transient = match self {
            Self::Refine(error) => error.is_transient,
            Self::Invalid(invalid) => invalid.prompt.is_transient(),
            Self::Requirements(error) => error.category.is_transient(),
            Self::Host(error) => return error.bucket,
            _ => false,
        };
        if is_transient {
            ErrorBucket::RetryableTransient
        } else {
            ErrorBucket::UserCorrectable
        }
    }

    /// The first remedy, if one is known.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Invalid(invalid) => {
                let error = invalid.errors.first()?;
                error.help.first().map(String::as_str)
            }
            Self::Requirements(error) => error.help.as_deref(),
            Self::Host(error) => error.help.first().map(String::as_str),
            Self::ToolsFromNetwork => Some("save it to a file, read it, and use that"),
            _ => None,
        }
    }
}

fn no_input(is_answered: bool) -> &'static str {
    if is_answered {
        "the conversation is complete: its last message is the assistant's answer"
    } else {
        "the prompt has no message that a model could answer"
    }
}
