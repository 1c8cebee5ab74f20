//! A transcript as the journal of a run: what is noted is appended before anybody is told of it.

use std::sync::{Arc, Mutex, PoisonError};

use logue_harness::{BoxFuture, Journal, NodeError, NodePlace};
use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::Value;

use crate::element::{Element, Transcript, TranscriptError};

/// Appends the messages of a run to a transcript. Cloning shares it.
#[derive(Clone)]
pub(crate) struct TranscriptJournal {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    transcript: Box<dyn Transcript>,
    /// The calls of the latest answer.
    calls: Vec<ToolCall>,
}

impl TranscriptJournal {
    pub(crate) fn new(transcript: Box<dyn Transcript>) -> Self {
        let inner = Inner {
            transcript,
            calls: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Appends what a note says; one that is no message says nothing that belongs there.
    pub(crate) fn take(&self, note: &Value) -> Result<(), TranscriptError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = logue_harness::chat::continued(note) {
            inner.calls = message.tool_calls;
            return Ok(());
        }
        let Ok(message) = ChatMessage::from_json(note) else {
            return Ok(());
        };
        let elements = match message.role {
            Role::Assistant => {
                inner.calls.clone_from(&message.tool_calls);
                Element::of_answer(&message)
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                let call = inner.calls.iter().find(|call| call.id == id).cloned();
                let name = message.name.clone().unwrap_or_default();
                let call = call.unwrap_or_else(|| ToolCall::new(id, name, ""));
                let text = message.text();
                vec![Element::ToolResponse { call, text }]
            }
            Role::User => vec![Element::User(message.text())],
            Role::System => Vec::new(),
        };
        inner.transcript.append(&elements)
    }
}

impl Journal for TranscriptJournal {
    fn note(&self, _: &NodePlace, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(std::future::ready(self.take(&entry).map_err(failed)))
    }
}

/// A transcript that could not be written, as the error of the node that noted something.
fn failed(error: TranscriptError) -> NodeError {
    NodeError::new(error.to_string())
        .with_category(error.category())
        .with_source(error)
}
