//! What a model is sent of a conversation.
//!
//! A stored conversation is a log: turns that came while another one waited for a person stand
//! between a call and its result. Providers want each result directly behind its call, and a request
//! that ends with what the model has to go on from. So a call is put where its results came, and one
//! that still waits is answered with the news that it does. The log itself is never changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use logue_graph::{List, NodeError};
use logue_message::{ChatMessage, Role, repair_history};
use serde_json::Value;

use crate::permission::approval::is_pending;

/// What a call that waits for a person is answered with.
const WAITING: &str = "This call was not run yet: it waits for the approval of a person.";

/// The messages of a request: a fixed beginning, and a conversation as it is kept. Linear.
pub(crate) fn request_messages(
    prefix: &[ChatMessage],
    conversation: Vec<ChatMessage>,
) -> Vec<ChatMessage> {
    let mut log = Log {
        kept: Vec::with_capacity(prefix.len() + conversation.len()),
        ..Log::default()
    };
    for message in prefix.iter().cloned().chain(conversation) {
        log.take(message);
    }
    let (history, _) = repair_history(log.into_messages());
    history
}

/// The messages of a list, read once: a list that goes on from the one before costs what is new.
#[derive(Debug, Default)]
pub(crate) struct ReadMessages {
    latest: Mutex<(List, Vec<ChatMessage>)>,
}

impl ReadMessages {
    /// The messages of `list`.
    pub(crate) fn of(&self, list: &List) -> Result<Vec<ChatMessage>, NodeError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if !goes_on(&latest.0, list) {
            *latest = (List::new(), Vec::new());
        }
        for index in latest.1.len()..list.len() {
            let value = list.get(index).unwrap_or(&Value::Null);
            let message = ChatMessage::from_json(value).map_err(NodeError::new)?;
            latest.1.push(message);
        }
        latest.0 = list.clone();
        Ok(latest.1.clone())
    }
}

/// Whether `new` is `old` with something appended. Items are shared, so the last one says it.
fn goes_on(old: &List, new: &List) -> bool {
    let Some(last) = old.len().checked_sub(1) else {
        return true;
    };
    match (old.get(last), new.get(last)) {
        (Some(old), Some(new)) => std::ptr::eq(old, new),
        _ => false,
    }
}

#[derive(Default)]
struct Log {
    kept: Vec<Option<ChatMessage>>,
    /// Where the message is that an open call is part of.
    open: BTreeMap<String, usize>,
    /// The latest message with open calls, and whether something else came behind it.
    passed: BTreeMap<usize, bool>,
    /// Calls that wait for a person.
    waiting: BTreeMap<usize, Vec<String>>,
}

impl Log {
    fn take(&mut self, message: ChatMessage) {
        if is_pending(&message) {
            // It stands right behind the calls that wait.
            let latest = self.passed.keys().next_back().copied();
            if let Some(caller) = latest {
                let ids = self.open.iter().filter(|(_, at)| **at == caller);
                self.waiting
                    .insert(caller, ids.map(|(id, _)| id.clone()).collect());
            }
            return;
        }
        if message.role == Role::Tool {
            let id = message.tool_call_id.clone().unwrap_or_default();
            if let Some(caller) = self.open.remove(&id) {
                self.bring(caller);
            }
            self.kept.push(Some(message));
            return;
        }
        for passed in self.passed.values_mut() {
            *passed = true;
        }
        let at = self.kept.len();
        for call in &message.tool_calls {
            self.open.insert(call.id.clone(), at);
        }
        if !message.tool_calls.is_empty() {
            // Calls that were left open before a later answer are open for good, unless they wait.
            self.passed
                .retain(|caller, _| self.waiting.contains_key(caller));
            self.passed.insert(at, false);
        }
        self.kept.push(Some(message));
    }

    /// Puts a message with calls behind what came since, where the first of its results comes.
    fn bring(&mut self, caller: usize) {
        if self.passed.remove(&caller) != Some(true) {
            return;
        }
        let Some(message) = self.kept.get_mut(caller).and_then(Option::take) else {
            return;
        };
        let at = self.kept.len();
        for place in self.open.values_mut().filter(|place| **place == caller) {
            *place = at;
        }
        if let Some(ids) = self.waiting.remove(&caller) {
            self.waiting.insert(at, ids);
        }
        self.kept.push(Some(message));
    }

    fn into_messages(self) -> Vec<ChatMessage> {
        let mut messages = Vec::with_capacity(self.kept.len());
        for (at, message) in self.kept.into_iter().enumerate() {
            let Some(message) = message else { continue };
            let waits: Vec<ChatMessage> = message
                .tool_calls
                .iter()
                .filter(|call| {
                    let ids = self.waiting.get(&at);
                    ids.is_some_and(|ids| ids.contains(&call.id))
                        && self.open.contains_key(&call.id)
                })
                .map(|call| ChatMessage::tool(&call.id, WAITING).with_name(&call.name))
                .collect();
            messages.push(message);
            messages.extend(waits);
        }
        messages
    }
}
