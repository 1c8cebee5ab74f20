//! Decoding of a Responses response.
//!
//! A response is a list of items. A stream announces each item, extends it by deltas and repeats it
//! when it is done; the last event repeats all items. Servers omit some of these events, so a
//! repetition only adds missing text: reported events are never revoked.

use std::collections::BTreeMap;

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::stream::{Decoder, PartialResponse, PartialToolCall, stream_error};
use crate::{
    Category, EventHandler, FinishReason, ModelEvent, ModelResponse, ProviderError, Usage,
};

/// The decoder of one response.
#[derive(Debug, Default)]
pub(crate) struct ResponsesDecoder {
    items: Vec<Item>,
    /// The position in `items` for each `output_index`.
    positions: BTreeMap<u64, usize>,
    calls: usize,
    /// The parts of summaries in the order of their beginnings: the item and the part in it.
    summaries: Vec<(usize, usize)>,
    finish_reason: Option<FinishReason>,
    usage: Option<Usage>,
    is_refusal: bool,
}

#[derive(Debug)]
struct Item {
    id: Option<String>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Text by parts.
    Message {
        parts: Vec<String>,
        preamble: bool,
        /// A phase other than `commentary`.
        phase: Option<String>,
    },
    /// Reasoning: the parts of its summary or text, and the encrypted form.
    Reasoning {
        parts: Vec<String>,
        encrypted: Option<String>,
    },
    Call {
        /// The index of the call within the response.
        number: usize,
        call_id: String,
        name: String,
        arguments: String,
        kind: CallKind,
        is_announced: bool,
    },
    /// An item without a message form, such as a search that the server ran.
    Other,
}

impl Decoder for ResponsesDecoder {
    fn decode(
        &mut self,
        event: &Value,
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        let kind = word(event, "type");
        match kind {
            "error" => return Err(stream_error(event)),
            "response.failed" => return Err(failed(event.get("response").unwrap_or(event))),
            "response.completed" | "response.incomplete" | "response.done" => {
                return self.complete(event.get("response").unwrap_or(event), events);
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = event.get("item") {
                    self.item(index_of(event), item, kind.ends_with("done"), events);
                }
            }
            _ if kind.starts_with("response.") => self.delta(kind, event, events),
            _ if event.get("object").and_then(Value::as_str) == Some("response") => {
                return self.complete(event, events);
            }
            _ if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(stream_error(event));
            }
            // Keeps the connection open.
            "keepalive" | "ping" => {}
            _ => {
                return Err(ProviderError::new(
                    Category::InvalidResponse,
                    "the server sent JSON whose `object` is not `response`",
                )
                .with_help("check that the base URL belongs to a server with `/responses`"));
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn has_ended(&self) -> bool {
        self.is_finished()
    }

    fn finish(
        self: Box<Self>,
        events: &mut EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let mut partial = PartialResponse {
            finish_reason: self.finish_reason,
            usage: self.usage,
            ..PartialResponse::default()
        };
        if self.is_refusal && partial.finish_reason == Some(FinishReason::Stop) {
            partial.finish_reason = Some(FinishReason::ContentFilter);
        }
        for item in self.items {
            match item.body {
                Body::Message {
                    parts,
                    preamble,
                    phase,
                } => {
                    partial.phase = phase.or(partial.phase);
                    let parts = parts.into_iter().filter(|text| !text.is_empty());
                    partial.blocks.extend(parts.map(|text| ContentBlock::Text {
                        text,
                        signature: None,
                        preamble,
                    }));
                }
                Body::Reasoning { parts, encrypted } => {
                    partial.blocks.extend(reasoning(item.id, parts, encrypted));
                }
                Body::Call {
                    call_id,
                    name,
                    arguments,
                    kind,
                    is_announced,
                    ..
                } => {
                    if !is_announced && !name.is_empty() {
                        events(ModelEvent::ToolCall {
                            index: partial.calls.len(),
                            name: name.clone(),
                        });
                    }
                    partial.calls.push(PartialToolCall {
                        id: call_id,
                        name,
                        arguments,
                        kind,
                    });
                }
                Body::Other => {}
            }
        }
        partial.into_response()
    }
}

impl ResponsesDecoder {
    /// Decodes a complete response, which is the last event of a stream or the body.
    fn complete(
        &mut self,
        response: &Value,
        events: &mut EventHandler<'_>,
    ) -> Result<(), ProviderError> {
        if response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failed(response));
        }
        let output = response.get("output").and_then(Value::as_array);
        for (index, item) in output.into_iter().flatten().enumerate() {
            self.item(index as u64, item, true, events);
        }
        if let Some(usage) = response.get("usage").and_then(usage_of) {
            self.usage = Some(usage);
        }
        let reason = response.pointer("/incomplete_details/reason");
        self.finish_reason = Some(match (word(response, "status"), reason) {
            ("failed" | "cancelled", _) => return Err(failed(response)),
            ("incomplete", Some(reason)) if reason == "content_filter" => {
                FinishReason::ContentFilter
            }
            ("incomplete", _) => FinishReason::Length,
            _ => FinishReason::Stop,
        });
        Ok(())
    }

    /// Decodes an item that is announced or done.
    fn item(&mut self, index: u64, item: &Value, done: bool, events: &mut EventHandler<'_>) {
        let kind = word(item, "type");
        let at = self.position(index, kind);
        let Some(known) = self.items.get_mut(at) else {
            return;
        };
        if let Some(id) = item.get("id").and_then(Value::as_str)
            && !id.is_empty()
        {
            known.id = Some(id.to_owned());
        }
        match &mut known.body {
            Body::Message {
                parts,
                preamble,
                phase,
            } => {
                match word(item, "phase") {
                    "" => {}
                    "commentary" => *preamble = true,
                    word => *phase = Some(word.to_owned()),
                }
                let content = item.get("content").and_then(Value::as_array);
                for (number, part) in content.into_iter().flatten().enumerate() {
                    let refusal = part.get("refusal").and_then(Value::as_str);
                    self.is_refusal |= refusal.is_some_and(|text| !text.is_empty());
                    let text = refusal.unwrap_or_else(|| word(part, "text"));
                    if let Some(added) = extend_to(slot(parts, number), text) {
                        events(ModelEvent::Text(added));
                    }
                }
            }
            Body::Reasoning { parts, encrypted } => {
                let summary = item.get("summary").and_then(Value::as_array);
                let summary = summary.filter(|parts| !parts.is_empty());
                let content = item.get("content").and_then(Value::as_array);
                for (number, part) in summary.or(content).into_iter().flatten().enumerate() {
                    if let Some(text) = extend_to(slot(parts, number), word(part, "text")) {
                        events(match summary {
                            Some(_) => {
                                let part = place_of(&mut self.summaries, (at, number));
                                ModelEvent::ReasoningSummary { part, text }
                            }
                            None => ModelEvent::Reasoning(text),
                        });
                    }
                }
                // The encrypted content may be incomplete until the item is done.
                let data = item.get("encrypted_content").and_then(Value::as_str);
                if let Some(data) = data.filter(|data| done && !data.is_empty()) {
                    *encrypted = Some(data.to_owned());
                }
            }
            Body::Call {
                number,
                call_id,
                name,
                arguments,
                is_announced,
                ..
            } => {
                if call_id.is_empty() {
                    word(item, "call_id").clone_into(call_id);
                }
                if name.is_empty() {
                    word(item, "name").clone_into(name);
                }
                if !*is_announced && !name.is_empty() {
                    *is_announced = true;
                    events(ModelEvent::ToolCall {
                        index: *number,
                        name: name.clone(),
                    });
                }
                let field = if kind == "custom_tool_call" {
                    "input"
                } else {
                    "arguments"
                };
                if let Some(added) = extend_to(arguments, word(item, field)) {
                    events(ModelEvent::Arguments {
                        index: *number,
                        text: added,
                    });
                }
            }
            Body::Other => {}
        }
    }

    fn delta(&mut self, kind: &str, event: &Value, events: &mut EventHandler<'_>) {
        // An event that ends in `done` repeats the concatenated deltas.
        let (is_repetition, delta) = match kind.rsplit_once('.') {
            Some((_, "delta")) => (false, word(event, "delta")),
            Some((_, "done")) => {
                let complete =
                    ["text", "refusal", "arguments", "input"].map(|key| word(event, key));
                let complete = complete.into_iter().find(|text| !text.is_empty());
                (true, complete.unwrap_or_default())
            }
            _ => return,
        };
        let (item, part) = if kind.starts_with("response.output_text.") {
            ("message", "content_index")
        } else if kind.starts_with("response.refusal.") {
            self.is_refusal = true;
            ("message", "content_index")
        } else if kind.starts_with("response.reasoning_summary_text.") {
            ("reasoning", "summary_index")
        } else if kind.starts_with("response.reasoning_text.") {
            ("reasoning", "content_index")
        } else if kind.starts_with("response.function_call_arguments.") {
            ("function_call", "")
        } else if kind.starts_with("response.custom_tool_call_input.") {
            ("custom_tool_call", "")
        } else {
            return;
        };
        let at = self.position(index_of(event), item);
        let number = event.get(part).and_then(Value::as_u64).unwrap_or(0);
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(known) = self.items.get_mut(at) else {
            return;
        };
        let grow = |text: &mut String| {
            if is_repetition {
                return extend_to(text, delta);
            }
            text.push_str(delta);
            (!delta.is_empty()).then(|| delta.to_owned())
        };
        match &mut known.body {
            Body::Message { parts, .. } => {
                report(grow(slot(parts, number)).map(ModelEvent::Text), events);
            }
            Body::Reasoning { parts, .. } => {
                let piece = grow(slot(parts, number));
                let event = piece.map(|text| match part {
                    "summary_index" => {
                        let part = place_of(&mut self.summaries, (at, number));
                        ModelEvent::ReasoningSummary { part, text }
                    }
                    _ => ModelEvent::Reasoning(text),
                });
                report(event, events);
            }
            Body::Call {
                number, arguments, ..
            } => {
                let index = *number;
                let piece = grow(arguments);
                report(
                    piece.map(|text| ModelEvent::Arguments { index, text }),
                    events,
                );
            }
            Body::Other => {}
        }
    }

    /// Returns the position of the item with an index.
    ///
    /// A new item gets the type `kind`.
    fn position(&mut self, index: u64, kind: &str) -> usize {
        if let Some(at) = self.positions.get(&index) {
            return *at;
        }
        let mut call = |kind| {
            self.calls += 1;
            Body::Call {
                number: self.calls - 1,
                call_id: String::new(),
                name: String::new(),
                arguments: String::new(),
                kind,
                is_announced: false,
            }
        };
        let body = match kind {
            "message" => Body::Message {
                parts: Vec::new(),
                preamble: false,
                phase: None,
            },
            "reasoning" => Body::Reasoning {
                parts: Vec::new(),
                encrypted: None,
            },
            "function_call" => call(CallKind::Function),
            "custom_tool_call" => call(CallKind::Custom),
            _ => Body::Other,
        };
        self.items.push(Item { id: None, body });
        let at = self.items.len() - 1;
        self.positions.insert(index, at);
        at
    }
}

/// The maximum number of parts of an item, against exhaustion of memory.
const MAX_PARTS: usize = 1024;

/// Returns the part with a number, or the last possible part for a larger number.
fn slot(parts: &mut Vec<String>, number: usize) -> &mut String {
    let number = number.min(MAX_PARTS);
    if parts.len() <= number {
        parts.resize_with(number + 1, String::new);
    }
    &mut parts[number]
}

/// Returns the index of a part in the list, and adds a new part.
fn place_of(known: &mut Vec<(usize, usize)>, part: (usize, usize)) -> usize {
    let found = known.iter().position(|one| *one == part);
    found.unwrap_or_else(|| {
        known.push(part);
        known.len() - 1
    })
}

/// Extends `known` to `complete` and returns the added text.
///
/// Adds nothing if `complete` does not begin with `known`.
fn extend_to(known: &mut String, complete: &str) -> Option<String> {
    let added = complete.strip_prefix(known.as_str())?.to_owned();
    known.push_str(&added);
    (!added.is_empty()).then_some(added)
}

fn report(event: Option<ModelEvent>, events: &mut EventHandler<'_>) {
    if let Some(event) = event {
        events(event);
    }
}

/// Returns one block per part; the last one has the signature.
fn reasoning(
    id: Option<String>,
    mut parts: Vec<String>,
    encrypted: Option<String>,
) -> impl Iterator<Item = ContentBlock> {
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() && encrypted.is_some() {
        parts.push(String::new());
    }
    let last = parts.len().saturating_sub(1);
    parts
        .into_iter()
        .enumerate()
        .map(move |(number, text)| ContentBlock::Thinking {
            text,
            signature: encrypted.clone().filter(|_| number == last),
            id: id.clone(),
        })
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn index_of(event: &Value) -> u64 {
    event
        .get("output_index")
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

fn failed(response: &Value) -> ProviderError {
    if response.get("error").is_none_or(Value::is_null) {
        let message = format!("the response ended as `{}`", word(response, "status"));
        return stream_error(&Value::String(message));
    }
    stream_error(response)
}

fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let input_tokens = count("/input_tokens")?;
    Some(Usage {
        input_tokens,
        output_tokens: count("/output_tokens").unwrap_or(0),
        cached_tokens: count("/input_tokens_details/cached_tokens").unwrap_or(0),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}
