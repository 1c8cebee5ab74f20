//! One answer, put together from the pieces in which it arrives.
//!
//! Servers differ in how they cut an answer: tool calls may carry an index or not, repeat their id
//! and name or not, and come with ids that are empty or used twice. The assembler takes all of
//! that and gives calls with unique ids in the order in which they began.

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::answer::Decoder;
use crate::draft::{Draft, DraftCall, stream_error};
use crate::{Category, Event, EventSink, FinishReason, ProviderError, Response, Usage};

/// Collects the chunks of one streamed answer.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    finish_reason: Option<FinishReason>,
    usage: Option<Usage>,
    /// Whether the model says that it refuses.
    refused: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    custom: bool,
    announced: bool,
}

impl Decoder for Assembler {
    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// A chunk is a streamed one (`delta`) or a whole answer (`message`).
    fn take(&mut self, chunk: &Value, events: &mut EventSink<'_>) -> Result<(), ProviderError> {
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
                "the server sent JSON that is no chat completion (it has no `choices`)",
            )
            .with_help("check that the base URL is one of a Chat Completions server"));
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

    fn finish(self: Box<Self>, events: &mut EventSink<'_>) -> Result<Response, ProviderError> {
        let finish_reason = match self.finish_reason {
            Some(FinishReason::Stop) if self.refused => Some(FinishReason::ContentFilter),
            reason => reason,
        };
        let mut draft = Draft {
            finish_reason,
            usage: self.usage,
            ..Draft::default()
        };
        if !self.reasoning.is_empty() {
            draft.blocks.push(ContentBlock::thinking(self.reasoning));
        }
        if !self.text.is_empty() {
            draft.blocks.push(ContentBlock::text(self.text));
        }
        for (index, call) in self.calls.into_iter().enumerate() {
            if !call.announced && !call.name.is_empty() {
                events(Event::ToolCall {
                    index,
                    name: call.name.clone(),
                });
            }
            draft.calls.push(DraftCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                kind: if call.custom {
                    CallKind::Custom
                } else {
                    CallKind::Function
                },
            });
        }
        draft.into_response()
    }
}

impl Assembler {
    fn delta(&mut self, delta: &Value, events: &mut EventSink<'_>) {
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
            events(Event::Reasoning(piece.to_owned()));
        }
        for field in ["content", "refusal"] {
            let piece = delta.get(field).and_then(Value::as_str);
            if let Some(piece) = piece.filter(|text| !text.is_empty()) {
                self.refused |= field == "refusal";
                self.text.push_str(piece);
                events(Event::Text(piece.to_owned()));
            }
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            self.call_delta(call, events);
        }
    }

    fn call_delta(&mut self, call: &Value, events: &mut EventSink<'_>) {
        let index = call.get("index").and_then(Value::as_u64);
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
        let custom = call.get("custom").filter(|custom| !custom.is_null());
        let (body, text) = match custom {
            Some(body) => (Some(body), "input"),
            None => (call.get("function"), "arguments"),
        };
        let name = body
            .and_then(|body| body.get("name"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at = self.find_call(index, id, !name.is_empty());
        let Some(partial) = self.calls.get_mut(at) else {
            return;
        };
        partial.custom |= custom.is_some();
        merge_word(&mut partial.id, id);
        merge_word(&mut partial.name, name);
        let piece = match body.and_then(|body| body.get(text)) {
            Some(Value::String(piece)) => piece.clone(),
            // Some servers send the arguments as an object instead of its text.
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => String::new(),
        };
        // The name may itself arrive in pieces; with the first argument bytes it is complete.
        if !partial.announced && !piece.is_empty() && !partial.name.is_empty() {
            partial.announced = true;
            events(Event::ToolCall {
                index: at,
                name: partial.name.clone(),
            });
        }
        if !piece.is_empty() {
            partial.arguments.push_str(&piece);
            events(Event::Arguments {
                index: at,
                text: piece,
            });
        }
    }

    /// The call that a piece belongs to: by index, else by id, else the last one. Some servers give
    /// every call the index 0; then a name under another id begins another call.
    fn find_call(&mut self, index: Option<u64>, id: &str, named: bool) -> usize {
        let begins_another = |call: &PartialCall| {
            named && !call.name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
        };
        let found = if index.is_some() {
            let at = self.calls.iter().rposition(|call| call.index == index);
            at.filter(|at| !begins_another(&self.calls[*at]))
        } else if id.is_empty() {
            self.calls.len().checked_sub(1)
        } else {
            self.calls.iter().position(|call| call.id == id)
        };
        found.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index,
                ..PartialCall::default()
            });
            self.calls.len() - 1
        })
    }
}

/// Adds a piece of a word that some servers send whole each time and others in parts. A single
/// character is always a part.
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
    // DeepSeek counts what it had kept under a name of its own.
    let cached_tokens =
        count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    Some(Usage {
        input_tokens: input_tokens.unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        cached_tokens: cached_tokens.unwrap_or(0),
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}
