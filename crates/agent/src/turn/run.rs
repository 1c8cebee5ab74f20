//! One turn of a conversation that is kept in a transcript, until the model calls no more tools.

use std::sync::Arc;
use std::time::Duration;

use logue_graph::{
    CountingIds, EngineError, Invocation, Outcome, PausedRun, RunPorts, SignalDescriptor, State,
    Update,
};
use logue_harness::chat::CompletedTurn;
use logue_harness::{Classifier, DefaultClassifier, ErrorBucket};
use logue_message::ChatMessage;
use logue_model::{FinishReason, Provider, ProviderError, Settings, Usage};
use logue_tools::Toolbox;
use serde_json::Value;

use crate::permission::permissions::Permissions;
use crate::transcript::item::{Transcript, TranscriptError};
use crate::transcript::journal::TranscriptJournal;
use crate::turn::assistant::{Assistant, MAX_TURNS, MESSAGES, TOOL_RESULT_REQUIRED};
use crate::turn::budget::{BUDGET_EXCEEDED, Budget};
use crate::turn::listener::Listener;
use crate::turn::progress::Progress;
use crate::turn::relay::Relay;
use crate::turn::response_requirements::Demands;
use crate::turn::routing::Routing;

/// What to do about a budget that is spent.
const BUDGET_HELP: &str = "what was done is kept: raise --max-tokens or --budget and go on";

/// Everything that a turn needs.
pub struct Turn {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The model's name at the provider.
    pub model: String,
    /// How to sample.
    pub settings: Settings,
    /// What the model may do.
    pub toolbox: Toolbox,
    /// Which tools run, and which a person is asked about.
    pub permissions: Permissions,
    /// The conversation so far; its last message is what the model answers.
    pub history: Vec<ChatMessage>,
    /// Where completed parts go.
    pub transcript: Box<dyn Transcript>,
    /// Who watches.
    pub listener: Arc<dyn Listener>,
    /// How often the model may be asked.
    pub max_requests: usize,
    /// How the calls of an answer are run.
    pub routing: Routing,
    /// What may be spent; the agents of the same run share it.
    pub budget: Budget,
    /// What is asked of the answers.
    pub demands: Demands,
    /// The id of the run, by which it can be resumed; unique among all that are kept together.
    pub invocation_id: Option<String>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("model", &self.model)
            .field("history", &self.history.len())
            .finish_non_exhaustive()
    }
}

/// How a turn ended that did not fail.
#[derive(Clone, Debug)]
pub enum TurnEnd {
    /// The model answered and calls no more tools.
    Completed(TurnReport),
    /// A person has to decide first.
    Suspended(Box<SuspendedTurn>),
}

/// A turn that waits for a person. Its conversation is in the transcript.
#[derive(Clone, Debug)]
pub struct SuspendedTurn {
    /// What it waits for.
    pub descriptor: SignalDescriptor,
    /// Everything else that it needs to go on.
    pub run: PausedRun,
    /// The message that says what waits; it is for people, and no part of the conversation.
    pub pending: Option<ChatMessage>,
}

/// What a completed turn gave.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// The new messages of all roles, in order.
    pub replies: Vec<ChatMessage>,
    /// What was used, agents that its tools asked included, where the servers say.
    pub usage: Option<Usage>,
    /// What that cost in US dollars; `None` where a price is not known.
    pub cost: Option<f64>,
    /// How often the model was asked.
    pub requests: usize,
    /// Whether the last answer is cut: it reached a length limit, or a filter ended it.
    pub cut: Option<FinishReason>,
}

impl TurnReport {
    /// What a turn of a session gave. What it cost is known where it ran in this process.
    pub fn of_session(turn: &CompletedTurn) -> Self {
        let progress = turn.final_state.as_ref();
        let progress = progress.map(|state| Progress::of(state, &turn.invocation_id));
        let progress = progress.unwrap_or_default();
        Self {
            usage: progress.spent.usage,
            cost: progress.spent.cost,
            requests: usize::try_from(progress.requests).unwrap_or(usize::MAX),
            cut: progress.cut(),
            replies: turn.replies.clone(),
        }
    }
}

/// A turn that did not complete. What had been completed before is in the transcript.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct TurnError {
    /// The stable category.
    pub category: String,
    /// Who can do something about it.
    pub bucket: ErrorBucket,
    /// What happened.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl Turn {
    /// Runs the turn. Dropping the future cancels it: the request is ended, running tools are
    /// killed, and the transcript holds what was completed.
    ///
    /// # Errors
    /// The provider failed, the transcript could not be written, or the model went on calling tools
    /// for more requests than allowed.
    pub async fn run(self) -> Result<TurnEnd, TurnError> {
        let before = self.history.len();
        let messages: Vec<Value> = self.history.iter().map(ChatMessage::to_json).collect();
        let ports = RunPorts::new()
            .with_journal(TranscriptJournal::new(self.transcript))
            .with_events(Relay::new(self.listener));
        let assistant = Assistant {
            provider: self.provider,
            model: self.model,
            settings: self.settings,
            toolbox: self.toolbox,
            permissions: self.permissions,
            prefix: Vec::new(),
            max_requests: self.max_requests,
            routing: self.routing,
            budget: self.budget,
            demands: self.demands,
        };
        let graph = assistant.graph(CountingIds::new());
        let graph = graph.map_err(|error| internal(error.to_string()))?;
        let mut start = Invocation::new(Update::new().with(MESSAGES, messages)).with_ports(ports);
        if let Some(id) = self.invocation_id {
            start = start.with_invocation_id(id);
        }
        match graph.invoke(start).await {
            Outcome::Completed(completed) => {
                let progress = Progress::of(&completed.state, &completed.invocation_id);
                report(&completed.state, &progress, before).map(TurnEnd::Completed)
            }
            Outcome::Errored(errored) => Err(turn_error(&errored.error)),
            Outcome::Suspended(suspended) => {
                let pending = tail(&suspended.state, before)?.pop();
                let mut run = suspended.paused;
                // The transcript has it, and nothing has two histories.
                drop(run.take_field(MESSAGES));
                Ok(TurnEnd::Suspended(Box::new(SuspendedTurn {
                    descriptor: suspended.descriptor,
                    run,
                    pending,
                })))
            }
        }
    }
}

/// The messages of a state from a position on.
fn tail(state: &State, from: usize) -> Result<Vec<ChatMessage>, TurnError> {
    let list = state.list(MESSAGES);
    let messages = list.into_iter().flat_map(|list| list.iter().skip(from));
    let messages = messages.map(ChatMessage::from_json);
    messages.collect::<Result<_, _>>().map_err(internal)
}

fn report(state: &State, progress: &Progress, before: usize) -> Result<TurnReport, TurnError> {
    Ok(TurnReport {
        replies: tail(state, before)?,
        usage: progress.spent.usage,
        cost: progress.spent.cost,
        requests: usize::try_from(progress.requests).unwrap_or(usize::MAX),
        cut: progress.cut(),
    })
}

/// The outcome of a failed run as a turn's error: its derived category, the bucket of that, and
/// what its cause knows of a remedy.
fn turn_error(error: &EngineError) -> TurnError {
    let category = error.derived_category().to_owned();
    let provider = causes(error).find_map(|cause| cause.downcast_ref::<ProviderError>());
    let transcript = causes(error).find_map(|cause| cause.downcast_ref::<TranscriptError>());
    let help = match category.as_str() {
        MAX_TURNS => Some("raise --max-turns, or run again to go on".to_owned()),
        BUDGET_EXCEEDED => Some(BUDGET_HELP.to_owned()),
        TOOL_RESULT_REQUIRED => Some(
            "append its reply, and run again: `<|start|>tool name=functions.NAME call_id=ID \
             to=assistant<|channel|>commentary<|message|>…<|end|>`"
                .to_owned(),
        ),
        _ if transcript.is_some() => transcript.map(|error| error.help().to_owned()),
        _ => provider.and_then(|provider| provider.help.clone()),
    };
    TurnError {
        bucket: bucket(&category),
        category,
        message: error.diagnostic(),
        help,
        retry_after: provider.and_then(|provider| provider.retry_after),
    }
}

/// The harness contract sorts the categories that it knows; these are a single user's own.
pub(crate) fn bucket(category: &str) -> ErrorBucket {
    match category {
        MAX_TURNS
        | BUDGET_EXCEEDED
        | TOOL_RESULT_REQUIRED
        | "replay_mismatch"
        | "replay_exhausted"
        | "recording_invalid"
        | "recording_write_failed"
        | "E-SOURCE-READ"
        | "E-SOURCE-TOO-LARGE" => ErrorBucket::UserCorrectable,
        "transcript_locked" => ErrorBucket::RetryableTransient,
        "transcript_write_failed" => ErrorBucket::SessionTerminating,
        other => DefaultClassifier.classify(other),
    }
}

fn causes<'a>(
    error: &'a EngineError,
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| {
        error.source()
    })
}

pub(crate) fn internal(message: String) -> TurnError {
    TurnError {
        category: "internal".to_owned(),
        bucket: ErrorBucket::SessionTerminating,
        message,
        help: None,
        retry_after: None,
    }
}
