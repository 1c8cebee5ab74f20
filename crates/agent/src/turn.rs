//! One turn: the model and its tools on the graph engine, until the model calls no more tools.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logue_harness::{
    Classifier, CompileError, CompiledGraph, CountingIds, DefaultClassifier, END, EngineError,
    ErrorBucket, Field, FieldType, GraphBuilder, Invocation, List, NodeContext, NodeError, Outcome,
    State, StateSchema, Target, Update,
};
use logue_message::{ChatMessage, repair_history};
use logue_model::{Event, FinishReason, Provider, ProviderError, Request, Settings, Usage};
use logue_tools::Toolbox;
use serde_json::{Value, json};

use crate::element::{Element, Transcript, TranscriptError};
use crate::listener::{Listener, TurnEvent};

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
    /// The conversation so far; its last message is what the model answers.
    pub history: Vec<ChatMessage>,
    /// Where completed parts go.
    pub transcript: Box<dyn Transcript>,
    /// Who watches.
    pub listener: Arc<dyn Listener>,
    /// How often the model may be asked.
    pub max_requests: usize,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("model", &self.model)
            .field("history", &self.history.len())
            .finish_non_exhaustive()
    }
}

/// What a completed turn gave.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// The new messages of all roles, in order.
    pub replies: Vec<ChatMessage>,
    /// What it cost, where the server says.
    pub usage: Option<Usage>,
    /// How often the model was asked.
    pub requests: usize,
    /// Whether the last answer is cut: it reached a length limit, or a filter ended it.
    pub cut: Option<FinishReason>,
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
    pub async fn run(self) -> Result<TurnReport, TurnError> {
        let (history, _) = repair_history(self.history);
        let before = history.len();
        let shared = Arc::new(Shared {
            provider: self.provider,
            model: self.model,
            settings: self.settings,
            toolbox: self.toolbox,
            transcript: Mutex::new(self.transcript),
            listener: self.listener,
            max_requests: self.max_requests,
        });
        let graph = graph(&shared).map_err(|error| internal(error.to_string()))?;
        let history: Vec<Value> = history.iter().map(ChatMessage::to_json).collect();
        // The limit of requests is the turn's own; the engine's only has to be out of its way.
        let steps = self.max_requests.saturating_mul(2).saturating_add(2);
        let start = Invocation::new(Update::new().with(MESSAGES, history)).with_max_steps(steps);
        match graph.invoke(start).await {
            Outcome::Completed(completed) => report(&completed.state, before),
            Outcome::Errored(errored) => Err(turn_error(&errored.error)),
            Outcome::Suspended(_) => Err(internal("a node of the turn suspended".to_owned())),
        }
    }
}

/// What the nodes of one turn share.
struct Shared {
    provider: Arc<dyn Provider>,
    model: String,
    settings: Settings,
    toolbox: Toolbox,
    transcript: Mutex<Box<dyn Transcript>>,
    listener: Arc<dyn Listener>,
    max_requests: usize,
}

/// Fields of the turn's state.
const MESSAGES: &str = "messages";
const REQUESTS: &str = "requests";
const USAGE: &str = "usage";
const CUT: &str = "cut";

/// Names of the turn's nodes.
const MODEL: &str = "model";
const TOOLS: &str = "tools";

fn graph(shared: &Arc<Shared>) -> Result<CompiledGraph, CompileError> {
    let schema = StateSchema::new()
        .with(Field::appended(MESSAGES, "ChatMessage"))
        .with(Field::new(REQUESTS, FieldType::Int))
        .with(Field::new(USAGE, FieldType::Map))
        .with(Field::new(CUT, FieldType::String));
    let (model, tools) = (Arc::clone(shared), Arc::clone(shared));
    GraphBuilder::new(schema)
        .add_node_fn(MODEL, move |context: NodeContext| {
            let shared = Arc::clone(&model);
            async move { shared.ask(context.state()).await }
        })
        .add_node_fn(TOOLS, move |context: NodeContext| {
            let shared = Arc::clone(&tools);
            async move { shared.run_tools(context.state()).await }
        })
        .entry(MODEL)
        .add_conditional_edge(MODEL, [Target::node(TOOLS), END], |state| {
            let calls = last_message(state).map(|message| message.tool_calls);
            if calls.is_ok_and(|calls| !calls.is_empty()) {
                Target::node(TOOLS)
            } else {
                END
            }
        })
        .add_edge(TOOLS, MODEL)
        .compile(CountingIds::new())
}

impl Shared {
    /// The node `model`: one request and its answer.
    async fn ask(&self, state: &State) -> Result<Update, NodeError> {
        let number = state.json(REQUESTS).and_then(Value::as_u64).unwrap_or(0) + 1;
        if number > self.max_requests as u64 {
            return Err(NodeError::new(format!(
                "the model still calls tools after {}, the most for one turn",
                counted(self.max_requests, "request")
            ))
            .with_category(MAX_TURNS));
        }
        let messages = messages(state)?;
        let request = Request {
            model: &self.model,
            messages: &messages,
            tools: self.toolbox.definitions(),
            settings: &self.settings,
        };
        self.listener.event(TurnEvent::Asking(
            usize::try_from(number).unwrap_or(usize::MAX),
        ));
        let answer = match self
            .provider
            .complete(&request, &mut |event| self.tell(&event))
            .await
        {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(message) = &error.answer {
                    self.append(&Element::of_answer(message))?;
                }
                return Err(provider_failed(error));
            }
        };
        let message = answer.message;
        self.append(&Element::of_answer(&message))?;
        let (text, calls) = (message.text(), message.tool_calls.len());
        self.listener
            .event(TurnEvent::Answered { text: &text, calls });
        let mut usage = usage_of(state);
        if let Some(more) = answer.usage {
            let sum = usage.get_or_insert_with(Usage::default);
            *sum += more;
        }
        let mut update = Update::new()
            .with(MESSAGES, vec![message.to_json()])
            .with(REQUESTS, json!(number))
            .with(CUT, json!(cut_of(answer.finish_reason)));
        if let Some(usage) = usage {
            let value = json!({"input": usage.input_tokens, "output": usage.output_tokens});
            update.set(USAGE, value);
        }
        Ok(update)
    }

    /// The node `tools`: runs the calls of the last answer, in order.
    async fn run_tools(&self, state: &State) -> Result<Update, NodeError> {
        let mut results = Vec::new();
        for call in last_message(state)?.tool_calls {
            self.listener.event(TurnEvent::ToolStarted(&call));
            let outcome = self.toolbox.call(&call).await;
            let result = ChatMessage::tool(call.id.clone(), outcome.text.clone());
            results.push(result.with_name(call.name.clone()).to_json());
            let element = Element::ToolResponse {
                call: call.clone(),
                text: outcome.text.clone(),
            };
            self.append(std::slice::from_ref(&element))?;
            let (ok, text) = (outcome.ok, outcome.text.as_str());
            self.listener.event(TurnEvent::ToolEnded {
                call: &call,
                ok,
                text,
            });
        }
        Ok(Update::new().with(MESSAGES, results))
    }

    fn tell(&self, event: &Event) {
        match event {
            Event::Text(text) => self.listener.event(TurnEvent::Delta(text)),
            Event::Reasoning(_) => self.listener.event(TurnEvent::Thinking),
            Event::ToolCall { name, .. } => self.listener.event(TurnEvent::Calling(name)),
            _ => {}
        }
    }

    fn append(&self, elements: &[Element]) -> Result<(), NodeError> {
        let mut transcript: MutexGuard<'_, _> = self
            .transcript
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        transcript.append(elements).map_err(transcript_failed)
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

const MAX_TURNS: &str = "max_turns_reached";

fn messages(state: &State) -> Result<Vec<ChatMessage>, NodeError> {
    let read = |value: &Value| ChatMessage::from_json(value).map_err(NodeError::new);
    state
        .list(MESSAGES)
        .map(List::iter)
        .into_iter()
        .flatten()
        .map(read)
        .collect()
}

fn last_message(state: &State) -> Result<ChatMessage, NodeError> {
    let last = state.list(MESSAGES).and_then(List::last);
    let last = last.ok_or_else(|| NodeError::new("the conversation is empty"))?;
    ChatMessage::from_json(last).map_err(NodeError::new)
}

fn usage_of(state: &State) -> Option<Usage> {
    let usage = state.json(USAGE)?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: count("input")?,
        output_tokens: count("output")?,
    })
}

fn report(state: &State, before: usize) -> Result<TurnReport, TurnError> {
    let failed = |error: NodeError| internal(error.message().to_owned());
    let requests = state.json(REQUESTS).and_then(Value::as_u64).unwrap_or(0);
    Ok(TurnReport {
        replies: messages(state).map_err(failed)?.split_off(before),
        usage: usage_of(state),
        requests: usize::try_from(requests).unwrap_or(usize::MAX),
        cut: match state.json(CUT).and_then(Value::as_str) {
            Some("length") => Some(FinishReason::Length),
            Some("content_filter") => Some(FinishReason::ContentFilter),
            _ => None,
        },
    })
}

/// The word for an answer that is cut; empty for one that is whole.
fn cut_of(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Length | FinishReason::ContentFilter => reason.as_str(),
        _ => "",
    }
}

fn provider_failed(error: ProviderError) -> NodeError {
    NodeError::new(error.message.clone())
        .with_category(error.category.as_str())
        .with_source(error)
}

fn transcript_failed(error: TranscriptError) -> NodeError {
    NodeError::new(error.to_string())
        .with_category(error.category())
        .with_source(error)
}

/// The outcome of a failed run as a turn's error: its derived category, the bucket of that, and
/// what its cause knows of a remedy.
fn turn_error(error: &EngineError) -> TurnError {
    let category = error.derived_category().to_owned();
    let provider = causes(error).find_map(|cause| cause.downcast_ref::<ProviderError>());
    let transcript = causes(error).find_map(|cause| cause.downcast_ref::<TranscriptError>());
    let help = match category.as_str() {
        MAX_TURNS => Some("raise --max-turns, or run again to go on".to_owned()),
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
fn bucket(category: &str) -> ErrorBucket {
    match category {
        MAX_TURNS | "replay_mismatch" | "replay_exhausted" | "replay_unreadable"
        | "record_failed" | "E-SOURCE-READ" | "E-SOURCE-TOO-LARGE" => ErrorBucket::UserCorrectable,
        "session_busy" => ErrorBucket::RetryableTransient,
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

fn internal(message: String) -> TurnError {
    TurnError {
        category: "internal".to_owned(),
        bucket: ErrorBucket::SessionTerminating,
        message,
        help: None,
        retry_after: None,
    }
}
