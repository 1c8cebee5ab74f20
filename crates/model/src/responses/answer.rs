//! An answer in the Responses format.
//!
//! An answer is a list of items. In a stream each item is announced, grows by deltas and is repeated
//! whole when it is done; the last event repeats them all. Servers leave out some of these, so every
//! repetition only adds what was not heard before: what was told to a listener is never taken back.

use std::collections::BTreeMap;

use logue_message::{CallKind, ContentBlock};
use serde_json::Value;

use crate::answer::Decoder;
use crate::draft::{Draft, DraftCall, stream_error};
use crate::{Category, Event, EventSink, FinishReason, ProviderError, Response, Usage};

/// Collects the items of one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    items: Vec<Item>,
    /// Where the item of an index is: events name it by that.
    places: BTreeMap<u64, usize>,
    calls: usize,
    finish_reason: Option<FinishReason>,
    usage: Option<Usage>,
    refused: bool,
}

#[derive(Debug)]
struct Item {
    id: Option<String>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Words, part by part.
    Message { parts: Vec<String>, preamble: bool },
    /// Reasoning: its summary part by part, or the whole of it, and the encrypted form.
    Reasoning {
        parts: Vec<String>,
        encrypted: Option<String>,
    },
    Call {
        /// Which call of the answer it is.
        number: usize,
        call_id: String,
        name: String,
        arguments: String,
        kind: CallKind,
        announced: bool,
    },
    /// Something that no message can hold, such as a search that the server made by itself.
    Other,
}

impl Decoder for Decoding {
    fn take(&mut self, event: &Value, events: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let kind = word(event, "type");
        match kind {
            "error" => return Err(stream_error(event)),
            "response.failed" => return Err(failed(event.get("response").unwrap_or(event))),
            "response.completed" | "response.incomplete" | "response.done" => {
                return self.whole(event.get("response").unwrap_or(event), events);
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = event.get("item") {
                    self.item(index_of(event), item, kind.ends_with("done"), events);
                }
            }
            _ if kind.starts_with("response.") => self.delta(kind, event, events),
            _ if event.get("object").and_then(Value::as_str) == Some("response") => {
                return self.whole(event, events);
            }
            _ if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(stream_error(event));
            }
            // What is to keep a connection open.
            "keepalive" | "ping" => {}
            _ => {
                return Err(ProviderError::new(
                    Category::InvalidResponse,
                    "the server sent JSON that is no response (its `object` is another one)",
                )
                .with_help("check that the base URL is one of a server with `/responses`"));
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

    fn finish(self: Box<Self>, events: &mut EventSink<'_>) -> Result<Response, ProviderError> {
        let mut draft = Draft {
            finish_reason: self.finish_reason,
            usage: self.usage,
            ..Draft::default()
        };
        if self.refused && draft.finish_reason == Some(FinishReason::Stop) {
            draft.finish_reason = Some(FinishReason::ContentFilter);
        }
        for item in self.items {
            match item.body {
                Body::Message { parts, preamble } => {
                    let parts = parts.into_iter().filter(|text| !text.is_empty());
                    draft.blocks.extend(parts.map(|text| ContentBlock::Text {
                        text,
                        signature: None,
                        preamble,
                    }));
                }
                Body::Reasoning { parts, encrypted } => {
                    draft.blocks.extend(reasoning(item.id, parts, encrypted));
                }
                Body::Call {
                    call_id,
                    name,
                    arguments,
                    kind,
                    announced,
                    ..
                } => {
                    if !announced && !name.is_empty() {
                        events(Event::ToolCall {
                            index: draft.calls.len(),
                            name: name.clone(),
                        });
                    }
                    draft.calls.push(DraftCall {
                        id: call_id,
                        name,
                        arguments,
                        kind,
                    });
                }
                Body::Other => {}
            }
        }
        draft.into_response()
    }
}

impl Decoding {
    /// The whole response, as the last event of a stream or instead of one.
    fn whole(&mut self, response: &Value, events: &mut EventSink<'_>) -> Result<(), ProviderError> {
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

    /// An item as it is announced, or as it is when it is done.
    fn item(&mut self, index: u64, item: &Value, done: bool, events: &mut EventSink<'_>) {
        let kind = word(item, "type");
        let at = self.at(index, kind);
        let Some(known) = self.items.get_mut(at) else {
            return;
        };
        if let Some(id) = item.get("id").and_then(Value::as_str)
            && !id.is_empty()
        {
            known.id = Some(id.to_owned());
        }
        match &mut known.body {
            Body::Message { parts, preamble } => {
                *preamble |= word(item, "phase") == "commentary";
                let content = item.get("content").and_then(Value::as_array);
                for (number, part) in content.into_iter().flatten().enumerate() {
                    let refusal = part.get("refusal").and_then(Value::as_str);
                    self.refused |= refusal.is_some_and(|words| !words.is_empty());
                    let text = refusal.unwrap_or_else(|| word(part, "text"));
                    if let Some(rest) = rest_of(slot(parts, number), text) {
                        events(Event::Text(rest));
                    }
                }
            }
            Body::Reasoning { parts, encrypted } => {
                let summary = item.get("summary").and_then(Value::as_array);
                let summary = summary.filter(|parts| !parts.is_empty());
                let content = item.get("content").and_then(Value::as_array);
                for (number, part) in summary.or(content).into_iter().flatten().enumerate() {
                    if let Some(rest) = rest_of(slot(parts, number), word(part, "text")) {
                        events(Event::Reasoning(rest));
                    }
                }
                // What is encrypted may be incomplete until the item is done.
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
                announced,
                ..
            } => {
                if call_id.is_empty() {
                    word(item, "call_id").clone_into(call_id);
                }
                if name.is_empty() {
                    word(item, "name").clone_into(name);
                }
                if !*announced && !name.is_empty() {
                    *announced = true;
                    events(Event::ToolCall {
                        index: *number,
                        name: name.clone(),
                    });
                }
                let field = if kind == "custom_tool_call" {
                    "input"
                } else {
                    "arguments"
                };
                if let Some(rest) = rest_of(arguments, word(item, field)) {
                    events(Event::Arguments {
                        index: *number,
                        text: rest,
                    });
                }
            }
            Body::Other => {}
        }
    }

    fn delta(&mut self, kind: &str, event: &Value, events: &mut EventSink<'_>) {
        // What ends in `done` repeats the whole of what the deltas were.
        let (repeated, delta) = match kind.rsplit_once('.') {
            Some((_, "delta")) => (false, word(event, "delta")),
            Some((_, "done")) => {
                let whole = ["text", "refusal", "arguments", "input"].map(|key| word(event, key));
                let whole = whole.into_iter().find(|text| !text.is_empty());
                (true, whole.unwrap_or_default())
            }
            _ => return,
        };
        let (item, part) = if kind.starts_with("response.output_text.") {
            ("message", "content_index")
        } else if kind.starts_with("response.refusal.") {
            self.refused = true;
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
        let at = self.at(index_of(event), item);
        let number = event.get(part).and_then(Value::as_u64).unwrap_or(0);
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(known) = self.items.get_mut(at) else {
            return;
        };
        let grow = |text: &mut String| {
            if repeated {
                return rest_of(text, delta);
            }
            text.push_str(delta);
            (!delta.is_empty()).then(|| delta.to_owned())
        };
        match &mut known.body {
            Body::Message { parts, .. } => {
                events_of(grow(slot(parts, number)).map(Event::Text), events);
            }
            Body::Reasoning { parts, .. } => {
                events_of(grow(slot(parts, number)).map(Event::Reasoning), events);
            }
            Body::Call {
                number, arguments, ..
            } => {
                let index = *number;
                let piece = grow(arguments);
                events_of(piece.map(|text| Event::Arguments { index, text }), events);
            }
            Body::Other => {}
        }
    }

    /// Where the item of that index is; it begins as one of `kind` if it is new.
    fn at(&mut self, index: u64, kind: &str) -> usize {
        if let Some(at) = self.places.get(&index) {
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
                announced: false,
            }
        };
        let body = match kind {
            "message" => Body::Message {
                parts: Vec::new(),
                preamble: false,
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
        self.places.insert(index, at);
        at
    }
}

/// Parts that one item may have: more is not an answer but an attack on memory.
const PARTS: usize = 1024;

/// The part of that number; what a hostile number leaves out goes to the last one.
fn slot(parts: &mut Vec<String>, number: usize) -> &mut String {
    let number = number.min(PARTS);
    if parts.len() <= number {
        parts.resize_with(number + 1, String::new);
    }
    &mut parts[number]
}

/// Adds what `whole` holds beyond what is known, and gives it. What contradicts what is known adds
/// nothing.
fn rest_of(known: &mut String, whole: &str) -> Option<String> {
    let rest = whole.strip_prefix(known.as_str())?.to_owned();
    known.push_str(&rest);
    (!rest.is_empty()).then_some(rest)
}

fn events_of(event: Option<Event>, events: &mut EventSink<'_>) {
    if let Some(event) = event {
        events(event);
    }
}

/// One block for each part, the last one with the signature.
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
