//! An answer in the format of Anthropic Messages.
//!
//! An answer is a list of blocks. In a stream each one starts, grows by deltas and stops; the reason
//! why the model stopped and the last count of tokens come behind them.

use std::collections::BTreeMap;

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::answer::Decoder;
use crate::draft::{Draft, DraftCall, stream_error};
use crate::{Category, Event, EventSink, FinishReason, ProviderError, Response, Usage};

/// Collects the blocks of one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    /// The tool whose input is the answer, where one was offered for that.
    answer_tool: Option<String>,
    parts: Vec<Part>,
    /// Where the block of an index is: events name it by that.
    places: BTreeMap<u64, usize>,
    calls: usize,
    counts: Counts,
    finish_reason: Option<FinishReason>,
    ended: bool,
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
        /// Which call of the answer it is.
        number: usize,
        id: String,
        name: String,
        arguments: String,
    },
    /// The answer, as the input of the tool for it.
    Answer(String),
    /// Something that no message can hold, such as a search that the server made by itself.
    Other,
}

/// Tokens as the format counts them: what was kept from earlier is no part of the input there.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    known: bool,
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl Decoder for Decoding {
    fn take(&mut self, event: &Value, events: &mut EventSink<'_>) -> Result<(), ProviderError> {
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
                self.stopped(event.pointer("/delta/stop_reason"));
            }
            "message_stop" => {
                self.ended = true;
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
                self.stopped(event.get("stop_reason"));
                self.ended = true;
                self.finish_reason.get_or_insert(FinishReason::Stop);
            }
            _ if event.get("error").is_some() => {
                return Err(stream_error(event));
            }
            // The format announces that further events may come.
            kind if !kind.is_empty() => {}
            _ => {
                return Err(ProviderError::new(
                    Category::InvalidResponse,
                    "the server sent JSON that is no message (it has no `type`)",
                )
                .with_help("check that the base URL is one of a server with `/v1/messages`"));
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn has_ended(&self) -> bool {
        self.ended
    }

    fn finish(self: Box<Self>, _: &mut EventSink<'_>) -> Result<Response, ProviderError> {
        let mut draft = Draft {
            finish_reason: self.finish_reason,
            usage: self.counts.usage(),
            ..Draft::default()
        };
        for part in self.parts {
            match part {
                Part::Text(text) | Part::Answer(text) if !text.is_empty() => {
                    draft.blocks.push(ContentBlock::text(text));
                }
                Part::Thinking { text, signature } if !text.is_empty() || !signature.is_empty() => {
                    draft.blocks.push(ContentBlock::Thinking {
                        text,
                        signature: (!signature.is_empty()).then_some(signature),
                        id: None,
                    });
                }
                Part::Redacted(data) => draft.blocks.push(ContentBlock::RedactedThinking { data }),
                Part::Call {
                    id,
                    name,
                    arguments,
                    ..
                } => draft.calls.push(DraftCall {
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
        if draft.calls.is_empty() && draft.finish_reason == Some(FinishReason::ToolCalls) {
            // The only tool that was called is the answer.
            draft.finish_reason = Some(FinishReason::Stop);
        }
        draft.into_response()
    }
}

impl Decoding {
    /// For an answer that may come as the input of this tool.
    pub(crate) fn with_answer_tool(answer_tool: Option<String>) -> Self {
        Self {
            answer_tool,
            ..Self::default()
        }
    }

    /// A block that starts, or a whole one.
    fn start(&mut self, index: u64, block: &Value, events: &mut EventSink<'_>) {
        let text_of = |key: &str| word(block, key).to_owned();
        let part = match word(block, "type") {
            "text" => {
                let text = text_of("text");
                if !text.is_empty() {
                    events(Event::Text(text.clone()));
                }
                Part::Text(text)
            }
            "thinking" => {
                let text = text_of("thinking");
                if !text.is_empty() {
                    events(Event::Reasoning(text.clone()));
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
                        events(Event::Text(input.clone()));
                    }
                    Part::Answer(input)
                } else {
                    let number = self.calls;
                    self.calls += 1;
                    events(Event::ToolCall {
                        index: number,
                        name: name.clone(),
                    });
                    if !input.is_empty() {
                        events(Event::Arguments {
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
        self.places.insert(index, self.parts.len());
        self.parts.push(part);
    }

    fn delta(&mut self, index: u64, delta: &Value, events: &mut EventSink<'_>) {
        let Some(part) = self
            .places
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
        let at = self.places.get(&index);
        match at.and_then(|at| self.parts.get(*at)) {
            Some(Part::Thinking { .. }) => events(Event::Reasoning(text)),
            Some(Part::Call { number, .. }) => events(Event::Arguments {
                index: *number,
                text,
            }),
            _ => events(Event::Text(text)),
        }
    }

    fn stopped(&mut self, reason: Option<&Value>) {
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
    /// Takes what is said of the cost so far: later counts replace earlier ones.
    fn add(&mut self, usage: &Value) {
        let mut set = |field: &mut u64, path: &str| {
            if let Some(count) = usage.pointer(path).and_then(Value::as_u64) {
                *field = count;
                self.known = true;
            }
        };
        set(&mut self.input, "/input_tokens");
        set(&mut self.cache_read, "/cache_read_input_tokens");
        set(&mut self.cache_write, "/cache_creation_input_tokens");
        set(&mut self.output, "/output_tokens");
        set(&mut self.thinking, "/output_tokens_details/thinking_tokens");
    }

    fn usage(self) -> Option<Usage> {
        self.known.then(|| Usage {
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
