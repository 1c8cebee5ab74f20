//! Requests of Chat Completions to an agent.

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::messages::{Conversation, conversation};
use crate::chat::parameters::{TurnParameters, refuse_fields, refuse_tools};
use crate::chat::problem::Problem;

/// The body of a request. Fields that are not listed are ignored, as the sampling of the model is.
#[derive(Deserialize)]
struct Body {
    model: String,
    messages: Vec<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    functions: Option<Value>,
    function_call: Option<Value>,
    response_format: Option<Value>,
    stop: Option<Value>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    modalities: Option<Vec<String>>,
    audio: Option<Value>,
    logit_bias: Option<Value>,
    web_search_options: Option<Value>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// A request that can be answered.
pub(super) struct CompletionRequest {
    pub(super) model: String,
    pub(super) conversation: Conversation,
    pub(super) parameters: TurnParameters,
    pub(super) is_stream: bool,
    pub(super) has_usage: bool,
}

impl CompletionRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns a problem if the body is malformed, or if ignoring a field would change the answer.
    pub(super) fn parse(bytes: &Bytes) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))?;
        if body.n.is_some_and(|n| n != 1) {
            return Err(Problem::invalid("`n` must be 1").with_param("n"));
        }
        refuse_tools(body.tools.as_deref(), body.tool_choice.as_ref())?;
        let is_other = |mode: &String| mode != "text";
        if body.modalities.iter().flatten().any(is_other) {
            let problem = Problem::invalid("agents answer with text only");
            return Err(problem.with_param("modalities"));
        }
        let choice = body.function_call.as_ref();
        refuse_fields(&[
            ("functions", body.functions.as_ref()),
            (
                "function_call",
                choice.filter(|own| *own != "auto" && *own != "none"),
            ),
            ("audio", body.audio.as_ref()),
            ("logit_bias", body.logit_bias.as_ref()),
            // An empty object requests a search, too.
            (
                "web_search_options",
                body.web_search_options
                    .as_ref()
                    .filter(|own| !own.is_null())
                    .map(|_| &Value::Bool(true)),
            ),
        ])?;
        let mut parameters = TurnParameters::default();
        parameters.set_format(body.response_format.as_ref(), "response_format")?;
        parameters.set_stop(body.stop.as_ref())?;
        parameters.set_max_tokens(body.max_tokens, "max_tokens")?;
        if body.max_completion_tokens.is_some() {
            parameters.set_max_tokens(body.max_completion_tokens, "max_completion_tokens")?;
        }
        Ok(Self {
            conversation: conversation(&body.messages)?,
            model: body.model,
            parameters,
            is_stream: body.stream.unwrap_or_default(),
            has_usage: body.stream_options.unwrap_or_default().include_usage,
        })
    }
}
