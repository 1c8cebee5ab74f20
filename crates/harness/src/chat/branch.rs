//! Branches of a session: copies that end at some step, and continue from there.
//!
//! Nothing of the session changes. A call that has no result in the branch gets one that says so,
//! unless the branch runs it or waits for a decision about it.

use std::collections::BTreeSet;

use logue_graph::{IdSource, PausedRun};
use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::store::{EntryPayload, NewSuspension, SessionFork, Store, StoreError, SuspensionFilter};

use super::continuation::calls_to_json;
use super::steps::{SessionStep, StepKind, steps_of};
use super::timeline::{Timeline, is_open, open_calls};

/// The result of a call in a branch that has no other one.
const CUT_OFF: &str = "E-TOOL-CANCELLED: this conversation is a copy that has no result of this \
     call. The call does not run here.";

/// The reason that a session was not branched. Nothing was created.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchError {
    /// The session has no such step.
    #[error("no step {step}: the session has {steps}")]
    UnknownStep {
        /// The step.
        step: u64,
        /// The number of the last step.
        steps: u64,
    },
    /// The session has fewer messages.
    #[error("not {messages} messages: the session has {existing}")]
    TooManyMessages {
        /// The requested number.
        messages: u64,
        /// The number of messages of the session.
        existing: u64,
    },
    /// The step belongs to a turn that runs.
    #[error("the turn of step {step} has not ended")]
    NotEnded {
        /// The step.
        step: u64,
    },
    /// The step is the end of its turn, and is not changed.
    #[error("nothing follows step {step}, the end of its turn")]
    NothingFollows {
        /// The step.
        step: u64,
    },
    /// The step has nothing that can be replaced.
    #[error("step {step} is a {kind}, which cannot be edited")]
    NotEditable {
        /// The step.
        step: u64,
        /// The kind of the step.
        kind: &'static str,
    },
    /// The new content does not fit the step.
    #[error("step {step} cannot be edited: {cause}")]
    InvalidEdit {
        /// The step.
        step: u64,
        /// The violation.
        cause: String,
    },
    /// The record of a suspended turn cannot be read.
    #[error("the suspended turn `{invocation_id}` cannot be copied: {reason}")]
    RecordInvalid {
        /// The invocation.
        invocation_id: String,
        /// The reason.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The last part of a session that a branch begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchPoint {
    /// Its latest message.
    #[default]
    Latest,
    /// So many messages.
    Messages(u64),
    /// The step of that number.
    Step(u64),
}

/// Changes the copy of a suspended run and returns the name of its signal.
///
/// The copy has its new ids; the other argument is the name of the signal in the session. Nodes that keep an invocation id in their state need it.
pub type PendingRename = dyn Fn(&mut PausedRun, &str) -> String + Send + Sync;

/// A new session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionBranch {
    /// Its id.
    pub session: String,
    /// The number of its messages.
    pub messages: u64,
    /// The entry of its inbox that continues the turn, if any.
    pub entry: Option<u64>,
    /// The signals for which its turns wait.
    pub signals: Vec<String>,
}

/// The rows of a branch.
struct Rows {
    upto: u64,
    /// The messages after them.
    added: Vec<ChatMessage>,
}

/// Creates a session that begins as another one.
///
/// Calls without a result get one that says that they do not run here. With `pending`, waiting turns
/// whose suspension is in the copy wait there too, for signals of their own.
///
/// # Errors
/// Returns [`BranchError`]; nothing is created then.
pub async fn fork_session(
    store: &dyn Store,
    session: &str,
    into: &str,
    point: BranchPoint,
    pending: Option<(&dyn IdSource, &PendingRename)>,
    now: Timestamp,
) -> Result<SessionBranch, BranchError> {
    let timeline = Timeline::read(store, session).await?;
    let rows = match point {
        BranchPoint::Latest => Rows::first(timeline.len()),
        BranchPoint::Messages(messages) if messages > timeline.len() => {
            let existing = timeline.len();
            return Err(BranchError::TooManyMessages { messages, existing });
        }
        BranchPoint::Messages(mut upto) => {
            // Without the answer that follows it, a superseded part would be current again.
            while upto > 0 && timeline.is_superseded(upto - 1) {
                upto -= 1;
            }
            Rows::first(upto)
        }
        BranchPoint::Step(number) => rows_to(&timeline, &step_at(&timeline, number)?),
    };
    let mut fork = SessionFork::new(rows.upto, into, now);
    let mut kept = BTreeSet::new();
    if let Some((ids, rename)) = pending {
        for waiting in suspended(store, session).await? {
            let at = timeline.suspended_at(&waiting.invocation_id);
            // The suspension of a copied turn is as old as its session.
            if at.unwrap_or_else(|| timeline.len()) > rows.upto {
                continue;
            }
            let invocation_id = ids.new_id();
            let mut paused = PausedRun::from_json(&waiting.record).map_err(|error| {
                BranchError::RecordInvalid {
                    invocation_id: waiting.invocation_id.clone(),
                    reason: error.to_string(),
                }
            })?;
            paused.rename(&invocation_id, into);
            let signal_id = rename(&mut paused, &waiting.signal_id);
            paused.rename_signal(&signal_id);
            let suspension = NewSuspension {
                signal_id,
                metadata: waiting.metadata,
                record: paused.to_json(),
            };
            fork.suspended.push((invocation_id, suspension));
            kept.insert(at.map(|_| waiting.invocation_id));
        }
    }
    let open = rows.open_calls(&timeline);
    let cut_off = open.iter().filter(|(position, _)| {
        let invocation = timeline.invocation_at(*position).map(str::to_owned);
        !kept.contains(&invocation)
    });
    let cut_off = cut_off.map(|(_, call)| cut_off_result(call));
    let messages: Vec<_> = cut_off.chain(rows.added.iter().cloned()).collect();
    fork.messages = messages.iter().map(ChatMessage::to_json).collect();
    create(store, session, fork).await
}

/// Creates a session in which a turn continues from one of its steps.
///
/// It has the messages up to the step. `edit` replaces the text of the step, or the arguments of a
/// call. A call runs if it has no result there: of the calls of one answer, those before the step
/// keep their results.
///
/// # Errors
/// Returns [`BranchError`]; nothing is created then.
pub async fn rerun_session(
    store: &dyn Store,
    session: &str,
    into: &str,
    step: u64,
    edit: Option<&str>,
    ids: &dyn IdSource,
    now: Timestamp,
) -> Result<SessionBranch, BranchError> {
    let timeline = Timeline::read(store, session).await?;
    let step = step_at(&timeline, step)?;
    let mut rows = rows_to(&timeline, &step);
    if let Some(edit) = edit {
        rows.replace(edited(&timeline, &step, edit)?, &step);
    }
    let invocation = step.turn.as_ref().map(|turn| turn.invocation_id.as_str());
    let is_own = |position: u64| timeline.invocation_at(position) == invocation;
    let (own, others): (Vec<_>, Vec<_>) = rows
        .open_calls(&timeline)
        .into_iter()
        .partition(|(position, _)| is_own(*position));
    let mut cut_off: Vec<_> = others
        .iter()
        .map(|(_, call)| cut_off_result(call))
        .collect();
    // Only the calls of the latest answer can run.
    let latest = own.iter().map(|(position, _)| *position).max();
    let (open, stale): (Vec<_>, Vec<_>) = own
        .into_iter()
        .partition(|(position, _)| Some(*position) == latest);
    cut_off.extend(stale.iter().map(|(_, call)| cut_off_result(call)));
    let is_end = step.kind == StepKind::Answer && open.is_empty() && is_last(&timeline, &step);
    if is_end && edit.is_none() {
        return Err(BranchError::NothingFollows { step: step.number });
    }
    let mut fork = SessionFork::new(rows.upto, into, now);
    let guarded = rows.interrupted(&timeline, is_own);
    // The edited message keeps its place; results follow it.
    let edited = usize::from(edit.is_some()).min(rows.added.len());
    let results = rows.added.split_off(edited);
    let added = rows.added.into_iter().chain(cut_off).chain(results);
    fork.messages = added.map(|message| message.to_json()).collect();
    if !is_end {
        let upto = fork.upto + fork.messages.len() as u64;
        fork.work = Some(EntryPayload::Continue {
            invocation_id: ids.new_id(),
            said: said(&timeline, &step),
            upto,
            guarded: calls_to_json(&guarded),
            decision: None,
            open: open.into_iter().map(|(_, call)| call.id).collect(),
        });
    }
    create(store, session, fork).await
}

async fn create(
    store: &dyn Store,
    session: &str,
    fork: SessionFork,
) -> Result<SessionBranch, BranchError> {
    let waiting = fork.suspended.iter();
    let branch = SessionBranch {
        session: fork.into.clone(),
        messages: fork.upto + fork.messages.len() as u64,
        entry: fork.work.is_some().then_some(1),
        signals: waiting.map(|(_, one)| one.signal_id.clone()).collect(),
    };
    store.fork(session, fork).await?;
    Ok(branch)
}

/// The turns of a session that can still resume, with their records.
async fn suspended(
    store: &dyn Store,
    session: &str,
) -> Result<Vec<crate::store::Suspension>, StoreError> {
    let filter = SuspensionFilter {
        session: Some(session.to_owned()),
        ..SuspensionFilter::default()
    };
    let mut found = Vec::new();
    for one in store.suspensions(filter).await? {
        if !is_open(one.status) {
            continue;
        }
        let whole = store.suspension(&one.invocation_id).await?;
        found.extend(whole.filter(|whole| is_open(whole.status) && !whole.record.is_null()));
    }
    Ok(found)
}

fn step_at(timeline: &Timeline, number: u64) -> Result<SessionStep, BranchError> {
    let steps = steps_of(timeline);
    let last = steps.last().map_or(0, |step| step.number);
    let step = steps.into_iter().find(|step| step.number == number);
    let step = step.ok_or(BranchError::UnknownStep {
        step: number,
        steps: last,
    })?;
    match step.position {
        Some(_) => Ok(step),
        None => Err(BranchError::NotEnded { step: number }),
    }
}

/// The messages up to a step.
///
/// Of the calls of one answer, those before the step keep their results.
fn rows_to(timeline: &Timeline, step: &SessionStep) -> Rows {
    let position = step.position.unwrap_or_default();
    if step.kind == StepKind::Suspension {
        return Rows::first(position);
    }
    let mut rows = Rows::first(position + 1);
    if let (StepKind::Call, Some(message)) = (step.kind, timeline.message(position)) {
        let calls = message.tool_calls.iter();
        let earlier = calls.take_while(|call| Some(&call.id) != step.call_id.as_ref());
        for call in earlier {
            let later = (position + 1..timeline.len()).filter_map(|at| timeline.message(at));
            let is_result = |one: &&ChatMessage| one.tool_call_id.as_ref() == Some(&call.id);
            rows.added.extend(later.clone().find(is_result).cloned());
        }
    }
    rows
}

impl Rows {
    const fn first(upto: u64) -> Self {
        Self {
            upto,
            added: Vec::new(),
        }
    }

    /// Puts an edited message in the place of the last copied one.
    fn replace(&mut self, message: ChatMessage, step: &SessionStep) {
        self.upto = step.position.unwrap_or_default();
        self.added.insert(0, message);
    }

    fn messages<'a>(
        &'a self,
        timeline: &'a Timeline,
    ) -> impl Iterator<Item = (u64, &'a ChatMessage)> {
        let copied = (0..self.upto).filter_map(|at| Some((at, timeline.message(at)?)));
        copied.chain((self.upto..).zip(&self.added))
    }

    fn open_calls(&self, timeline: &Timeline) -> Vec<(u64, ToolCall)> {
        open_calls(self.messages(timeline))
    }

    /// The calls of a turn that were interrupted.
    fn interrupted(&self, timeline: &Timeline, is_own: impl Fn(u64) -> bool) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::new();
        let mut interrupted = Vec::new();
        for (position, message) in self.messages(timeline) {
            calls.extend(message.tool_calls.iter().cloned());
            if message.role == Role::Tool
                && is_own(position)
                && message.text().starts_with("E-TOOL-CANCELLED")
            {
                let id = message.tool_call_id.as_deref();
                let mut latest_first = calls.iter().rev();
                let call = latest_first.find(|call| Some(call.id.as_str()) == id);
                interrupted.extend(call.cloned());
            }
        }
        interrupted
    }
}

fn cut_off_result(call: &ToolCall) -> ChatMessage {
    ChatMessage::tool(call.id.clone(), CUT_OFF).with_name(call.name.clone())
}

/// Returns whether the turn of a step has no message after it.
fn is_last(timeline: &Timeline, step: &SessionStep) -> bool {
    let position = step.position.unwrap_or_default();
    let Some(turn) = &step.turn else {
        return true;
    };
    let own = timeline.turns.iter().rev();
    let mut own = own.filter(|rows| rows.outcome.invocation_id == turn.invocation_id);
    own.next().is_none_or(|rows| rows.to <= position + 1)
}

/// The position of the message that the turn of a step answers.
fn said(timeline: &Timeline, step: &SessionStep) -> Option<u64> {
    let position = step.position.unwrap_or_default();
    let invocation = step.turn.as_ref().map(|turn| turn.invocation_id.as_str());
    let is_said = |at: &u64| {
        let message = timeline.message(*at);
        message.is_some_and(|message| message.role == Role::User)
            && timeline.invocation_at(*at) == invocation
    };
    (0..=position).rev().find(is_said)
}

/// The message of a step with another text, or other arguments of one call.
fn edited(timeline: &Timeline, step: &SessionStep, edit: &str) -> Result<ChatMessage, BranchError> {
    let invalid = |cause: String| BranchError::InvalidEdit {
        step: step.number,
        cause,
    };
    let position = step.position.unwrap_or_default();
    let message = timeline.message(position).cloned();
    let (Some(mut message), true) = (message, step.kind != StepKind::Suspension) else {
        return Err(BranchError::NotEditable {
            step: step.number,
            kind: step.kind.as_str(),
        });
    };
    if step.kind == StepKind::Call {
        let mut calls = message.tool_calls.iter_mut();
        let call = calls.find(|call| Some(&call.id) == step.call_id.as_ref());
        if let Some(call) = call {
            if call.kind != CallKind::Custom {
                serde_json::from_str::<Map<String, Value>>(edit).map_err(|error| {
                    invalid(format!("the arguments are not a JSON object: {error}"))
                })?;
            }
            call.arguments = Arguments::from_text(edit);
            // A provider signed the other arguments.
            call.signature = None;
        }
    } else {
        message.content = with_text(std::mem::take(&mut message.content), edit);
    }
    message
        .validate()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(message)
}

/// Content with another text in the place of its first one. Images and reasoning stay.
fn with_text(content: Content, text: &str) -> Content {
    let Content::Blocks(blocks) = content else {
        return Content::Text(text.to_owned());
    };
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text { .. });
    let at = blocks.iter().position(is_text);
    let at = at.unwrap_or(blocks.len());
    let mut kept: Vec<_> = blocks.into_iter().filter(|block| !is_text(block)).collect();
    kept.insert(at.min(kept.len()), ContentBlock::text(text));
    Content::Blocks(kept)
}
