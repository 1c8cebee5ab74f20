//! Scripted responses as streams of a Chat Completions server.

use serde_json::{Value, json};

use crate::Random;

/// A scripted response.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    text: String,
    reasoning: String,
    calls: Vec<(String, String, String)>,
}

impl Answer {
    /// Creates a response of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Sets the reasoning before the text.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = reasoning.into();
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn with_call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.calls.push((id.into(), name.into(), arguments.into()));
        self
    }

    /// Returns the bytes of the event stream.
    ///
    /// Deltas are split at random characters, and the pieces of several calls alternate.
    pub fn stream(&self, random: &mut Random) -> Vec<u8> {
        let mut events = vec![chunk(&json!({"role": "assistant", "content": ""}), None)];
        for piece in pieces(&self.reasoning, random) {
            events.push(chunk(&json!({"reasoning_content": piece}), None));
        }
        for piece in pieces(&self.text, random) {
            events.push(chunk(&json!({"content": piece}), None));
        }
        let mut queues: Vec<std::vec::IntoIter<Value>> = self
            .calls
            .iter()
            .enumerate()
            .map(|(index, (id, name, arguments))| {
                let mut deltas = vec![json!({"index": index, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}})];
                for piece in pieces(arguments, random) {
                    deltas.push(json!({"index": index, "function": {"arguments": piece}}));
                }
                deltas.into_iter()
            })
            .collect();
        // Calls begin in order; then their pieces alternate.
        for queue in &mut queues {
            if let Some(first) = queue.next() {
                events.push(chunk(&json!({"tool_calls": [first]}), None));
            }
        }
        loop {
            let open: Vec<usize> = (0..queues.len())
                .filter(|at| !queues[*at].as_slice().is_empty())
                .collect();
            if open.is_empty() {
                break;
            }
            let at = open[random.below(open.len())];
            if let Some(delta) = queues[at].next() {
                events.push(chunk(&json!({"tool_calls": [delta]}), None));
            }
        }
        let reason = if self.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        events.push(chunk(&json!({}), Some(reason)));
        events.push(usage());
        events.push("[DONE]".to_owned());
        let mut bytes = b": keep-alive\n\n".to_vec();
        for event in events {
            let end = ["\n\n", "\r\n\r\n"][random.below(2)];
            bytes.extend_from_slice(format!("data: {event}{end}").as_bytes());
        }
        bytes
    }
}

/// Returns the event of a piece of text.
pub fn text_delta(text: &str) -> Vec<u8> {
    event(&chunk(&json!({"content": text}), None))
}

/// Returns the events that end a stream, with the usage of [`Answer::stream`].
pub fn end_of_stream() -> Vec<u8> {
    let mut bytes = event(&chunk(&json!({}), Some("stop")));
    bytes.extend(event(&usage()));
    bytes.extend(event("[DONE]"));
    bytes
}

fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn usage() -> String {
    json!({"object": "chat.completion.chunk", "choices": [],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
    .to_string()
}

fn chunk(delta: &Value, finish_reason: Option<&str>) -> String {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
    .to_string()
}

/// Splits a text at random into pieces of one to five characters.
fn pieces(text: &str, random: &mut Random) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut left = 1 + random.below(5);
    for character in text.chars() {
        piece.push(character);
        left -= 1;
        if left == 0 {
            pieces.push(std::mem::take(&mut piece));
            left = 1 + random.below(5);
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
