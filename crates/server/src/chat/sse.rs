//! Events as a stream of server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use logue_harness::events::{LogPosition, LoggedEvent};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::hub::LiveSession;
use super::measure::OpenStream;
use super::problem::Problem;
use super::turn_events::event_kind;
use super::turns::Turns;

/// The longest silence of a stream. Proxies close connections without traffic.
pub(crate) const PING: Duration = Duration::from_secs(8);
/// The last event of a stream that the end of the server cuts.
pub(crate) const ENDED: &str = "stream.ended";
/// The bytes of a comment. Some proxies hold back less.
const PADDING: usize = 2048;

/// The last event that a client has received: `SEQ-GENERATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) seq: u64,
    pub(crate) generation: u64,
}

impl EventId {
    /// Returns the id of the last event of a log.
    pub(crate) fn of(position: LogPosition) -> Self {
        Self {
            seq: position.seq,
            generation: position.generation,
        }
    }

    /// Returns the id of another event of the same generation.
    pub(crate) fn at(self, seq: u64) -> Self {
        Self { seq, ..self }
    }

    /// Parses the value of `Last-Event-ID` or of the parameter `after`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (seq, generation) = text.split_once('-')?;
        Some(Self {
            seq: seq.parse().ok()?,
            generation: generation.parse().ok()?,
        })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.seq, self.generation)
    }
}

/// The part of a session's events that a stream contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventScope {
    /// All events, without end.
    Session,
    /// The events of one turn, up to its outcome.
    Turn(u64),
}

/// The next part of a session's events.
pub(crate) enum EventStep {
    /// Formatted events.
    Events(Bytes),
    /// No event until the given time.
    Silence,
    /// The session was removed.
    Removed,
    /// The stream ends; a client reconnects with its last id.
    End,
}

/// A reader of the events of one session.
pub(crate) struct EventReader {
    turns: Arc<Turns>,
    session: String,
    live: Arc<LiveSession>,
    changes: watch::Receiver<u64>,
    after: u64,
    generation: u64,
    scope: EventScope,
    /// Bytes to send before anything else.
    opening: Option<Bytes>,
    /// Whether each event names its session, which others share the stream with.
    is_named: bool,
    has_ended: bool,
    /// Counts the stream; several sessions that share one count once.
    open: Option<OpenStream>,
    shutdown: watch::Receiver<bool>,
}

impl EventReader {
    /// Creates a reader of the events after an id.
    pub(crate) fn new(
        turns: Arc<Turns>,
        session: &str,
        after: EventId,
        scope: EventScope,
        shutdown: watch::Receiver<bool>,
    ) -> Self {
        let live = turns.hub.live(session);
        let changes = live.changes();
        Self {
            session: session.to_owned(),
            live,
            changes,
            after: after.seq,
            generation: after.generation,
            scope,
            opening: Some(padding()),
            is_named: false,
            has_ended: false,
            open: Some(OpenStream::new(&turns.measures)),
            shutdown,
            turns,
        }
    }

    /// Begins with an event for clients that must read the session anew.
    pub(crate) fn with_reset(mut self) -> Self {
        let mut opening = padding().to_vec();
        opening.extend_from_slice(&self.reset());
        self.opening = Some(opening.into());
        self
    }

    /// Names the session in each event, and adds no comments.
    pub(crate) fn named(mut self) -> Self {
        self.is_named = true;
        self.opening = None;
        self.open = None;
        self
    }

    /// Returns the name of the session.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Returns the number of the last event that was read.
    pub(crate) const fn last(&self) -> u64 {
        self.after
    }

    /// Returns the event for clients that must read the session anew.
    pub(crate) fn reset(&self) -> Bytes {
        self.framed(self.after, "{\"type\":\"reset\"}").into()
    }

    fn framed(&self, seq: u64, text: &str) -> String {
        let (id, kind) = (self.id(seq), event_kind(text));
        if self.is_named {
            return named_event(&self.session, kind, Some(id), text);
        }
        format!("id: {id}\nevent: {kind}\ndata: {text}\n\n")
    }

    fn id(&self, seq: u64) -> EventId {
        EventId {
            seq,
            generation: self.generation,
        }
    }

    /// Returns the stream as a response.
    pub(crate) fn into_response(self) -> Response {
        let chunks = stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Some(chunk) => Some((Ok::<_, Infallible>(chunk), Some(reader))),
                None => Some((Ok(reader.cut_off()?), None)),
            }
        });
        let mut response = Response::new(Body::from_stream(chunks));
        set_stream_headers(response.headers_mut());
        response
    }

    /// Returns the last event of a stream that the end of the server cuts.
    ///
    /// Its id is that of the event before it, after which a client resumes.
    fn cut_off(&self) -> Option<Bytes> {
        let is_cut = *self.shutdown.borrow() && !self.has_ended && !self.live.is_removed();
        let id = self.id(self.after);
        let text = format!("id: {id}\nevent: {ENDED}\ndata: {}\n\n", ended_event());
        is_cut.then(|| text.into())
    }

    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        match self.step(Some(Instant::now() + PING)).await {
            EventStep::Events(bytes) => Some(bytes),
            EventStep::Silence => Some(padding()),
            EventStep::Removed | EventStep::End => None,
        }
    }

    /// Returns the next events, or what occurs instead of them until a time.
    pub(crate) async fn step(&mut self, silent_until: Option<Instant>) -> EventStep {
        let mut is_last = false;
        loop {
            if self.has_ended {
                return EventStep::End;
            }
            // Appends after this are noticed below.
            self.changes.mark_unchanged();
            let read = self
                .turns
                .hub
                .read(&self.session, &self.live, self.after)
                .await;
            // The client reconnects with its last number.
            let Ok(read) = read else {
                return EventStep::End;
            };
            if self.live.is_removed() {
                return EventStep::Removed;
            }
            if self.generation == 0 {
                // The log began after the reader.
                self.generation = read.generation;
            }
            if read.generation == 0 && self.generation != 0 && self.begin_log().await {
                continue;
            }
            // A log that was lost begins with the next append.
            if read.generation != self.generation && read.generation != 0 {
                // The log was lost, and numbers were given again.
                self.generation = read.generation;
                self.after = 0;
                // The outcome may have been lost with the log.
                self.has_ended = self.is_settled().await;
                return EventStep::Events(self.reset());
            }
            if read.has_gap {
                let first = read
                    .events
                    .first()
                    .map_or(self.after, |event| event.seq - 1);
                self.after = first;
                return EventStep::Events(self.reset());
            }
            let bytes = self.format(&read.events);
            if !bytes.is_empty() {
                return EventStep::Events(bytes.into());
            }
            if self.has_ended || is_last {
                return EventStep::End;
            }
            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.shutdown.wait_for(|is_down| *is_down) => false,
                }
            };
            let changed = match silent_until {
                Some(until) => timeout_at(until, changed).await,
                None => Ok(changed.await),
            };
            match changed {
                Ok(true) => {}
                // The last events may have been appended at the same time.
                Ok(false) => is_last = true,
                Err(_) => return EventStep::Silence,
            }
        }
    }

    /// Begins a lost log of the session anew, and returns whether it has begun.
    ///
    /// Without events, nothing else would begin it, and the client would not learn of the loss.
    async fn begin_log(&self) -> bool {
        // A failure is repeated by the supervisor.
        drop(self.turns.log_outcomes(&self.session).await);
        let position = self.turns.hub.position_in_log(&self.session).await;
        position.is_ok_and(|position| position.has_begun())
    }

    /// Returns whether the turn of the reader ended before its log began.
    async fn is_settled(&self) -> bool {
        let EventScope::Turn(entry) = self.scope else {
            return false;
        };
        let log = self.turns.hub.log();
        let Ok(position) = log.position(&self.session).await else {
            return true;
        };
        let first = log.first_after_entry(&self.session, entry - 1).await;
        position.settled >= entry && !matches!(first, Ok(Some(_)))
    }

    /// Returns the next events as JSON, without waiting for the client; `None` at the end.
    pub(crate) async fn next_texts(&mut self) -> Option<Vec<Value>> {
        loop {
            let bytes = self.next().await?;
            let text = String::from_utf8_lossy(&bytes);
            let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let events: Vec<Value> = data
                .filter_map(|data| serde_json::from_str(data).ok())
                .collect();
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    fn format(&mut self, events: &[LoggedEvent]) -> String {
        let mut text = String::new();
        for event in events {
            self.after = event.seq;
            if let EventScope::Turn(entry) = self.scope {
                if event.entry > entry && self.has_ended {
                    break;
                }
                if event.entry != entry {
                    continue;
                }
            }
            text.push_str(&self.framed(event.seq, &event.text));
            let is_end = is_end(event_kind(&event.text));
            if matches!(self.scope, EventScope::Turn(_)) && is_end {
                self.has_ended = true;
                break;
            }
        }
        text
    }
}

/// Returns whether an event is the outcome of its turn.
fn is_end(kind: &str) -> bool {
    matches!(kind, "turn.completed" | "turn.suspended" | "turn.failed")
}

/// Returns the last event of a stream that the end of the server cuts.
pub(crate) fn ended_event() -> Value {
    let problem = Problem::server_ends();
    let help = "reconnect with the id of the last event";
    json!({"type": ENDED, "code": problem.code, "message": problem.detail, "help": help})
}

/// Formats an event of a stream of several sessions.
pub(crate) fn named_event(session: &str, kind: &str, id: Option<EventId>, text: &str) -> String {
    let session = Value::from(session);
    let id = id.map_or(String::new(), |id| format!("\"id\":\"{id}\","));
    format!("event: {kind}\ndata: {{\"session\":{session},{id}\"event\":{text}}}\n\n")
}

/// Returns a stream of one event, which has no id: no log contains it.
pub(crate) fn single_event(text: &str) -> Response {
    let mut bytes = padding().to_vec();
    bytes.extend_from_slice(format!("event: {}\ndata: {text}\n\n", event_kind(text)).as_bytes());
    let mut response = Response::new(Body::from(bytes));
    set_stream_headers(response.headers_mut());
    response
}

/// Returns a comment that clients ignore.
pub(crate) fn padding() -> Bytes {
    let mut comment = vec![b' '; PADDING];
    if let Some(first) = comment.first_mut() {
        *first = b':';
    }
    comment.extend_from_slice(b"\n\n");
    comment.into()
}

/// Sets the headers of a stream that no proxy may hold back or change.
pub(crate) fn set_stream_headers(headers: &mut HeaderMap) {
    let values = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
    ];
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no = HeaderValue::from_static("no");
    headers.insert("x-accel-buffering", no);
}
