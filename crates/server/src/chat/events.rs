//! The events of a session as a stream.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::access::{Caller, TokenScope};
use super::api::{Api, require};
use super::extract::{PathOf, QueryOf, single};
use super::problem::Problem;
use super::sse::{EventId, EventReader, EventScope};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// The id of the last received event; `Last-Event-ID` takes precedence.
    #[serde(default)]
    after: Option<String>,
}

/// `GET /v1/sessions/{session}/events`
///
/// Without an id the stream begins with the next event.
pub(crate) async fn follow(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    QueryOf(query): QueryOf<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Read)?;
    api.session(&caller, &session).await?;
    let given = match single(&headers, "last-event-id")? {
        Some(value) => Some(value.to_owned()),
        None => query.after,
    };
    let (reader, is_reset) = reader_after(&api, &session, given.as_deref().unwrap_or("")).await?;
    let reader = if is_reset {
        reader.with_reset()
    } else {
        reader
    };
    Ok(reader.into_response())
}

/// Returns a reader of the events after an id.
///
/// The flag states whether the id is of a log that was lost.
/// An empty id is that of the last event.
pub(crate) async fn reader_after(
    api: &Api,
    session: &str,
    after: &str,
) -> Result<(EventReader, bool), Problem> {
    let id = match after {
        "" => None,
        after => Some(EventId::parse(after).ok_or_else(|| {
            Problem::invalid(format!("invalid event id `{after}`"))
                .with_help("send the `id` of an event, or `events_after` of the session")
        })?),
    };
    let turns = &api.turns;
    // From here on, the supervisor logs the outcomes of other processes.
    let _live = turns.hub.live(session);
    turns.log_outcomes(session).await?;
    let last = EventId::of(turns.hub.log().position(session).await?);
    let reader = |after| {
        let (scope, shutdown) = (EventScope::Session, api.shutdown.clone());
        EventReader::new(turns.clone(), session, after, scope, shutdown)
    };
    Ok(match id {
        None => (reader(last), false),
        Some(id) if id.generation == last.generation && id.seq <= last.seq => (reader(id), false),
        // The log was lost, and numbers were given again.
        Some(_) => (reader(last), true),
    })
}
