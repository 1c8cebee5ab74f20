//! The session in which a Chat Completions request runs.

use std::sync::Arc;

use axum::http::StatusCode;
use logue_harness::chat::{BranchPoint, BusyPolicy, ChatTurnOutcome, SendOptions, fork_session};
use logue_harness::store::{MemoryStore, SessionFork, SessionInfo, SharedStore};
use logue_message::{ChatMessage, Role};
use tokio::sync::Mutex;

use super::answer::{Answer, AnswerStream};
use super::exchanges::{Exchange, exchanges};
use super::history_index::{HistoryIndex, history};
use super::parts::Part;
use super::session_answer::AnswerEvents;
use crate::chat::access::Caller;
use crate::chat::api::Api;
use crate::chat::host::TurnAgent;
use crate::chat::kept_answers::KeyName;
use crate::chat::limits::TurnPermit;
use crate::chat::measure::TurnMeter;
use crate::chat::owner::{is_owner, owner_of, record_owner};
use crate::chat::parameters::TurnParameters;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::responses::{Claim, ClaimedPlace};
use crate::chat::send::{before_turn, permit, turn_agent};
use crate::chat::session_id::check_new_session;
use crate::chat::turn_span::TurnSpan;
use crate::chat::turns::{RunningTurn, TurnOrigin};

/// The code of a session that another request has created.
const EXISTS: &str = "session_exists";
/// The session of a stateless request.
const STATELESS: &str = "completion";

/// The session of a request, and how the request continued it.
pub(crate) struct Place {
    pub(crate) session: Option<String>,
    /// `stateless`, `created`, `appended` or `forked`.
    pub(crate) how: &'static str,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            session: None,
            how: "stateless",
        }
    }
}

impl Place {
    fn new(session: &str, how: &'static str) -> Self {
        Self {
            session: Some(session.to_owned()),
            how,
        }
    }
}

/// A session whose history begins with the earlier messages of a request.
struct Beginning {
    info: SessionInfo,
    /// The number of messages up to there.
    end: u64,
    /// Whether it is the whole history.
    is_whole: bool,
}

/// Runs a turn of which nothing is kept.
///
/// No person can be asked, so a call that requires approval is denied.
///
/// # Errors
/// Returns a problem if the agent cannot be prepared.
pub(crate) async fn stateless(
    turn: RequestedTurn<'_>,
    earlier: &[ChatMessage],
) -> Result<AnswerStream, Problem> {
    let api = turn.api;
    let permit = turn.permit()?;
    let store: SharedStore = Arc::new(MemoryStore::new());
    seed(api, &store, "seed", STATELESS, earlier).await?;
    let chat = api
        .turns
        .host
        .stateless_chat(
            turn.agent,
            Arc::clone(&store),
            STATELESS,
            turn.parameters.clone(),
        )
        .await?;
    let span = TurnSpan::new(&api.turns.host, &chat.agent, None);
    let meter = TurnMeter::of_begun(&api.turns.measures, &chat.agent, span, &turn.message);
    let stream = chat.chat.send_streaming(STATELESS, turn.message);
    Ok(AnswerStream::of_turn(
        stream,
        (meter, permit),
        turn.parameters,
        api.shutdown.clone(),
    ))
}

/// Runs a stateless turn whose answer is kept, or returns that of an equal request.
///
/// # Errors
/// Returns a problem if the key belongs to another request.
pub(crate) async fn kept(
    turn: RequestedTurn<'_>,
    earlier: &[ChatMessage],
    (name, digest): (KeyName, RequestDigest),
    answer: &mut Answer,
) -> Result<AnswerStream, Problem> {
    let own = (digest, answer.id.clone(), answer.created);
    let (known, running) = turn.api.kept_answers.claim(name, own)?;
    answer.id.clone_from(&known.id);
    answer.created = known.created;
    if let Some(running) = running {
        match stateless(turn, earlier).await {
            Ok(mut stream) => drop(tokio::spawn(async move {
                while let Some(part) = stream.next().await {
                    running.push(part);
                }
            })),
            Err(problem) => running.push(Part::End(Err(problem))),
        }
    }
    Ok(AnswerStream::of_parts(known.parts()))
}

/// Runs a turn of a named session, or of a copy if earlier messages differ.
///
/// # Errors
/// Returns a problem if the session belongs to others, or the agent cannot be prepared.
pub(crate) async fn named(
    turn: RequestedTurn<'_>,
    session: &str,
    earlier: Vec<ChatMessage>,
) -> Result<(AnswerStream, Place), Problem> {
    let (api, caller, agent) = (turn.api, turn.caller, turn.agent);
    let mut known = api.known_session(caller, session).await?;
    if known.is_none() {
        check_new_session(session)?;
        // The session has its owner from the beginning: of two tokens, the later one finds it missing.
        match turn.seeded(session, &earlier, "created").await {
            // Another request created it meanwhile.
            Err(problem) if problem.code == EXISTS => {}
            begun => return begun,
        }
        known = api.known_session(caller, session).await?;
    }
    let Some((info, own)) = known else {
        return Err(Problem::unknown_session(session));
    };
    if owner_of(&info).is_some() && !is_owner(caller, &info) {
        return Err(Problem::unknown_session(session));
    }
    if own != agent {
        let detail = format!("session `{session}` belongs to the agent `{own}`");
        return Err(Problem::new(StatusCode::CONFLICT, "agent_differs", detail));
    }
    // The client leaves the conversation to the session.
    if earlier.is_empty() {
        let permit = turn.permit()?;
        let place = (session, TurnAgent::Own(&info), "appended");
        let sent = turn.send(place, SendOptions::new(), permit);
        return Ok(turn.answer(sent.await?));
    }
    let own = TurnAgent::Own(&info);
    let chat = api.turns.host.chat(session, own).await?;
    let earlier = earlier.into_iter();
    let earlier: Vec<_> = earlier.map(|message| chat.chat.redacted(message)).collect();
    let beginning = beginning(api, info, &exchanges(&earlier)).await?;
    turn.continued(beginning.as_slice(), &earlier).await
}

/// Runs a turn of the session whose history a request repeats, or a new one.
///
/// # Errors
/// Returns a problem if the agent cannot be prepared or the store fails.
pub(crate) async fn matched(
    turn: RequestedTurn<'_>,
    index: &HistoryIndex,
    mut earlier: Vec<ChatMessage>,
) -> Result<(AnswerStream, Place), Problem> {
    let (api, agent) = (turn.api, turn.agent);
    if earlier.is_empty() {
        let session = api.turns.ids.new_id();
        return turn.begun(&session).await;
    }
    let mut found = turn.beginnings(index, &earlier).await?;
    if found.is_empty() {
        // The store contains redacted messages.
        let store: SharedStore = Arc::new(MemoryStore::new());
        let host = &api.turns.host;
        let chat = host
            .stateless_chat(agent, store, STATELESS, TurnParameters::default())
            .await?;
        let redacted = earlier.iter().cloned();
        let redacted: Vec<_> = redacted
            .map(|message| chat.chat.redacted(message))
            .collect();
        if redacted != earlier {
            earlier = redacted;
            found = turn.beginnings(index, &earlier).await?;
        }
    }
    turn.continued(&found, &earlier).await
}

/// Returns the answer of a request that was sent before under its key.
///
/// # Errors
/// Returns a problem if its session was removed.
pub(crate) async fn repeated(
    turn: RequestedTurn<'_>,
    place: ClaimedPlace,
) -> Result<(AnswerStream, Place), Problem> {
    let (api, caller, session) = (turn.api, turn.caller, place.session.as_str());
    let known = api.known_session(caller, session).await?;
    let known = known.map(|(info, _)| info);
    if known.is_none() && place.entry.is_some() {
        return Err(Problem::unknown_session(session));
    }
    let key = Some(place.key.as_str());
    let permit = permit(api, caller, turn.agent, (session, key)).await?;
    let agent = turn_agent(turn.agent, known.as_ref());
    let parameters = turn.parameters.clone();
    let chat = api.turns.host.chat_with(session, agent, parameters).await?;
    if known.is_none() {
        record_owner(api, caller, session).await?;
    }
    let message = chat.chat.redacted(turn.message.clone());
    let origin = TurnOrigin::message(message.clone()).with_permit(permit);
    let options = SendOptions::new().with_idempotency_key(&place.key);
    let own = session.to_owned();
    let running = api.turns.start(session, chat, origin, move |chat| {
        chat.send(&own, message, options)
    });
    let running = running.await?;
    // The answer is sent from its beginning.
    let after = before_turn(api, session, &running).await?;
    let logged = api.turns.hub.log().position(session).await?.seq;
    let events = after.map(|after| AnswerEvents { after, logged });
    let words = ["created", "appended", "forked"].into_iter();
    let how = words.rev().find(|word| place.how.as_deref() == Some(*word));
    let place = Place::new(session, how.unwrap_or("appended"));
    let stream = AnswerStream::of_session(api, session, (running, events), turn.parameters);
    Ok((stream, place))
}

/// The turn that a request asks for.
pub(crate) struct RequestedTurn<'r> {
    pub(crate) api: &'r Api,
    pub(crate) caller: &'r Caller,
    pub(crate) agent: &'r str,
    pub(crate) message: ChatMessage,
    pub(crate) parameters: TurnParameters,
    /// The claim of its idempotency key, until the message is accepted.
    pub(crate) claim: Mutex<Option<Claim>>,
}

impl RequestedTurn<'_> {
    /// Returns the caller's sessions of the agent that begin with these messages, whole histories first.
    async fn beginnings(
        &self,
        index: &HistoryIndex,
        earlier: &[ChatMessage],
    ) -> Result<Vec<Beginning>, Problem> {
        let given = exchanges(earlier);
        let owner = self.caller.token_hash.as_deref();
        let store = &**self.api.store();
        let mut found = Vec::new();
        for session in index.candidates(store, owner, &given).await? {
            let Some(info) = store.session(&session).await? else {
                continue;
            };
            let own = self.api.turns.host.agent_of(&info);
            if own.as_deref() != Some(self.agent) || !is_owner(self.caller, &info) {
                continue;
            }
            found.extend(beginning(self.api, info, &given).await?);
        }
        found.sort_by_key(|one| std::cmp::Reverse((one.is_whole, one.info.updated_at)));
        Ok(found)
    }

    /// Appends to a session with the same history, or continues in a new session.
    ///
    /// A session that another request continues meanwhile is not appended to.
    async fn continued(
        self,
        found: &[Beginning],
        earlier: &[ChatMessage],
    ) -> Result<(AnswerStream, Place), Problem> {
        for one in found.iter().filter(|one| one.is_whole) {
            let session = &one.info.session;
            let only = SendOptions::new().with_only_after(one.info.cursor);
            let place = (session.as_str(), TurnAgent::Own(&one.info), "appended");
            let sent = self.send(place, only, self.permit()?).await?;
            if sent.0.entry.is_some() {
                return Ok(self.answer(sent));
            }
            match sent.0.outcome().await {
                Some(ChatTurnOutcome::Errored(turn)) if turn.error_category == "session_busy" => {}
                Some(ChatTurnOutcome::Errored(turn)) => return Err((&turn).into()),
                _ => return Err(Problem::server_ends()),
            }
        }
        let api = self.api;
        let into = api.turns.ids.new_id();
        let Some(source) = found.first() else {
            return self.seeded(&into, earlier, "forked").await;
        };
        let permit = self.permit()?;
        let point = BranchPoint::Messages(source.end);
        let now = api.turns.clock.now();
        let source = &source.info.session;
        fork_session(&**api.store(), source, &into, point, None, now).await?;
        record_owner(api, self.caller, &into).await?;
        let place = (into.as_str(), TurnAgent::Stored, "forked");
        let sent = self.send(place, SendOptions::new(), permit);
        Ok(self.answer(sent.await?))
    }

    /// Runs the turn in a session without earlier messages, whose id is a new one.
    async fn begun(self, session: &str) -> Result<(AnswerStream, Place), Problem> {
        let permit = self.permit()?;
        let place = (session, TurnAgent::of_new(self.agent), "created");
        let sent = self.send(place, SendOptions::new(), permit);
        Ok(self.answer(sent.await?))
    }

    /// Runs the turn in a new session that begins with these messages.
    ///
    /// # Errors
    /// Returns a problem with the code [`EXISTS`] if the session exists.
    async fn seeded(
        &self,
        session: &str,
        earlier: &[ChatMessage],
        how: &'static str,
    ) -> Result<(AnswerStream, Place), Problem> {
        let permit = self.permit()?;
        let named = (self.agent, session);
        create_seeded(self.api, self.caller, named, earlier).await?;
        let place = (session, TurnAgent::Stored, how);
        let sent = self.send(place, SendOptions::new(), permit);
        Ok(self.answer(sent.await?))
    }

    /// Sends the message to a session.
    ///
    /// `how` is a word of [`Place::how`].
    async fn send(
        &self,
        (session, agent, how): (&str, TurnAgent<'_>, &'static str),
        mut options: SendOptions,
        permit: TurnPermit,
    ) -> Result<(RunningTurn, Place), Problem> {
        let parameters = self.parameters.clone();
        if !parameters.is_empty() {
            // A turn that waits could be run by another request, without these parameters.
            options = options.with_busy(BusyPolicy::Reject);
        }
        let is_new = matches!(agent, TurnAgent::First { .. });
        let host = &self.api.turns.host;
        let chat = host.chat_with(session, agent, parameters).await?;
        if is_new {
            record_owner(self.api, self.caller, session).await?;
        }
        let mut claim = self.claim.lock().await;
        if let Some(claim) = &mut *claim {
            let key = self.api.turns.ids.new_id();
            options = options.with_idempotency_key(&key);
            let place = ClaimedPlace {
                session: session.to_owned(),
                key,
                how: Some(how.to_owned()),
                entry: None,
            };
            claim.record(self.api, place).await?;
        }
        let message = chat.chat.redacted(self.message.clone());
        let origin = TurnOrigin::message(message.clone()).with_permit(permit);
        let id = session.to_owned();
        let turn = self.api.turns.start(session, chat, origin, move |chat| {
            chat.send(&id, message, options)
        });
        let running = turn.await?;
        if let Some(entry) = running.entry
            && let Some(mut claim) = claim.take()
        {
            claim.accepted(self.api, session, entry).await?;
        }
        Ok((running, Place::new(session, how)))
    }

    fn permit(&self) -> Result<TurnPermit, Problem> {
        self.api.limits.permit(self.caller, self.agent)
    }

    fn answer(&self, (running, place): (RunningTurn, Place)) -> (AnswerStream, Place) {
        let session = place.session.as_deref().unwrap_or_default();
        let parameters = self.parameters.clone();
        let after = running.after;
        let events = AnswerEvents { after, logged: 0 };
        let turn = (running, Some(events));
        let stream = AnswerStream::of_session(self.api, session, turn, parameters);
        (stream, place)
    }
}

/// Returns the beginning of a session, if its messages are the given ones.
async fn beginning(
    api: &Api,
    info: SessionInfo,
    given: &[Exchange],
) -> Result<Option<Beginning>, Problem> {
    // A message that follows the outcome of `info` follows these messages.
    let own = exchanges(&history(&**api.store(), &info.session).await?);
    let mut both = own.iter().zip(given);
    if own.len() < given.len() || !both.all(|(own, given)| own.is_same(given)) {
        return Ok(None);
    }
    let last = given.len().checked_sub(1).and_then(|at| own.get(at));
    Ok(Some(Beginning {
        end: last.map_or(0, |last| last.end as u64),
        is_whole: own.len() == given.len(),
        info,
    }))
}

/// Creates the session of a caller and an agent that begins with these messages.
///
/// # Errors
/// Returns a problem if the agent cannot be prepared or the session exists.
pub(crate) async fn create_seeded(
    api: &Api,
    caller: &Caller,
    (agent, session): (&str, &str),
    messages: &[ChatMessage],
) -> Result<(), Problem> {
    // The first session has the labels of the agent, which a copy receives.
    let source = api.turns.ids.new_id();
    let named = TurnAgent::of_new(agent);
    let chat = api.turns.host.chat(&source, named).await?;
    record_owner(api, caller, &source).await?;
    let messages = messages.iter().cloned();
    let messages: Vec<_> = messages
        .map(|message| chat.chat.redacted(message))
        .collect();
    let seeded = seed(api, api.store(), &source, session, &messages).await;
    api.store().delete(&source).await?;
    seeded
}

/// Creates a session that begins with these messages and has the labels of `source`.
async fn seed(
    api: &Api,
    store: &SharedStore,
    source: &str,
    session: &str,
    messages: &[ChatMessage],
) -> Result<(), Problem> {
    let now = api.turns.clock.now();
    // Creates the source.
    let label = serde_json::Value::Bool(true);
    store.set_label(source, "seed", label, now).await?;
    let mut fork = SessionFork::new(0, session, now);
    let alternating = messages.iter().filter(|message| message.role != Role::Tool);
    fork.messages = alternating.map(ChatMessage::to_json).collect();
    store.fork(source, fork).await?;
    Ok(())
}
