//! The events of several sessions in one stream.
//!
//! A browser opens at most six connections to a server, so all its tabs share one stream.

use std::collections::HashSet;
use std::convert::Infallible;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::watch;
use tokio::time::timeout;

use super::access::{Caller, TokenScope};
use super::api::{Api, require};
use super::events::reader_after;
use super::extract::QueryOf;
use super::measure::OpenStream;
use super::problem::Problem;
use super::session_id::check_new_session;
use super::sse::{
    ENDED, EventId, EventReader, EventStep, PING, ended_event, named_event, padding,
    set_stream_headers,
};

/// The most sessions of one stream.
const MAX_SESSIONS: usize = 64;

/// `GET /v1/events?session=ID:AFTER&…`
///
/// Each parameter names a session with the id of its last received event, which may be empty.
pub(crate) async fn follow_several(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    QueryOf(query): QueryOf<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Read)?;
    let mut opening = padding().to_vec();
    let mut readers = Vec::new();
    for (session, after) in named_sessions(&query)? {
        match api.session(&caller, session).await {
            Ok(_) => {}
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                // No session ever had such a name.
                check_new_session(session)?;
                opening.extend_from_slice(gone(session).as_bytes());
                continue;
            }
            Err(problem) => return Err(problem),
        }
        let (reader, is_reset) = reader_after(&api, session, after).await?;
        let reader = reader.named();
        if is_reset {
            opening.extend_from_slice(&reader.reset());
        }
        readers.push(reader);
    }
    let open = OpenStream::new(&api.turns.measures);
    Ok(response(opening.into(), readers, open, api.shutdown))
}

/// Returns the sessions of a query with the ids of their events.
fn named_sessions(query: &[(String, String)]) -> Result<Vec<(&str, &str)>, Problem> {
    let mut sessions = Vec::new();
    let mut names = HashSet::new();
    for (name, value) in query {
        if name != "session" {
            return Err(Problem::invalid(format!(
                "invalid query: unknown field `{name}`"
            )));
        }
        let parts = value.rsplit_once(':');
        let is_valid = |session: &str, after: &str| {
            !session.is_empty() && (after.is_empty() || EventId::parse(after).is_some())
        };
        let parts = parts.filter(|(session, after)| is_valid(session, after));
        let Some((session, after)) = parts.filter(|(session, _)| names.insert(*session)) else {
            return Err(Problem::invalid(format!("invalid session `{value}`"))
                .with_help("send each session once, as `ID:` or `ID:EVENT`"));
        };
        sessions.push((session, after));
    }
    if sessions.is_empty() || sessions.len() > MAX_SESSIONS {
        let count = sessions.len();
        return Err(
            Problem::invalid(format!("{count} sessions in one stream")).with_help(format!(
                "name 1 to {MAX_SESSIONS} sessions as `session=ID:EVENT`"
            )),
        );
    }
    Ok(sessions)
}

/// Returns the event of a session that has no events for the caller.
fn gone(session: &str) -> String {
    let text = "{\"type\":\"session.gone\",\"code\":\"session_not_found\"}";
    named_event(session, "session.gone", None, text)
}

fn response(
    opening: Bytes,
    readers: Vec<EventReader>,
    open: OpenStream,
    shutdown: watch::Receiver<bool>,
) -> Response {
    let parts = stream::select_all(readers.into_iter().map(|reader| Box::pin(parts_of(reader))));
    let events = stream::unfold(
        (Some(opening), parts, open),
        |(opening, mut parts, open)| async move {
            let chunk = match opening {
                Some(opening) => opening,
                None => match timeout(PING, parts.next()).await {
                    Err(_) => padding(),
                    // A reader that fails ends the stream, so that the client reconnects.
                    Ok(next) => next??,
                },
            };
            Some((chunk, (None, parts, open)))
        },
    );
    let end = stream::once(async move {
        let text = format!("event: {ENDED}\ndata: {{\"event\":{}}}\n\n", ended_event());
        shutdown.borrow().then(|| Bytes::from(text))
    });
    let chunks = events.chain(end.filter_map(std::future::ready));
    let chunks = chunks.map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(chunks));
    set_stream_headers(response.headers_mut());
    response
}

/// Returns the events of a session; `None` where the stream of all sessions ends.
///
/// The events of a removed session end without it.
fn parts_of(reader: EventReader) -> impl Stream<Item = Option<Bytes>> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.step(None).await {
            EventStep::Events(bytes) => Some((Some(bytes), Some(reader))),
            EventStep::Removed => Some((Some(gone(reader.session()).into()), None)),
            EventStep::Silence | EventStep::End => Some((None, None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(values: &[&str]) -> Vec<(String, String)> {
        let values = values.iter();
        values
            .map(|value| ("session".to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_session_is_named_once_with_the_id_of_an_event() {
        let all = query(&["a:1-1", "b:c:", "d, e:7-2"]);
        let expected = vec![("a", "1-1"), ("b:c", ""), ("d, e", "7-2")];
        assert_eq!(named_sessions(&all), Ok(expected));
        let many: Vec<String> = (0..=MAX_SESSIONS).map(|at| format!("s{at}:")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for refused in [
            &[][..],
            &["a"],
            &["a:", "a:1-1"],
            &many,
            &[":"],
            &[":1-1"],
            &["a:x"],
        ] {
            assert!(named_sessions(&query(refused)).is_err(), "{refused:?}");
        }
        let other = [("sessions".to_owned(), "a:".to_owned())];
        assert!(named_sessions(&other).is_err());
    }
}
