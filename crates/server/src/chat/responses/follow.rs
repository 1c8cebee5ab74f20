//! A response as a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::ids::ResponseId;
use super::stored::{ResponseEnd, StoredResponse};
use super::stream::ResponseEvents;
use crate::chat::api::Api;
use crate::chat::problem::Problem;
use crate::chat::sse::{EventId, EventReader, EventScope, PING, padding, set_stream_headers};

/// A reader of the events of a stored response.
struct Follower {
    api: Api,
    id: ResponseId,
    agent: String,
    conversation: Option<String>,
    /// The events of the turn; `None` if the log no longer contains them.
    reader: Option<EventReader>,
    events: ResponseEvents,
    /// The number of the last event that the client has.
    after: Option<u64>,
    pending: VecDeque<Bytes>,
    has_ended: bool,
}

/// Streams a stored response from its first event, or from the one after a number.
///
/// # Errors
/// Returns a problem if the store or the log fails.
pub(super) async fn follow(
    api: &Api,
    id: &ResponseId,
    stored: &StoredResponse,
    after: Option<u64>,
) -> Result<Response, Problem> {
    let log = api.turns.hub.log();
    // The position is read first: what is logged later is in the stream.
    let position = log.position(&id.session).await?;
    let first = log.first_after_entry(&id.session, id.entry - 1).await?;
    let is_logged = match first {
        Some(first) => {
            let page = log.since(&id.session, first - 1, 1).await?;
            let mut events = page.events.iter();
            events.next().is_some_and(|event| event.entry == id.entry)
        }
        None if position.has_begun() => position.settled < id.entry,
        // Without a log, a turn that has ended gets no events any more.
        None => stored.outcome.is_none(),
    };
    let reader = is_logged.then(|| {
        EventReader::new(
            api.turns.clone(),
            &id.session,
            EventId::of(position).at(first.map_or(position.seq, |first| first - 1)),
            EventScope::Turn(id.entry),
            api.shutdown.clone(),
        )
    });
    let follower = Follower {
        api: api.clone(),
        id: id.clone(),
        agent: stored.head.model.clone(),
        conversation: stored.head.conversation.clone(),
        reader,
        events: ResponseEvents::new(stored.head.clone(), id.suffix()),
        after,
        pending: VecDeque::from([padding()]),
        has_ended: false,
    };
    Ok(into_response(follower))
}

fn into_response(follower: Follower) -> Response {
    let chunks = stream::unfold(follower, |mut follower| async move {
        let bytes = follower.next().await?;
        Some((Ok::<_, Infallible>(bytes), follower))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    set_stream_headers(response.headers_mut());
    response
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        // Events of the turn that the response does not have do not defer the comment.
        let silent_until = Instant::now() + PING;
        loop {
            if let Some(bytes) = self.pending.pop_front() {
                return Some(bytes);
            }
            if self.has_ended {
                return None;
            }
            match &mut self.reader {
                None => self.end().await?,
                Some(reader) => match timeout_at(silent_until, reader.next_texts()).await {
                    Err(_) => return Some(padding()),
                    Ok(None) => {
                        self.has_ended = true;
                        return Some(self.cut_off());
                    }
                    Ok(Some(events)) => {
                        for event in &events {
                            if is_end(event) {
                                self.end().await?;
                                break;
                            }
                            self.events.event(event);
                        }
                    }
                },
            }
            self.format();
        }
    }

    /// Returns the event of a stream that the end of the server cuts off.
    ///
    /// It has the number of the event before it, so that a client that continues after it with the next
    /// server misses none.
    fn cut_off(&self) -> Bytes {
        let problem = Problem::server_ends();
        data(
            &json!({"type": "error", "code": problem.code, "message": problem.detail,
            "param": null, "sequence_number": self.events.last()}),
        )
    }

    /// Adds the last events, from the store. Returns `None` if it fails: the client reads again.
    async fn end(&mut self) -> Option<()> {
        self.has_ended = true;
        let at = (&self.id, self.agent.as_str());
        let stored = StoredResponse::read(&self.api, at, self.conversation.clone()).await;
        let stored = stored.ok()??;
        self.events.end(stored.end(&self.api).await.ok()?);
        Some(())
    }

    fn format(&mut self) {
        for event in self.events.take() {
            let number = event["sequence_number"].as_u64();
            let is_last = is_last(&event);
            if self.after.is_none() || number > self.after || (self.reader.is_none() && is_last) {
                self.pending.push_back(data(&event));
            }
        }
    }
}

/// Streams the events of a response of which nothing is kept.
pub(super) fn stream_of(
    mut events: ResponseEvents,
    mut turn: tokio::sync::mpsc::Receiver<TurnPart>,
) -> Response {
    let (sender, mut chunks) = tokio::sync::mpsc::channel::<Bytes>(64);
    tokio::spawn(async move {
        let mut bytes = vec![padding()];
        let mut silent_until = Instant::now();
        loop {
            bytes.extend(events.take().iter().map(data));
            if !bytes.is_empty() {
                silent_until = Instant::now() + PING;
            }
            for chunk in bytes.drain(..) {
                if sender.send(chunk).await.is_err() {
                    return;
                }
            }
            match timeout_at(silent_until, turn.recv()).await {
                Err(_) => bytes.push(padding()),
                Ok(None) => return,
                Ok(Some(TurnPart::Event(event))) => events.event(&event),
                Ok(Some(TurnPart::End(end))) => events.end(*end),
            }
        }
    });
    let chunks = stream::poll_fn(move |cx| {
        chunks
            .poll_recv(cx)
            .map(|chunk| chunk.map(Ok::<_, Infallible>))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    set_stream_headers(response.headers_mut());
    response
}

/// A part of a turn of which nothing is kept.
pub(super) enum TurnPart {
    Event(Value),
    End(Box<ResponseEnd>),
}

/// Returns whether an event of a turn is its outcome.
fn is_end(event: &Value) -> bool {
    let kind = event.get("type").and_then(Value::as_str);
    matches!(
        kind,
        Some("turn.completed" | "turn.suspended" | "turn.failed")
    )
}

fn is_last(event: &Value) -> bool {
    let kind = event["type"].as_str();
    matches!(
        kind,
        Some("response.completed" | "response.incomplete" | "response.failed")
    )
}

fn data(event: &Value) -> Bytes {
    let kind = event["type"].as_str().unwrap_or_default();
    format!("event: {kind}\ndata: {event}\n\n").into()
}
