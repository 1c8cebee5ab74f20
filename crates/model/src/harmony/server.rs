//! Where servers of completions differ, as data: fields of the request, shapes of the answer.

use openchatml::ControlToken;
use openchatml::harmony::control_id;
use reqwest::Url;
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::{Category, FinishReason, ProviderError, Request, Usage};

/// What a server understands beyond the format that all share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HarmonyServer {
    /// Nobody knows: `/completions` with the fields of every server, which ignores others' ones.
    #[default]
    Any,
    /// vLLM, and servers that follow it: `/completions`, with token ids both ways.
    Vllm,
    /// llama.cpp: its own `/completion` beside `/v1`, which gives token ids without `--special`.
    LlamaCpp,
    /// A server that refuses fields that it does not know: only those of the original format.
    Plain,
}

/// Fields that make vLLM stop where a model of this format stops, and give what it emitted whole.
const VLLM: &[&str] = &[
    "include_stop_str_in_output",
    "return_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_token_ids",
];

/// Tokens of an answer where neither the settings nor the server's format say how many: the
/// original format would stop after 16.
const PLAIN_TOKENS: u64 = 4096;

impl HarmonyServer {
    /// The address of the completions below a base URL.
    pub(super) fn endpoint(self, base_url: &str) -> Result<Url, ProviderError> {
        let wrong = |why: String| {
            let message = format!("the base URL `{base_url}` {why}");
            ProviderError::new(Category::InvalidRequest, message).with_help(
                "write it whole, such as http://localhost:8000/v1 (--base-url, OPENAI_BASE_URL or \
                 logue.toml)",
            )
        };
        let mut url =
            Url::parse(base_url).map_err(|error| wrong(format!("is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("does not begin with http:// or https://".to_owned()));
        }
        let versioned = url.path().trim_end_matches('/').ends_with("/v1");
        let mut path = url
            .path_segments_mut()
            .map_err(|()| wrong("has no path that could be extended".to_owned()))?;
        path.pop_if_empty();
        if self == Self::LlamaCpp {
            if versioned {
                path.pop();
            }
            path.push("completion");
        } else {
            path.push("completions");
        }
        drop(path);
        Ok(url)
    }

    /// The body of a streaming request.
    pub(super) fn body(self, request: &Request<'_>, prompt: Value) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(request.model));
        set("prompt", prompt);
        set("stream", json!(true));
        let settings = request.settings;
        if let Some(temperature) = settings.temperature {
            set("temperature", json!(temperature));
        }
        for (name, value) in settings.further() {
            set(name, value);
        }
        let most = settings.max_tokens;
        match self {
            Self::LlamaCpp => {
                set("n_predict", most.map_or(json!(-1), |most| json!(most)));
                set("return_tokens", json!(true));
                set("cache_prompt", json!(true));
                return Value::Object(body);
            }
            Self::Plain => {
                set("max_tokens", json!(most.unwrap_or(PLAIN_TOKENS)));
                let own = [ControlToken::Return.as_str(), ControlToken::Call.as_str()];
                let named = settings.stop.iter().map(String::as_str);
                set("stop", named.chain(own).collect());
                return Value::Object(body);
            }
            // Without a number these servers stop after 16 tokens, with `null` where the context
            // ends.
            Self::Any | Self::Vllm => set("max_tokens", json!(most)),
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
        if self == Self::Any {
            set("return_tokens", json!(true));
        }
        Value::Object(body)
    }
}

/// Whether a server refuses a prompt because it is made of ids.
pub(super) fn refuses_ids(error: &ProviderError) -> bool {
    let said = error.message.to_ascii_lowercase();
    let of_type = ["string", "type str", "unmarshal", "must be text"];
    error.category == Category::InvalidRequest
        && said.contains("prompt")
        && of_type.iter().any(|word| said.contains(word))
}

/// One piece of an answer, whichever server it is from.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) ids: Vec<u32>,
    pub(super) text: String,
    pub(super) finish: Option<FinishReason>,
    /// The control token that the server says it stopped at.
    pub(super) stopped_at: Option<ControlToken>,
    pub(super) usage: Option<Usage>,
}

impl Piece {
    /// Reads a chunk of a stream, or a whole answer.
    pub(super) fn read(chunk: &Value) -> Result<Self, ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let opening = "the server reported an error inside the stream";
            return Err(Refusal::of_event(error).into_error(opening));
        }
        if let Some(choices) = chunk.get("choices").and_then(Value::as_array) {
            return Self::of_choice(chunk, choices.first());
        }
        if chunk.get("content").is_some() {
            return Self::of_llama(chunk);
        }
        if chunk.get("usage").is_some() || chunk.get("object").is_some() {
            return Ok(Self {
                usage: usage(chunk),
                ..Self::default()
            });
        }
        Err(ProviderError::new(
            Category::InvalidResponse,
            "the server sent JSON that is no completion (it has no `choices`)",
        )
        .with_help("check that the base URL is one of a server with /v1/completions"))
    }

    fn of_choice(chunk: &Value, choice: Option<&Value>) -> Result<Self, ProviderError> {
        let get = |key: &str| choice.and_then(|choice| choice.get(key));
        let word = |key: &str| get(key).and_then(Value::as_str);
        if choice.is_some() && get("text").is_none() && get("token_ids").is_none() {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                "the server sent a choice without `text`: it is no completion of a prompt",
            )
            .with_help("check that the base URL is one of a server with /v1/completions"));
        }
        let finish = match word("finish_reason") {
            None => None,
            Some("length") => Some(FinishReason::Length),
            Some("content_filter") => Some(FinishReason::ContentFilter),
            Some(word @ ("abort" | "error")) => {
                return Err(crate::http::broken_off(&format!(
                    "the server says that it ended by `{word}`"
                )));
            }
            Some(_) => Some(FinishReason::Stop),
        };
        let ids = get("token_ids").or_else(|| get("tokens"));
        Ok(Self {
            ids: token_ids(ids)?,
            text: word("text").unwrap_or_default().to_owned(),
            finish,
            stopped_at: get("stop_reason").and_then(stop_token),
            usage: usage(chunk),
        })
    }

    /// llama.cpp's own shape.
    fn of_llama(chunk: &Value) -> Result<Self, ProviderError> {
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
        Ok(Self {
            ids: token_ids(chunk.get("tokens"))?,
            text: word("content").unwrap_or_default().to_owned(),
            finish: stopped.then(|| match word("stop_type") {
                Some("limit") => FinishReason::Length,
                _ => FinishReason::Stop,
            }),
            stopped_at: chunk.get("stopping_word").and_then(stop_token),
            usage: count("tokens_predicted").filter(|_| stopped).map(usage),
        })
    }
}

/// A payload as JSON.
pub(super) fn parse(payload: &[u8]) -> Result<Value, ProviderError> {
    serde_json::from_slice(payload).map_err(|error| {
        let shown: String = String::from_utf8_lossy(payload).chars().take(120).collect();
        let message = format!("the server sent something that is not JSON ({error}): {shown:?}");
        ProviderError::new(Category::InvalidResponse, message)
            .with_help("check that the base URL is one of a server with /v1/completions")
    })
}

fn token_ids(ids: Option<&Value>) -> Result<Vec<u32>, ProviderError> {
    let ids = ids.and_then(Value::as_array).map(Vec::as_slice);
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = ids.unwrap_or_default().iter().map(id).collect();
    ids.ok_or_else(|| {
        ProviderError::new(
            Category::InvalidResponse,
            "the server sent a token id that is no number of one",
        )
        .with_help("check that the base URL is one of a server with /v1/completions")
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
