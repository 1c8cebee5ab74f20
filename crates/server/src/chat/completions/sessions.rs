//! The session in which a Chat Completions request runs.

use std::sync::Arc;

use logue_harness::chat::{BranchPoint, SendOptions, fork_session};
use logue_harness::store::{MemoryStore, SessionFork, SharedStore};
use logue_message::{ChatMessage, Role};

use super::answer::AnswerStream;
use super::messages::{Conversation, exchanges};
use crate::chat::access::Caller;
use crate::chat::api::Api;
use crate::chat::measure::TurnMeter;
use crate::chat::problem::Problem;
use crate::chat::turn_span::TurnSpan;
use crate::chat::turns::TurnOrigin;

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

/// Runs a turn of which nothing is kept.
///
/// No person can be asked, so a call that requires approval is denied.
///
/// # Errors
/// Returns a problem if the agent cannot be prepared.
pub(crate) async fn stateless(
    api: &Api,
    caller: &Caller,
    agent: &str,
    conversation: Conversation,
) -> Result<AnswerStream, Problem> {
    let permit = api.limits.permit(caller, agent)?;
    let store: SharedStore = Arc::new(MemoryStore::new());
    let messages = &conversation.earlier;
    seed(api, &store, "seed", STATELESS, messages).await?;
    let chat = api
        .turns
        .host
        .stateless_chat(agent, Arc::clone(&store), STATELESS)
        .await?;
    let span = TurnSpan::new(&api.turns.host, &chat.agent, None);
    let message = &conversation.message;
    let meter = TurnMeter::of_begun(&api.turns.measures, &chat.agent, span, message);
    let stream = chat.chat.send_streaming(STATELESS, conversation.message);
    Ok(AnswerStream::of_turn(stream, (meter, permit)))
}

/// Runs a turn of a session, or of a copy if earlier messages differ.
///
/// # Errors
/// Returns a problem if the session belongs to others, or the agent cannot be prepared.
pub(crate) async fn continued(
    api: &Api,
    caller: &Caller,
    agent: &str,
    session: &str,
    conversation: Conversation,
) -> Result<(AnswerStream, Place), Problem> {
    let known = api.known_session(caller, session).await?;
    if let Some((_, own)) = &known
        && own != agent
    {
        let detail = format!("session `{session}` belongs to the agent `{own}`");
        return Err(Problem::new(
            axum::http::StatusCode::CONFLICT,
            "agent_differs",
            detail,
        ));
    }
    let permit = api.limits.permit(caller, agent)?;
    let place = match known {
        None if conversation.earlier.is_empty() => Place {
            session: Some(session.to_owned()),
            how: "created",
        },
        None => {
            create_seeded(api, agent, session, &conversation.earlier).await?;
            Place {
                session: Some(session.to_owned()),
                how: "created",
            }
        }
        Some(_) => place_of(api, session, agent, &conversation).await?,
    };
    let own = place.session.clone().unwrap_or_default();
    let is_new = place.how == "created" && conversation.earlier.is_empty();
    let named = is_new.then_some(agent);
    let chat = api.turns.host.chat(&own, named).await?;
    let message = chat.chat.redacted(conversation.message);
    let origin = TurnOrigin::message(message.clone()).with_permit(permit);
    let id = own.clone();
    let turn = api.turns.start(&own, chat, origin, move |chat| {
        chat.chat
            .send_streaming_with(&id, message, SendOptions::new())
    });
    let stream = AnswerStream::of_session(api, &own, turn.await?);
    Ok((stream, place))
}

/// Returns the session in which a request continues a known one.
async fn place_of(
    api: &Api,
    session: &str,
    agent: &str,
    conversation: &Conversation,
) -> Result<Place, Problem> {
    let appended = Place {
        session: Some(session.to_owned()),
        how: "appended",
    };
    // The client leaves the conversation to the session.
    if conversation.earlier.is_empty() {
        return Ok(appended);
    }
    let stored = api.store().history(session, 0, usize::MAX >> 1).await?;
    let stored: Vec<ChatMessage> = stored
        .iter()
        .filter_map(|message| ChatMessage::from_json(message).ok())
        .collect();
    let own = exchanges(&stored);
    let given = exchanges(&conversation.earlier);
    let same = own.iter().zip(&given);
    let same = same
        .take_while(|(own, given)| (own.1, &own.2) == (given.1, &given.2))
        .count();
    if same == given.len() && same == own.len() {
        return Ok(appended);
    }
    let into = api.turns.ids.new_id();
    let store = api.store();
    if same == given.len() {
        // The client continues from an earlier message.
        let messages = own.get(same - 1).map_or(0, |(end, ..)| *end as u64);
        let point = BranchPoint::Messages(messages);
        let now = api.turns.clock.now();
        fork_session(&**store, session, &into, point, None, now).await?;
    } else {
        create_seeded(api, agent, &into, &conversation.earlier).await?;
    }
    Ok(Place {
        session: Some(into),
        how: "forked",
    })
}

/// Creates a session of an agent that begins with these messages.
///
/// # Errors
/// Returns a problem if the agent cannot be prepared or the session exists.
pub(crate) async fn create_seeded(
    api: &Api,
    agent: &str,
    session: &str,
    messages: &[ChatMessage],
) -> Result<(), Problem> {
    // The first session has the labels of the agent, which a copy receives.
    let source = api.turns.ids.new_id();
    drop(api.turns.host.chat(&source, Some(agent)).await?);
    let seeded = seed(api, api.store(), &source, session, messages).await;
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
