//! Spans of turns, model requests and tool calls, by OpenTelemetry's conventions.
//!
//! The names are those of the conventions for generative AI. The spans contain the model, the
//! outcome and the cost; never messages, arguments or results, except those that a caller of
//! [`AgentSpan`] records.

use std::time::Duration;

use logue_graph::NodeContext;
use logue_harness::chat::ChatTurnOutcome;
use logue_message::{ChatMessage, Role, ToolCall};
use logue_model::{Category, ModelRequest, ModelResponse, ProviderError};
use logue_tools::ToolResult;
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::turn::listener::TurnEvent;

/// The longest JSON of messages in an attribute, in bytes.
const MAX_CONTENT: usize = 64 * 1024;

/// The span of a turn of an agent, around its requests and calls.
#[derive(Clone, Debug)]
pub struct AgentSpan(Span);

impl AgentSpan {
    /// Opens the span of a turn.
    pub fn new(agent: &str, session: Option<&str>) -> Self {
        let span = info_span!(
            parent: None,
            "gen_ai.invoke_agent",
            otel.name = Empty,
            otel.kind = "internal",
            otel.status_code = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = agent,
            gen_ai.conversation.id = session,
            gen_ai.input.messages = Empty,
            gen_ai.output.messages = Empty,
            openarmature.invocation_id = Empty,
            openarmature.outcome = Empty,
            error.type = Empty,
        );
        if !span.is_disabled() {
            span.record("otel.name", format!("invoke_agent {agent}"));
        }
        Self(span)
    }

    /// Returns the span, in which the turn has to run.
    pub const fn as_span(&self) -> &Span {
        &self.0
    }

    /// Records the outcome of the turn.
    pub fn ended(&self, outcome: &ChatTurnOutcome) {
        let (name, invocation_id) = match outcome {
            ChatTurnOutcome::Completed(turn) => ("completed", Some(&turn.invocation_id)),
            ChatTurnOutcome::Suspended(turn) => ("suspended", Some(&turn.invocation_id)),
            ChatTurnOutcome::Errored(turn) => ("errored", turn.invocation_id.as_ref()),
        };
        self.0.record("openarmature.outcome", name);
        if let Some(id) = invocation_id {
            self.0.record("openarmature.invocation_id", &**id);
        }
        match outcome {
            ChatTurnOutcome::Errored(turn) => failed(&self.0, &turn.error_category),
            _ => {
                self.0.record("otel.status_code", "OK");
            }
        }
    }

    /// Records the messages that began the turn, which must be visible ones.
    pub fn record_input<'m>(&self, messages: impl IntoIterator<Item = &'m ChatMessage>) {
        if !self.0.is_disabled() {
            self.0
                .record("gen_ai.input.messages", content(messages, None));
        }
    }

    /// Records the messages of the turn, which must be visible ones.
    pub fn record_output<'m>(&self, messages: impl IntoIterator<Item = &'m ChatMessage>) {
        if !self.0.is_disabled() {
            self.0
                .record("gen_ai.output.messages", content(messages, Some("stop")));
        }
    }
}

/// The span of a request to a model outside a turn.
#[derive(Clone, Debug)]
pub struct RequestSpan(Span);

impl RequestSpan {
    /// Opens the span of a request.
    pub fn new(provider: &'static str, request: &ModelRequest<'_>) -> Self {
        Self(request_span(provider, request, None))
    }

    /// Returns the span, in which the request has to run.
    pub const fn as_span(&self) -> &Span {
        &self.0
    }

    /// Records the outcome of the request.
    pub fn answered(&self, answer: &Result<ModelResponse, ProviderError>) {
        answered(&self.0, answer);
    }
}

/// Opens the span of a model request.
pub(crate) fn asking(
    ctx: &NodeContext<TurnEvent>,
    provider: &'static str,
    request: &ModelRequest<'_>,
) -> Span {
    request_span(provider, request, ctx.session_id())
}

/// Records the outcome of a request.
pub(crate) fn answered(span: &Span, answer: &Result<ModelResponse, ProviderError>) {
    match answer {
        Ok(answer) => {
            let reason = answer.finish_reason.as_str();
            span.record("gen_ai.response.finish_reasons", reason);
            if let Some(usage) = answer.usage {
                span.record("gen_ai.usage.input_tokens", usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", usage.output_tokens);
            }
            span.record("otel.status_code", "OK");
        }
        Err(error) => failed(span, Category::as_str(error.category)),
    }
}

/// Records a retry in the span of the current request.
pub(crate) fn retrying(attempt: u32, wait: Duration, category: Category) {
    tracing::info!(
        logue.retry.attempt = attempt,
        logue.retry.wait_seconds = wait.as_secs_f64(),
        error.type = category.as_str(),
        "retry"
    );
}

/// Records a schema retry in the span of the current request.
pub(crate) fn reasking() {
    let category = Category::StructuredOutputInvalid.as_str();
    tracing::info!(error.type = category, "reask");
}

/// Opens the span of a tool call.
pub(crate) fn calling(ctx: &NodeContext<TurnEvent>, call: &ToolCall) -> Span {
    let span = info_span!(
        "gen_ai.execute_tool",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.call.id = call.id,
        gen_ai.tool.type = "function",
        gen_ai.conversation.id = ctx.session_id(),
        error.type = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("execute_tool {}", call.name));
    }
    span
}

/// Records the outcome of a call.
pub(crate) fn called(span: &Span, outcome: &ToolResult) {
    if outcome.ok {
        span.record("otel.status_code", "OK");
        return;
    }
    failed(span, outcome.code.unwrap_or("tool_error"));
}

fn request_span(provider: &'static str, request: &ModelRequest<'_>, session: Option<&str>) -> Span {
    let span = info_span!(
        "gen_ai.chat",
        otel.name = Empty,
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = Empty,
        gen_ai.request.max_tokens = request.settings.max_tokens,
        gen_ai.request.temperature = request.settings.temperature,
        gen_ai.conversation.id = session,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if request.model.is_empty() {
        span.record("otel.name", "chat");
    } else {
        span.record("otel.name", format!("chat {}", request.model));
        span.record("gen_ai.request.model", request.model);
    }
    span
}

fn failed(span: &Span, category: &str) {
    span.record("error.type", category);
    span.record("otel.status_code", "ERROR");
}

/// Returns messages as JSON in the form of the conventions, without those beyond [`MAX_CONTENT`].
fn content<'m>(
    messages: impl IntoIterator<Item = &'m ChatMessage>,
    finish: Option<&str>,
) -> String {
    let mut length = 0;
    let messages = messages.into_iter().map(|message| {
        let mut json = json!({"role": message.role.as_str(), "parts": parts(message)});
        if let Some(finish) = finish.filter(|_| message.role == Role::Assistant) {
            let has_calls = !message.tool_calls.is_empty();
            json["finish_reason"] = json!(if has_calls { "tool_call" } else { finish });
        }
        json.to_string()
    });
    let messages = messages.take_while(|message| {
        length += message.len() + 1;
        length < MAX_CONTENT
    });
    let messages: Vec<String> = messages.collect();
    format!("[{}]", messages.join(","))
}

fn parts(message: &ChatMessage) -> Vec<Value> {
    let text = message.text();
    if message.role == Role::Tool {
        let id = message.tool_call_id.as_deref();
        return vec![json!({"type": "tool_call_response", "id": id, "response": text})];
    }
    let text = (!text.is_empty()).then(|| json!({"type": "text", "content": text}));
    let calls = message.tool_calls.iter().map(|call| {
        json!({"type": "tool_call", "id": call.id, "name": call.name,
            "arguments": call.arguments.as_str()})
    });
    text.into_iter().chain(calls).collect()
}
