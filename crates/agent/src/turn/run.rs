//! One turn of a conversation, until the model calls no more tools.

use std::sync::Arc;
use std::time::Duration;

use logue_graph::{
    CountingIds, EngineError, Invocation, List, PausedRun, RunOutcome, RunPorts, SignalDescriptor,
    State, Update,
};
use logue_harness::chat::{CompletedTurn, REPORTED_FIELDS};
use logue_harness::store::StoredOutcome;
use logue_harness::{Classifier, DefaultClassifier, ErrorBucket};
use logue_message::ChatMessage;
use logue_model::{FinishReason, ProviderError, Usage};
use serde_json::{Map, Value};

use crate::transcript::item::{TranscriptError, TranscriptWriter};
use crate::transcript::journal::TranscriptJournal;
use crate::turn::assistant::{Assistant, MAX_TURNS, MESSAGES, TOOL_RESULT_REQUIRED};
use crate::turn::budget::BUDGET_EXCEEDED;
use crate::turn::listener::{Listener, ListenerSink};
use crate::turn::progress::{Progress, TURN};

/// The remedy for a spent budget.
const BUDGET_HELP: &str =
    "completed work is kept: raise --max-total-tokens or --max-cost and run again";

/// One turn: an assistant and the conversation that it answers.
#[non_exhaustive]
pub struct Turn {
    /// The model with its tools, permissions and limits.
    pub assistant: Assistant,
    /// The conversation so far; the model answers its last message.
    pub history: Vec<ChatMessage>,
    /// Receives completed parts.
    pub transcript: Box<dyn TranscriptWriter>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("model", &self.assistant.model)
            .field("history", &self.history.len())
            .finish_non_exhaustive()
    }
}

/// The result of a turn without an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEnd {
    /// The model answered without tool calls.
    Completed(TurnReport),
    /// A tool call requires approval.
    Suspended(Box<TurnSuspension>),
}

/// A suspended turn. Its conversation is in the transcript.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnSuspension {
    /// The signal that resumes it.
    pub descriptor: SignalDescriptor,
    /// The state from which it resumes.
    pub run: PausedRun,
    /// The message that lists pending calls. It is shown to people and not part of the
    /// conversation.
    pub pending: Option<ChatMessage>,
}

/// The result of a completed turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TurnReport {
    /// The new messages of all roles, in order.
    pub replies: Vec<ChatMessage>,
    /// Token usage as reported by servers, including agents that tools called.
    pub usage: Option<Usage>,
    /// The cost in US dollars, or `None` if a price is unknown.
    pub cost: Option<f64>,
    /// The number of model requests.
    pub requests: usize,
    /// The reason why the last response is incomplete: a length limit or a content filter.
    pub truncated: Option<FinishReason>,
}

impl TurnReport {
    /// Builds the report of a session's turn.
    ///
    /// The cost is known if the turn ran in this process.
    pub fn from_session(turn: &CompletedTurn) -> Self {
        let progress = turn.final_state.as_ref();
        let progress = progress.map(|state| Progress::from_state(state, &turn.invocation_id));
        Self::new(&progress.unwrap_or_default(), turn.replies.clone())
    }

    /// Builds the report of a stored turn, by the fields of its session.
    ///
    /// They contain the counts of the session's last turn; other reports are empty.
    pub fn from_fields(fields: &Map<String, Value>, invocation_id: &str) -> Self {
        Self::new(
            &Progress::from_json(fields.get(TURN), invocation_id),
            Vec::new(),
        )
    }

    /// Builds the report of a stored turn by its outcome.
    ///
    /// Outcomes of earlier versions have no counts: those of the session's last turn are in its
    /// fields.
    pub fn from_outcome(outcome: &StoredOutcome, fields: &Map<String, Value>) -> Self {
        let reported = outcome.body.get(REPORTED_FIELDS).and_then(Value::as_object);
        Self::from_fields(reported.unwrap_or(fields), &outcome.invocation_id)
    }

    fn new(progress: &Progress, replies: Vec<ChatMessage>) -> Self {
        Self {
            usage: progress.spent.usage,
            cost: progress.spent.cost,
            requests: usize::try_from(progress.requests).unwrap_or(usize::MAX),
            truncated: progress.cut(),
            replies,
        }
    }
}

/// The error of a turn. Completed parts are in the transcript.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct TurnError {
    /// The stable category.
    pub category: String,
    /// The party that can correct it.
    pub bucket: ErrorBucket,
    /// The description.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The delay that the server requests before a retry.
    pub retry_after: Option<Duration>,
}

impl Turn {
    /// Creates a turn that answers the last message of `history`.
    pub fn new(
        assistant: Assistant,
        history: Vec<ChatMessage>,
        transcript: Box<dyn TranscriptWriter>,
    ) -> Self {
        Self {
            assistant,
            history,
            transcript,
        }
    }

    /// Runs the turn and reports its events to `listener`.
    ///
    /// `invocation_id` names the run if it suspends; it must differ from all others of a store.
    /// Dropping the future cancels the turn: the request is ended, running tools are killed, and the
    /// transcript contains what was completed.
    ///
    /// # Errors
    /// Returns an error if the provider fails, the transcript cannot be written, or the model still
    /// calls tools after [`Assistant::max_requests`].
    pub async fn run(
        self,
        listener: Arc<dyn Listener>,
        invocation_id: Option<String>,
    ) -> Result<TurnEnd, TurnError> {
        let before = self.history.len();
        let messages = List::from(self.history);
        let ports = RunPorts::new()
            .with_journal(TranscriptJournal::new(self.transcript))
            .with_events(ListenerSink::new(listener));
        let graph = self.assistant.transcript_graph(CountingIds::new());
        let graph = graph.map_err(|error| internal(error.to_string()))?;
        let mut start = Invocation::new(Update::new().with(MESSAGES, messages)).with_ports(ports);
        if let Some(id) = invocation_id {
            start = start.with_invocation_id(id);
        }
        match graph.invoke(start).await {
            RunOutcome::Completed(completed) => {
                let progress = Progress::from_state(&completed.state, &completed.invocation_id);
                Ok(TurnEnd::Completed(report(
                    &completed.state,
                    &progress,
                    before,
                )))
            }
            RunOutcome::Errored(errored) => Err(turn_error(&errored.error)),
            RunOutcome::Suspended(suspended) => {
                let pending = messages_from(&suspended.state, before).pop();
                let mut run = suspended.paused;
                // The transcript contains them, and no conversation has two histories.
                drop(run.take_field(MESSAGES));
                Ok(TurnEnd::Suspended(Box::new(TurnSuspension {
                    descriptor: suspended.descriptor,
                    run,
                    pending,
                })))
            }
        }
    }
}

/// Returns the messages of a state from an index on.
fn messages_from(state: &State, from: usize) -> Vec<ChatMessage> {
    let list = state.list_of::<ChatMessage>(MESSAGES);
    let messages = list.into_iter().flat_map(|list| list.iter().skip(from));
    messages.cloned().collect()
}

fn report(state: &State, progress: &Progress, before: usize) -> TurnReport {
    TurnReport {
        replies: messages_from(state, before),
        usage: progress.spent.usage,
        cost: progress.spent.cost,
        requests: usize::try_from(progress.requests).unwrap_or(usize::MAX),
        truncated: progress.cut(),
    }
}

/// Converts the error of a run: its category, the bucket of that, and the remedy of its cause.
fn turn_error(error: &EngineError) -> TurnError {
    let category = error.derived_category().to_owned();
    let provider = causes(error).find_map(|cause| cause.downcast_ref::<ProviderError>());
    let transcript = causes(error).find_map(|cause| cause.downcast_ref::<TranscriptError>());
    let help = match category.as_str() {
        MAX_TURNS => Some("raise --max-requests, or run again to continue".to_owned()),
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

/// Returns the bucket of a category; the harness classifies those of its contract.
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
