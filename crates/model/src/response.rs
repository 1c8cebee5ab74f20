//! A model response and the events of its stream.

use std::time::Duration;

use logue_message::ChatMessage;
use serde_json::Value;

use crate::{Category, TokenLogprob};

/// An event of a response in progress.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The next piece of visible text.
    Text(String),
    /// The tokens of the next [`Text`](Self::Text), if the request asks for them.
    ///
    /// Text of a repaired part has none. Tokens before [`TextEnd`](Self::TextEnd) belong to the end of
    /// the text before it.
    TextLogprobs(Vec<TokenLogprob>),
    /// The next piece of reasoning, which must not be shown to a user.
    Reasoning(String),
    /// The next piece of the provider's summary of the reasoning.
    ReasoningSummary {
        /// The number of the part of the summaries of this response, from 0.
        part: usize,
        /// The piece.
        text: String,
    },
    /// A tool call has begun; its arguments follow.
    ToolCall {
        /// The index of the call within the response.
        index: usize,
        /// The tool name.
        name: String,
    },
    /// The visible text so far is a whole message; further text belongs to another one.
    TextEnd,
    /// The next piece of the arguments of a call.
    Arguments {
        /// The index of the call within the response.
        index: usize,
        /// The piece.
        text: String,
    },
    /// A request failed and is repeated after a wait.
    Retry {
        /// The number of failed requests, from 1.
        attempt: u32,
        /// The wait.
        wait: Duration,
        /// The category of the failure.
        category: Category,
        /// The cause of the failure.
        message: String,
    },
    /// The output violates its format, and was repaired.
    Repair {
        /// The code of the violation.
        code: &'static str,
    },
    /// A response violates its schema, and the model is asked for a correction.
    SchemaRetry {
        /// The violation.
        reason: String,
    },
}

/// One complete model response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The assistant message.
    pub message: ChatMessage,
    /// The reason why the model stopped.
    pub finish_reason: FinishReason,
    /// The token usage, if the server reports it.
    pub usage: Option<Usage>,
    /// The parsed value, if the request has a schema and the response matches it.
    pub parsed: Option<Value>,
}

impl ModelResponse {
    /// Creates a response without usage.
    pub const fn new(message: ChatMessage, finish_reason: FinishReason) -> Self {
        Self {
            message,
            finish_reason,
            usage: None,
            parsed: None,
        }
    }

    /// Sets the token usage.
    #[must_use]
    pub const fn with_usage(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The response is complete.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The response is truncated at the length limit.
    Length,
    /// The server's filter truncated the response, or the model refused.
    ContentFilter,
}

impl FinishReason {
    /// Returns the word of the wire formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// The token counts of one response, as the server reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The tokens of the request.
    pub input_tokens: u64,
    /// The tokens of the response, including reasoning.
    pub output_tokens: u64,
    /// The tokens of the request that the server had cached.
    pub cached_tokens: u64,
    /// The tokens of the response that were reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Creates counts without cached tokens and reasoning.
    pub const fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens,
            output_tokens,
            cached_tokens: 0,
            reasoning_tokens: 0,
        }
    }

    /// Sets the number of request tokens that the server had cached.
    #[must_use]
    pub const fn with_cached_tokens(mut self, cached_tokens: u64) -> Self {
        self.cached_tokens = cached_tokens;
        self
    }

    /// Sets the number of response tokens that were reasoning.
    #[must_use]
    pub const fn with_reasoning_tokens(mut self, reasoning_tokens: u64) -> Self {
        self.reasoning_tokens = reasoning_tokens;
        self
    }

    /// Returns the counts with the names of their kinds.
    pub const fn by_kind(&self) -> [(&'static str, u64); 4] {
        [
            ("input", self.input_tokens),
            ("cached", self.cached_tokens),
            ("output", self.output_tokens),
            ("reasoning", self.reasoning_tokens),
        ]
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}
