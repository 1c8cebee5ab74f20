//! Requests of Chat Completions to a gateway.

use axum::http::HeaderMap;
use logue_message::ChatMessage;
use logue_model::{ModelRequest, SamplingSettings, ToolChoice};
use serde::Deserialize;
use serde_json::{Value, json};

use super::messages::chat_messages;
use super::tools::{OfferedTools, tool_choice};
use crate::chat::problem::Problem;

/// The header that selects the field of the reasoning.
pub(super) const REASONING: &str = "x-logue-reasoning";

/// The most alternatives of a token.
const MAX_ALTERNATIVES: u64 = 20;

/// A request to the model, in no particular API.
#[derive(Debug)]
pub(super) struct GatewayRequest {
    pub(super) messages: Vec<ChatMessage>,
    pub(super) tools: OfferedTools,
    pub(super) choice: ToolChoice,
    pub(super) settings: SamplingSettings,
    pub(super) schema: Option<Value>,
    /// The number of alternatives of each token, if log probabilities are requested.
    pub(super) logprobs: Option<u64>,
    /// Whether an answer may have several calls.
    pub(super) is_parallel: bool,
}

impl GatewayRequest {
    /// Returns the request to the provider for a conversation.
    pub(super) fn model_request<'r>(
        &'r self,
        model: &'r str,
        messages: &'r [ChatMessage],
    ) -> ModelRequest<'r> {
        let request = ModelRequest::new(model, messages, &self.settings)
            .with_tools(&self.tools.definitions)
            .with_tool_choice(&self.choice)
            .with_logprobs(self.logprobs);
        match &self.schema {
            Some(schema) => request.with_response_schema(schema),
            None => request,
        }
    }
}

/// The field in which the reasoning of an answer is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    ReasoningContent,
    Reasoning,
    None,
}

impl ReasoningField {
    /// Returns the field that the header, `reasoning_format` or `include_reasoning` selects.
    ///
    /// # Errors
    /// Returns a problem if the field is unknown.
    pub(super) fn select(
        headers: &HeaderMap,
        format: Option<&str>,
        is_included: Option<bool>,
    ) -> Result<Self, Problem> {
        let header = headers.get(REASONING);
        let header = header.map(|word| String::from_utf8_lossy(word.as_bytes()));
        if let Some(word) = header.as_deref().or(format) {
            return Self::parse(word).ok_or_else(|| {
                Problem::invalid(format!(
                    "unknown reasoning format `{}`: use reasoning_content, reasoning or none",
                    word.escape_debug()
                ))
            });
        }
        if is_included == Some(false) {
            return Ok(Self::None);
        }
        Ok(Self::ReasoningContent)
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            // The names of llama.cpp denote the same field.
            "reasoning_content" | "deepseek" | "auto" => Some(Self::ReasoningContent),
            "reasoning" => Some(Self::Reasoning),
            "none" => Some(Self::None),
            _ => None,
        }
    }

    /// Returns the name of the field, if there is one.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::ReasoningContent => Some("reasoning_content"),
            Self::Reasoning => Some("reasoning"),
            Self::None => None,
        }
    }
}

/// A request of Chat Completions.
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) request: GatewayRequest,
    pub(super) reasoning: ReasoningField,
    pub(super) is_stream: bool,
    pub(super) has_usage: bool,
}

/// The body of a request. Unknown fields are ignored.
#[derive(Deserialize)]
struct Body {
    model: String,
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    response_format: Option<Value>,
    functions: Option<Value>,
    n: Option<u64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    seed: Option<i64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop: Option<Stop>,
    reasoning_effort: Option<String>,
    chat_template_kwargs: Option<Value>,
    reasoning_format: Option<String>,
    include_reasoning: Option<bool>,
    logprobs: Option<bool>,
    top_logprobs: Option<u64>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Many(Vec<String>),
}

impl ChatRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns a problem if the request cannot be answered as it is.
    pub(super) fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))?;
        if body.n.is_some_and(|n| n != 1) {
            return Err(Problem::invalid("`n` must be 1"));
        }
        if body.functions.as_ref().is_some_and(|own| !own.is_null()) {
            return Err(Problem::invalid(
                "`functions` is not accepted: declare them as `tools`",
            ));
        }
        let selected = body.reasoning_format.as_deref();
        let reasoning = ReasoningField::select(headers, selected, body.include_reasoning)?;
        let messages = chat_messages(&body.messages).map_err(Problem::invalid)?;
        let tools = tools(body.tools.as_deref().unwrap_or_default()).map_err(Problem::invalid)?;
        let has_tools = !tools.definitions.is_empty();
        let choice = tool_choice(body.tool_choice.as_ref(), has_tools).map_err(Problem::invalid)?;
        let schema = response_schema(body.response_format.as_ref()).map_err(Problem::invalid)?;
        let logprobs = body.logprobs()?;
        let settings = body.settings();
        Ok(Self {
            request: GatewayRequest {
                messages,
                tools,
                choice,
                settings,
                schema,
                logprobs,
                is_parallel: body.parallel_tool_calls.unwrap_or(true),
            },
            reasoning,
            is_stream: body.stream.unwrap_or_default(),
            has_usage: body.stream_options.unwrap_or_default().include_usage,
            model: body.model,
        })
    }
}

impl Body {
    /// Returns the number of requested alternatives of each token.
    fn logprobs(&self) -> Result<Option<u64>, Problem> {
        let is_requested = self.logprobs == Some(true);
        if !is_requested && self.top_logprobs.is_some_and(|count| count > 0) {
            let detail = "`top_logprobs` requires `logprobs`";
            return Err(Problem::invalid(detail).with_param("top_logprobs"));
        }
        alternatives(self.top_logprobs, is_requested)
    }

    fn settings(&self) -> SamplingSettings {
        let template = self.chat_template_kwargs.as_ref();
        let template = template.and_then(|own| own.get("reasoning_effort")?.as_str());
        let effort = self.reasoning_effort.as_deref().or(template);
        let stop = match &self.stop {
            None => Vec::new(),
            Some(Stop::One(one)) => vec![one.clone()],
            Some(Stop::Many(many)) => many.clone(),
        };
        let mut settings = SamplingSettings::default()
            .with_temperature(self.temperature)
            .with_max_tokens(self.max_completion_tokens.or(self.max_tokens))
            .with_reasoning_effort(effort.map(|effort| effort_of(effort).to_owned()))
            .with_top_p(self.top_p)
            .with_seed(self.seed)
            .with_stop(stop);
        settings.frequency_penalty = self.frequency_penalty;
        settings.presence_penalty = self.presence_penalty;
        settings
    }
}

/// Checks the number of alternatives of each token; `None` if log probabilities are not requested.
///
/// # Errors
/// Returns a problem if the number is too large.
pub(super) fn alternatives(count: Option<u64>, is_requested: bool) -> Result<Option<u64>, Problem> {
    let count = count.unwrap_or_default();
    if count > MAX_ALTERNATIVES {
        let detail = format!("`top_logprobs` must be 0 to {MAX_ALTERNATIVES}");
        return Err(Problem::invalid(detail).with_param("top_logprobs"));
    }
    Ok(is_requested.then_some(count))
}

/// Returns the nearest of the three efforts of the model.
pub(super) fn effort_of(effort: &str) -> &str {
    match effort {
        "none" | "minimal" => "low",
        "xhigh" | "max" => "high",
        other => other,
    }
}

fn tools(tools: &[Value]) -> Result<OfferedTools, String> {
    let mut offered = OfferedTools::default();
    for (at, tool) in tools.iter().enumerate() {
        let kind = tool.get("type").and_then(Value::as_str);
        let (Some("function") | None, Some(function)) = (kind, tool.get("function")) else {
            return Err(format!("tools[{at}]: only functions are accepted"));
        };
        let added = offered.add(function);
        added.map_err(|cause| format!("tools[{at}]: {cause}"))?;
    }
    Ok(offered)
}

/// Returns the schema of the answer, which is an object.
fn response_schema(format: Option<&Value>) -> Result<Option<Value>, String> {
    let Some(format) = format.filter(|format| !format.is_null()) else {
        return Ok(None);
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(json!({"type": "object"}))),
        Some("json_schema") => match format.pointer("/json_schema/schema") {
            Some(schema) => Ok(Some(schema.clone())),
            None => Err("`response_format` requires `json_schema.schema`".to_owned()),
        },
        _ => Err("`response_format` is text, json_object or json_schema".to_owned()),
    }
}
