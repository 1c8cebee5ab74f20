//! The journal of a turn that did not end, and its continuation.
//!
//! The journal of a turn holds messages that happened in it, each noted before anything that
//! depends on it. So everything in the journal may have had effects, and nothing outside it had any
//! that was reported. A tool call that was started and has no result has an unknown outcome; it gets
//! a result that says so, and never runs again by itself.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{
    ChatMessage, Role, ToolCall, cancelled_result, repair_history, unstarted_result,
};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::open::message_from_json;
use crate::store::LeaveReason;

const CONTINUES: &str = "continues";
const STEP: &str = "step";
const FIELDS: &str = "fields";
const STARTED: &str = "started";
const EDITED: &str = "edited";
const REJECTED: &str = "rejected";
const PART: &str = "part";
const RECOVERED: &str = "recovered";
/// The number of recoveries from which one that changes nothing is not noted.
///
/// A turn that the store does not let end is tried again and again, and its journal stays short.
const MAX_IDLE_RECOVERIES: usize = 8;
/// The text of a message that stands for a lost one with a call.
const SAY_AGAIN: &str =
    "what is left of the turn is history; send the message again: its tools ask before they run";
const LOST_CALL: &str = "(the call was damaged in the store and is in quarantine)";

/// A note of a turn's journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TurnNote {
    /// A message that happened in the turn. Its calls may have been started.
    Message(ChatMessage),
    /// A message after which the turn can continue, with fields of the state.
    ///
    /// Its calls were started only if [`Started`](Self::Started) says so.
    Step {
        /// The message.
        message: ChatMessage,
        /// The fields, which replace earlier ones.
        fields: Map<String, Value>,
    },
    /// An answer with which the turn cannot continue. None of its calls runs.
    Rejected(ChatMessage),
    /// The calls of the history with which the turn continues.
    ///
    /// A node notes them before it runs them. Without the note, a crash would hide that they were
    /// begun.
    Continuation {
        /// A message with the calls.
        calls: ChatMessage,
        /// Whether a call counts as started only if [`Started`](Self::Started) says so.
        starts_noted: bool,
    },
    /// A call of the latest message is about to run.
    Started {
        /// The id of the call.
        call_id: String,
        /// The arguments that run, if a person replaced those of the call.
        edited: Option<String>,
    },
    /// The next piece of an answer that is being received.
    ///
    /// Without the message that follows, the pieces are an interrupted answer. The next answer of
    /// the turn supersedes it.
    Part(String),
    /// The process of the owner was asked to end and gave the session back.
    Left,
    /// The store did not let the turn end, and its owner gave the session back.
    StoreFailed,
    /// Another owner took the turn over.
    Recovered {
        /// The number of messages noted so far with which the turn continues.
        kept: usize,
    },
    /// A note of another kind, which recovery skips.
    Other,
}

impl TurnNote {
    /// Returns the JSON form of a continuation whose calls may have been started.
    pub fn continuation(calls: &ChatMessage) -> Value {
        json!({ CONTINUES: calls.to_json() })
    }

    /// Returns the JSON form of a continuation whose calls are noted when they start.
    pub fn continuation_with_starts(calls: &ChatMessage) -> Value {
        json!({ CONTINUES: calls.to_json(), STARTED: [] })
    }

    /// Returns the JSON form of a step.
    pub fn step(message: &ChatMessage, fields: &Map<String, Value>) -> Value {
        json!({ STEP: message.to_json(), FIELDS: fields })
    }

    /// Returns the JSON form of an answer with which the turn cannot continue.
    pub fn rejected(message: &ChatMessage) -> Value {
        json!({ REJECTED: message.to_json() })
    }

    /// Returns the JSON form of the start of a call.
    pub fn started(call_id: &str) -> Value {
        json!({ STARTED: call_id })
    }

    /// Returns the JSON form of the start of a call that a person edited.
    ///
    /// `arguments` are those that run. After a crash, a call with either of them requires approval.
    pub fn started_edited(call_id: &str, arguments: &str) -> Value {
        json!({ STARTED: call_id, EDITED: arguments })
    }

    /// Returns the JSON form of a piece of an answer.
    pub fn part(text: &str) -> Value {
        json!({ PART: text })
    }

    fn recovered(kept: usize) -> Value {
        json!({ RECOVERED: kept })
    }

    /// Reads a note: an object with `role`, `step`, `rejected` or `continues` holds a message.
    ///
    /// # Errors
    /// Returns the cause if the message is invalid.
    pub fn from_json(note: &Value) -> Result<Self, String> {
        if is_quarantined(note) {
            return Err("it was damaged and is in quarantine".to_owned());
        }
        if let Some(calls) = note.get(CONTINUES) {
            return Ok(Self::Continuation {
                calls: message_from_json(calls)?,
                starts_noted: note.get(STARTED).is_some(),
            });
        }
        if let Some(message) = note.get(STEP) {
            let fields = note.get(FIELDS).and_then(Value::as_object);
            return Ok(Self::Step {
                message: message_from_json(message)?,
                fields: fields.cloned().unwrap_or_default(),
            });
        }
        if let Some(message) = note.get(REJECTED) {
            return message_from_json(message).map(Self::Rejected);
        }
        if note.get("role").is_some() {
            return message_from_json(note).map(Self::Message);
        }
        if let Some(call_id) = note.get(STARTED).and_then(Value::as_str) {
            let edited = note.get(EDITED).and_then(Value::as_str);
            return Ok(Self::Started {
                call_id: call_id.to_owned(),
                edited: edited.map(str::to_owned),
            });
        }
        if let Some(text) = note.get(PART).and_then(Value::as_str) {
            return Ok(Self::Part(text.to_owned()));
        }
        match LeaveReason::from_note(note) {
            Some(LeaveReason::ProcessEnds) => return Ok(Self::Left),
            Some(LeaveReason::StoreFailed) => return Ok(Self::StoreFailed),
            None => {}
        }
        if let Some(kept) = note.get(RECOVERED).and_then(Value::as_u64) {
            return Ok(Self::Recovered {
                kept: usize::try_from(kept).unwrap_or(usize::MAX),
            });
        }
        Ok(Self::Other)
    }
}

/// Returns whether a note is the placeholder of a damaged one.
///
/// The damaged one may have been the start of a call, so a turn does not continue without it.
pub(super) fn is_quarantined(note: &Value) -> bool {
    note.get("quarantined").is_some()
}

/// Returns whether a note contains a message that happened in the turn.
pub(super) fn is_message(note: &Value) -> bool {
    note.get("role").is_some() || note.get(STEP).is_some()
}

/// The content of the journal of an unfinished turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Journalled {
    messages: Vec<Noted>,
    /// The calls of the history with which the turn continued.
    continued: Option<ChatMessage>,
    /// The calls of each message, the latest one last.
    batches: Vec<Batch>,
    /// The fields of the state that the latest steps noted.
    pub(super) fields: Map<String, Value>,
    /// The number of times that another owner took it over.
    pub(super) recoveries: usize,
    /// The number of these times after its owner had died.
    crashes: usize,
    /// The reason for which its latest owner gave the session back, if it did.
    left: Option<LeaveReason>,
    /// The calls that were interrupted before that.
    interrupted: Vec<ToolCall>,
    /// The pieces of an answer without its message.
    part: String,
}

#[derive(Clone, Debug)]
struct Noted {
    message: ChatMessage,
    /// Whether the turn can continue after it.
    is_step: bool,
}

/// The calls of one message.
#[derive(Clone, Debug)]
struct Batch {
    calls: Vec<ToolCall>,
    starts_noted: bool,
    /// The started calls, with the arguments that a person gave them.
    started: BTreeMap<String, Option<String>>,
    answered: BTreeSet<String>,
}

impl Batch {
    fn is_started(&self, call: &ToolCall) -> bool {
        !self.starts_noted || self.started.contains_key(&call.id)
    }

    /// The call with the arguments that a person gave it, if so.
    fn edited(&self, call: &ToolCall) -> Option<ToolCall> {
        let arguments = self.started.get(&call.id)?.as_ref()?;
        let edited = ToolCall::new(&call.id, &call.name, arguments.as_str());
        Some(edited.with_kind(call.kind))
    }

    fn unanswered(&self) -> impl Iterator<Item = &ToolCall> {
        let calls = self.calls.iter();
        calls.filter(|call| !self.answered.contains(&call.id))
    }
}

/// Messages of a journal, and the calls of the last of them.
#[derive(Debug, Default)]
pub(super) struct NotedPart<'a> {
    pub(super) messages: Vec<&'a ChatMessage>,
    batch: Option<&'a Batch>,
    results: Vec<&'a ChatMessage>,
}

impl<'a> NotedPart<'a> {
    pub(super) fn calls(&self) -> impl Iterator<Item = &'a ToolCall> + use<'a> {
        self.batch.into_iter().flat_map(|batch| &batch.calls)
    }

    /// The result of a call, if it has one.
    pub(super) fn result(&self, call_id: &str) -> Option<&'a ChatMessage> {
        let mut results = self.results.iter().copied();
        results.find(|result| result.tool_call_id.as_deref() == Some(call_id))
    }

    /// Returns whether a call was started.
    pub(super) fn is_started(&self, call_id: &str) -> bool {
        let mut calls = self.calls();
        let call = calls.find(|call| call.id == call_id);
        let started = call.zip(self.batch);
        started.is_some_and(|(call, batch)| batch.is_started(call))
    }
}

impl Journalled {
    /// Reads the notes of a turn.
    pub(super) fn from_notes(notes: &[Value]) -> Result<Self, Failure> {
        let mut journalled = Self::default();
        for (at, note) in notes.iter().enumerate() {
            let is_lost = is_quarantined(note);
            let note = TurnNote::from_json(note).map_err(|cause| {
                let what = format!("note {at} of the turn's journal is invalid: {cause}");
                let mut failure = Failure::damaged(&what);
                if is_lost {
                    failure.help = Some(SAY_AGAIN.to_owned());
                }
                failure
            })?;
            journalled.add(note);
        }
        journalled.end_part();
        Ok(journalled)
    }

    /// Reads what is left of a journal of which notes were lost.
    ///
    /// A result whose call was lost gets a call without arguments, so that it stays in the history.
    pub(super) fn from_sound_notes(notes: &[Value]) -> Self {
        let mut journalled = Self::default();
        for note in notes
            .iter()
            .filter_map(|note| TurnNote::from_json(note).ok())
        {
            let message = match &note {
                TurnNote::Message(message) | TurnNote::Step { message, .. } => Some(message),
                _ => None,
            };
            if let Some(id) = message.and_then(|message| message.tool_call_id.as_ref()) {
                let mut batches = journalled.batches.iter();
                if !batches.any(|batch| batch.calls.iter().any(|call| call.id == *id)) {
                    let name = message.and_then(|message| message.name.as_deref());
                    let call = ToolCall::new(id.as_str(), name.unwrap_or("unknown"), "{}");
                    let calls = ChatMessage::assistant(LOST_CALL).with_tool_calls(vec![call]);
                    journalled.add(TurnNote::Message(calls));
                }
            }
            journalled.add(note);
        }
        journalled.end_part();
        journalled
    }

    /// Adds a note that is in the journal.
    pub(super) fn add(&mut self, note: TurnNote) {
        // An owner whose takeover was not noted may have died after this.
        match note {
            TurnNote::Left => self.left = Some(LeaveReason::ProcessEnds),
            TurnNote::StoreFailed => self.left = Some(LeaveReason::StoreFailed),
            TurnNote::Recovered { .. } => {}
            _ => self.left = None,
        }
        match note {
            TurnNote::Message(message) => self.push(message, false),
            TurnNote::Step { message, fields } => {
                self.push(message, true);
                self.fields.extend(fields);
            }
            TurnNote::Continuation {
                calls,
                starts_noted,
            } => {
                let known = self.batches.last();
                // A turn that was taken over continues with calls of its own journal.
                let is_known = known.is_some_and(|batch| {
                    let mut ids = calls.tool_calls.iter();
                    ids.all(|call| batch.calls.iter().any(|one| one.id == call.id))
                });
                if !is_known {
                    self.begin(calls.tool_calls.clone(), starts_noted);
                    if self.messages.is_empty() {
                        self.continued = Some(calls);
                    }
                }
            }
            TurnNote::Started { call_id, edited } => {
                if let Some(batch) = self.batches.last_mut() {
                    batch.started.insert(call_id, edited);
                }
            }
            TurnNote::Part(piece) => self.part.push_str(&piece),
            TurnNote::Recovered { kept } => {
                self.end_part();
                self.interrupted.extend(self.interrupted_versions());
                self.messages.truncate(kept);
                self.recoveries += 1;
                self.crashes += usize::from(self.left.take().is_none());
            }
            TurnNote::Rejected(_) | TurnNote::Left | TurnNote::StoreFailed | TurnNote::Other => {}
        }
    }

    /// Keeps the received part of an answer without its message as an interrupted answer.
    fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        if !part.trim().is_empty() {
            self.push(ChatMessage::interrupted(part), true);
        }
    }

    fn push(&mut self, message: ChatMessage, is_step: bool) {
        self.part.clear();
        if message.role == Role::Assistant {
            // The request was repeated, and its answer begins anew.
            while self.has_part() {
                self.messages.pop();
            }
        }
        if message.role == Role::Tool {
            let id = message.tool_call_id.clone().unwrap_or_default();
            let mut batches = self.batches.iter_mut().rev();
            let asked = |batch: &&mut Batch| batch.calls.iter().any(|call| call.id == id);
            if let Some(batch) = batches.find(asked) {
                batch.answered.insert(id);
            }
        } else if !message.tool_calls.is_empty() {
            self.begin(message.tool_calls.clone(), is_step);
        }
        self.messages.push(Noted { message, is_step });
    }

    fn begin(&mut self, calls: Vec<ToolCall>, starts_noted: bool) {
        self.batches.push(Batch {
            calls,
            starts_noted,
            started: BTreeMap::new(),
            answered: BTreeSet::new(),
        });
    }

    /// The messages so far, each time with the calls after them.
    pub(super) fn parts(&self) -> Vec<NotedPart<'_>> {
        let mut batches = self.batches.iter();
        let mut parts: Vec<NotedPart<'_>> = Vec::new();
        if self.continued.is_some() {
            parts.push(NotedPart {
                batch: batches.next(),
                ..NotedPart::default()
            });
        }
        for Noted { message, .. } in &self.messages {
            if message.role == Role::Tool {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let mut latest_first = parts.iter_mut().rev();
                if let Some(part) = latest_first.find(|part| part.calls().any(|one| one.id == id)) {
                    part.results.push(message);
                }
                continue;
            }
            if parts.last().is_none_or(|part| part.batch.is_some()) {
                parts.push(NotedPart::default());
            }
            if let Some(part) = parts.last_mut() {
                part.messages.push(message);
                if !message.tool_calls.is_empty() {
                    part.batch = batches.next();
                }
            }
        }
        parts
    }

    /// Returns whether something was said or done.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.batches.is_empty()
    }

    /// Returns whether calls ran or were refused, so that the turn continues after them.
    pub(super) fn has_begun(&self) -> bool {
        self.kept() > 0 || self.batches.iter().any(|batch| !batch.started.is_empty())
    }

    /// Returns whether a call was started, so that the turn cannot be undone.
    ///
    /// A resumed turn is one whose decision was accepted for good: the results of its denied calls
    /// count too.
    pub(super) fn has_effects(&self, resumed: bool) -> bool {
        self.batches.iter().any(|batch| {
            let answered = resumed && !batch.answered.is_empty();
            answered || batch.calls.iter().any(|call| batch.is_started(call))
        })
    }

    /// Returns whether owners died so often that the turn ends in place of continuing.
    ///
    /// An owner that was asked to end does not count.
    pub(super) const fn is_given_up(&self, most_crashes: usize) -> bool {
        self.crashes >= most_crashes && self.left.is_none()
    }

    /// Returns whether its latest owner gave the session back.
    pub(super) const fn was_left(&self) -> bool {
        self.left.is_some()
    }

    /// Returns whether its latest owner gave the session back because the store failed.
    pub(super) fn was_left_by_failure(&self) -> bool {
        self.left == Some(LeaveReason::StoreFailed)
    }

    /// Returns whether an owner that takes the turn over has to note it.
    pub(super) fn needs_takeover(&self) -> bool {
        let is_same =
            self.was_left() && self.kept() == self.messages.len() && self.interrupted().is_empty();
        !is_same || self.recoveries < MAX_IDLE_RECOVERIES
    }

    /// Returns whether the turn ended within an answer.
    pub(super) fn has_part(&self) -> bool {
        let last = self.messages.last();
        last.is_some_and(|noted| noted.message.interrupted)
    }

    /// The calls that were started and have no result.
    pub(super) fn interrupted(&self) -> Vec<ToolCall> {
        let calls = self.batches.iter().flat_map(|batch| {
            let calls = batch.unanswered();
            calls.filter(|call| batch.is_started(call))
        });
        calls.cloned().collect()
    }

    /// The interrupted calls as the model made them, and as a person edited them.
    fn interrupted_versions(&self) -> Vec<ToolCall> {
        let calls = self.batches.iter().flat_map(|batch| {
            let calls = batch.unanswered();
            let calls = calls.filter(|call| batch.is_started(call));
            calls.flat_map(|call| std::iter::once(call.clone()).chain(batch.edited(call)))
        });
        calls.collect()
    }

    /// The calls that were interrupted in any of its lives.
    pub(super) fn guarded(&self) -> Vec<ToolCall> {
        let now = self.interrupted_versions();
        self.interrupted.iter().cloned().chain(now).collect()
    }

    /// The latest calls that were not started.
    pub(super) fn open_calls(&self) -> Vec<ToolCall> {
        let latest = self.batches.last();
        let calls = latest.into_iter().flat_map(|batch| {
            let calls = batch.unanswered();
            calls.filter(|call| !batch.is_started(call))
        });
        calls.cloned().collect()
    }

    /// The messages with which the turn can continue: the last ones count only if they are steps.
    ///
    /// An answer without a call had no effect. Unless it is a step,
    /// the model is asked again.
    pub(super) fn kept(&self) -> usize {
        let said_only = |noted: &&Noted| {
            let message = &noted.message;
            !noted.is_step && message.role != Role::Tool && message.tool_calls.is_empty()
        };
        let dropped = self.messages.iter().rev().take_while(said_only).count();
        self.messages.len() - dropped
    }

    /// The messages with which the turn continues.
    ///
    /// The open calls have no results yet; every other call has one. An interrupted answer at the
    /// end is left out, as the model is asked for the whole answer again.
    pub(super) fn kept_messages(&self) -> Vec<ChatMessage> {
        let mut messages = self.completed_messages(Remains::Resumable);
        while messages.last().is_some_and(|last| last.interrupted) {
            messages.pop();
        }
        let open = self.open_calls();
        let calls = messages
            .iter()
            .rposition(|message| !message.tool_calls.is_empty());
        let mut at = 0;
        messages.retain(|message| {
            at += 1;
            let id = message.tool_call_id.as_ref();
            let is_open = id.is_some_and(|id| open.iter().any(|call| call.id == *id));
            !is_open || calls.is_some_and(|calls| at <= calls)
        });
        messages
    }

    /// The notes of an owner that takes the turn over.
    pub(super) fn takeover(&self) -> Vec<Value> {
        let kept = TurnNote::recovered(self.kept());
        let cancelled = self.interrupted();
        let cancelled = cancelled
            .iter()
            .map(|call| cancelled_result(call).to_json());
        std::iter::once(kept).chain(cancelled).collect()
    }

    /// The messages that the turn adds to the history if it ends here.
    ///
    /// These are the messages of its journal and a result for each call that has none, including
    /// the calls with which it continued.
    pub(super) fn completed_messages(&self, remains: Remains) -> Vec<ChatMessage> {
        let count = match remains {
            Remains::All => self.messages.len(),
            Remains::Resumable | Remains::Effects => self.kept(),
        };
        let kept = self.messages.iter().take(count);
        let mut noted: Vec<_> = kept.map(|noted| noted.message.clone()).collect();
        if remains == Remains::Effects {
            while noted.last().is_some_and(is_said) {
                noted.pop();
            }
        }
        let is_continuation = self.continued.is_some();
        noted.splice(0..0, self.continued.clone());
        self.answer_unstarted(&mut noted);
        let (noted, _) = repair_history(noted);
        // The continued calls are history already, and only their results are new.
        let noted = noted.into_iter().skip(usize::from(is_continuation));
        noted.collect()
    }
}

impl Journalled {
    /// Adds a result after each message with calls that were not started.
    ///
    /// Without it, the call would get a result that says that it may have run.
    fn answer_unstarted(&self, messages: &mut Vec<ChatMessage>) {
        let mut batches = self.batches.iter();
        let all = std::mem::take(messages);
        for message in all {
            let batch = if message.tool_calls.is_empty() {
                None
            } else {
                // A batch of a message that was dropped has no message here.
                batches.find(|batch| has_ids_of(batch, &message))
            };
            messages.push(message);
            if let Some(batch) = batch {
                let unstarted = batch.unanswered().filter(|call| !batch.is_started(call));
                messages.extend(unstarted.map(unstarted_result));
            }
        }
    }
}

fn has_ids_of(batch: &Batch, message: &ChatMessage) -> bool {
    let ids = message.tool_calls.iter().map(|call| &call.id);
    batch.calls.iter().map(|call| &call.id).eq(ids)
}

/// The part of an unfinished turn that becomes history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// Everything in its journal.
    All,
    /// Everything from which it can continue.
    Resumable,
    /// Its calls and their results.
    Effects,
}

fn is_said(message: &ChatMessage) -> bool {
    message.role != Role::Tool && message.tool_calls.is_empty()
}
