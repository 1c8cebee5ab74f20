//! Decoding of a Chat Completions response.
//!
//! Servers split tool calls differently: a piece may lack its index, repeat its id and name, or carry
//! an empty or duplicate id. The decoder accepts all of these and returns the calls in the order in
//! which they began.

use std::collections::BTreeMap;

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::stream::{Decoder, PartialResponse, PartialToolCall, stream_error};
use crate::{
    Category, EventHandler, FinishReason, ModelEvent, ModelResponse, ProviderError, Usage,
};

/// The decoder of one response.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    /// The latest position in `calls` for each index.
    by_index: BTreeMap<u64, usize>,
    /// The first position in `calls` for each id.
    by_id: BTreeMap<String, usize>,
    finish_reason: Option<FinishReason>,
    usage: Option<Usage>,
    /// Whether the model refused.
    is_refusal: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    is_custom: bool,
    is_announced: bool,
}

impl Decoder for ChatDecoder {
    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Decodes a chunk of a stream (`delta`) or a complete response (`message`).
    fn decode(
        &mut self,
        chunk: &Value,
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(stream_error(error));
        }
        if let Some(usage) = chunk.get("usage").and_then(usage_of) {
            self.usage = Some(usage);
        }
        let Some(choices) = chunk.get("choices").and_then(Value::as_array) else {
            if chunk.get("usage").is_some() || chunk.get("object").is_some() {
                return Ok(());
            }
            return Err(ProviderError::new(
                Category::InvalidResponse,
                "the server sent JSON without `choices`, which is not a chat completion",
            )
            .with_help("check that the base URL belongs to a Chat Completions server"));
        };
        let Some(choice) = choices.first() else {
            return Ok(());
        };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.delta(delta, events);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(match reason {
                "length" => FinishReason::Length,
                "content_filter" => FinishReason::ContentFilter,
                "tool_calls" | "function_call" => FinishReason::ToolCalls,
                _ => FinishReason::Stop,
            });
        }
        Ok(())
    }

    fn finish(
        self: Box<Self>,
        events: &mut EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let finish_reason = match self.finish_reason {
            Some(FinishReason::Stop) if self.is_refusal => Some(FinishReason::ContentFilter),
            reason => reason,
        };
        let mut partial = PartialResponse {
            finish_reason,
            usage: self.usage,
            ..PartialResponse::default()
        };
        if !self.reasoning.is_empty() {
            partial.blocks.push(ContentBlock::thinking(self.reasoning));
        }
        if !self.text.is_empty() {
            partial.blocks.push(ContentBlock::text(self.text));
        }
        for (index, call) in self.calls.into_iter().enumerate() {
            if !call.is_announced && !call.name.is_empty() {
                events(ModelEvent::ToolCall {
                    index,
                    name: call.name.clone(),
                });
            }
            partial.calls.push(PartialToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                kind: if call.is_custom {
                    CallKind::Custom
                } else {
                    CallKind::Function
                },
            });
        }
        partial.into_response()
    }
}

impl ChatDecoder {
    fn delta(&mut self, delta: &Value, events: &mut EventHandler<'_>) {
        let reasoning = ["reasoning_content", "reasoning"]
            .into_iter()
            .find_map(|field| {
                delta
                    .get(field)
                    .and_then(Value::as_str)
                    .filter(|text| !text.is_empty())
            });
        if let Some(piece) = reasoning {
            self.reasoning.push_str(piece);
            events(ModelEvent::Reasoning(piece.to_owned()));
        }
        for field in ["content", "refusal"] {
            let piece = delta.get(field).and_then(Value::as_str);
            if let Some(piece) = piece.filter(|text| !text.is_empty()) {
                self.is_refusal |= field == "refusal";
                self.text.push_str(piece);
                events(ModelEvent::Text(piece.to_owned()));
            }
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            self.call_delta(call, events);
        }
    }

    fn call_delta(&mut self, delta: &Value, events: &mut EventHandler<'_>) {
        let index = delta.get("index").and_then(Value::as_u64);
        let id = delta.get("id").and_then(Value::as_str).unwrap_or_default();
        let custom = delta.get("custom").filter(|custom| !custom.is_null());
        let (body, text) = match custom {
            Some(body) => (Some(body), "input"),
            None => (delta.get("function"), "arguments"),
        };
        let name = body
            .and_then(|body| body.get("name"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at = self.find_call(index, id, !name.is_empty());
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        call.is_custom |= custom.is_some();
        merge_word(&mut call.id, id);
        if !id.is_empty() && !self.by_id.contains_key(&call.id) {
            self.by_id.insert(call.id.clone(), at);
        }
        merge_word(&mut call.name, name);
        let piece = match body.and_then(|body| body.get(text)) {
            Some(Value::String(piece)) => piece.clone(),
            // Some servers send the arguments as an object instead of a string.
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => String::new(),
        };
        // The name may arrive in pieces; it is complete when the first arguments arrive.
        if !call.is_announced && !piece.is_empty() && !call.name.is_empty() {
            call.is_announced = true;
            events(ModelEvent::ToolCall {
                index: at,
                name: call.name.clone(),
            });
        }
        if !piece.is_empty() {
            call.arguments.push_str(&piece);
            events(ModelEvent::Arguments {
                index: at,
                text: piece,
            });
        }
    }

    /// Returns the position of the call that a piece belongs to.
    ///
    /// The index decides, then the id, then the last call. Some servers send index 0 for every call;
    /// then a name with another id begins another call.
    fn find_call(&mut self, index: Option<u64>, id: &str, is_named: bool) -> usize {
        let begins_another = |call: &PartialCall| {
            is_named
                && !call.name.is_empty()
                && !id.is_empty()
                && !call.id.is_empty()
                && call.id != id
        };
        // Each piece looks at one call, so a response with many calls takes linear time.
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.by_id.get(id).copied(),
        };
        let fits = |at: &usize| {
            self.calls.get(*at).is_some_and(|call| match index {
                Some(_) => !begins_another(call),
                // The id of a call may have grown since.
                None => id.is_empty() || call.id == id,
            })
        };
        known.filter(fits).unwrap_or_else(|| {
            let at = self.calls.len();
            if let Some(index) = index {
                self.by_index.insert(index, at);
            }
            self.calls.push(PartialCall::default());
            at
        })
    }
}

/// Appends a piece of a word unless it repeats the complete word.
///
/// Some servers send the word in parts, others repeat it. A single character is always a part.
fn merge_word(word: &mut String, piece: &str) {
    if word != piece || piece.len() == 1 {
        word.push_str(piece);
    }
}

fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let input_tokens = count("/prompt_tokens");
    let output_tokens = count("/completion_tokens");
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    // DeepSeek has its own field for cached tokens.
    let cached_tokens =
        count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    Some(Usage {
        input_tokens: input_tokens.unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        cached_tokens: cached_tokens.unwrap_or(0),
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}
