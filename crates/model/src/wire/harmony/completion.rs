//! Differences between completion servers: request fields and response shapes.

use openchatml::ControlToken;
use openchatml::harmony::control_id;
use serde_json::{Map, Value, json};

use super::logprobs::{logprobs, requested};
use crate::http::ServerError;
use crate::stream::interrupted;
use crate::{Category, FinishReason, ModelRequest, ProviderError, TokenLogprob, Usage};

/// A kind of completion server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HarmonyServer {
    /// An unknown server: `/completions` with the fields of all known servers.
    ///
    /// Such servers ignore unknown fields.
    #[default]
    Any,
    /// vLLM and compatible servers: `/completions` with token ids in both directions.
    Vllm,
    /// llama.cpp: its native `/completion` next to `/v1`.
    ///
    /// The endpoint returns token ids without `--special`.
    LlamaCpp,
    /// A server that rejects unknown fields; only the fields of the original format are sent.
    Plain,
}

/// The fields that make vLLM stop at Harmony tokens and return the complete output.
const VLLM: &[&str] = &[
    "include_stop_str_in_output",
    "return_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_token_ids",
];

/// The default token limit; the default of the original format is 16.
const PLAIN_MAX_TOKENS: u64 = 4096;

impl HarmonyServer {
    /// Returns the body of a streaming request.
    pub(super) fn body(self, request: &ModelRequest<'_>, prompt: Value) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(request.model));
        set("prompt", prompt);
        set("stream", json!(true));
        let settings = request.settings;
        if let Some(temperature) = settings.temperature {
            set("temperature", json!(temperature));
        }
        for (name, value) in settings.secondary() {
            set(name, value);
        }
        let max_tokens = settings.max_tokens;
        if let Some(count) = requested(request).filter(|_| self != Self::LlamaCpp) {
            set("logprobs", json!(count));
        }
        match self {
            Self::LlamaCpp => {
                set("n_predict", max_tokens.map_or(json!(-1), |max| json!(max)));
                set("return_tokens", json!(true));
                set("cache_prompt", json!(true));
                if let Some(count) = requested(request) {
                    set("n_probs", json!(count));
                }
                return Value::Object(body);
            }
            Self::Plain => {
                set("max_tokens", json!(max_tokens.unwrap_or(PLAIN_MAX_TOKENS)));
                let harmony = [ControlToken::Return.as_str(), ControlToken::Call.as_str()];
                let configured = settings.stop.iter().map(String::as_str);
                set("stop", configured.chain(harmony).collect());
                return Value::Object(body);
            }
            // Without the field these servers stop after 16 tokens; `null` is the context length.
            Self::Any | Self::Vllm => set("max_tokens", json!(max_tokens)),
        };
        set("stream_options", json!({"include_usage": true}));
        for name in VLLM {
            let value = match *name {
                "stop_token_ids" => json!([
                    control_id(ControlToken::Return),
                    control_id(ControlToken::Call)
                ]),
                "skip_special_tokens" | "spaces_between_special_tokens" => json!(false),
                _ => json!(true),
            };
            set(name, value);
        }
        if request.logprobs.is_some() {
            set("return_tokens_as_token_ids", json!(true));
        }
        if self == Self::Any {
            set("return_tokens", json!(true));
        }
        Value::Object(body)
    }
}

/// Returns whether a server rejected a prompt because it consists of ids.
pub(super) fn rejects_ids(error: &ProviderError) -> bool {
    let text = error.message.to_ascii_lowercase();
    let type_errors = ["string", "type str", "unmarshal", "must be text"];
    error.category == Category::InvalidRequest
        && text.contains("prompt")
        && type_errors.iter().any(|word| text.contains(word))
}

/// One piece of a completion, from any kind of server.
#[derive(Debug, Default)]
pub(super) struct CompletionPiece {
    pub(super) ids: Vec<u32>,
    pub(super) text: String,
    pub(super) finish: Option<FinishReason>,
    /// The control token at which the server reports to have stopped.
    pub(super) stopped_at: Option<ControlToken>,
    /// The text at which the server reports to have stopped.
    pub(super) stopped_by: Option<String>,
    pub(super) usage: Option<Usage>,
    /// The log probabilities of all tokens of the piece, or none.
    pub(super) logprobs: Vec<TokenLogprob>,
}

impl CompletionPiece {
    /// Reads a chunk of a stream or a complete response.
    pub(super) fn read(chunk: &Value) -> Result<Self, ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let opening = "the server reported an error inside the stream";
            return Err(ServerError::from_event(error).into_error(opening));
        }
        if let Some(choices) = chunk.get("choices").and_then(Value::as_array) {
            return Self::from_choice(chunk, choices.first());
        }
        if chunk.get("content").is_some() {
            return Self::from_llama_cpp(chunk);
        }
        if chunk.get("usage").is_some() || chunk.get("object").is_some() {
            return Ok(Self {
                usage: usage(chunk),
                ..Self::default()
            });
        }
        Err(ProviderError::new(
            Category::InvalidResponse,
            "the server sent JSON without `choices`, which is not a completion",
        )
        .with_help("check that the base URL belongs to a server with `/v1/completions`"))
    }

    fn from_choice(chunk: &Value, choice: Option<&Value>) -> Result<Self, ProviderError> {
        let get = |key: &str| choice.and_then(|choice| choice.get(key));
        let word = |key: &str| get(key).and_then(Value::as_str);
        if choice.is_some() && get("text").is_none() && get("token_ids").is_none() {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                "the server sent a choice without `text`, which is not a completion",
            )
            .with_help("check that the base URL belongs to a server with `/v1/completions`"));
        }
        let finish = match word("finish_reason") {
            None => None,
            Some("length") => Some(FinishReason::Length),
            Some("content_filter") => Some(FinishReason::ContentFilter),
            Some(word @ ("abort" | "error")) => {
                return Err(interrupted(&format!("the server ended it with `{word}`")));
            }
            Some(_) => Some(FinishReason::Stop),
        };
        let ids = token_ids(get("token_ids").or_else(|| get("tokens")))?;
        Ok(Self {
            logprobs: logprobs(chunk, choice, &ids),
            ids,
            text: word("text").unwrap_or_default().to_owned(),
            finish,
            stopped_at: get("stop_reason").and_then(stop_token),
            stopped_by: word("stop_reason").map(str::to_owned),
            usage: usage(chunk),
        })
    }

    /// Reads the native shape of llama.cpp.
    fn from_llama_cpp(chunk: &Value) -> Result<Self, ProviderError> {
        let word = |key: &str| chunk.get(key).and_then(Value::as_str);
        let stopped = chunk.get("stop").and_then(Value::as_bool) == Some(true);
        let count = |key: &str| chunk.get(key).and_then(Value::as_u64);
        let usage = |output_tokens| Usage {
            input_tokens: count("tokens_evaluated").unwrap_or(0),
            output_tokens,
            cached_tokens: chunk
                .pointer("/timings/cache_n")
                .and_then(Value::as_u64)
                .unwrap_or(0),
            reasoning_tokens: 0,
        };
        let ids = token_ids(chunk.get("tokens"))?;
        Ok(Self {
            logprobs: logprobs(chunk, None, &ids),
            ids,
            text: word("content").unwrap_or_default().to_owned(),
            finish: stopped.then(|| match word("stop_type") {
                Some("limit") => FinishReason::Length,
                _ => FinishReason::Stop,
            }),
            stopped_at: chunk.get("stopping_word").and_then(stop_token),
            stopped_by: word("stopping_word").map(str::to_owned),
            usage: count("tokens_predicted").filter(|_| stopped).map(usage),
        })
    }
}

fn token_ids(ids: Option<&Value>) -> Result<Vec<u32>, ProviderError> {
    let ids = ids.and_then(Value::as_array).map(Vec::as_slice);
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = ids.unwrap_or_default().iter().map(id).collect();
    ids.ok_or_else(|| {
        ProviderError::new(
            Category::InvalidResponse,
            "the server sent an invalid token id",
        )
        .with_help("check that the base URL belongs to a server with `/v1/completions`")
    })
}

fn stop_token(reason: &Value) -> Option<ControlToken> {
    [ControlToken::Return, ControlToken::Call]
        .into_iter()
        .find(|token| {
            reason.as_u64() == control_id(*token).map(u64::from)
                || reason.as_str() == Some(token.as_str())
        })
}

fn usage(chunk: &Value) -> Option<Usage> {
    let usage = chunk.get("usage")?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = usage.pointer("/prompt_tokens_details/cached_tokens");
    Some(Usage {
        input_tokens: input.unwrap_or(0),
        output_tokens: output.unwrap_or(0),
        cached_tokens: cached.and_then(Value::as_u64).unwrap_or(0),
        reasoning_tokens: 0,
    })
}
