//! The basis of a turn: what its entry asks for, and what had happened in it before.

use logue_message::{ChatMessage, ToolCall};
use serde_json::{Map, Value};

use crate::store::{ClaimedEntry, EntryPayload, StoreError, SuspensionFilter};

use super::builder::MAX_RECOVERIES;
use super::continuation::{Continuation, calls_from_json};
use super::failure::Failure;
use super::open::{Opened, message_from_json};
use super::options::OnCrash;
use super::recovery::{Journalled, is_message};
use super::{Inner, MESSAGES};

/// The data that a turn begins with.
#[derive(Debug, Default)]
pub(super) struct TurnBasis {
    /// The message that it appends to the history.
    pub(super) first: Option<Value>,
    /// The position in the history of the message that it answers, if known.
    pub(super) said: Option<u64>,
    /// The notes of an owner that died.
    pub(super) journalled: Journalled,
    /// Whether it resumes after a signal.
    pub(super) resumed: bool,
    /// Whether its earlier part is history.
    pub(super) continued: bool,
    /// The calls that it may not repeat without a person.
    pub(super) guarded: Vec<ToolCall>,
    /// The number of times that it has been suspended.
    pub(super) suspensions: u64,
    /// The calls of the history that it runs first, until its journal contains them.
    pub(super) unnoted: Vec<ToolCall>,
    /// The number of messages that its journal contains.
    pub(super) noted: usize,
}

impl<E: Send + 'static> Inner<E> {
    /// Reads what a turn begins with.
    pub(super) async fn basis(
        &self,
        claimed: &ClaimedEntry,
        session: &str,
        opened: &Opened,
    ) -> Result<TurnBasis, Failure> {
        let mut basis = TurnBasis {
            journalled: Journalled::from_notes(&claimed.notes)?,
            noted: claimed.notes.iter().filter(|note| is_message(note)).count(),
            ..TurnBasis::default()
        };
        match &claimed.entry.work {
            Some(EntryPayload::Message { message }) => {
                basis.first = Some(message.clone());
                basis.said = Some(opened.seq);
                let message = basis.first_message().ok().flatten();
                basis.guarded = opened.failed.guarded(message.as_ref(), None);
            }
            Some(EntryPayload::Resume { .. }) => {
                basis.resumed = true;
                let own = claimed.entry.invocation_id.as_deref().unwrap_or_default();
                basis.suspensions = self.suspensions_of(session, own).await?;
            }
            Some(EntryPayload::Continue {
                invocation_id,
                said,
                upto,
                guarded,
                open,
                ..
            }) => {
                basis.continued = true;
                basis.suspensions = self.suspensions_of(session, invocation_id).await?;
                basis.guarded = calls_from_json(guarded);
                basis.said = *said;
                let others = opened.failed.guarded(None, Some(invocation_id));
                basis.guarded.extend(others);
                if *upto == opened.seq {
                    if claimed.notes.is_empty() {
                        basis.unnoted = calls_of(opened, open);
                    }
                } else {
                    let first = match said {
                        Some(said) => Ok(Some(*said)),
                        None => self.first_said(session, invocation_id).await,
                    };
                    let first = first.map_err(|error| Failure::load(&error))?;
                    let said = first.ok_or_else(|| {
                        let what = format!("the turn `{invocation_id}` has no outcome");
                        Failure::new("session_load_failed", what)
                    })?;
                    self.say_again(session, said, opened.seq, &mut basis)
                        .await?;
                }
            }
            Some(EntryPayload::Quarantined) => {
                let what = "the accepted message was damaged in the store and is in quarantine";
                return Err(Failure::damaged(what));
            }
            None => {}
        }
        Ok(basis)
    }

    /// The number of times that a turn has been suspended.
    async fn suspensions_of(&self, session: &str, invocation_id: &str) -> Result<u64, Failure> {
        let filter = SuspensionFilter {
            session: Some(session.to_owned()),
            ..SuspensionFilter::default()
        };
        let all = self.store.suspensions(filter).await;
        let all = all.map_err(|error| Failure::load(&error))?;
        let own = all.iter().filter(|one| one.invocation_id == invocation_id);
        Ok(own.count() as u64)
    }

    /// Makes a turn say its message again, after others in the session.
    ///
    /// None of its calls may be repeated without a person.
    async fn say_again(
        &self,
        session: &str,
        said: u64,
        seq: u64,
        basis: &mut TurnBasis,
    ) -> Result<(), Failure> {
        let lost = |error: &StoreError| Failure::load(error);
        let messages = self.messages(session, said, seq).await;
        let messages = messages.map_err(|error| lost(&error))?;
        let Some(message) = messages.first() else {
            let what = format!("the message {said} of the session `{session}` is missing");
            return Err(Failure::new("session_load_failed", what));
        };
        basis.first = Some(message.to_json());
        basis.said = Some(seq);
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        basis.guarded.extend(calls.cloned());
        Ok(())
    }

    /// The position of the message that began an invocation, if that has an outcome.
    pub(super) async fn first_said(
        &self,
        session: &str,
        invocation_id: &str,
    ) -> Result<Option<u64>, StoreError> {
        const PAGE: usize = 1_000;
        let mut cursor = 0;
        loop {
            let page = self.store.outcomes_since(session, cursor, PAGE).await?;
            let own = page.iter().find(|one| one.invocation_id == invocation_id);
            if let Some(own) = own {
                return Ok(Some(own.replies_from.saturating_sub(1)));
            }
            let Some(last) = page.last() else {
                return Ok(None);
            };
            cursor = last.cursor;
        }
    }

    /// Returns whether a turn whose owner died ends, in place of continuing.
    pub(super) fn ends_after_crash(&self, basis: &TurnBasis) -> bool {
        let journalled = &basis.journalled;
        match self.settings.on_crash {
            OnCrash::Stop if !journalled.is_empty() && !journalled.was_left_by_failure() => true,
            _ => journalled.is_given_up(MAX_RECOVERIES),
        }
    }
}

/// The latest calls of the history with these ids.
fn calls_of(opened: &Opened, ids: &[String]) -> Vec<ToolCall> {
    if ids.is_empty() {
        return Vec::new();
    }
    let messages = opened.state.list_of::<ChatMessage>(MESSAGES);
    let mut latest_first = messages.into_iter().flatten().rev();
    let is_open = |call: &&ToolCall| ids.contains(&call.id);
    let caller = latest_first.find(|message| message.tool_calls.iter().any(|call| is_open(&call)));
    let calls = caller.into_iter().flat_map(|caller| &caller.tool_calls);
    calls.filter(is_open).cloned().collect()
}

impl TurnBasis {
    /// The metadata of a run that continues.
    pub(super) fn continuation(
        &self,
        recovered: bool,
        guarded: Vec<ToolCall>,
    ) -> Map<String, Value> {
        let open = self.journalled.open_calls();
        let taken = usize::from(recovered) + self.journalled.recoveries;
        let mut guarded = guarded;
        guarded.extend(self.guarded.iter().cloned());
        guarded.extend(self.journalled.guarded());
        let continuation = Continuation {
            recoveries: taken as u64,
            open_calls: open.into_iter().map(|call| call.id).collect(),
            guarded,
            suspensions: self.suspensions,
        };
        continuation.to_metadata()
    }

    /// The message that it appends, if it is a valid one.
    pub(super) fn first_message(&self) -> Result<Option<logue_message::ChatMessage>, Failure> {
        let first = self.first.as_ref().map(message_from_json).transpose();
        first.map_err(|cause| {
            let diagnostic = format!("the stored entry's message is invalid: {cause}");
            Failure::new("session_load_failed", diagnostic)
        })
    }
}
