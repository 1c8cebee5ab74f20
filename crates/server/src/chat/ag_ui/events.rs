//! Events of a turn's log as events of AG-UI.

use std::collections::BTreeSet;

use logue_message::{ChatMessage, Role};
use serde_json::{Value, json};

use super::messages::shown;

/// The end of a turn.
pub(super) enum TurnEnd {
    Completed,
    /// The turn waits for this signal.
    Suspended(Value),
    /// The error, as the log has it.
    Failed(Value),
}

/// Maps the logged events of one turn to events of AG-UI.
///
/// The same log gives the same events. Reasoning is only marked by its beginning and its end.
pub(super) struct TurnMapping {
    /// The beginning of the ids of its messages, unique in the thread.
    name: String,
    /// The number of requests to the model.
    requests: usize,
    /// Whether the current answer has an open text.
    in_text: bool,
    /// The text of the current answer as the client has it.
    text: String,
    /// Whether the current answer has an open reasoning.
    in_reasoning: bool,
    /// The number of completed answers.
    answers: usize,
    /// The calls whose results were sent.
    results: BTreeSet<String>,
    /// Whether the client has a text that is not part of the history.
    pub(super) is_dirty: bool,
}

impl TurnMapping {
    /// Creates the mapping of a turn whose messages have ids that begin with `name`.
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            requests: 0,
            in_text: false,
            text: String::new(),
            in_reasoning: false,
            answers: 0,
            results: BTreeSet::new(),
            is_dirty: false,
        }
    }

    /// Appends what the client receives for a logged event. Returns the end of the turn.
    pub(super) fn map(&mut self, event: &Value, sent: &mut Vec<Value>) -> Option<TurnEnd> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "answer.started" => {
                self.close(sent);
                self.requests += 1;
            }
            "answer.thinking" if !self.in_reasoning => {
                self.in_reasoning = true;
                let id = self.reasoning_id();
                sent.push(json!({"type": "REASONING_START", "messageId": id}));
            }
            "answer.delta" => self.delta(text("text"), sent),
            "answer.completed" => {
                if let Some(message) = event.get("message").and_then(shown) {
                    self.answer(&message, sent);
                }
            }
            "answer.withdrawn" => self.withdraw(text("reason"), sent),
            "turn.recovered" => self.withdraw("recovered", sent),
            // The result of a call without a text is in the outcome.
            "tool.ended" if event.get("agent").is_none() && event.get("text").is_some() => {
                self.result(text("call_id"), text("text"), sent);
            }
            // Events between are missing.
            "reset" => {
                self.close(sent);
                self.is_dirty = true;
            }
            "turn.completed" => {
                self.rest(event, sent);
                return Some(TurnEnd::Completed);
            }
            "turn.suspended" => {
                self.rest(event, sent);
                let signal = event.get("signal").cloned();
                return Some(TurnEnd::Suspended(signal.unwrap_or_default()));
            }
            "turn.failed" => {
                self.rest(event, sent);
                let error = event.get("error").cloned();
                return Some(TurnEnd::Failed(error.unwrap_or_default()));
            }
            _ => {}
        }
        None
    }

    fn message_id(&self) -> String {
        format!("{}-{}", self.name, self.requests)
    }

    fn reasoning_id(&self) -> String {
        format!("{}-reasoning", self.message_id())
    }

    /// Ends what is open of the current answer. Returns whether it was a text.
    fn close(&mut self, sent: &mut Vec<Value>) -> bool {
        if std::mem::take(&mut self.in_reasoning) {
            let id = self.reasoning_id();
            sent.push(json!({"type": "REASONING_END", "messageId": id}));
        }
        let had_text = std::mem::take(&mut self.in_text);
        if had_text {
            let id = self.message_id();
            sent.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
        }
        had_text
    }

    fn delta(&mut self, text: &str, sent: &mut Vec<Value>) {
        if text.is_empty() {
            return;
        }
        let id = self.message_id();
        if !self.in_text {
            self.close(sent);
            self.in_text = true;
            self.text.clear();
            sent.push(json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}));
        }
        sent.push(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}));
        self.text.push_str(text);
    }

    /// Adds a completed answer, whose text may have arrived in pieces.
    fn answer(&mut self, message: &ChatMessage, sent: &mut Vec<Value>) {
        let id = self.message_id();
        if !self.in_text {
            self.delta(&message.text(), sent);
        }
        self.close(sent);
        self.answers += 1;
        for call in &message.tool_calls {
            sent.push(json!({"type": "TOOL_CALL_START", "toolCallId": call.id,
                "toolCallName": call.name, "parentMessageId": id}));
            let arguments = call.arguments.as_str();
            if !arguments.is_empty() {
                sent.push(json!({"type": "TOOL_CALL_ARGS", "toolCallId": call.id,
                    "delta": arguments}));
            }
            sent.push(json!({"type": "TOOL_CALL_END", "toolCallId": call.id}));
        }
    }

    /// Adds the result of a call. Returns whether it was not sent before.
    fn result(&mut self, call: &str, text: &str, sent: &mut Vec<Value>) -> bool {
        let is_new = self.results.insert(call.to_owned());
        if is_new {
            let id = format!("{}-result-{call}", self.name);
            sent.push(
                json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call,
                "role": "tool", "content": text}),
            );
        }
        is_new
    }

    /// Ends an incomplete answer that the history will not contain.
    fn withdraw(&mut self, reason: &str, sent: &mut Vec<Value>) {
        let id = self.message_id();
        if self.close(sent) {
            self.is_dirty = true;
            // A repeated request continues under the same number.
            self.requests += 1;
            sent.push(json!({"type": "CUSTOM", "name": "logue.withdrawn",
                "value": {"messageId": id, "reason": reason}}));
        }
    }

    /// Adds the messages of an outcome that no earlier event contained.
    fn rest(&mut self, event: &Value, sent: &mut Vec<Value>) {
        let messages = event.get("messages").and_then(Value::as_array);
        let messages: Vec<ChatMessage> = messages.into_iter().flatten().filter_map(shown).collect();
        let answers = messages.iter().filter(|own| own.role == Role::Assistant);
        // The history keeps the text of an interrupted answer.
        let kept = answers.skip(self.answers).map(ChatMessage::text).next();
        let remaining = kept
            .as_deref()
            .and_then(|text| text.strip_prefix(&*self.text));
        let is_kept = self.in_text && remaining.is_some();
        if is_kept {
            let remaining = remaining.unwrap_or_default().to_owned();
            self.delta(&remaining, sent);
        } else if self.close(sent) {
            self.is_dirty = true;
        }
        let mut known = self.answers;
        for message in &messages {
            match message.role {
                Role::Assistant if known > 0 => known -= 1,
                Role::Assistant if self.in_text => self.answer(message, sent),
                Role::Assistant => {
                    self.requests += 1;
                    self.answer(message, sent);
                }
                Role::Tool => {
                    let call = message.tool_call_id.clone().unwrap_or_default();
                    // The client has answers that follow the result.
                    self.is_dirty |= self.result(&call, &message.text(), sent) && known > 0;
                }
                Role::User | Role::System => {}
            }
        }
    }
}
