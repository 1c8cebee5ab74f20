//! Threads: a session and the branches of it that clients began by editing earlier messages.
//!
//! The history of the server is the truth. A client sends the conversation as it has it; the branch
//! whose history is equal continues, and without such a branch a new one begins where they differ.

use logue_agent::is_pending;
use logue_harness::chat::{BranchPoint, fork_session};
use logue_harness::store::{SessionFork, SharedStore, StoreError, current_history};
use logue_message::{ChatMessage, Role};
use serde_json::{Value, json};

use super::input::user_message;
use super::messages::shown;
use crate::chat::api::Api;
use crate::chat::host::TurnAgent;
use crate::chat::problem::Problem;

/// The label of a thread's session with its branches.
const BRANCHES: &str = "ag_ui_branches";
/// The most branches of a thread that are remembered.
const MAX_BRANCHES: usize = 32;

/// A message of the user with the text of its answer.
#[derive(Clone, Debug, PartialEq)]
struct Exchange {
    user: ChatMessage,
    answer: String,
    /// The number of stored messages up to its end.
    end: u64,
}

/// The branch of a thread in which a message is sent.
pub(super) struct Place {
    pub(super) session: String,
    /// The number of messages that a new branch has in common with another one.
    pub(super) forked_at: Option<u64>,
    /// Whether the client lacks messages of the branch.
    pub(super) is_ahead: bool,
}

/// Returns the sessions of a thread: its own one, and its branches from the latest on.
pub(super) async fn branches(store: &SharedStore, thread: &str) -> Result<Vec<String>, StoreError> {
    let mut sessions = vec![thread.to_owned()];
    let info = store.session(thread).await?;
    let label = info.and_then(|mut info| info.labels.remove(BRANCHES));
    let branches = label.and_then(|label| serde_json::from_value::<Vec<String>>(label).ok());
    sessions.extend(branches.into_iter().flatten().rev());
    Ok(sessions)
}

/// Returns the branch of a thread that changed last.
pub(super) async fn current(store: &SharedStore, thread: &str) -> Result<String, StoreError> {
    let mut latest = None;
    for session in branches(store, thread).await?.into_iter().rev() {
        let Some(info) = store.session(&session).await? else {
            continue;
        };
        if latest.as_ref().is_none_or(|(at, _)| info.updated_at >= *at) {
            latest = Some((info.updated_at, session));
        }
    }
    Ok(latest.map_or_else(|| thread.to_owned(), |(_, session)| session))
}

/// Returns the place in which a client continues the conversation `earlier`.
///
/// `redacted` returns a message as the store holds it.
///
/// # Errors
/// Returns a problem if the store fails or a message of the client is malformed.
pub(super) async fn place(
    api: &Api,
    agent: &str,
    thread: &str,
    earlier: &[Value],
    redacted: impl Fn(ChatMessage) -> ChatMessage,
) -> Result<Place, Problem> {
    let given = given(earlier, redacted)?;
    let store = api.store();
    let sessions = branches(store, thread).await?;
    if given.is_empty() {
        // The client leaves the conversation to the server.
        let session = current(store, thread).await?;
        let is_ahead = !stored(store, &session).await?.is_empty();
        return Ok(Place {
            session,
            forked_at: None,
            is_ahead,
        });
    }
    let mut longest: Option<(usize, String, u64)> = None;
    // The latest branch is the most likely one.
    for session in sessions.iter().skip(1).chain(sessions.first()) {
        let Some(info) = store.session(session).await? else {
            continue;
        };
        let own = stored(store, session).await?;
        let same = own.iter().zip(&given);
        let same = same.take_while(|(own, given)| is_same(own, given)).count();
        // The latest answers of the client may belong to turns that run, and may be cut off.
        let is_cut_off = given.len() == own.len()
            && same + 1 == own.len()
            && own.last().zip(given.last()).is_some_and(|(own, given)| {
                own.user.content == given.user.content && own.answer.starts_with(&given.answer)
            });
        let runs = same == own.len() && (given.len() - same) as u64 <= info.pending;
        if is_cut_off || runs {
            return Ok(Place {
                session: session.clone(),
                forked_at: None,
                is_ahead: is_cut_off,
            });
        }
        let upto = same.checked_sub(1).and_then(|last| own.get(last));
        let upto = upto.map_or(0, |last| last.end);
        if longest.as_ref().is_none_or(|(most, ..)| same > *most) {
            longest = Some((same, session.clone(), upto));
        }
    }
    let into = match longest {
        // The thread is new.
        None => thread.to_owned(),
        Some(_) => api.turns.ids.new_id(),
    };
    let (same, source, upto) = match longest {
        Some(longest) => longest,
        None => (0, agent_session(api, agent).await?, 0),
    };
    let rest = given.get(same..).unwrap_or_default();
    fork(api, &source, upto, &into, rest).await?;
    if into == thread {
        store.delete(&source).await?;
        return Ok(Place {
            session: into,
            forked_at: None,
            is_ahead: false,
        });
    }
    remember(api, thread, &into).await?;
    Ok(Place {
        session: into,
        forked_at: Some(upto),
        is_ahead: false,
    })
}

fn is_same(own: &Exchange, given: &Exchange) -> bool {
    own.user.content == given.user.content && own.answer == given.answer
}

/// Returns the answered exchanges of a client's messages.
///
/// A message without an answer is not part of the history: its turn failed.
fn given(
    messages: &[Value],
    redacted: impl Fn(ChatMessage) -> ChatMessage,
) -> Result<Vec<Exchange>, Problem> {
    let mut parsed = Vec::new();
    for message in messages {
        match message.get("role").and_then(Value::as_str) {
            Some("user") => parsed.push(redacted(user_message(message)?)),
            Some("assistant") => {
                let text = message.get("content").and_then(Value::as_str);
                parsed.push(ChatMessage::assistant(text.unwrap_or_default()));
            }
            _ => {}
        }
    }
    Ok(exchanges(&parsed))
}

/// Returns the answered exchanges of a session.
async fn stored(store: &SharedStore, session: &str) -> Result<Vec<Exchange>, StoreError> {
    if store.session(session).await?.is_none() {
        return Ok(Vec::new());
    }
    let stored = current_history(&**store, session, 0, usize::MAX >> 1).await?;
    // Hidden messages keep their place.
    let hidden = || ChatMessage::tool("", "");
    let messages = stored
        .iter()
        .map(|message| shown(message).unwrap_or_else(hidden));
    Ok(exchanges(&messages.collect::<Vec<_>>()))
}

fn exchanges(messages: &[ChatMessage]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (message, end) in messages.iter().zip(1..) {
        match message.role {
            Role::User => exchanges.push(Exchange {
                user: message.clone(),
                answer: String::new(),
                end,
            }),
            Role::Assistant if !is_pending(message) => {
                if let Some(last) = exchanges.last_mut() {
                    let text = message.text();
                    if !last.answer.is_empty() && !text.is_empty() {
                        last.answer.push('\n');
                    }
                    last.answer.push_str(&text);
                    last.end = end;
                }
            }
            _ => {
                if let Some(last) = exchanges.last_mut() {
                    last.end = end;
                }
            }
        }
    }
    exchanges.retain(|exchange| !exchange.answer.is_empty());
    exchanges
}

/// Creates an empty session with the labels of an agent.
async fn agent_session(api: &Api, agent: &str) -> Result<String, Problem> {
    let source = api.turns.ids.new_id();
    drop(
        api.turns
            .host
            .chat(&source, TurnAgent::of_new(agent))
            .await?,
    );
    Ok(source)
}

/// Creates a session with the first messages of another one, and exchanges after them.
async fn fork(
    api: &Api,
    source: &str,
    upto: u64,
    into: &str,
    rest: &[Exchange],
) -> Result<(), Problem> {
    let (store, now) = (api.store(), api.turns.clock.now());
    let point = BranchPoint::Messages(upto);
    if rest.is_empty() {
        fork_session(&**store, source, into, point, None, now).await?;
        return Ok(());
    }
    // Calls without a result get one in the first copy.
    let copy = api.turns.ids.new_id();
    let branch = fork_session(&**store, source, &copy, point, None, now).await?;
    let mut fork = SessionFork::new(branch.messages, into, now);
    fork.messages = rest
        .iter()
        .flat_map(|exchange| {
            let answer = ChatMessage::assistant(exchange.answer.as_str());
            [exchange.user.to_json(), answer.to_json()]
        })
        .collect();
    let forked = store.fork(&copy, fork).await;
    store.delete(&copy).await?;
    Ok(forked?)
}

/// Adds a branch to those of a thread.
async fn remember(api: &Api, thread: &str, branch: &str) -> Result<(), Problem> {
    let store = api.store();
    let mut known = branches(store, thread).await?.split_off(1);
    known.reverse();
    known.push(branch.to_owned());
    let first = known.len().saturating_sub(MAX_BRANCHES);
    let known = json!(known.split_off(first));
    let now = api.turns.clock.now();
    store.set_label(thread, BRANCHES, known, now).await?;
    Ok(())
}
