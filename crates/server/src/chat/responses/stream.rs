//! The events of a response, whose numbers are the same each time it is read.

use std::collections::HashMap;

use logue_agent::is_pending;
use logue_message::ChatMessage;
use serde_json::{Value, json};

use super::items::{call_id, call_item, message_id, message_item, text_part};
use super::stored::{ResponseEnd, ResponseHead};

/// Maps the events of a turn to those of the Responses API.
///
/// The mapping depends on the events alone, so that a client that names the number of the last
/// event that it received gets the following ones from any server.
pub(super) struct ResponseEvents {
    head: ResponseHead,
    suffix: String,
    /// The number of the next event.
    sequence: u64,
    /// The index of the next item.
    index: usize,
    /// The answer whose text arrives.
    open: Option<OpenMessage>,
    /// The number of complete texts.
    texts: usize,
    /// The number of withdrawn answers.
    withdrawn: usize,
    calls: HashMap<String, OpenCall>,
    /// The ids of complete items, with those under which they were sent.
    sent: HashMap<String, String>,
    events: Vec<Value>,
}

struct OpenMessage {
    id: String,
    index: usize,
    text: String,
}

struct OpenCall {
    index: usize,
    name: String,
    arguments: String,
}

impl ResponseEvents {
    /// Creates the mapping with the first events.
    pub(super) fn new(head: ResponseHead, suffix: String) -> Self {
        let mut new = Self {
            head,
            suffix,
            sequence: 0,
            index: 0,
            open: None,
            texts: 0,
            withdrawn: 0,
            calls: HashMap::new(),
            sent: HashMap::new(),
            events: Vec::new(),
        };
        let begun = new.head.with(&ResponseEnd {
            status: "in_progress",
            ..ResponseEnd::default()
        });
        new.push("response.created", json!({ "response": begun }));
        new.push("response.in_progress", json!({ "response": begun }));
        new
    }

    /// Returns the number of the last event.
    pub(super) const fn last(&self) -> u64 {
        self.sequence.saturating_sub(1)
    }

    /// Returns the events since the last call.
    pub(super) fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Maps an event of the turn.
    pub(super) fn event(&mut self, event: &Value) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_of_agent = event.get("agent").is_some_and(|agent| !agent.is_null());
        match text("type") {
            // Text before a call is not part of a structured answer.
            "answer.delta" if self.head.format.is_some() => {}
            "answer.delta" => self.delta(text("text")),
            "answer.completed" => {
                let is_structured = self.head.format.is_some();
                let content = event.get("message").map(|own| text_of(own, is_structured));
                let content = content.unwrap_or_default();
                if !content.is_empty() {
                    self.complete(&content);
                }
            }
            // The text of an answer without an end is not part of the response.
            "answer.started" | "answer.withdrawn" | "turn.recovered" => self.withdraw(),
            "tool.started" if !is_of_agent => {
                self.begin_call(text("call_id"), text("name"), text("arguments"));
            }
            // The result of a call without a text is in the outcome.
            "tool.ended" if !is_of_agent && event.get("text").is_some() => {
                self.end_call(text("call_id"), text("text"));
            }
            _ => {}
        }
    }

    fn delta(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.open.is_none() {
            self.begin_message();
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
            let data = json!({"item_id": open.id, "output_index": open.index, "content_index": 0,
                "delta": text, "logprobs": []});
            self.push("response.output_text.delta", data);
        }
    }

    fn begin_message(&mut self) {
        let mut id = message_id(&self.suffix, self.texts);
        if self.withdrawn > 0 {
            id = format!("{id}_{}", self.withdrawn);
        }
        let index = self.next_index();
        let item = json!({"id": id, "type": "message", "role": "assistant",
            "status": "in_progress", "content": []});
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        self.push(
            "response.content_part.added",
            json!({"item_id": id, "output_index": index, "content_index": 0,
                "part": text_part("")}),
        );
        let text = String::new();
        self.open = Some(OpenMessage { id, index, text });
    }

    /// Ends the answer at hand with its whole text.
    fn complete(&mut self, text: &str) {
        // The pieces of a redacted answer, and of another process's, are not emitted.
        if self.open.is_none() {
            self.delta(text);
        }
        if let Some(open) = self.open.take() {
            let own = message_id(&self.suffix, self.texts);
            self.sent.insert(own, open.id.clone());
            self.texts += 1;
            self.end_message(&open, text, "completed");
        }
    }

    fn withdraw(&mut self) {
        if let Some(open) = self.open.take() {
            self.withdrawn += 1;
            let text = open.text.clone();
            self.end_message(&open, &text, "incomplete");
        }
    }

    fn end_message(&mut self, open: &OpenMessage, text: &str, status: &str) {
        let (id, index) = (&open.id, open.index);
        self.push(
            "response.output_text.done",
            json!({"item_id": id, "output_index": index, "content_index": 0, "text": text,
                "logprobs": []}),
        );
        self.push(
            "response.content_part.done",
            json!({"item_id": id, "output_index": index, "content_index": 0,
                "part": text_part(text)}),
        );
        let item = message_item(id, text, status);
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn begin_call(&mut self, call: &str, name: &str, arguments: &str) {
        let index = self.next_index();
        let item = call_item(&self.suffix, (call, name, arguments), None);
        let id = item["id"].clone();
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        let place = json!({"item_id": id, "output_index": index});
        self.push("response.mcp_call.in_progress", place.clone());
        let mut whole = place;
        whole["arguments"] = json!(arguments);
        self.push("response.mcp_call_arguments.done", whole);
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        let open = OpenCall {
            index,
            name,
            arguments,
        };
        self.calls.insert(call.to_owned(), open);
    }

    fn end_call(&mut self, call: &str, output: &str) {
        // A call of a process that ended has no beginning here.
        let Some(open) = self.calls.remove(call) else {
            return;
        };
        let call = (call, open.name.as_str(), open.arguments.as_str());
        let item = call_item(&self.suffix, call, Some(output));
        self.end_call_item(open.index, &item);
    }

    /// Ends a call whose item was added.
    fn end_call_item(&mut self, index: usize, item: &Value) {
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        let kind = match item["status"].as_str() {
            Some("failed") => "response.mcp_call.failed",
            _ => "response.mcp_call.completed",
        };
        self.push(kind, json!({"item_id": id, "output_index": index}));
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.sent.insert(id.clone(), id);
    }

    /// Ends the answer at hand if the response contains its text: what was interrupted is kept.
    fn keep_open(&mut self, output: &[Value]) {
        let own = message_id(&self.suffix, self.texts);
        let Some(item) = output.iter().find(|item| item["id"] == own.as_str()) else {
            return;
        };
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        let open = self.open.as_ref();
        let Some(remaining) = open.and_then(|open| text.strip_prefix(open.text.as_str())) else {
            return;
        };
        self.delta(remaining);
        if let Some(open) = self.open.take() {
            let status = item["status"].as_str().unwrap_or("completed");
            self.sent.insert(own, open.id.clone());
            self.texts += 1;
            self.end_message(&open, text, status);
        }
    }

    /// Maps the end of the turn: the items that were not sent, and the whole response.
    pub(super) fn end(&mut self, mut end: ResponseEnd) {
        self.keep_open(&end.output);
        self.withdraw();
        for item in &mut end.output {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            match self.sent.get(&id) {
                Some(sent) => item["id"] = json!(sent),
                None => {
                    if let Some(sent) = self.whole_item(item) {
                        item["id"] = json!(sent);
                    }
                }
            }
        }
        let kind = match end.status {
            "completed" => "response.completed",
            "incomplete" => "response.incomplete",
            // Clients know no event of a cancelled response: its status distinguishes it from a failed one.
            _ => "response.failed",
        };
        let response = self.head.with(&end);
        self.push(kind, json!({ "response": response }));
    }

    /// Sends an item at once. Returns the id of a message, which may be another attempt's.
    fn whole_item(&mut self, item: &Value) -> Option<String> {
        if item["type"] == "message" {
            self.delta(item["content"][0]["text"].as_str().unwrap_or_default());
            let open = self.open.take()?;
            let text = open.text.clone();
            let status = item["status"].as_str().unwrap_or("completed");
            self.end_message(&open, &text, status);
            self.texts += 1;
            return Some(open.id);
        }
        // A call that had begun ends where it was added.
        let begun = self.calls.iter();
        let begun = begun
            .filter(|(call, _)| item["id"] == call_id(&self.suffix, call))
            .map(|(_, open)| open.index)
            .next();
        if let Some(index) = begun {
            self.end_call_item(index, item);
            return None;
        }
        let index = self.next_index();
        let data = json!({"output_index": index, "item": item});
        self.push("response.output_item.added", data.clone());
        self.push("response.output_item.done", data);
        None
    }

    fn next_index(&mut self) -> usize {
        self.index += 1;
        self.index - 1
    }

    fn push(&mut self, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.events.push(data);
    }
}

/// Returns the text of an answer as JSON; the list of waiting calls has none.
fn text_of(message: &Value, is_structured: bool) -> String {
    match ChatMessage::from_json(message) {
        Ok(message) if is_structured && !message.tool_calls.is_empty() => String::new(),
        Ok(message) if !is_pending(&message) => message.text(),
        _ => String::new(),
    }
}
