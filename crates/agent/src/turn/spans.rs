//! Spans of model requests and tool calls, with names from OpenTelemetry's conventions for
//! generative AI.
//!
//! They contain the model, the outcome and the cost; never messages, arguments or results.

use std::time::Duration;

use logue_graph::NodeContext;
use logue_message::ToolCall;
use logue_model::{Category, ModelRequest, ModelResponse, ProviderError};
use logue_tools::ToolResult;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::turn::listener::TurnEvent;

/// Opens the span of a model request.
pub(crate) fn asking(
    ctx: &NodeContext<TurnEvent>,
    provider: &'static str,
    request: &ModelRequest<'_>,
) -> Span {
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
        gen_ai.conversation.id = ctx.session_id(),
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

fn failed(span: &Span, category: &str) {
    span.record("error.type", category);
    span.record("otel.status_code", "ERROR");
}
