//! A model and its tools as a graph.
//!
//! ```text
//!            ┌──────────────────────────────────────────────────┐
//!            ▼                                                  │
//! model ──(it calls tools)──▶ gate ──(nobody is asked)──▶ tools ┘
//!   │                           └──(a person is)──▶ approval ─ ─▲
//!   └─(it does not)──▶ END
//! ```
//!
//! `gate` looks at each call's permission and says in a message what waits; `approval` suspends the
//! run until a person has decided; `tools` runs what may run and gives the rest a result that says
//! why it did not. The graph does not know where a conversation is kept: what happens is noted in the
//! run's journal before anything that depends on it, and told to the run's events.

use std::sync::Arc;

use logue_graph::{
    CompileError, CompiledGraph, END, EdgeTarget, Field, FieldType, GraphBuilder, IdSource, List,
    NodeContext, NodeError, StateSchema, Update,
};
use logue_harness::chat::messages_field;
use logue_message::{ChatMessage, ToolCall};
use logue_model::{
    ModelEvent, ModelRequest, Provider, ProviderError, SamplingSettings, StructuredProvider,
};
use logue_tools::{BoxFuture, Router, SchemaWarning, ToolRequest, ToolResult, Toolbox};
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::permission::approval::{
    APPROVAL, ApprovalSignal, NOTE, PendingCall, descriptor, pending_message,
};
use crate::permission::gate::unrecorded;
use crate::permission::permissions::Permissions;
use crate::permission::rules::Permission;
use crate::turn::budget::{BUDGET_EXCEEDED, Budget};
use crate::turn::listener::TurnEvent;
use crate::turn::progress::{
    CALLS, Progress, TURN, asks, calls, has_calls, message_of, with_calls,
};
use crate::turn::request::request_messages;
use crate::turn::response_requirements::ResponseRequirements;
use crate::turn::routing::{Routing, with_unique_ids};
use crate::turn::spans;

/// A model, its tools, and what every request begins with.
#[derive(Clone)]
pub struct Assistant {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The model's name at the provider.
    pub model: String,
    /// How to sample.
    pub settings: SamplingSettings,
    /// What the model may do.
    pub toolbox: Toolbox,
    /// Which tools run, and which a person is asked about.
    pub permissions: Permissions,
    /// What every request begins with; it is no part of a session.
    pub prefix: Vec<ChatMessage>,
    /// How often the model may be asked in one turn.
    pub max_requests: usize,
    /// How the calls of an answer are run.
    pub routing: Routing,
    /// What may be spent; the agents of the same run share it.
    pub budget: Budget,
    /// What is asked of the turn's answers.
    pub requirements: ResponseRequirements,
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

/// The category of a turn in which the model calls tools without end.
pub(crate) const MAX_TURNS: &str = "max_requests_reached";
/// The category of a turn that ends at the call of a function that is only declared.
pub const TOOL_RESULT_REQUIRED: &str = "tool_result_required";
/// The field with the conversation.
pub(crate) const MESSAGES: &str = "messages";

const MODEL: &str = "model";
const GATE: &str = "gate";
const ASK: &str = "approval";
const TOOLS: &str = "tools";

impl Assistant {
    /// The graph. Its state holds the conversation in the field `messages`, and can be kept by a
    /// [`ChatHarness`](logue_harness::chat::ChatHarness).
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn graph(
        mut self,
        ids: impl IdSource + 'static,
    ) -> Result<CompiledGraph<TurnEvent>, CompileError> {
        // Whoever the provider is: nothing invalid is sent, and a schema is kept to.
        self.provider = Arc::new(StructuredProvider::new(self.provider));
        let schema = StateSchema::new()
            .with(messages_field())
            .with(Field::new(TURN, FieldType::Map))
            .with(Field::new(CALLS, FieldType::Map))
            .with(Field::new(APPROVAL, FieldType::Any))
            .with(Field::new(NOTE, FieldType::String));
        // The limit of requests is the turn's own; the engine's only has to be out of its way.
        let steps = self.max_requests.saturating_mul(4).saturating_add(4);
        let budget = self.budget.clone();
        let timeout_seconds = self.permissions.timeout_seconds;
        let shared = Arc::new(Shared {
            router: self.routing.router(self.toolbox.clone()),
            assistant: self,
        });
        let (model, gate, tools) = (Arc::clone(&shared), Arc::clone(&shared), shared);
        GraphBuilder::for_events(schema)
            .max_steps(steps)
            .add_node_fn(MODEL, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&model);
                async move { shared.ask_model(&ctx).await }
            })
            .add_node_fn(GATE, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&gate);
                async move { shared.gate(&ctx).await }
            })
            .add_node_fn(ASK, move |ctx: NodeContext<TurnEvent>| {
                budget.suspended(ctx.invocation_id());
                async move { ask_person(&ctx, timeout_seconds).await }
            })
            .add_node_fn(TOOLS, move |ctx: NodeContext<TurnEvent>| {
                let shared = Arc::clone(&tools);
                async move { shared.run_tools(&ctx).await }
            })
            .entry(MODEL)
            .add_conditional_edge(MODEL, [EdgeTarget::node(GATE), END], |state| {
                if has_calls(state) {
                    EdgeTarget::node(GATE)
                } else {
                    END
                }
            })
            .add_conditional_edge(
                GATE,
                [EdgeTarget::node(ASK), EdgeTarget::node(TOOLS)],
                |state| EdgeTarget::node(if asks(state) { ASK } else { TOOLS }),
            )
            .add_edge(ASK, TOOLS)
            .add_edge(TOOLS, MODEL)
            .compile(ids)
    }
}

/// What the nodes of a graph share.
struct Shared {
    assistant: Assistant,
    router: Router,
}

impl Shared {
    /// The node `model`: one request and its answer.
    async fn ask_model(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let assistant = &self.assistant;
        let mut progress = Progress::of(ctx.state(), ctx.invocation_id());
        progress.requests += 1;
        if progress.requests > assistant.max_requests as u64 {
            return Err(NodeError::new(format!(
                "the model still calls tools after {}, the most for one turn",
                counted(assistant.max_requests, "request")
            ))
            .with_category(MAX_TURNS));
        }
        let provider = assistant.provider.name();
        if let Err(error) = assistant.budget.check(provider, &assistant.model) {
            let failed = NodeError::new(error.to_string()).with_category(BUDGET_EXCEEDED);
            return Err(failed.with_source(error));
        }
        let none = List::new();
        let conversation = ctx.state().list_of(MESSAGES).unwrap_or(&none);
        let messages = request_messages(&assistant.prefix, conversation);
        assistant.toolbox.refresh().await;
        let toolbox = assistant.toolbox.current().await;
        let request = ModelRequest::new(&assistant.model, &messages, &assistant.settings)
            .with_tools(toolbox.definitions());
        let request = assistant.requirements.applied(request, progress.requests);
        let number = usize::try_from(progress.requests).unwrap_or(usize::MAX);
        ctx.emit(TurnEvent::Asking(number));
        let mut tell = |event: ModelEvent| tell(ctx, event);
        let span = spans::asking(ctx, provider, &request);
        let answer = assistant.provider.complete(&request, &mut tell);
        let answer = answer.instrument(span.clone()).await;
        spans::answered(&span, &answer);
        drop(span);
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(message) = &error.answer {
                    ctx.journal(message.to_json()).await?;
                }
                return Err(provider_failed(error));
            }
        };
        let spent = assistant.budget.answered(provider, &request, &answer);
        with_unique_ids(&mut answer.message.tool_calls);
        let message = Arc::new(answer.message);
        ctx.journal(message.to_json()).await?;
        ctx.emit(TurnEvent::MessageCompleted(Arc::clone(&message)));
        self.require_runnable(&message.tool_calls)?;
        progress.answered(answer.finish_reason, spent);
        let calls: Vec<PendingCall> = message
            .tool_calls
            .iter()
            .map(|call| PendingCall::new(call.clone(), assistant.permissions.decide(&call.name)))
            .collect();
        let update = Update::new().with(TURN, progress.to_json());
        let update = with_calls(update, &calls);
        // An answer that says and calls nothing is none that a conversation can hold.
        let is_valid = message.validate().is_ok();
        let messages: List<ChatMessage> = is_valid.then_some(message).into_iter().collect();
        Ok(update.with(MESSAGES, messages))
    }

    /// Ends the turn at a call that nothing here can run. The answer is in the journal: whoever can
    /// run it adds its reply, and the conversation goes on.
    fn require_runnable(&self, calls: &[ToolCall]) -> Result<(), NodeError> {
        let cannot = |call: &&ToolCall| {
            let tool = self.assistant.toolbox.get(&call.name);
            tool.is_some_and(|tool| !tool.is_runnable())
        };
        match calls.iter().find(cannot) {
            None => Ok(()),
            Some(call) => Err(NodeError::new(format!(
                "the model calls `{}` ({}), which nothing here can run",
                call.name, call.id
            ))
            .with_category(TOOL_RESULT_REQUIRED)),
        }
    }

    /// The node `gate`: forgets what was decided before, and says what has to be decided now.
    async fn gate(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let mut calls = calls(ctx.state())?;
        let router = self.router.current().await;
        self.assistant.decide(&router, ctx, &mut calls).await;
        let update = Update::new()
            .with(APPROVAL, Value::Null)
            .with(NOTE, json!(""));
        let update = with_calls(update, &calls);
        let waiting: Vec<_> = calls
            .iter()
            .filter(|gated| gated.decision.permission == Permission::Ask)
            .map(|gated| &gated.call)
            .collect();
        if waiting.is_empty() {
            return Ok(update);
        }
        let mut progress = Progress::of(ctx.state(), ctx.invocation_id());
        progress.approvals += 1;
        let pending = pending_message(&waiting);
        Ok(update
            .with(TURN, progress.to_json())
            .with(MESSAGES, vec![pending]))
    }

    /// The node `tools`: runs the calls that may run.
    async fn run_tools(&self, ctx: &NodeContext<TurnEvent>) -> Result<Update, NodeError> {
        let mut calls = calls(ctx.state())?;
        let mut progress = Progress::of(ctx.state(), ctx.invocation_id());
        let signal = ApprovalSignal::of(ctx.state(), ctx.invocation_id(), progress.approvals);
        if asks(ctx.state()) {
            let budget = &self.assistant.budget;
            budget.resumed(ctx.invocation_id(), progress.spent);
            self.assistant.signalled(ctx, &mut calls, &signal).await;
            // The calls were decided on in an earlier part of the turn, whose journal is gone.
            let message = message_of(calls.iter().map(|gated| gated.call.clone()).collect());
            ctx.journal(logue_harness::chat::continues(&message))
                .await?;
        }
        let agents = self.assistant.budget.part();
        let router = self.router.current().await;
        let mut batch = router.batch();
        for gated in &calls {
            match gated.verdict(&signal) {
                Ok(()) => {
                    let is_exclusive = router.is_exclusive(&gated.call);
                    let running = run_tool(ctx, &router, gated);
                    batch.add(is_exclusive, Box::pin(agents.clone().for_agents(running)));
                }
                Err(refusal) => {
                    let refused = std::future::ready(ToolResult::failure(refusal));
                    batch.add(false, Box::pin(refused));
                }
            }
        }
        // Calls end in any order. Each result is durable before anybody hears of it, and before the
        // model is asked again; in the conversation they stand in the order of their calls.
        let mut results = vec![None; calls.len()];
        while let Some((index, outcome)) = batch.next().await {
            let (Some(gated), Some(place)) = (calls.get(index), results.get_mut(index)) else {
                continue;
            };
            for SchemaWarning { tool, reason } in self.router.take_schema_warnings() {
                ctx.emit(TurnEvent::Unchecked { tool, why: reason });
            }
            let call = Arc::new(gated.call.clone());
            let text = self.assistant.routing.told(&outcome);
            let result = ChatMessage::tool(call.id.clone(), text.clone());
            let result = Arc::new(result.with_name(call.name.clone()));
            ctx.journal(result.to_json()).await?;
            ctx.emit(TurnEvent::MessageCompleted(Arc::clone(&result)));
            let ok = outcome.ok;
            ctx.emit(TurnEvent::ToolEnded { call, ok, text });
            *place = Some(result);
        }
        unrecorded(&calls)?;
        let results: List<ChatMessage> = results.into_iter().flatten().collect();
        progress.spent.add(agents.spent());
        let update = Update::new()
            .with(APPROVAL, Value::Null)
            .with(NOTE, json!(""))
            .with(TURN, progress.to_json())
            .with(MESSAGES, results);
        Ok(with_calls(update, &[]))
    }
}

/// Runs one call that may run, in a span of its own.
fn run_tool<'a>(
    ctx: &'a NodeContext<TurnEvent>,
    router: &'a Router,
    gated: &'a PendingCall,
) -> BoxFuture<'a, ToolResult> {
    let call = &gated.call;
    let running = router.call(ToolRequest {
        conversation: ctx.session_id(),
        approved: gated.fingerprint(),
        ..ToolRequest::from(call)
    });
    Box::pin(async move {
        ctx.emit(TurnEvent::ToolStarted(Arc::new(call.clone())));
        let span = spans::calling(ctx, call);
        let outcome = running.instrument(span.clone()).await;
        spans::called(&span, &outcome);
        outcome
    })
}

/// The node `approval`: waits for a person.
async fn ask_person(
    ctx: &NodeContext<TurnEvent>,
    timeout_seconds: Option<u64>,
) -> Result<Update, NodeError> {
    let calls = calls(ctx.state())?;
    let waiting: Vec<_> = calls
        .iter()
        .filter(|gated| gated.decision.permission == Permission::Ask)
        .collect();
    let progress = Progress::of(ctx.state(), ctx.invocation_id());
    let id = ctx.invocation_id();
    let descriptor = descriptor(id, progress.approvals, &waiting, timeout_seconds);
    match ctx.suspend(descriptor).await {}
}

fn tell(ctx: &NodeContext<TurnEvent>, event: ModelEvent) {
    let event = match event {
        ModelEvent::Text(text) => TurnEvent::Delta(text),
        ModelEvent::Reasoning(text) => TurnEvent::Reasoning(text),
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
        _ => return,
    };
    ctx.emit(event);
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
