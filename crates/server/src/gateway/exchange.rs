//! The exchange with the model for one request, with one re-ask.

use std::sync::Arc;

use axum::http::StatusCode;
use logue_agent::RequestSpan;
use logue_model::{
    FinishReason, ModelEvent, ModelRequest, ModelResponse, Provider as _, ProviderError,
    TokenLogprob, ToolChoice, Usage,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tracing::Instrument as _;

use super::problem::{ends, upstream_problem};
use super::request::GatewayRequest;
use super::state::Gateway;
use super::tools::InvalidCall;
use crate::chat::access::Caller;
use crate::chat::drain::has_ended;
use crate::chat::limits::TurnPermit;
use crate::chat::problem::Problem;
use crate::chat::trace_context::{carried, current_trace};

/// The text between two messages of the model, and between two attempts.
pub(super) const SEPARATOR: &str = "\n\n";

/// A part of an answer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Reasoning(String),
    /// The text so far and the next one are two messages of the model.
    Between,
    /// Visible text, with the log probabilities of its tokens if they are requested and known.
    Text(String, Vec<TokenLogprob>),
    /// A whole call, whose arguments are checked.
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    End(Result<AnswerEnd, Problem>),
}

/// The end of an answer.
#[derive(Clone, Debug)]
pub(super) struct AnswerEnd {
    /// `stop`, `tool_calls`, `length` or `content_filter`.
    pub(super) finish: &'static str,
    pub(super) usage: Option<Usage>,
}

/// The parts of an answer as they arrive.
pub(super) enum AnswerParts {
    /// Those of a request, which is cancelled when they are dropped.
    Running(mpsc::UnboundedReceiver<Part>),
    /// Those of a request that runs on.
    Kept(mpsc::Receiver<Part>),
}

impl AnswerParts {
    /// Waits for the next part; `None` after the last one.
    pub(super) async fn recv(&mut self) -> Option<Part> {
        match self {
            Self::Running(parts) => parts.recv().await,
            Self::Kept(parts) => parts.recv().await,
        }
    }
}

/// The place of a request that runs.
pub(super) struct Reserved {
    _turn: TurnPermit,
    _place: OwnedSemaphorePermit,
}

/// Reserves the place of a request.
///
/// # Errors
/// Returns a problem if the gateway ends, or too many requests run, or too many of the client.
pub(super) fn reserve(gateway: &Gateway, caller: &Caller) -> Result<Reserved, Problem> {
    if *gateway.shutdown.borrow() {
        return Err(Problem::server_draining());
    }
    let turn = gateway.limits.permit(caller, &gateway.model)?;
    let place = Arc::clone(&gateway.free).try_acquire_owned().map_err(|_| {
        let mut problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "too many requests run at once",
        );
        problem.retry_after = Some(1);
        problem
    })?;
    Ok(Reserved {
        _turn: turn,
        _place: place,
    })
}

/// Starts a request and returns its parts. It is cancelled when the receiver is dropped.
pub(super) fn start(
    gateway: &Arc<Gateway>,
    request: GatewayRequest,
    permit: Reserved,
) -> mpsc::UnboundedReceiver<Part> {
    // The provider limits the size of a response.
    let (sender, parts) = mpsc::unbounded_channel();
    let gateway = Arc::clone(gateway);
    let mut cut = gateway.cut.clone();
    let exchange = async move {
        let exchange = Exchange {
            gateway: &gateway,
            request: &request,
        };
        let end = tokio::select! {
            end = exchange.run(&sender) => Some(end),
            () = sender.closed() => None,
            () = has_ended(&mut cut) => Some(Err(ends())),
        };
        drop(permit);
        match end {
            Some(end) => {
                gateway.metrics.request(end.as_ref().map(drop));
                // The client may be gone.
                drop(sender.send(Part::End(end)));
            }
            None => gateway.metrics.cancelled(),
        }
    };
    tokio::spawn(carried(current_trace(), exchange));
    parts
}

struct Exchange<'e> {
    gateway: &'e Gateway,
    request: &'e GatewayRequest,
}

/// The reported text and reasoning of an answer.
#[derive(Default)]
struct Reported {
    text: Position,
    reasoning: Position,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Start,
    Within,
    /// Another attempt follows.
    Between,
}

impl Position {
    /// Returns a piece with the separator that precedes it.
    fn piece(&mut self, text: String) -> String {
        let is_between = *self == Self::Between;
        *self = Self::Within;
        if is_between {
            format!("{SEPARATOR}{text}")
        } else {
            text
        }
    }

    fn next_attempt(&mut self) {
        if *self == Self::Within {
            *self = Self::Between;
        }
    }
}

impl Exchange<'_> {
    async fn run(&self, out: &mpsc::UnboundedSender<Part>) -> Result<AnswerEnd, Problem> {
        let mut reported = Reported::default();
        let messages = &self.request.messages;
        let mut response = self.attempt(messages, &mut reported, out).await?;
        let mut usage = response.usage;
        let invalid = self.invalid(&response);
        if !invalid.is_empty() {
            self.gateway.metrics.reask("tool_arguments");
            let mut messages = messages.clone();
            let message = response.message;
            let results = self
                .request
                .tools
                .corrections(&message.tool_calls, &invalid);
            messages.push(message);
            messages.extend(results);
            reported.text.next_attempt();
            reported.reasoning.next_attempt();
            response = self.attempt(&messages, &mut reported, out).await?;
            usage = sum(usage, response.usage);
            let again = self.invalid(&response);
            if let Some(strict) = again.iter().find(|invalid| invalid.is_strict) {
                return Err(invalid_arguments(strict));
            }
        }
        let calls = response.message.tool_calls;
        let finish = match response.finish_reason {
            FinishReason::ToolCalls if calls.is_empty() => FinishReason::Stop,
            finish => finish,
        };
        for call in calls {
            let part = Part::Call {
                id: format!("call_{}", self.gateway.ids.new_id()),
                name: call.name,
                arguments: call.arguments.as_str().to_owned(),
            };
            // The client may be gone.
            drop(out.send(part));
        }
        Ok(AnswerEnd {
            finish: finish.as_str(),
            usage,
        })
    }

    /// Sends one request to the model and reports its text and reasoning.
    async fn attempt(
        &self,
        messages: &[logue_message::ChatMessage],
        reported: &mut Reported,
        out: &mpsc::UnboundedSender<Part>,
    ) -> Result<ModelResponse, Problem> {
        let request = self.request.model_request(&self.gateway.model, messages);
        let metrics = &self.gateway.metrics;
        let mut logprobs = Vec::new();
        let mut has_ended = false;
        let mut handler = |event: ModelEvent| {
            let part = match event {
                ModelEvent::TextLogprobs(tokens) => return logprobs.extend(tokens),
                ModelEvent::TextEnd => {
                    has_ended = true;
                    let tokens = std::mem::take(&mut logprobs);
                    if tokens.is_empty() {
                        return;
                    }
                    // The last token continues after the text.
                    Part::Text(String::new(), tokens)
                }
                ModelEvent::Text(text) => {
                    if std::mem::take(&mut has_ended) && reported.text == Position::Within {
                        // The client may be gone.
                        drop(out.send(Part::Between));
                    }
                    Part::Text(reported.text.piece(text), std::mem::take(&mut logprobs))
                }
                ModelEvent::Reasoning(text) => Part::Reasoning(reported.reasoning.piece(text)),
                ModelEvent::Repair { code } => return metrics.repair(code),
                ModelEvent::SchemaRetry { .. } => {
                    reported.reasoning.next_attempt();
                    return metrics.reask("response_schema");
                }
                _ => return,
            };
            // The client may be gone.
            drop(out.send(part));
        };
        let span = self.span(&request);
        let response = self.gateway.provider.complete(&request, &mut handler);
        let response = response.instrument(span.as_span().clone()).await;
        span.answered(&response);
        let report = |error: &ProviderError| {
            if let Some(report) = &self.gateway.report {
                report(error);
            }
        };
        let response = response.inspect_err(report);
        let mut response = response.map_err(upstream_problem)?;
        if let Some(usage) = &response.usage {
            metrics.tokens(usage);
        }
        let calls = &mut response.message.tool_calls;
        if self.request.choice == ToolChoice::None {
            calls.clear();
        } else if !self.request.is_parallel {
            calls.truncate(1);
        }
        Ok(response)
    }

    /// Opens the span of a request, whose parent is that of the client's request.
    fn span(&self, request: &ModelRequest<'_>) -> RequestSpan {
        let span = RequestSpan::new(self.gateway.provider.name(), request);
        if let (Some(traces), Some(parent)) = (self.gateway.traces, current_trace()) {
            traces.set_parent(span.as_span(), &parent);
        }
        span
    }

    fn invalid(&self, response: &ModelResponse) -> Vec<InvalidCall> {
        self.request.tools.invalid(&response.message.tool_calls)
    }
}

fn sum(first: Option<Usage>, second: Option<Usage>) -> Option<Usage> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first += second;
            Some(first)
        }
        (first, second) => first.or(second),
    }
}

fn invalid_arguments(call: &InvalidCall) -> Problem {
    let detail = format!(
        "the model called `{}` twice with arguments that violate its schema: {}",
        call.name,
        call.summary()
    );
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(status, "tool_arguments_invalid", detail)
}
