//! One answer, put together from the pieces in which it arrives.
//!
//! Servers differ in how they cut an answer: tool calls may carry an index or not, repeat their id
//! and name or not, and come with ids that are empty or used twice. The assembler takes all of
//! that and gives calls with unique ids in the order in which they began.

use std::collections::BTreeSet;

use logue_message::{Arguments, Block, CallKind, ChatMessage, Content, ToolCall};
use serde_json::Value;

use crate::refusal::Refusal;
use crate::{Category, Event, EventSink, FinishReason, ProviderError, Response, Usage};

/// Collects the chunks of one streamed answer.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    finish_reason: Option<FinishReason>,
    usage: Option<Usage>,
    /// Ids of calls that the conversation holds already.
    taken: BTreeSet<String>,
    /// Distinguishes made-up ids of this answer from those of earlier ones.
    salt: usize,
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

impl Assembler {
    /// An assembler for the answer to a request of these messages.
    pub(crate) fn new(messages: &[ChatMessage]) -> Self {
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        let taken = calls.map(|call| call.id.clone()).collect();
        Self {
            taken,
            salt: messages.len(),
            ..Self::default()
        }
    }

    /// Whether the server has said why the model stopped: what follows is only accounting.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Takes one chunk: a streamed one (`delta`) or a whole answer (`message`).
    ///
    /// # Errors
    /// The chunk carries an error of the server, or is no chunk.
    pub(crate) fn chunk(
        &mut self,
        chunk: &Value,
        events: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let opening = "the server reported an error inside the stream";
            return Err(Refusal::of_event(error).into_error(opening));
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

    /// The complete answer.
    ///
    /// # Errors
    /// The answer says nothing, holds a call without a name, or is cut in the middle of its calls.
    /// What there is of it goes along with the error.
    pub(crate) fn finish(self, events: &mut EventSink<'_>) -> Result<Response, ProviderError> {
        let mut tool_calls: Vec<ToolCall> = Vec::with_capacity(self.calls.len());
        for (index, call) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(ProviderError::new(
                    Category::InvalidResponse,
                    "the server sent a tool call without a name",
                )
                .with_help(
                    "try again; if it stays so, the server's tool call parser is at fault",
                ));
            }
            if !call.announced {
                events(Event::ToolCall {
                    index,
                    name: call.name.clone(),
                });
            }
            let used =
                |id: &str| self.taken.contains(id) || tool_calls.iter().any(|other| other.id == id);
            let mut id = call.id;
            let mut attempt = index;
            while id.is_empty() || used(&id) {
                id = format!("call_{}_{attempt}", self.salt);
                attempt += 1;
            }
            tool_calls.push(ToolCall {
                id,
                name: call.name,
                arguments: Arguments::from_text(call.arguments),
                kind: if call.custom {
                    CallKind::Custom
                } else {
                    CallKind::Function
                },
                signature: None,
            });
        }
        let finish_reason = match self.finish_reason {
            // Servers that call tools but say "stop" are common.
            Some(FinishReason::Stop) | None if !tool_calls.is_empty() => FinishReason::ToolCalls,
            Some(reason) => reason,
            None => FinishReason::Stop,
        };
        let says_nothing = self.text.trim().is_empty() && tool_calls.is_empty();
        let content = if self.reasoning.is_empty() {
            Content::Text(self.text)
        } else {
            let mut blocks = vec![Block::thinking(self.reasoning)];
            if !self.text.is_empty() {
                blocks.push(Block::text(self.text));
            }
            Content::Blocks(blocks)
        };
        if finish_reason == FinishReason::Length && !tool_calls.is_empty() {
            // A cut call must not run, so only what was said before it is kept.
            return Err(incomplete(
                "the answer reached its length limit in the middle of its tool calls",
                ChatMessage::assistant(content),
            ));
        }
        let message = ChatMessage::assistant(content).with_tool_calls(tool_calls);
        if says_nothing {
            return Err(incomplete(
                "the model answered with nothing: no text and no tool call",
                message,
            ));
        }
        Ok(Response::new(message, finish_reason).with_usage(self.usage))
    }
}

/// An answer that ended before it was one.
pub(crate) fn incomplete(what: &str, message: ChatMessage) -> ProviderError {
    let mut error = ProviderError::new(Category::InvalidResponse, what).with_help(
        "raise `max_tokens` in <config/>, or check the model's chat template, and try again",
    );
    error.answer = Some(Box::new(message));
    error
}

/// Adds a piece of a word that some servers send whole each time and others in parts. A single
/// character is always a part.
fn merge_word(word: &mut String, piece: &str) {
    if word != piece || piece.len() == 1 {
        word.push_str(piece);
    }
}

fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let input_tokens = count("prompt_tokens");
    let output_tokens = count("completion_tokens");
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input_tokens.unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        ..Usage::default()
    })
}
