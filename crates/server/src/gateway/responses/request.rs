//! Requests of the Responses API to a gateway.

use axum::http::HeaderMap;
use logue_model::SamplingSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input::messages;
use crate::chat::problem::Problem;
use crate::gateway::messages::chat_messages;
use crate::gateway::request::{GatewayRequest, ReasoningField, alternatives, effort_of};
use crate::gateway::tools::{OfferedTools, tool_choice};

/// The word of `include` that requests log probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

/// A stateless request.
pub(super) struct ResponseRequest {
    pub(super) model: String,
    pub(super) request: GatewayRequest,
    pub(super) has_reasoning: bool,
    pub(super) is_stream: bool,
    pub(super) head: ResponseHead,
}

/// The constant fields of the response to a request.
pub(super) struct ResponseHead {
    model: String,
    /// The fields that the response repeats.
    repeated: Map<String, Value>,
}

/// The body of a request. Unknown fields are ignored.
#[derive(Deserialize)]
struct Body {
    model: String,
    input: Value,
    instructions: Option<String>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    text: Option<Value>,
    reasoning: Option<Value>,
    max_output_tokens: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    stream: Option<bool>,
    background: Option<bool>,
    previous_response_id: Option<Value>,
    conversation: Option<Value>,
    metadata: Option<Value>,
    include: Option<Vec<String>>,
    reasoning_format: Option<String>,
    include_reasoning: Option<bool>,
    n: Option<u64>,
    top_logprobs: Option<u64>,
}

impl ResponseRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns a problem if the request cannot be answered as it is.
    pub(super) fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))?;
        let is_set = |value: &Option<Value>| value.as_ref().is_some_and(|own| !own.is_null());
        if is_set(&body.previous_response_id) || is_set(&body.conversation) {
            return Err(Problem::invalid(
                "a gateway stores no responses: send the whole conversation as `input`",
            ));
        }
        if body.n.is_some_and(|n| n != 1) {
            return Err(Problem::invalid("`n` must be 1"));
        }
        if body.background == Some(true) {
            return Err(Problem::invalid("`background` is not accepted"));
        }
        let logprobs = body.logprobs()?;
        let mut parsed = body.request().map_err(Problem::invalid)?;
        parsed.logprobs = logprobs;
        let selected = body.reasoning_format.as_deref();
        let reasoning = ReasoningField::select(headers, selected, body.include_reasoning)?;
        let tools = body.tools.unwrap_or_default();
        let repeated = json!({
            "instructions": body.instructions, "tools": tools,
            "tool_choice": body.tool_choice.unwrap_or_else(|| json!("auto")),
            "parallel_tool_calls": body.parallel_tool_calls.unwrap_or(true),
            "text": body.text.unwrap_or_else(|| json!({"format": {"type": "text"}})),
            "reasoning": body.reasoning, "max_output_tokens": body.max_output_tokens,
            "temperature": body.temperature, "top_p": body.top_p,
            "top_logprobs": body.top_logprobs.unwrap_or_default(),
            "metadata": body.metadata.unwrap_or_else(|| json!({})),
        });
        Ok(Self {
            request: parsed,
            has_reasoning: reasoning != ReasoningField::None,
            is_stream: body.stream.unwrap_or_default(),
            head: ResponseHead {
                model: body.model.clone(),
                repeated: match repeated {
                    Value::Object(fields) => fields,
                    _ => Map::new(),
                },
            },
            model: body.model,
        })
    }
}

impl ResponseHead {
    /// Returns the fields of the response with this id and time.
    pub(super) fn fields(self, suffix: &str, created: u64) -> Map<String, Value> {
        let own = json!({"id": format!("resp_{suffix}"), "object": "response",
            "created_at": created, "model": self.model, "status": "in_progress", "output": [],
            "error": null, "incomplete_details": null, "usage": null, "store": false,
            "background": false, "previous_response_id": null, "truncation": "disabled"});
        let mut head = match own {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        head.extend(self.repeated);
        head
    }
}

impl Body {
    /// Returns the number of requested alternatives of each token.
    fn logprobs(&self) -> Result<Option<u64>, Problem> {
        let include = self.include.as_deref().unwrap_or_default();
        alternatives(self.top_logprobs, include.iter().any(|own| own == LOGPROBS))
    }

    fn request(&self) -> Result<GatewayRequest, String> {
        let messages = messages(&self.input, self.instructions.as_deref())?;
        let mut tools = OfferedTools::default();
        for (at, tool) in self.tools.iter().flatten().enumerate() {
            if tool["type"] != "function" {
                return Err(format!("tools[{at}]: only functions are accepted"));
            }
            let added = tools.add(tool);
            added.map_err(|cause| format!("tools[{at}]: {cause}"))?;
        }
        let choice = tool_choice(self.tool_choice.as_ref(), !tools.definitions.is_empty())?;
        let effort = self.reasoning.as_ref();
        let effort = effort.and_then(|own| own.get("effort")?.as_str());
        let settings = SamplingSettings::default()
            .with_temperature(self.temperature)
            .with_max_tokens(self.max_output_tokens)
            .with_reasoning_effort(effort.map(|effort| effort_of(effort).to_owned()))
            .with_top_p(self.top_p);
        Ok(GatewayRequest {
            messages: chat_messages(&messages)?,
            tools,
            choice,
            settings,
            schema: self.schema()?,
            logprobs: None,
            is_parallel: self.parallel_tool_calls.unwrap_or(true),
        })
    }

    /// Returns the schema of the answer, which is an object.
    fn schema(&self) -> Result<Option<Value>, String> {
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        let Some(format) = format.filter(|format| !format.is_null()) else {
            return Ok(None);
        };
        match (format["type"].as_str(), format.get("schema")) {
            (Some("text"), _) => Ok(None),
            (Some("json_object"), _) => Ok(Some(json!({"type": "object"}))),
            (Some("json_schema"), Some(schema)) => Ok(Some(schema.clone())),
            _ => Err("`text.format` is text, json_object or json_schema with `schema`".to_owned()),
        }
    }
}
