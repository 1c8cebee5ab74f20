//! Answers of Chat Completions with calls and reasoning, whole and as a stream.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use logue_model::{TokenLogprob, Usage};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::exchange::{AnswerEnd, AnswerParts, Part, SEPARATOR};
use super::logprobs::tokens_json;
use super::problem::ends;
use super::request::ReasoningField;
use crate::chat::completions::error_json;
use crate::chat::problem::Problem;
use crate::chat::sse::{PING, padding, set_stream_headers};

/// The length of a piece of arguments, in bytes.
const PIECE: usize = 512;

/// The constant fields of an answer.
pub(super) struct ChatAnswer {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) reasoning: ReasoningField,
    /// The number of alternatives of each token, if log probabilities are requested.
    pub(super) alternatives: Option<u64>,
}

/// A whole answer.
pub(super) struct WholeAnswer {
    text: String,
    logprobs: Vec<TokenLogprob>,
    reasoning: String,
    calls: Vec<Value>,
    end: AnswerEnd,
}

impl WholeAnswer {
    /// Waits for the end of an answer.
    ///
    /// # Errors
    /// Returns the problem with which the answer ends.
    pub(super) async fn read(mut parts: AnswerParts) -> Result<Self, Problem> {
        let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
        let mut logprobs = Vec::new();
        while let Some(part) = parts.recv().await {
            match part {
                Part::Text(piece, tokens) => {
                    text.push_str(&piece);
                    logprobs.extend(tokens);
                }
                Part::Between => text.push_str(SEPARATOR),
                Part::Reasoning(piece) => reasoning.push_str(&piece),
                Part::Call {
                    id,
                    name,
                    arguments,
                } => calls.push(json!({"id": id, "type": "function",
                        "function": {"name": name, "arguments": arguments}})),
                Part::End(end) => {
                    return Ok(Self {
                        text,
                        logprobs,
                        reasoning,
                        calls,
                        end: end?,
                    });
                }
            }
        }
        Err(ends())
    }
}

impl ChatAnswer {
    /// Returns a whole answer.
    pub(super) fn whole(&self, whole: WholeAnswer) -> Value {
        let logprobs = self.logprobs(&whole.logprobs);
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        let text = (!whole.text.is_empty()).then_some(whole.text);
        message.insert("content".to_owned(), json!(text));
        message.insert("refusal".to_owned(), Value::Null);
        if let Some(field) = self.reasoning.name()
            && !whole.reasoning.is_empty()
        {
            message.insert(field.to_owned(), json!(whole.reasoning));
        }
        if !whole.calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(whole.calls));
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": whole.end.finish, "logprobs": logprobs,
                "message": message}],
            "usage": whole.end.usage.as_ref().map(usage_json),
        })
    }

    /// Returns a streamed answer whose first part has arrived or not.
    pub(super) fn into_stream(
        self,
        first: Option<Part>,
        parts: AnswerParts,
        has_usage: bool,
    ) -> Response {
        let writer = ChunkWriter {
            answer: self,
            first,
            parts,
            has_usage,
            call_count: 0,
            has_begun: false,
            has_ended: false,
        };
        let chunks = stream::unfold(writer, |mut writer| async move {
            let bytes = writer.next().await?;
            Some((Ok::<_, Infallible>(bytes), writer))
        });
        let mut response = Response::new(Body::from_stream(chunks));
        set_stream_headers(response.headers_mut());
        response
    }

    /// Returns the log probabilities of visible text; `null` without any.
    fn logprobs(&self, tokens: &[TokenLogprob]) -> Value {
        match self.alternatives {
            Some(count) if !tokens.is_empty() => {
                json!({"content": tokens_json(tokens, count), "refusal": null})
            }
            _ => Value::Null,
        }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish,
                "logprobs": null}],
        })
    }
}

/// Writes the chunks of a streamed answer.
struct ChunkWriter {
    answer: ChatAnswer,
    first: Option<Part>,
    parts: AnswerParts,
    has_usage: bool,
    call_count: usize,
    has_begun: bool,
    has_ended: bool,
}

impl ChunkWriter {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            let mut bytes = padding().to_vec();
            let first = json!({"role": "assistant", "content": null});
            bytes.extend(data(&self.answer.chunk(&first, None)).bytes());
            return Some(bytes.into());
        }
        // Parts without bytes, such as hidden reasoning, do not defer the comment.
        let silent_until = Instant::now() + PING;
        loop {
            let part = match self.first.take() {
                Some(first) => Some(first),
                None => match timeout_at(silent_until, self.parts.recv()).await {
                    Ok(part) => part,
                    Err(_) => return Some(padding()),
                },
            };
            let text = self.text_of(part);
            if !text.is_empty() {
                return Some(text.into());
            }
        }
    }

    /// Returns the events of a part.
    fn text_of(&mut self, part: Option<Part>) -> String {
        let delta = match part {
            Some(Part::Text(text, tokens)) => {
                let mut chunk = self.answer.chunk(&json!({ "content": text }), None);
                chunk["choices"][0]["logprobs"] = self.answer.logprobs(&tokens);
                return data(&chunk);
            }
            Some(Part::Between) => json!({ "content": SEPARATOR }),
            Some(Part::Reasoning(text)) => match self.answer.reasoning.name() {
                Some(field) => json!({ field: text }),
                None => return String::new(),
            },
            Some(Part::Call {
                id,
                name,
                arguments,
            }) => return self.call(&id, &name, &arguments),
            Some(Part::End(Ok(end))) => {
                self.has_ended = true;
                return self.end(&end);
            }
            // The status is sent already.
            Some(Part::End(Err(problem))) => {
                self.has_ended = true;
                return data(&error_json(&problem));
            }
            None => {
                self.has_ended = true;
                return data(&error_json(&ends()));
            }
        };
        data(&self.answer.chunk(&delta, None))
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) -> String {
        let index = self.call_count;
        self.call_count += 1;
        let first = json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": ""}}]});
        let mut text = data(&self.answer.chunk(&first, None));
        for piece in pieces(arguments) {
            let delta = json!({"tool_calls": [{"index": index,
                "function": {"arguments": piece}}]});
            text.push_str(&data(&self.answer.chunk(&delta, None)));
        }
        text
    }

    fn end(&self, end: &AnswerEnd) -> String {
        let mut text = data(&self.answer.chunk(&json!({}), Some(end.finish)));
        if self.has_usage {
            let mut usage = self.answer.chunk(&json!({}), None);
            usage["choices"] = json!([]);
            usage["usage"] = json!(end.usage.as_ref().map(usage_json));
            text.push_str(&data(&usage));
        }
        text.push_str("data: [DONE]\n\n");
        text
    }
}

/// Returns a text in pieces.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(PIECE);
        let (piece, next) = rest.split_at_checked(end)?;
        rest = next;
        (!piece.is_empty()).then_some(piece)
    })
}

fn usage_json(usage: &Usage) -> Value {
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    json!({"prompt_tokens": input, "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens}})
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}
