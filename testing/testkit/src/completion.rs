//! Scripted token output as streams of a completion server.

use serde_json::{Value, json};

/// The response shape of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// vLLM with `return_token_ids`.
    VllmIds,
    /// Older vLLM and similar servers: text with special tokens.
    VllmText,
    /// The native `/completion` of llama.cpp: ids and text, without the stop token.
    Llama,
    /// The common format: text.
    Plain,
}

/// One completion of a scripted model.
#[derive(Clone, Debug)]
pub struct Completion {
    wire: Wire,
    pieces: Vec<(Vec<u32>, String)>,
    finish: &'static str,
    stop_reason: Value,
    has_logprobs: bool,
}

impl Completion {
    /// Creates a completion; each piece is one stream event, as ids and text.
    pub fn new(wire: Wire, pieces: Vec<(Vec<u32>, String)>) -> Self {
        Self {
            wire,
            pieces,
            finish: "stop",
            stop_reason: Value::Null,
            has_logprobs: false,
        }
    }

    /// Ends the completion at the length limit.
    #[must_use]
    pub const fn cut(mut self) -> Self {
        self.finish = "length";
        self
    }

    /// Sets the id of the stop token, which the server omits from the output.
    #[must_use]
    pub fn stopped_at(mut self, id: u32) -> Self {
        self.stop_reason = json!(id);
        self
    }

    /// Sets the stop string of the request at which the server stopped.
    #[must_use]
    pub fn stopped_by(mut self, word: &str) -> Self {
        self.stop_reason = json!(word);
        self
    }

    /// Adds log probabilities: each piece is one token, whose value is [`logprob`](Self::logprob).
    ///
    /// The second alternative of each token is `?`.
    #[must_use]
    pub const fn with_logprobs(mut self) -> Self {
        self.has_logprobs = true;
        self
    }

    /// Returns the log probability of the token of a piece.
    pub fn logprob(piece: usize) -> f64 {
        -f64::from(u32::try_from(piece).unwrap_or(u32::MAX)) / 8.0
    }

    /// Returns the bytes of the event stream.
    pub fn stream(&self) -> Vec<u8> {
        let mut events: Vec<Value> = Vec::new();
        let last = self.pieces.len().saturating_sub(1);
        for (number, (ids, text)) in self.pieces.iter().enumerate() {
            if self.wire == Wire::Llama {
                let mut event = json!({"index": 0, "content": text, "tokens": ids, "stop": false,
                    "id_slot": 0, "tokens_predicted": number + 1, "tokens_evaluated": 11});
                if let (true, Some(event)) = (self.has_logprobs, event.as_object_mut()) {
                    let own = Self::logprob(number);
                    let listed = json!([{"id": ids.first(), "token": text, "bytes": text.as_bytes(),
                        "logprob": own, "top_logprobs": [
                            {"id": 30, "token": "?", "bytes": [63], "logprob": own - 1.0},
                            {"id": ids.first(), "token": text, "bytes": text.as_bytes(),
                                "logprob": own}]}]);
                    event.insert("completion_probabilities".to_owned(), listed);
                }
                events.push(event);
            } else {
                let mut event = self.chunk(ids, text, number == last, number == 0);
                if let (true, Some(own)) = (self.has_logprobs, event.pointer_mut("/choices/0")) {
                    let token = match (self.wire, ids.first()) {
                        (Wire::VllmIds, Some(id)) => format!("token_id:{id}"),
                        _ => text.clone(),
                    };
                    let value = Self::logprob(number);
                    let top = json!({"?": value - 1.0, token.as_str(): value});
                    own["logprobs"] = json!({"tokens": [token], "token_logprobs": [value],
                        "top_logprobs": [top], "text_offset": [0]});
                }
                events.push(event);
            }
        }
        let mut bytes = Vec::new();
        if self.wire == Wire::Llama {
            events.push(self.llama_end("", &[]));
        } else {
            events.push(
                json!({"id": "cmpl-1", "object": "text_completion", "created": 0,
                "model": "scripted", "choices": [], "usage": usage()}),
            );
        }
        for event in events {
            bytes.extend_from_slice(format!("data: {event}\n\n").as_bytes());
        }
        if self.wire != Wire::Llama {
            bytes.extend_from_slice(b"data: [DONE]\n\n");
        }
        bytes
    }

    /// Returns the response as one JSON body, without a stream.
    pub fn whole(&self) -> String {
        let ids: Vec<u32> = self
            .pieces
            .iter()
            .flat_map(|(ids, _)| ids.clone())
            .collect();
        let text: String = self.pieces.iter().map(|(_, text)| text.as_str()).collect();
        if self.wire == Wire::Llama {
            return self.llama_end(&text, &ids).to_string();
        }
        let mut body = self.chunk(&ids, &text, true, true);
        if let Some(body) = body.as_object_mut() {
            body.insert("usage".to_owned(), usage());
        }
        body.to_string()
    }

    fn chunk(&self, ids: &[u32], text: &str, last: bool, first: bool) -> Value {
        let mut choice = json!({"index": 0, "text": text, "logprobs": null,
            "finish_reason": last.then_some(self.finish)});
        if let Some(choice) = choice.as_object_mut() {
            if matches!(self.wire, Wire::VllmIds | Wire::VllmText) {
                let reason = if last {
                    self.stop_reason.clone()
                } else {
                    Value::Null
                };
                choice.insert("stop_reason".to_owned(), reason);
            }
            if self.wire == Wire::VllmIds {
                let prompt = first.then(|| json!([200_006]));
                choice.insert("prompt_token_ids".to_owned(), prompt.unwrap_or_default());
                choice.insert("token_ids".to_owned(), json!(ids));
            }
        }
        json!({"id": "cmpl-1", "object": "text_completion", "created": 0, "model": "scripted",
            "choices": [choice]})
    }

    fn llama_end(&self, content: &str, ids: &[u32]) -> Value {
        let stop_type = if self.finish == "length" {
            "limit"
        } else {
            "eos"
        };
        json!({"index": 0, "content": content, "tokens": ids, "id_slot": 0, "stop": true,
            "model": "scripted", "tokens_predicted": 7, "tokens_evaluated": 11,
            "stop_type": stop_type, "stopping_word": "", "truncated": false,
            "timings": {"cache_n": 3, "prompt_n": 8}})
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 3}})
}
