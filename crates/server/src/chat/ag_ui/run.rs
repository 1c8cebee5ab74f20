//! Runs: from their inputs to their outcomes.

use axum::response::Response;
use logue_harness::chat::{ChatTurnOutcome, PausedPolicy, SendOptions, SignalTarget};
use logue_harness::events::LoggedEvent;
use logue_harness::store::{
    SessionInfo, StoreError, Suspension, SuspensionFilter, SuspensionStatus, current_history,
};
use logue_message::ChatMessage;
use serde_json::{Value, json};

use super::claim::{claim, digest, require_unclaimed, reused};
use super::events::{TurnEnd, TurnMapping};
use super::input::{ResumeEntry, RunInput, RunPurpose};
use super::interrupts::{decisions, interrupts};
use super::messages::{message_json, shown, snapshot};
use super::stream::{Refusal, RunOutlet, Stopped};
use super::thread::{Place, branches, current, place as place_of};
use crate::chat::access::Caller;
use crate::chat::api::{Api, require_here};
use crate::chat::host::TurnAgent;
use crate::chat::outcomes::{adopt, outcome_json};
use crate::chat::parameters::TurnParameters;
use crate::chat::problem::Problem;
use crate::chat::send::turn_agent;
use crate::chat::signals::decision_permit;
use crate::chat::sse::{EventId, EventReader, EventScope};
use crate::chat::trace_context::{carried, current_trace};
use crate::chat::turns::{RunningTurn, TurnOrigin};
use crate::chat::visible::visible_suspension;

/// A run of an agent in a thread.
struct Run {
    api: Api,
    caller: Caller,
    agent: String,
    session: String,
    /// The session of the thread; `None` if it does not exist.
    known: Option<SessionInfo>,
    input: RunInput,
    outlet: RunOutlet,
}

/// Starts a run, which continues if its client leaves.
pub(super) fn start(
    api: Api,
    caller: Caller,
    agent: String,
    known: Option<SessionInfo>,
    input: RunInput,
) -> Response {
    let (outlet, response) = RunOutlet::new(&input.thread, &input.run);
    let mut run = Run {
        api,
        caller,
        agent,
        session: input.thread.clone(),
        known,
        input,
        outlet,
    };
    let drive = async move {
        if let Err(Stopped::Refused(refusal)) = run.drive().await {
            // The client may have left.
            drop(run.outlet.refused(&refusal).await);
        }
    };
    tokio::spawn(carried(current_trace(), drive));
    response
}

impl Run {
    async fn drive(&mut self) -> Result<(), Stopped> {
        match std::mem::replace(&mut self.input.purpose, RunPurpose::Connect) {
            RunPurpose::Message(message) => {
                self.require_here()?;
                self.message(message).await
            }
            RunPurpose::Resume(entries) => {
                self.require_here()?;
                self.resume(&entries).await
            }
            RunPurpose::Connect => self.connect().await,
        }
    }

    /// Refuses to continue a thread that another store continues.
    fn require_here(&self) -> Result<(), StoreError> {
        self.known.as_ref().map_or(Ok(()), require_here)
    }

    /// Runs the turn of a new message, or repeats the events of an earlier delivery.
    async fn message(&mut self, message: ChatMessage) -> Result<(), Stopped> {
        let key = key_of(&self.input.run);
        require_unclaimed(&self.api, &self.input.thread, &self.input.run).await?;
        let store = self.api.store().clone();
        let host = self.api.turns.host.clone();
        let known = self.run_before(&key).await?;
        let permit = match self.api.limits.permit(&self.caller, &self.agent) {
            Ok(permit) => Some(permit),
            // A run that is delivered again begins no turn.
            Err(_) if known.is_some() => None,
            Err(problem) => return Err(problem.into()),
        };
        let mut options = SendOptions::new().with_idempotency_key(key.as_str());
        let mut chat = None;
        let mut place = None;
        if let Some(session) = known {
            self.session = session;
        } else {
            options = options.with_while_paused(PausedPolicy::Reject);
            self.require_no_interrupt().await?;
            let thread = self.session.clone();
            let agent = turn_agent(&self.agent, self.known.as_ref());
            let parameters = TurnParameters::default();
            let first = self.api.chat(&self.caller, &thread, agent, parameters);
            let first = first.await?;
            let redacted = |message| first.chat.redacted(message);
            let earlier = &self.input.earlier;
            let found = place_of(&self.api, &self.agent, &thread, earlier, redacted).await?;
            if found.session == thread {
                chat = Some(first);
            }
            self.session.clone_from(&found.session);
            place = Some(found);
        }
        let chat = match chat {
            Some(chat) => chat,
            None => host.chat(&self.session, TurnAgent::Stored).await?,
        };
        let message = chat.chat.redacted(message);
        let origin = TurnOrigin::message(message.clone()).with_permit(permit);
        let before = store.session(&self.session).await?;
        let before = before.map_or(0, |info| info.seq);
        let (id, sent) = (self.session.clone(), message.clone());
        let turn = self.api.turns.start(&self.session, chat, origin, |chat| {
            chat.send(&id, sent, options)
        });
        let turn = turn.await?;
        if turn.entry.is_none() {
            return Err(refused(turn).await.into());
        }
        // The turn may have continued after a decision; this run ended before it.
        let own = store.entry_with_key(&self.session, &key).await?;
        let entry = own.map(|own| own.entry).or(turn.entry);
        self.outlet.started().await?;
        self.report_ignored().await?;
        if let Some(place) = place {
            self.report_place(&place, before, entry, &message).await?;
        }
        let end = self.follow(entry, turn).await?;
        self.finish(vec![end]).await
    }

    /// Returns the session in which this run began before.
    async fn run_before(&self, key: &str) -> Result<Option<String>, Stopped> {
        let store = self.api.store();
        for session in branches(store, &self.session).await? {
            if store.entry_with_key(&session, key).await?.is_some() {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Reports the branch of a run, and the messages that the client lacks.
    async fn report_place(
        &self,
        place: &Place,
        before: u64,
        entry: Option<u64>,
        message: &ChatMessage,
    ) -> Result<(), Stopped> {
        if let Some(messages) = place.forked_at {
            let forked = json!({"session": place.session, "messages": messages});
            self.outlet.custom("forked", forked).await?;
        }
        if !place.is_ahead {
            return Ok(());
        }
        let count = usize::try_from(before).unwrap_or(usize::MAX);
        let stored = current_history(&**self.api.store(), &self.session, 0, count).await?;
        let mut messages = snapshot(0, &stored);
        let id = format!("{}-user", self.turn_name(entry.unwrap_or_default()));
        messages.push(message_json(&id, message));
        self.send_snapshot(messages).await
    }

    /// Refuses a message while a turn of the thread waits for a person.
    async fn require_no_interrupt(&self) -> Result<(), Stopped> {
        let open = self.open_interrupts().await?;
        if open.is_empty() {
            return Ok(());
        }
        let detail = "the thread has open interrupts: answer or cancel them with `resume`";
        let status = axum::http::StatusCode::CONFLICT;
        let problem = Problem::new(status, "session_awaiting_signal", detail);
        Err(Stopped::Refused(Refusal::with_interrupts(problem, open)))
    }

    /// Continues the turns whose interrupts the client answers.
    async fn resume(&mut self, entries: &[ResumeEntry]) -> Result<(), Stopped> {
        let suspensions = self.suspensions(None).await?;
        let person = self.caller.token.as_deref();
        let decisions = decisions(entries, &suspensions, person)?;
        // All decisions are refused before one is stored, or all run.
        let mut permits = Vec::with_capacity(decisions.len());
        for decision in &decisions {
            let (caller, waiting) = (&self.caller, &decision.waiting);
            permits.push(decision_permit(&self.api, caller, &self.agent, waiting)?);
        }
        let key = key_of(&self.input.run);
        if self.run_before(&key).await?.is_some() {
            return Err(reused(&self.input.run).into());
        }
        let (thread, run) = (&self.input.thread, &self.input.run);
        claim(&self.api, thread, run, &digest(entries)).await?;
        let mut turns = Vec::with_capacity(decisions.len());
        for (decision, permit) in decisions.into_iter().zip(permits) {
            let waiting = &decision.waiting;
            self.session.clone_from(&waiting.session);
            let host = &self.api.turns.host;
            let chat = host.resumed_chat(&self.session, waiting).await?;
            let target = SignalTarget::Signal(&waiting.signal_id);
            let stream = chat.chat.signal_streaming(target, decision.payload).await?;
            let origin = TurnOrigin::default().with_permit(permit);
            let turn = self
                .api
                .turns
                .start(&self.session, chat, origin, |_| stream);
            turns.push((self.session.clone(), turn.await?));
        }
        self.outlet.started().await?;
        self.report_ignored().await?;
        let mut ends = Vec::with_capacity(turns.len());
        for (session, turn) in turns {
            self.session = session;
            ends.push(self.follow(turn.entry, turn).await?);
        }
        self.finish(ends).await
    }

    /// Sends the history of the thread, and follows the turn that runs in it.
    async fn connect(&mut self) -> Result<(), Stopped> {
        self.session = current(self.api.store(), &self.input.thread).await?;
        self.outlet.started().await?;
        self.report_ignored().await?;
        let log = self.api.turns.hub.log();
        let running = loop {
            let before = log.position(&self.session).await?;
            let first = log.first_after_entry(&self.session, before.settled).await?;
            let running = match first {
                Some(first) => self.event_at(first).await?,
                None => None,
            };
            let messages = self.history(running.as_ref()).await?;
            let after = log.position(&self.session).await?;
            // The history contains a turn that has ended meanwhile.
            if before.settled == after.settled {
                self.send_snapshot(messages).await?;
                break running;
            }
        };
        let mut ends = Vec::new();
        if let Some(running) = running {
            ends.push(self.follow_log(running.entry, running.seq - 1).await?);
        }
        if ends.iter().all(|end| matches!(end, TurnEnd::Completed)) {
            let open = self.open_interrupts().await?;
            return self.outlet.finished(outcome(&open)).await;
        }
        self.finish(ends).await
    }

    /// Returns the history, with the message that began a running turn.
    async fn history(&self, running: Option<&LoggedEvent>) -> Result<Vec<Value>, Stopped> {
        let store = self.api.store();
        let stored = match store.session(&self.session).await? {
            None => Vec::new(),
            Some(_) => current_history(&**store, &self.session, 0, usize::MAX >> 1).await?,
        };
        let mut messages = snapshot(0, &stored);
        if let Some(running) = running {
            let event: Value = serde_json::from_str(&running.text).unwrap_or_default();
            if let Some(message) = event.get("message").and_then(shown) {
                let id = format!("{}-user", self.turn_name(running.entry));
                messages.push(message_json(&id, &message));
            }
        }
        Ok(messages)
    }

    async fn send_snapshot(&self, messages: Vec<Value>) -> Result<(), Stopped> {
        let event = json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
        self.outlet.send(event).await
    }

    async fn report_ignored(&mut self) -> Result<(), Stopped> {
        match self.input.ignored.take() {
            None => Ok(()),
            Some(ignored) => self.outlet.custom("ignored", ignored).await,
        }
    }

    async fn send_history(&self) -> Result<(), Stopped> {
        let messages = self.history(None).await?;
        self.send_snapshot(messages).await
    }

    /// Returns the suspended turns of the thread.
    async fn suspensions(
        &self,
        status: Option<SuspensionStatus>,
    ) -> Result<Vec<Suspension>, Stopped> {
        let store = self.api.store();
        let mut found = Vec::new();
        for session in branches(store, &self.input.thread).await? {
            let filter = SuspensionFilter {
                session: Some(session),
                status,
                // A moved thread has its interrupts in the store that continues it.
                is_usable: true,
                ..SuspensionFilter::default()
            };
            found.extend(store.suspensions(filter).await?);
        }
        Ok(found)
    }

    async fn open_interrupts(&self) -> Result<Vec<Value>, Stopped> {
        let waiting = self.suspensions(Some(SuspensionStatus::Suspended)).await?;
        let signals = waiting.iter().map(visible_suspension);
        Ok(signals.flat_map(|signal| interrupts(&signal)).collect())
    }

    /// Returns the name of a turn; branches number their turns on their own.
    fn turn_name(&self, entry: u64) -> String {
        if self.session == self.input.thread {
            format!("turn-{entry}")
        } else {
            format!("turn-{}-{entry}", self.session)
        }
    }

    /// Sends the events of a turn until its end.
    async fn follow(&self, entry: Option<u64>, turn: RunningTurn) -> Result<TurnEnd, Stopped> {
        let entry = entry.unwrap_or_default();
        let turns = &self.api.turns;
        let store = self.api.store();
        adopt(&turns.hub, &**store, &*turns.clock, &self.session).await?;
        let log = turns.hub.log();
        let position = log.position(&self.session).await?;
        let before = entry.saturating_sub(1);
        let first = log.first_after_entry(&self.session, before).await?;
        // The events of an old turn may be removed, and those of later ones not.
        let first = match first {
            Some(first) if position.settled >= entry => {
                let event = self.event_at(first).await?;
                event.filter(|event| event.entry == entry).map(|_| first)
            }
            first => first,
        };
        if first.is_some() || position.has_begun() && position.settled < entry {
            let after = first.map_or(turn.after.seq, |first| first - 1);
            return self.follow_log(entry, after).await;
        }
        // The events of the turn were removed; its outcome was not.
        let outcome = turn.outcome().await.ok_or_else(Problem::server_ends)?;
        let mut mapping = TurnMapping::new(self.turn_name(entry));
        let mut sent = Vec::new();
        let end = mapping.map(&logged(&outcome), &mut sent);
        self.send_all(&mut sent).await?;
        Ok(end.ok_or_else(Problem::server_ends)?)
    }

    /// Sends the events of a turn after a number, until its end.
    async fn follow_log(&self, entry: u64, after: u64) -> Result<TurnEnd, Stopped> {
        let turns = &self.api.turns;
        let position = turns.hub.log().position(&self.session).await?;
        let after = EventId::of(position).at(after);
        let scope = EventScope::Turn(entry);
        let shutdown = self.api.shutdown.clone();
        let mut reader = EventReader::new(turns.clone(), &self.session, after, scope, shutdown);
        let mut mapping = TurnMapping::new(self.turn_name(entry));
        let mut sent = Vec::new();
        let mut end = None;
        while let Some(events) = reader.next_texts().await {
            for event in &events {
                end = mapping.map(event, &mut sent).or(end);
            }
            self.send_all(&mut sent).await?;
        }
        if mapping.is_dirty {
            self.send_history().await?;
        }
        Ok(end.ok_or_else(Problem::server_ends)?)
    }

    async fn event_at(&self, seq: u64) -> Result<Option<LoggedEvent>, Stopped> {
        let log = self.api.turns.hub.log();
        let page = log.since(&self.session, seq.saturating_sub(1), 1).await?;
        Ok(page.events.into_iter().next())
    }

    async fn send_all(&self, events: &mut Vec<Value>) -> Result<(), Stopped> {
        for event in events.drain(..) {
            self.outlet.send(event).await?;
        }
        Ok(())
    }

    /// Sends the end of a run by the ends of its turns.
    async fn finish(&self, ends: Vec<TurnEnd>) -> Result<(), Stopped> {
        let mut open = Vec::new();
        for end in ends {
            match end {
                TurnEnd::Completed => {}
                TurnEnd::Suspended(signal) => open.extend(interrupts(&signal)),
                TurnEnd::Failed(error) => {
                    let text = |name: &str| error.get(name).and_then(Value::as_str);
                    let code = text("code").unwrap_or("internal");
                    if code == "turn_cancelled" {
                        return self.outlet.finished(json!({"type": "cancelled"})).await;
                    }
                    let problem = Problem::of_logged(&error);
                    return Err(problem.into());
                }
            }
        }
        self.outlet.finished(outcome(&open)).await
    }
}

/// Returns the idempotency key of a run.
fn key_of(run: &str) -> String {
    format!("ag-ui:{run}")
}

/// Returns the outcome of a run with these open interrupts.
fn outcome(open: &[Value]) -> Value {
    if open.is_empty() {
        json!({"type": "success"})
    } else {
        json!({"type": "interrupt", "interrupts": open})
    }
}

/// Returns the problem of a turn whose message was refused.
async fn refused(turn: RunningTurn) -> Problem {
    match turn.outcome().await {
        Some(ChatTurnOutcome::Errored(turn)) => (&turn).into(),
        _ => Problem::server_ends(),
    }
}

/// Returns an outcome as the log would have it.
fn logged(outcome: &ChatTurnOutcome) -> Value {
    let mut event = outcome_json(outcome);
    match outcome {
        ChatTurnOutcome::Completed(_) => {
            event["type"] = json!("turn.completed");
            event["messages"] = event["replies"].take();
        }
        ChatTurnOutcome::Suspended(_) => {
            event["type"] = json!("turn.suspended");
            event["messages"] = event["pending_messages"].take();
        }
        ChatTurnOutcome::Errored(turn) => {
            event["type"] = json!("turn.failed");
            let problem = Problem::from(turn);
            event["error"] = json!({"code": problem.code, "message": problem.detail,
                "bucket": turn.error_bucket.as_str(),
                "retry_after_seconds": problem.retry_after});
        }
    }
    event
}
