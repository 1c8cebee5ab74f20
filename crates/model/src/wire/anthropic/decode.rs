//! Decoding of an Anthropic Messages response.
//!
//! A response is a list of blocks. In a stream each block starts, grows by deltas and stops; the stop
//! reason and the final token counts follow.

use std::collections::BTreeMap;

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::stream::{Decoder, PartialResponse, PartialToolCall, stream_error};
use crate::{
    Category, EventHandler, FinishReason, ModelEvent, ModelResponse, ProviderError, Usage,
};

/// The decoder of one response.
#[derive(Debug, Default)]
pub(crate) struct AnthropicDecoder {
    /// The tool whose input is the response, if the request offered one.
    answer_tool: Option<String>,
    parts: Vec<Part>,
    /// The position in `parts` for each block index.
    positions: BTreeMap<u64, usize>,
    calls: usize,
    counts: Counts,
    finish_reason: Option<FinishReason>,
    has_ended: bool,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        /// The index of the call within the response.
        number: usize,
        id: String,
        name: String,
        arguments: String,
    },
    /// The response, as the input of the answer tool.
    Answer(String),
    /// A block without a message form, such as a search that the server ran.
    Other,
}

/// The token counts of the format, whose input excludes cached tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    is_known: bool,
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl Decoder for AnthropicDecoder {
    fn decode(
        &mut self,
        event: &Value,
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        match word(event, "type") {
            "message_start" => {
                if let Some(usage) = event.pointer("/message/usage") {
                    self.counts.add(usage);
                }
            }
            "content_block_start" => {
                if let Some(block) = event.get("content_block") {
                    self.start(index_of(event), block, events);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.get("delta") {
                    self.delta(index_of(event), delta, events);
                }
            }
            "message_delta" => {
                if let Some(usage) = event.get("usage") {
                    self.counts.add(usage);
                }
                self.set_stop_reason(event.pointer("/delta/stop_reason"));
            }
            "message_stop" => {
                self.has_ended = true;
                self.finish_reason.get_or_insert(FinishReason::Stop);
            }
            "content_block_stop" | "ping" => {}
            "error" => return Err(stream_error(event)),
            "message" => {
                let blocks = event.get("content").and_then(Value::as_array);
                for (index, block) in blocks.into_iter().flatten().enumerate() {
                    self.start(index as u64, block, events);
                }
                if let Some(usage) = event.get("usage") {
                    self.counts.add(usage);
                }
                self.set_stop_reason(event.get("stop_reason"));
                self.has_ended = true;
                self.finish_reason.get_or_insert(FinishReason::Stop);
            }
            _ if event.get("error").is_some() => {
                return Err(stream_error(event));
            }
            // The format permits unknown events.
            kind if !kind.is_empty() => {}
            _ => {
                return Err(ProviderError::new(
                    Category::InvalidResponse,
                    "the server sent JSON without `type`, which is not a message",
                )
                .with_help("check that the base URL belongs to a server with `/v1/messages`"));
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn finish(self: Box<Self>, _: &mut EventHandler<'_>) -> Result<ModelResponse, ProviderError> {
        let mut partial = PartialResponse {
            finish_reason: self.finish_reason,
            usage: self.counts.usage(),
            ..PartialResponse::default()
        };
        for part in self.parts {
            match part {
                Part::Text(text) | Part::Answer(text) if !text.is_empty() => {
                    partial.blocks.push(ContentBlock::text(text));
                }
                Part::Thinking { text, signature } if !text.is_empty() || !signature.is_empty() => {
                    partial.blocks.push(ContentBlock::Thinking {
                        text,
                        signature: (!signature.is_empty()).then_some(signature),
                        id: None,
                    });
                }
                Part::Redacted(data) => {
                    partial.blocks.push(ContentBlock::RedactedThinking { data });
                }
                Part::Call {
                    id,
                    name,
                    arguments,
                    ..
                } => partial.calls.push(PartialToolCall {
                    id,
                    name,
                    arguments: if arguments.is_empty() {
                        "{}".to_owned()
                    } else {
                        arguments
                    },
                    kind: CallKind::Function,
                }),
                Part::Text(_) | Part::Answer(_) | Part::Thinking { .. } | Part::Other => {}
            }
        }
        if partial.calls.is_empty() && partial.finish_reason == Some(FinishReason::ToolCalls) {
            // The only called tool is the answer tool.
            partial.finish_reason = Some(FinishReason::Stop);
        }
        partial.into_response()
    }
}

impl AnthropicDecoder {
    /// Creates a decoder for a response that may be the input of a tool.
    pub(crate) fn with_answer_tool(answer_tool: Option<String>) -> Self {
        Self {
            answer_tool,
            ..Self::default()
        }
    }

    /// Decodes the start of a block or a complete block.
    fn start(&mut self, index: u64, block: &Value, events: &mut EventHandler<'_>) {
        let text_of = |key: &str| word(block, key).to_owned();
        let part = match word(block, "type") {
            "text" => {
                let text = text_of("text");
                if !text.is_empty() {
                    events(ModelEvent::Text(text.clone()));
                }
                Part::Text(text)
            }
            "thinking" => {
                let text = text_of("thinking");
                if !text.is_empty() {
                    events(ModelEvent::Reasoning(text.clone()));
                }
                Part::Thinking {
                    text,
                    signature: text_of("signature"),
                }
            }
            "redacted_thinking" => Part::Redacted(text_of("data")),
            "tool_use" => {
                let input = match block.get("input") {
                    Some(Value::Object(input)) if !input.is_empty() => {
                        Value::Object(input.clone()).to_string()
                    }
                    _ => String::new(),
                };
                let name = text_of("name");
                if self.answer_tool.as_ref() == Some(&name) {
                    if !input.is_empty() {
                        events(ModelEvent::Text(input.clone()));
                    }
                    Part::Answer(input)
                } else {
                    let number = self.calls;
                    self.calls += 1;
                    events(ModelEvent::ToolCall {
                        index: number,
                        name: name.clone(),
                    });
                    if !input.is_empty() {
                        events(ModelEvent::Arguments {
                            index: number,
                            text: input.clone(),
                        });
                    }
                    Part::Call {
                        number,
                        id: text_of("id"),
                        name,
                        arguments: input,
                    }
                }
            }
            _ => Part::Other,
        };
        self.positions.insert(index, self.parts.len());
        self.parts.push(part);
    }

    fn delta(&mut self, index: u64, delta: &Value, events: &mut EventHandler<'_>) {
        let Some(part) = self
            .positions
            .get(&index)
            .and_then(|at| self.parts.get_mut(*at))
        else {
            return;
        };
        let (known, piece) = match (part, word(delta, "type")) {
            (Part::Text(text), "text_delta") => (text, word(delta, "text")),
            (Part::Thinking { text, .. }, "thinking_delta") => (text, word(delta, "thinking")),
            (Part::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(word(delta, "signature"));
                return;
            }
            (Part::Call { arguments, .. }, "input_json_delta") => {
                (arguments, word(delta, "partial_json"))
            }
            (Part::Answer(text), "input_json_delta") => (text, word(delta, "partial_json")),
            _ => return,
        };
        if piece.is_empty() {
            return;
        }
        known.push_str(piece);
        let text = piece.to_owned();
        let at = self.positions.get(&index);
        match at.and_then(|at| self.parts.get(*at)) {
            Some(Part::Thinking { .. }) => events(ModelEvent::Reasoning(text)),
            Some(Part::Call { number, .. }) => events(ModelEvent::Arguments {
                index: *number,
                text,
            }),
            _ => events(ModelEvent::Text(text)),
        }
    }

    fn set_stop_reason(&mut self, reason: Option<&Value>) {
        let Some(reason) = reason.and_then(Value::as_str) else {
            return;
        };
        self.finish_reason = Some(match reason {
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::ContentFilter,
            _ => FinishReason::Stop,
        });
    }
}

impl Counts {
    /// Merges counts; later counts replace earlier ones.
    fn add(&mut self, usage: &Value) {
        let mut set = |field: &mut u64, path: &str| {
            if let Some(count) = usage.pointer(path).and_then(Value::as_u64) {
                *field = count;
                self.is_known = true;
            }
        };
        set(&mut self.input, "/input_tokens");
        set(&mut self.cache_read, "/cache_read_input_tokens");
        set(&mut self.cache_write, "/cache_creation_input_tokens");
        set(&mut self.output, "/output_tokens");
        set(&mut self.thinking, "/output_tokens_details/thinking_tokens");
    }

    fn usage(self) -> Option<Usage> {
        self.is_known.then(|| Usage {
            input_tokens: self
                .input
                .saturating_add(self.cache_read)
                .saturating_add(self.cache_write),
            output_tokens: self.output,
            cached_tokens: self.cache_read,
            reasoning_tokens: self.thinking,
        })
    }
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn index_of(event: &Value) -> u64 {
    event.get("index").and_then(Value::as_u64).unwrap_or(0)
}
