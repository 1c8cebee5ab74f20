//! A model request and its sampling settings.

mod validate;

use logue_message::{ChatMessage, ToolDefinition};
use serde_json::Value;

/// One request to a model.
///
/// ```
/// use logue_message::ChatMessage;
/// use logue_model::{ModelRequest, SamplingSettings};
///
/// let messages = [ChatMessage::user("Why is the sky blue?")];
/// let settings = SamplingSettings::default();
/// let request = ModelRequest::new("some-model", &messages, &settings);
/// assert!(request.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The model name on the server; empty if the provider has only one model.
    pub model: &'a str,
    /// The conversation; each tool result immediately follows its call.
    pub messages: &'a [ChatMessage],
    /// The offered tools.
    pub tools: &'a [ToolDefinition],
    /// The sampling settings.
    pub settings: &'a SamplingSettings,
    /// The policy for tool calls.
    pub tool_choice: &'a ToolChoice,
    /// The JSON Schema of the response, with an object at its root.
    pub response_schema: Option<&'a Value>,
    /// The number of likely alternatives of each token; `None` for no log probabilities.
    ///
    /// Only [`HarmonyCompletions`](crate::HarmonyCompletions) reports them.
    pub logprobs: Option<u64>,
}

impl<'a> ModelRequest<'a> {
    /// Creates a request for a text response, without tools or a schema.
    pub fn new(
        model: &'a str,
        messages: &'a [ChatMessage],
        settings: &'a SamplingSettings,
    ) -> Self {
        Self {
            model,
            messages,
            tools: &[],
            settings,
            tool_choice: &ToolChoice::Auto,
            response_schema: None,
            logprobs: None,
        }
    }

    /// Sets the offered tools.
    #[must_use]
    pub const fn with_tools(mut self, tools: &'a [ToolDefinition]) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the policy for tool calls.
    #[must_use]
    pub const fn with_tool_choice(mut self, tool_choice: &'a ToolChoice) -> Self {
        self.tool_choice = tool_choice;
        self
    }

    /// Sets the JSON Schema of the response.
    #[must_use]
    pub const fn with_response_schema(mut self, schema: &'a Value) -> Self {
        self.response_schema = Some(schema);
        self
    }

    /// Requests log probabilities of the text, with this number of alternatives for each token.
    #[must_use]
    pub const fn with_logprobs(mut self, alternatives: Option<u64>) -> Self {
        self.logprobs = alternatives;
        self
    }
}

/// The policy for tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must not call a tool.
    None,
    /// The model must call the named tool.
    Tool(String),
}

/// The sampling settings; the server decides on absent ones.
///
/// ```
/// use logue_model::SamplingSettings;
///
/// let settings = SamplingSettings::default()
///     .with_temperature(0.2)
///     .with_stop(vec!["END".to_owned()]);
/// assert_eq!(settings.max_tokens, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SamplingSettings {
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The maximum number of tokens of one response.
    pub max_tokens: Option<u64>,
    /// The reasoning effort, as a word that the server defines, such as `low`.
    pub reasoning_effort: Option<String>,
    /// The probability mass of nucleus sampling.
    pub top_p: Option<f64>,
    /// The sampling seed.
    pub seed: Option<i64>,
    /// The penalty on a token in proportion to its frequency.
    pub frequency_penalty: Option<f64>,
    /// The penalty on a token that has occurred.
    pub presence_penalty: Option<f64>,
    /// The texts that end the response.
    pub stop: Vec<String>,
}

impl SamplingSettings {
    /// Returns the settings, with those of `other` for the absent ones.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            max_tokens: self.max_tokens.or(other.max_tokens),
            reasoning_effort: self
                .reasoning_effort
                .or_else(|| other.reasoning_effort.clone()),
            top_p: self.top_p.or(other.top_p),
            seed: self.seed.or(other.seed),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            stop: if self.stop.is_empty() {
                other.stop.clone()
            } else {
                self.stop
            },
        }
    }

    /// Returns the secondary settings that are present, by their common wire names.
    ///
    /// These are all settings except `temperature`, `max_tokens` and `reasoning_effort`.
    pub fn secondary(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let stop = (!self.stop.is_empty()).then(|| self.stop.clone().into());
        let settings = [
            ("top_p", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("frequency_penalty", self.frequency_penalty.map(Value::from)),
            ("presence_penalty", self.presence_penalty.map(Value::from)),
            ("stop", stop),
        ];
        settings
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn with_temperature(mut self, temperature: impl Into<Option<f64>>) -> Self {
        self.temperature = temperature.into();
        self
    }

    /// Sets the maximum number of tokens of one response.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: impl Into<Option<u64>>) -> Self {
        self.max_tokens = max_tokens.into();
        self
    }

    /// Sets the reasoning effort.
    #[must_use]
    pub fn with_reasoning_effort(mut self, reasoning_effort: impl Into<Option<String>>) -> Self {
        self.reasoning_effort = reasoning_effort.into();
        self
    }

    /// Sets the probability mass of nucleus sampling.
    #[must_use]
    pub fn with_top_p(mut self, top_p: impl Into<Option<f64>>) -> Self {
        self.top_p = top_p.into();
        self
    }

    /// Sets the sampling seed.
    #[must_use]
    pub fn with_seed(mut self, seed: impl Into<Option<i64>>) -> Self {
        self.seed = seed.into();
        self
    }

    /// Sets the penalty on a token in proportion to its frequency.
    #[must_use]
    pub fn with_frequency_penalty(mut self, frequency_penalty: impl Into<Option<f64>>) -> Self {
        self.frequency_penalty = frequency_penalty.into();
        self
    }

    /// Sets the penalty on a token that has occurred.
    #[must_use]
    pub fn with_presence_penalty(mut self, presence_penalty: impl Into<Option<f64>>) -> Self {
        self.presence_penalty = presence_penalty.into();
        self
    }

    /// Sets the texts that end the response.
    #[must_use]
    pub fn with_stop(mut self, stop: Vec<String>) -> Self {
        self.stop = stop;
        self
    }
}
