//! The items and events of a response.

use logue_model::Usage;
use serde_json::{Map, Value, json};

use crate::chat::problem::Problem;
use crate::gateway::exchange::{AnswerEnd, Part};
use crate::gateway::logprobs::tokens_json;
use crate::gateway::writer::pieces;

/// Writes the events of a response, and the response itself.
pub(super) struct ResponseWriter {
    /// The fields that do not change.
    head: Map<String, Value>,
    suffix: String,
    has_reasoning: bool,
    /// The number of alternatives of each token, if log probabilities are requested.
    alternatives: Option<u64>,
    output: Vec<Value>,
    open: Option<OpenItem>,
    events: Vec<Value>,
    sequence: u64,
    has_ended: bool,
}

/// The item whose text arrives.
struct OpenItem {
    is_reasoning: bool,
    id: String,
    text: String,
    logprobs: Vec<Value>,
}

impl OpenItem {
    fn part(&self, text: &str, logprobs: &[Value]) -> Value {
        if self.is_reasoning {
            json!({"type": "reasoning_text", "text": text})
        } else {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
        }
    }

    fn item(&self, content: &Value, status: &str) -> Value {
        if self.is_reasoning {
            json!({"id": self.id, "type": "reasoning", "summary": [], "content": content,
                "status": status})
        } else {
            json!({"id": self.id, "type": "message", "role": "assistant", "content": content,
                "status": status})
        }
    }

    const fn event(&self) -> &'static str {
        if self.is_reasoning {
            "response.reasoning_text"
        } else {
            "response.output_text"
        }
    }
}

impl ResponseWriter {
    /// Creates a writer with the first events.
    pub(super) fn new(
        head: Map<String, Value>,
        suffix: String,
        has_reasoning: bool,
        alternatives: Option<u64>,
    ) -> Self {
        let mut writer = Self {
            head,
            suffix,
            has_reasoning,
            alternatives,
            output: Vec::new(),
            open: None,
            events: Vec::new(),
            sequence: 0,
            has_ended: false,
        };
        for kind in ["response.created", "response.in_progress"] {
            let response = writer.response("in_progress", &json!({}));
            writer.push(kind, json!({ "response": response }));
        }
        writer
    }

    /// Returns the events since the last call.
    pub(super) fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Adds a part; the last one gives the response.
    pub(super) fn part(&mut self, part: Part) -> Option<Value> {
        match part {
            Part::Text(text, tokens) => {
                let logprobs = self.alternatives;
                let logprobs = logprobs.map(|count| tokens_json(&tokens, count));
                self.delta(false, &text, logprobs.unwrap_or_default());
            }
            Part::Between => self.close("completed"),
            Part::Reasoning(text) if self.has_reasoning => self.delta(true, &text, Vec::new()),
            Part::Reasoning(_) => {}
            Part::Call {
                id,
                name,
                arguments,
            } => self.call(&id, &name, &arguments),
            Part::End(end) => return Some(self.end(&end)),
        }
        None
    }

    fn delta(&mut self, is_reasoning: bool, text: &str, logprobs: Vec<Value>) {
        let is_other = |open: &OpenItem| open.is_reasoning != is_reasoning;
        if self.open.as_ref().is_some_and(is_other) {
            self.close("completed");
        }
        let index = self.output.len();
        let open = if let Some(open) = self.open.take() {
            open
        } else {
            let kind = if is_reasoning { "rs" } else { "msg" };
            let open = OpenItem {
                is_reasoning,
                id: format!("{kind}_{}_{index}", self.suffix),
                text: String::new(),
                logprobs: Vec::new(),
            };
            let item = open.item(&json!([]), "in_progress");
            self.push(
                "response.output_item.added",
                json!({"output_index": index, "item": item}),
            );
            let data = self.place(
                &open.id,
                json!({"content_index": 0, "part": open.part("", &[])}),
            );
            self.push("response.content_part.added", data);
            open
        };
        let open = self.open.insert(open);
        open.text.push_str(text);
        let (kind, id) = (format!("{}.delta", open.event()), open.id.clone());
        let mut data = json!({"content_index": 0, "delta": text});
        if !is_reasoning {
            data["logprobs"] = json!(logprobs);
        }
        open.logprobs.extend(logprobs);
        let data = self.place(&id, data);
        self.push(&kind, data);
    }

    /// Ends the item at hand.
    fn close(&mut self, status: &str) {
        let Some(open) = self.open.take() else {
            return;
        };
        let mut data = json!({"content_index": 0, "text": open.text});
        if !open.is_reasoning {
            data["logprobs"] = json!(open.logprobs);
        }
        let data = self.place(&open.id, data);
        self.push(&format!("{}.done", open.event()), data);
        let part = open.part(&open.text, &open.logprobs);
        let data = self.place(&open.id, json!({"content_index": 0, "part": part}));
        self.push("response.content_part.done", data);
        self.done(open.item(&json!([part]), status));
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.output.push(item);
    }

    fn call(&mut self, call: &str, name: &str, arguments: &str) {
        self.close("completed");
        let index = self.output.len();
        let id = format!("fc_{}_{index}", self.suffix);
        let item = |arguments: &str, status: &str| {
            json!({"id": id, "type": "function_call", "call_id": call, "name": name,
                "arguments": arguments, "status": status})
        };
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item("", "in_progress")}),
        );
        for piece in pieces(arguments) {
            let data = self.place(&id, json!({ "delta": piece }));
            self.push("response.function_call_arguments.delta", data);
        }
        let data = self.place(&id, json!({"name": name, "arguments": arguments}));
        self.push("response.function_call_arguments.done", data);
        self.done(item(arguments, "completed"));
    }

    fn end(&mut self, end: &Result<AnswerEnd, Problem>) -> Value {
        self.has_ended = true;
        let (status, more) = match end {
            Ok(end) => {
                let usage = end.usage.as_ref().map(usage_json);
                match end.finish {
                    "length" => (
                        "incomplete",
                        json!({"usage": usage,
                            "incomplete_details": {"reason": "max_output_tokens"}}),
                    ),
                    "content_filter" => (
                        "incomplete",
                        json!({"usage": usage,
                            "incomplete_details": {"reason": "content_filter"}}),
                    ),
                    _ => ("completed", json!({ "usage": usage })),
                }
            }
            Err(problem) => (
                "failed",
                json!({"error": {"code": problem.code, "message": problem.detail}}),
            ),
        };
        self.close(if status == "completed" {
            status
        } else {
            "incomplete"
        });
        let response = self.response(status, &more);
        self.push(
            &format!("response.{status}"),
            json!({ "response": response }),
        );
        response
    }

    /// Returns the response with the items so far.
    fn response(&self, status: &str, more: &Value) -> Value {
        let mut response = self.head.clone();
        response.insert("status".to_owned(), json!(status));
        response.insert("output".to_owned(), json!(self.output));
        for (name, value) in more.as_object().into_iter().flatten() {
            response.insert(name.clone(), value.clone());
        }
        Value::Object(response)
    }

    /// Adds the place of the item at hand.
    fn place(&self, id: &str, mut data: Value) -> Value {
        data["item_id"] = json!(id);
        data["output_index"] = json!(self.output.len());
        data
    }

    fn push(&mut self, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.events.push(data);
    }
}

fn usage_json(usage: &Usage) -> Value {
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    json!({"input_tokens": input, "output_tokens": output,
        "total_tokens": input.saturating_add(output),
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens}})
}
