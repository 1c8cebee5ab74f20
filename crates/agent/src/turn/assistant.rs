//! A model and its tools as a graph.
//!
//! ```text
//!   ┌────────────────────────────────────────────────────────────┐
//!   ▼                                                            │
//! model ──(with calls)──▶ gate ──(no approval required)──▶ tools ┘
//!   │                       └─(approval required)─▶ approval ─▲
//!   └─(without calls)──▶ END
//! ```
//!
//! `gate` checks the permission of each call and adds a message that lists the pending calls.
//! `approval` suspends the run until a person has decided. `tools` runs the permitted calls and gives
//! the others a result with the reason for the refusal. The graph does not depend on the storage of a
//! conversation: each step is written to the run's journal before any step that depends on it, and
//! emitted as an event.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use logue_graph::{
    CompileError, CompiledGraph, END, EdgeTarget, Field, FieldType, GraphBuilder, IdSource, List,
    NodeContext, NodeError, StateSchema, Update,
};
use logue_harness::chat::{Redact, TurnNote, messages_field};
use logue_message::{ChatMessage, Content, Role, ToolCall};
use logue_model::{
    ModelEvent, ModelRequest, Provider, ProviderError, SamplingSettings, StructuredProvider,
};
use logue_tools::{BoxFuture, Router, SchemaWarning, ToolImage, ToolRequest, ToolResult, Toolbox};
use tracing::Instrument as _;

use crate::permission::approval::{
    APPROVAL, ApprovalSignal, DECIDED_BY, NOTE, PendingCall, descriptor, pending_message,
};
use crate::permission::edit::{EDITS, without_decision};
use crate::permission::gate::unrecorded;
use crate::permission::permissions::Permissions;
use crate::permission::redacted_call::redacted_call;
use crate::permission::rules::Permission;
use crate::turn::answer_parts::{AnswerParts, TurnStop};
use crate::turn::budget::{BUDGET_EXCEEDED, Budget, RequestLimitReached};
use crate::turn::continuation::{begun_continuation, is_decided, next_calls};
use crate::turn::fork_point::ForkPoint;
use crate::turn::listener::TurnEvent;
use crate::turn::progress::{
    CALLS, Progress, TURN, asks, calls, has_calls, message_of, with_calls,
};
use crate::turn::redacted::TurnRedaction;
use crate::turn::request::request_messages;
use crate::turn::response_requirements::ResponseRequirements;
use crate::turn::routing::{Routing, with_unique_ids};
use crate::turn::spans;

/// A model, its tools, and the messages that start each request.
#[derive(Clone)]
#[non_exhaustive]
pub struct Assistant {
    /// The provider of the model.
    pub provider: Arc<dyn Provider>,
    /// The model's name at the provider.
    pub model: String,
    /// The sampling settings.
    pub settings: SamplingSettings,
    /// The tools of the model.
    pub toolbox: Toolbox,
    /// The permissions of the tools.
    pub permissions: Permissions,
    /// The messages that start each request; a session does not store them.
    pub prefix: Vec<ChatMessage>,
    /// The maximum number of requests of one turn and its agents.
    pub max_requests: usize,
    /// The requests of the preparation: a rewritten prompt, and agents of documents.
    pub(crate) earlier_requests: u64,
    /// The execution of the calls of an answer.
    pub routing: Routing,
    /// The budget, shared with the agents of the run.
    pub budget: Budget,
    /// The requirements for the answers of the turn.
    pub requirements: ResponseRequirements,
    /// Removes secrets from everything that a session stores; only tools receive them.
    ///
    /// A turn with a transcript applies it to what it suspends with.
    pub redaction: Option<Arc<dyn Redact>>,
    /// A request to stop, before which the received part of an answer becomes durable.
    pub stop: TurnStop,
}

impl std::fmt::Debug for Assistant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assistant")
            .field("model", &self.model)
            .field("permissions", &self.permissions)
            .field("max_requests", &self.max_requests)
            .finish_non_exhaustive()
    }
}

/// The default limit of model requests in one turn, agents included.
pub const MAX_REQUESTS: usize = 100;
/// The category of a turn that exceeds `max_requests`.
pub(crate) const MAX_TURNS: &str = "max_requests_reached";
/// The category of a turn that ends at a call of a declared-only function.
pub const TOOL_RESULT_REQUIRED: &str = "tool_result_required";
/// The field with the conversation.
pub(crate) const MESSAGES: &str = "messages";

const MODEL: &str = "model";
const GATE: &str = "gate";
const ASK: &str = "approval";
const TOOLS: &str = "tools";

impl Assistant {
    /// Creates an assistant without tools, limits of spend or a prompt.
    ///
    /// It allows every tool that is added later, and [`MAX_REQUESTS`] requests in one turn.
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            settings: SamplingSettings::default(),
            toolbox: Toolbox::new(),
            permissions: Permissions::new(),
            prefix: Vec::new(),
            max_requests: MAX_REQUESTS,
            earlier_requests: 0,
            routing: Routing::default(),
            budget: Budget::default(),
            requirements: ResponseRequirements::default(),
            redaction: None,
            stop: TurnStop::default(),
        }
    }

    /// Builds the graph.
    ///
    /// Its state holds the conversation in the field `messages`. A
    /// [`ChatHarness`](logue_harness::chat::ChatHarness) can store it.
    ///
    /// # Errors
    /// Returns `CompileError` if the graph is invalid, which no input causes.
    pub fn graph(
        self,
        ids: impl IdSource + 'static,
    ) -> Result<CompiledGraph<TurnEvent>, CompileError> {
        let redaction = TurnRedaction::of_session(self.redaction.clone());
        self.graph_with(redaction, ids)
    }

    /// Builds the graph of a turn whose messages go to a transcript.
    pub(crate) fn transcript_graph(
        self,
        ids: impl IdSource + 'static,
    ) -> Result<CompiledGraph<TurnEvent>, CompileError> {
        let redaction = TurnRedaction::of_transcript(self.redaction.clone());
        self.graph_with(redaction, ids)
    }

    fn graph_with(
        mut self,
        redaction: TurnRedaction,
        ids: impl IdSource + 'static,
    ) -> Result<CompiledGraph<TurnEvent>, CompileError> {
        // Validates requests and enforces schemas for every provider.
        self.provider = Arc::new(StructuredProvider::new(self.provider));
        let schema = StateSchema::new()
            .with(messages_field())
            .with(Field::new(TURN, FieldType::Map))
            .with(Field::new(CALLS, FieldType::Map))
            .with(Field::new(APPROVAL, FieldType::Any))
            .with(Field::new(NOTE, FieldType::String))
            .with(Field::new(DECIDED_BY, FieldType::String))
            .with(Field::new(EDITS, FieldType::Any));
        // The turn enforces the request limit; the engine's step limit must be higher.
        let steps = self.max_requests.saturating_mul(4).saturating_add(4);
        let budget = self.budget.clone();
        let shared = Arc::new(Shared {
            router: self.routing.router(self.toolbox.clone()),
            assistant: self,
            redaction,
            dropped_images: AtomicUsize::new(0),
        });
        let (model, gate) = (Arc::clone(&shared), Arc::clone(&shared));
        let (ask, tools) = (Arc::clone(&shared), shared);
        GraphBuilder::for_events(schema)
            .max_steps(steps)
            .add_node_fn(MODEL, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&model);
                async move {
                    let asked = shared.ask_model(&ctx).await;
                    if asked.is_err() {
                        // A turn that continues in this process has its spend in the budget.
                        shared.assistant.budget.suspended(ctx.invocation_id());
                    }
                    asked
                }
            })
            .add_node_fn(GATE, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&gate);
                async move { shared.gate(&ctx).await }
            })
            .add_node_fn(ASK, move |ctx: NodeContext<TurnEvent>| {
                budget.suspended(ctx.invocation_id());
                let shared = Arc::clone(&ask);
                async move { shared.ask_person(&ctx).await }
            })
            .add_node_fn(TOOLS, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&tools);
                async move { shared.run_tools(&ctx).await }
            })
            .entry(MODEL)
            .add_conditional_edge(
                MODEL,
                [EdgeTarget::node(GATE), EdgeTarget::node(TOOLS), END],
                |state| match (has_calls(state), is_decided(state)) {
                    (true, false) => EdgeTarget::node(GATE),
                    // Calls that a person decided about before the process died.
                    (true, true) => EdgeTarget::node(TOOLS),
                    (false, _) => END,
                },
            )
            .add_conditional_edge(
                GATE,
                [EdgeTarget::node(ASK), EdgeTarget::node(TOOLS)],
                |state| EdgeTarget::node(if asks(state) { ASK } else { TOOLS }),
            )
            .add_edge(ASK, TOOLS)
            .add_edge(TOOLS, MODEL)
            .compile(ids)
    }

    /// The requests of the run so far, agents included.
    fn requests_made(&self, progress: &Progress) -> u64 {
        self.earlier_requests + progress.requests + progress.agent_requests
    }

    /// Checks that the next request, which `progress` contains already, is within all limits.
    fn check_limits(&self, provider: &str, progress: &Progress) -> Result<(), NodeError> {
        if progress.requests > self.max_requests as u64 {
            return Err(NodeError::new(format!(
                "the model still calls tools after {}, the maximum for one turn",
                counted(self.max_requests, "request")
            ))
            .with_category(MAX_TURNS));
        }
        if let Err(error) = self.budget.check(provider, &self.model) {
            let failed = NodeError::new(error.to_string()).with_category(BUDGET_EXCEEDED);
            return Err(failed.with_source(error));
        }
        if let Err(error) = self.begin_request(progress) {
            let failed = NodeError::new(error.to_string()).with_category(MAX_TURNS);
            return Err(failed.with_source(error));
        }
        Ok(())
    }

    /// Counts the request that `progress` contains already.
    fn begin_request(&self, progress: &Progress) -> Result<(), RequestLimitReached> {
        let most = self.max_requests as u64;
        if self.requests_made(progress) > most {
            return Err(RequestLimitReached(most));
        }
        self.budget.begin_request()
    }
}

/// The state shared by the nodes of a graph.
struct Shared {
    assistant: Assistant,
    router: Router,
    redaction: TurnRedaction,
    /// The number of images that were reported as not sent.
    dropped_images: AtomicUsize,
}

impl Shared {
    /// Runs the node `model`: one request and its answer.
    async fn ask_model(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let assistant = &self.assistant;
        let mut progress = Progress::from_state(ctx.state(), ctx.invocation_id());
        if let Some(continuation) = begun_continuation(ctx) {
            let budget = &assistant.budget;
            budget.resumed(ctx.invocation_id(), progress.spent);
            progress.recovered(&continuation);
            if let Some(calls) = next_calls(ctx.state(), &continuation, &self.redaction)? {
                self.require_runnable(calls.iter().map(|gated| &gated.call))?;
                let mut update = Update::new().with(TURN, progress.to_json());
                if calls.is_empty() {
                    // The turn ends with the answer of a process that died.
                    update = without_decision(update);
                }
                return Ok(with_calls(update, &calls));
            }
        }
        progress.requests += 1;
        let provider = assistant.provider.name();
        assistant.check_limits(provider, &progress)?;
        let none = List::new();
        let conversation = ctx.state().list_of(MESSAGES).unwrap_or(&none);
        let messages = request_messages(&assistant.prefix, conversation);
        self.report_dropped_images(ctx, &messages);
        assistant.toolbox.refresh().await;
        let toolbox = assistant.toolbox.current().await;
        let request = ModelRequest::new(&assistant.model, &messages, &assistant.settings)
            .with_tools(toolbox.definitions());
        let request = assistant.requirements.applied(request);
        let number = usize::try_from(progress.requests).unwrap_or(usize::MAX);
        ctx.emit(TurnEvent::Asking(number));
        let parts = AnswerParts::new(&assistant.stop);
        // Pieces that are withheld may contain the beginning of a secret.
        let keeps_parts = !self.redaction.withholds_pieces();
        let mut emit = |event: ModelEvent| {
            match &event {
                ModelEvent::Text(piece) if keeps_parts => parts.received(piece),
                _ => {}
            }
            if let Some(event) = turn_event(event) {
                self.redaction.emit(ctx, event);
            }
        };
        let span = spans::asking(ctx, provider, &request);
        let answer = assistant.provider.complete(&request, &mut emit);
        let answer = parts.keep(ctx, answer.instrument(span.clone())).await?;
        spans::answered(&span, &answer);
        drop(span);
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // A journal holds valid messages only, and an empty answer is not one.
                let received = error.answer.as_ref();
                if let Some(message) = received.filter(|message| message.validate().is_ok()) {
                    let message = self.redaction.message(message);
                    ctx.journal(TurnNote::rejected(&message)).await?;
                }
                let status = error.status;
                ctx.emit(TurnEvent::RequestFailed { status });
                return Err(provider_failed(error));
            }
        };
        let spent = assistant.budget.answered(provider, &request, &answer);
        with_unique_ids(&mut answer.message.tool_calls);
        let message = Arc::new(self.redaction.message(&answer.message));
        progress.answered(answer.finish_reason, spent);
        let step = TurnNote::step(&message, &progress.as_field());
        ctx.journal(step).await?;
        if self.redaction.withholds_pieces() && !message.text().is_empty() {
            ctx.emit(TurnEvent::Delta(message.text()));
        }
        ctx.emit(TurnEvent::Answered {
            model: assistant.model.clone(),
            usage: answer.usage,
        });
        ctx.emit(TurnEvent::MessageCompleted(Arc::clone(&message)));
        self.require_runnable(message.tool_calls.iter())?;
        // The pending calls are not stored unless the turn suspends.
        let calls = answer.message.tool_calls.into_iter();
        let calls: Vec<PendingCall> = calls
            .map(|call| {
                let decision = assistant.permissions.decide(&call.name);
                PendingCall::new(call, decision)
            })
            .collect();
        let mut update = Update::new().with(TURN, progress.to_json());
        if is_decided(ctx.state()) {
            // The decision of a turn that was recovered was about its earlier calls.
            update = without_decision(update);
        }
        let update = with_calls(update, &calls);
        // A conversation cannot contain an answer without text and calls.
        let is_valid = message.validate().is_ok();
        let messages: List<ChatMessage> = is_valid.then_some(message).into_iter().collect();
        Ok(update.with(MESSAGES, messages))
    }

    /// Reports images that the provider cannot send, each once.
    fn report_dropped_images(&self, ctx: &NodeContext<TurnEvent>, messages: &[ChatMessage]) {
        if self.assistant.provider.takes_images() {
            return;
        }
        let results = messages.iter().filter(|message| message.role == Role::Tool);
        let count = results
            .map(|message| message.content.images().count())
            .sum();
        let reported = self.dropped_images.fetch_max(count, Ordering::Relaxed);
        if count > reported {
            ctx.emit(TurnEvent::ImagesDropped(count - reported));
        }
    }

    /// Ends the turn at a call of a function without an implementation here.
    ///
    /// The answer is in the journal. The caller that runs the function adds the result and continues
    /// the conversation.
    fn require_runnable<'a>(
        &self,
        mut calls: impl Iterator<Item = &'a ToolCall>,
    ) -> Result<(), NodeError> {
        let cannot = |call: &&ToolCall| {
            let tool = self.assistant.toolbox.get(&call.name);
            tool.is_some_and(|tool| !tool.is_runnable())
        };
        match calls.find(cannot) {
            None => Ok(()),
            Some(call) => Err(NodeError::new(format!(
                "the model calls `{}` ({}), which has no implementation here",
                call.name, call.id
            ))
            .with_category(TOOL_RESULT_REQUIRED)),
        }
    }

    /// Runs the node `gate`: clears earlier decisions and lists the calls that require approval.
    async fn gate(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let mut calls = calls(ctx.state())?;
        let router = self.router.current().await;
        let redaction = &self.redaction;
        self.assistant
            .decide(&router, ctx, &mut calls, redaction)
            .await?;
        let is_asking = |gated: &PendingCall| gated.decision.permission == Permission::Ask;
        if let Some(redact) = redaction.redact()
            && calls.iter().any(is_asking)
        {
            for gated in &mut calls {
                gated.redact(redact, &router).await;
            }
        }
        let update = with_calls(without_decision(Update::new()), &calls);
        let waiting: Vec<_> = calls
            .iter()
            .filter(|gated| is_asking(gated))
            .map(|gated| &gated.call)
            .collect();
        if waiting.is_empty() {
            return Ok(update);
        }
        let mut progress = Progress::from_state(ctx.state(), ctx.invocation_id());
        progress.approvals += 1;
        let pending = pending_message(&waiting);
        Ok(update
            .with(TURN, progress.to_json())
            .with(MESSAGES, vec![pending]))
    }

    /// Runs the node `approval`: suspends until a person has decided.
    async fn ask_person(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let calls = calls(ctx.state())?;
        let waiting: Vec<_> = calls
            .iter()
            .filter(|gated| gated.decision.permission == Permission::Ask)
            .collect();
        let progress = Progress::from_state(ctx.state(), ctx.invocation_id());
        let (id, n) = (ctx.invocation_id(), progress.approvals);
        let router = self.router.current().await;
        let permissions = &self.assistant.permissions;
        let descriptor = descriptor(id, n, &waiting, permissions, router.toolbox());
        match ctx.suspend(descriptor).await {}
    }

    /// Runs the node `tools`: executes the permitted calls and refuses the others.
    async fn run_tools(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let mut calls = calls(ctx.state())?;
        let mut progress = Progress::from_state(ctx.state(), ctx.invocation_id());
        let signal =
            ApprovalSignal::from_state(ctx.state(), ctx.invocation_id(), progress.approvals);
        if asks(ctx.state()) {
            self.take_decision(ctx, &mut calls, &progress, &signal)
                .await?;
        }
        let assistant = &self.assistant;
        let made = assistant.requests_made(&progress);
        let agents = assistant.budget.part(made, assistant.max_requests as u64);
        let router = self.router.current().await;
        let effective: Vec<ToolCall> = calls.iter().map(PendingCall::effective).collect();
        let fork = ForkPoint::of_calls(assistant, &router, ctx.state(), &effective);
        let unnoted = Mutex::new(None);
        let mut batch = router.batch();
        for (gated, call) in calls.iter().zip(&effective) {
            let refusal = match gated.verdict(&signal) {
                Ok(()) => gated.refusal(),
                Err(reason) => Some(ToolResult::failure(reason)),
            };
            match refusal {
                None => {
                    // A concurrent call could change the approved files after their comparison.
                    let is_exclusive = router.is_exclusive(call) || gated.approved().is_some();
                    let running = self.run_tool(ctx, &router, gated, call, &unnoted);
                    let work = agents.clone().for_agents(running);
                    batch.add(
                        is_exclusive,
                        Box::pin(ForkPoint::for_calls(fork.clone(), work)),
                    );
                }
                Some(refused) => {
                    batch.add(false, Box::pin(std::future::ready(refused)));
                }
            }
        }
        // Calls end in any order. Each result is durable before its event is emitted and before the
        // next request; in the conversation the results are in the order of their calls.
        let mut results = vec![None; calls.len()];
        while let Some((index, outcome)) = batch.next().await {
            if let Some(error) = unnoted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
            {
                return Err(error);
            }
            let (Some(gated), Some(call), Some(place)) = (
                calls.get(index),
                effective.get(index),
                results.get_mut(index),
            ) else {
                continue;
            };
            for SchemaWarning { tool, reason, .. } in self.router.take_schema_warnings() {
                ctx.emit(TurnEvent::Unchecked { tool, why: reason });
            }
            let call = Arc::new(call.clone());
            let result = Arc::new(self.result_message((gated, &signal), &call, &outcome));
            let text = result.text();
            let diagnostic = outcome.diagnostic.clone();
            let has_cause = diagnostic.is_some();
            if let Some(diagnostic) = diagnostic {
                let diagnostic = self.redaction.result(diagnostic, false);
                progress.failed(&call.id, diagnostic.clone());
                let call = Arc::clone(&call);
                let failed = TurnEvent::ToolFailed { call, diagnostic };
                self.redaction.emit(ctx, failed);
            }
            let mut noted = progress.clone();
            noted.spent.add(agents.spent());
            noted.agent_requests += agents.requests();
            let note = if noted == progress && !has_cause {
                result.to_json()
            } else {
                TurnNote::step(&result, &noted.as_field())
            };
            ctx.journal(note).await?;
            ctx.emit(TurnEvent::MessageCompleted(Arc::clone(&result)));
            let (ok, code) = (outcome.ok, outcome.code);
            let ended = TurnEvent::ToolEnded {
                call,
                ok,
                code,
                text,
            };
            self.redaction.emit(ctx, ended);
            *place = Some(result);
        }
        unrecorded(&calls)?;
        let results: List<ChatMessage> = results.into_iter().flatten().collect();
        progress.spent.add(agents.spent());
        progress.agent_requests += agents.requests();
        let update = without_decision(Update::new())
            .with(TURN, progress.to_json())
            .with(MESSAGES, results);
        Ok(with_calls(update, &[]))
    }

    /// Records the decision of a signal about the calls that waited.
    async fn take_decision(
        &self,
        ctx: &NodeContext<TurnEvent>,
        calls: &mut [PendingCall],
        progress: &Progress,
        signal: &ApprovalSignal<'_>,
    ) -> Result<(), NodeError> {
        let budget = &self.assistant.budget;
        budget.resumed(ctx.invocation_id(), progress.spent);
        let redaction = &self.redaction;
        self.assistant
            .signalled(ctx, calls, signal, redaction)
            .await?;
        // The calls were decided in an earlier part of the turn; its journal no longer exists.
        let stored = calls.iter();
        let stored = stored.map(|gated| redacted_call(redaction.redact(), &gated.call));
        let message = message_of(stored.map(Cow::into_owned).collect());
        ctx.journal(TurnNote::continuation_with_starts(&message))
            .await
    }

    /// Returns the message of a result: notices of the person who approved it, its text and its images.
    fn result_message(
        &self,
        (gated, signal): (&PendingCall, &ApprovalSignal<'_>),
        call: &ToolCall,
        outcome: &ToolResult,
    ) -> ChatMessage {
        let edited = gated.edited.as_ref();
        let edited = edited.map(|edited| edited.notice(call.kind));
        let said = gated.approval_notice(signal);
        let notices: Vec<String> = edited.into_iter().chain(said).collect();
        let notice = (!notices.is_empty()).then(|| notices.join("\n"));
        let routing = &self.assistant.routing;
        let text = routing.model_text(outcome, notice.as_deref());
        let text = self.redaction.result(text, routing.envelope);
        let images = outcome.images().iter().map(ToolImage::to_block).collect();
        let result = ChatMessage::tool(call.id.clone(), Content::with_images(text, images));
        result.with_name(call.name.clone())
    }

    /// Runs one permitted call in a tracing span, after its start is noted.
    ///
    /// A call whose start cannot be noted does not run, and its error is left in `unnoted`.
    fn run_tool<'a>(
        &'a self,
        ctx: &'a NodeContext<TurnEvent>,
        router: &'a Router,
        gated: &'a PendingCall,
        call: &'a ToolCall,
        unnoted: &'a Mutex<Option<NodeError>>,
    ) -> BoxFuture<'a, ToolResult> {
        let request = ToolRequest::from(call)
            .with_conversation(ctx.session_id())
            .with_approval(gated.approved());
        let request = match gated.edited {
            Some(_) => request.with_original(&gated.call, gated.fingerprint.as_deref()),
            None => request,
        };
        let running = router.call(request);
        Box::pin(async move {
            let note = match gated.edited {
                Some(_) => {
                    let stored = redacted_call(self.redaction.redact(), call);
                    TurnNote::started_edited(&call.id, stored.arguments.as_str())
                }
                None => TurnNote::started(&call.id),
            };
            if let Err(error) = ctx.journal(note).await {
                let words = format!("this call was not run: {error}");
                *unnoted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return ToolResult::failure(words);
            }
            let started = TurnEvent::ToolStarted(Arc::new(call.clone()));
            self.redaction.emit(ctx, started);
            let span = spans::calling(ctx, call);
            let outcome = running.instrument(span.clone()).await;
            spans::called(&span, &outcome);
            outcome
        })
    }
}

fn turn_event(event: ModelEvent) -> Option<TurnEvent> {
    Some(match event {
        ModelEvent::Text(text) => TurnEvent::Delta(text),
        ModelEvent::Reasoning(text) => TurnEvent::Reasoning(text),
        ModelEvent::ReasoningSummary { part, text } => TurnEvent::ReasoningSummary { part, text },
        ModelEvent::ToolCall { name, .. } => TurnEvent::Calling(name),
        ModelEvent::Retry {
            attempt,
            wait,
            category,
            message,
        } => {
            spans::retrying(attempt, wait, category);
            TurnEvent::Retrying {
                attempt,
                wait,
                category: category.as_str(),
                message,
            }
        }
        ModelEvent::SchemaRetry { reason } => {
            spans::reasking();
            TurnEvent::Reasking { reason }
        }
        _ => return None,
    })
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn provider_failed(error: ProviderError) -> NodeError {
    let mut failed = NodeError::new(error.message.clone()).with_category(error.category.as_str());
    if let Some(help) = &error.help {
        failed = failed.with_help(help);
    }
    if let Some(wait) = error.retry_after {
        failed = failed.with_retry_after(wait);
    }
    failed.with_source(error)
}
