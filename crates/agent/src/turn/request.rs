//! The messages of a request, from a stored conversation.
//!
//! A stored conversation is a log: turns that ran during a suspension are between a call and its
//! result. Providers require each result directly after its call, and a request that ends with the
//! message to answer. So a call is moved to its first result, and a pending call gets a result that
//! says so. A part of an answer that a later answer supersedes is left out. The log itself never
//! changes.

use std::collections::BTreeMap;

use logue_graph::List;
use logue_message::{ChatMessage, Role, repair_history, without_superseded};

use crate::permission::approval::is_pending;

/// The result of a pending call in a request.
const WAITING: &str = "This call was not run yet: it waits for the approval of a person.";

/// Builds the messages of a request from a prefix and a stored conversation. Linear.
pub(crate) fn request_messages(
    prefix: &[ChatMessage],
    conversation: &List<ChatMessage>,
) -> Vec<ChatMessage> {
    let mut log = Log {
        kept: Vec::with_capacity(prefix.len() + conversation.len()),
        ..Log::default()
    };
    for message in without_superseded(prefix.iter().chain(conversation)) {
        log.take(message.clone());
    }
    let (mut history, _) = repair_history(log.into_messages());
    // A request ends with the message to answer, which an interrupted answer leaves open.
    while history.last().is_some_and(|last| last.interrupted) {
        history.pop();
    }
    history
}

#[derive(Default)]
struct Log {
    kept: Vec<Option<ChatMessage>>,
    /// The index of the message with an open call, by call id.
    open: BTreeMap<String, usize>,
    /// The latest messages with open calls, and whether other messages follow them.
    passed: BTreeMap<usize, bool>,
    /// Pending calls by the index of their message.
    waiting: BTreeMap<usize, Vec<String>>,
}

impl Log {
    fn take(&mut self, message: ChatMessage) {
        if is_pending(&message) {
            // It directly follows the pending calls.
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
            // Calls that are open before a later response stay open, unless they are pending.
            self.passed
                .retain(|caller, _| self.waiting.contains_key(caller));
            self.passed.insert(at, false);
        }
        self.kept.push(Some(message));
    }

    /// Moves a message with calls after all others, to the place of its first result.
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
