//! The seam between a turn and a model.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use logue_message::{ChatMessage, ToolDefinition};
use serde_json::Value;

use crate::{Category, ProviderError};

/// A boxed future, as the seams that are used as trait objects return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whoever listens to a model while it speaks.
pub type EventSink<'a> = &'a mut (dyn FnMut(Event) + Send);

/// Something that answers a conversation.
///
/// Dropping the future cancels the request. A provider keeps no conversation between two calls.
pub trait Provider: Send + Sync {
    /// The name that telemetry knows the provider by (`gen_ai.provider.name`).
    fn name(&self) -> &'static str {
        "custom"
    }

    /// Asks for the next message of the assistant and reports what arrives to `events`.
    ///
    /// # Errors
    /// A [`ProviderError`] with its category. Events may have been reported before it.
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>>;
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        (**self).complete(request, events)
    }
}

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The model's name as its server knows it; empty where the provider has only one.
    pub model: &'a str,
    /// The conversation, valid for every provider: each tool result directly behind its call.
    pub messages: &'a [ChatMessage],
    /// The tools on offer.
    pub tools: &'a [ToolDefinition],
    /// How to sample.
    pub settings: &'a Settings,
    /// Whether tools are to be called.
    pub tool_choice: &'a ToolChoice,
    /// The JSON Schema, an object at its root, that the answer is to meet.
    pub response_schema: Option<&'a Value>,
}

impl<'a> Request<'a> {
    /// A request that leaves the rest to the server: it may call tools, and answers in words.
    pub fn new(model: &'a str, messages: &'a [ChatMessage], settings: &'a Settings) -> Self {
        Self {
            model,
            messages,
            tools: &[],
            settings,
            tool_choice: &ToolChoice::Auto,
            response_schema: None,
        }
    }

    /// The same with tools on offer.
    #[must_use]
    pub const fn with_tools(mut self, tools: &'a [ToolDefinition]) -> Self {
        self.tools = tools;
        self
    }
}

/// Whether the model is to call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
    /// This one.
    Tool(String),
}

/// Sampling settings; what is absent is the server's choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// How long the model should think: a word that its server knows, such as `low`.
    pub reasoning_effort: Option<String>,
    /// The share of the probability that tokens are drawn from.
    pub top_p: Option<f64>,
    /// The seed of the sampling.
    pub seed: Option<i64>,
    /// How much a token counts less the more often it was said.
    pub frequency_penalty: Option<f64>,
    /// How much a token counts less once it was said.
    pub presence_penalty: Option<f64>,
    /// Texts at which the answer ends.
    pub stop: Vec<String>,
}

impl Settings {
    /// The further settings that are given, by the names that wire formats and transcripts share.
    pub fn further(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let stop = (!self.stop.is_empty()).then(|| self.stop.clone().into());
        let given = [
            ("top_p", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("frequency_penalty", self.frequency_penalty.map(Value::from)),
            ("presence_penalty", self.presence_penalty.map(Value::from)),
            ("stop", stop),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// What arrives while a model speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The next piece of the visible answer.
    Text(String),
    /// The next piece of private reasoning. Never shown to a user.
    Reasoning(String),
    /// A tool call has begun; its arguments follow.
    ToolCall {
        /// Its position among the calls of this answer.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// The next piece of a call's arguments.
    Arguments {
        /// The call's position among the calls of this answer.
        index: usize,
        /// The piece.
        text: String,
    },
    /// A request failed and is made again after a wait.
    Retrying {
        /// How many requests failed so far, from 1.
        attempt: u32,
        /// The wait.
        wait: Duration,
        /// The kind of the failure.
        category: Category,
        /// What happened.
        message: String,
    },
    /// An answer does not meet its schema, and the model is asked once more.
    Reasking {
        /// What is wrong with the answer.
        reason: String,
    },
}

/// One complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The assistant's message.
    pub message: ChatMessage,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// What it cost, where the server says.
    pub usage: Option<Usage>,
    /// The value that the answer is, where a schema was asked for and the answer meets it.
    pub parsed: Option<Value>,
}

impl Response {
    /// An answer that says nothing of its cost.
    pub const fn new(message: ChatMessage, finish_reason: FinishReason) -> Self {
        Self {
            message,
            finish_reason,
            usage: None,
            parsed: None,
        }
    }

    /// The same with what it cost.
    #[must_use]
    pub const fn with_usage(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The answer reached the length limit and is cut.
    Length,
    /// The server's filter cut the answer.
    ContentFilter,
}

impl FinishReason {
    /// The word that wire formats use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// Tokens of one answer, as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the request that the server had kept from an earlier one.
    pub cached_tokens: u64,
    /// Tokens of the answer that were private reasoning.
    pub reasoning_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}
