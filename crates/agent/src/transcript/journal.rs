//! A transcript as the journal of a run.
//!
//! Each entry is written before its event is emitted. Calls of one answer end in any order, and each
//! result is written when it arrives. It is inserted between the results that are already present, so
//! the results in a transcript are always in the order of their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_graph::{Journal, NodeError, NodeLocation};
use logue_harness::BoxFuture;
use logue_harness::chat::TurnNote;
use logue_message::{ChatMessage, Role, ShapeError, ToolCall};
use serde_json::{Value, json};

use crate::transcript::item::{TranscriptError, TranscriptItem, TranscriptWriter};

/// The key of a note about calls that wait for a decision.
const UNDECIDED: &str = "undecided";

/// Returns the note that calls begin, or cease, to wait for a decision.
///
/// Recovery of sessions skips it: their journal has a note for each started call.
pub(crate) fn undecided_note(is_waiting: bool) -> Value {
    json!({ UNDECIDED: is_waiting })
}

/// Appends the messages of a run to a transcript. Cloning shares it.
#[derive(Clone)]
pub(crate) struct TranscriptJournal {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    transcript: Box<dyn TranscriptWriter>,
    /// The calls of the latest answer.
    calls: Vec<ToolCall>,
    /// The position of each call by its id.
    positions: BTreeMap<String, usize>,
    /// The positions of the calls whose results are written.
    written: BTreeSet<usize>,
    /// The received part of the answer.
    part: String,
}

impl TranscriptJournal {
    pub(crate) fn new(transcript: Box<dyn TranscriptWriter>) -> Self {
        let inner = Inner {
            transcript,
            calls: Vec::new(),
            positions: BTreeMap::new(),
            written: BTreeSet::new(),
            part: String::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Expects the results of calls that are in the transcript.
    pub(crate) fn expect(&self, calls: Vec<ToolCall>) {
        self.lock().expect(calls);
    }

    /// Writes the next piece of an answer that is being received.
    pub(crate) fn write_part(&self, piece: &str) -> Result<(), TranscriptError> {
        let mut inner = self.lock();
        let mut part = std::mem::take(&mut inner.part);
        part.push_str(piece);
        let written = match part.trim() {
            // White space is not a message.
            "" => Ok(()),
            _ => inner.transcript.append_part(&part),
        };
        inner.part = part;
        written
    }

    /// Writes a message of the turn.
    ///
    /// Returns the number of messages written earlier that follow this one in the transcript.
    pub(crate) fn write(&self, message: &ChatMessage) -> Result<usize, TranscriptError> {
        let mut inner = self.lock();
        inner.part.clear();
        let elements = match message.role {
            Role::Assistant => {
                inner
                    .transcript
                    .append(&TranscriptItem::from_answer(message))?;
                inner.expect(message.tool_calls.clone());
                return Ok(0);
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                let at = inner.positions.get(&id).copied();
                let call = at.and_then(|at| inner.calls.get(at).cloned());
                let name = message.name.clone().unwrap_or_default();
                let call = call.unwrap_or_else(|| ToolCall::new(id, name, ""));
                let later = at.map_or(0, |at| inner.written.range(at + 1..).count());
                let text = message.text();
                let images = message.content.images().cloned().collect();
                let result = TranscriptItem::ToolResponse { call, text, images };
                inner.transcript.insert(&result, later)?;
                inner.written.extend(at);
                return Ok(later);
            }
            Role::User => vec![TranscriptItem::User(message.text())],
            Role::System => Vec::new(),
        };
        inner.transcript.append(&elements)?;
        Ok(0)
    }

    /// Records whether the calls of the latest answer wait for a decision.
    fn decision(&self, note: &Value) -> Result<(), TranscriptError> {
        let Inner {
            transcript, calls, ..
        } = &mut *self.lock();
        match note.get(UNDECIDED).and_then(Value::as_bool) {
            Some(true) => transcript.await_decision(calls),
            Some(false) => transcript.decided(),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn expect(&mut self, calls: Vec<ToolCall>) {
        self.transcript.expect(&calls);
        self.written.clear();
        // Of two calls with one id, the first is meant.
        let ids = calls.iter().enumerate().rev();
        self.positions = ids.map(|(at, call)| (call.id.clone(), at)).collect();
        self.calls = calls;
    }
}

impl Journal for TranscriptJournal {
    fn note(&self, _: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        let written = match TurnNote::from_json(&entry) {
            Ok(TurnNote::Continuation { calls, .. }) => {
                self.expect(calls.tool_calls);
                Ok(())
            }
            Ok(
                TurnNote::Message(message)
                | TurnNote::Step { message, .. }
                | TurnNote::Rejected(message),
            ) => self.write(&message).map(drop).map_err(failed),
            Ok(TurnNote::Other) => self.decision(&entry).map_err(failed),
            Ok(TurnNote::Part(piece)) => self.write_part(&piece).map_err(failed),
            Ok(_) => Ok(()),
            Err(cause) => Err(invalid(&cause)),
        };
        Box::pin(std::future::ready(written))
    }
}

/// Returns the error of a note whose message is invalid.
fn invalid(cause: &str) -> NodeError {
    NodeError::new(format!("invalid message in a journal note: {cause}"))
        .with_category(ShapeError::CATEGORY)
}

/// Converts a transcript error to the error of the node that wrote the entry.
fn failed(error: TranscriptError) -> NodeError {
    NodeError::new(error.to_string())
        .with_category(error.category())
        .with_source(error)
}
