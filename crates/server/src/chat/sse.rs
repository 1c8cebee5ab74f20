//! Events as a stream of server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use logue_harness::events::{LogPosition, LoggedEvent};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::hub::LiveSession;
use super::measure::OpenStream;
use super::turn_events::event_kind;
use super::turns::Turns;

/// The longest silence of a stream. Proxies close connections without traffic.
const PING: Duration = Duration::from_secs(8);
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
    has_ended: bool,
    _open: OpenStream,
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
            has_ended: false,
            _open: OpenStream::new(&turns.measures),
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

    fn reset(&self) -> Bytes {
        let id = self.id(self.after);
        format!("id: {id}\nevent: reset\ndata: {{\"type\":\"reset\"}}\n\n").into()
    }

    fn id(&self, seq: u64) -> EventId {
        EventId {
            seq,
            generation: self.generation,
        }
    }

    /// Returns the stream as a response.
    pub(crate) fn into_response(self) -> Response {
        let chunks = stream::unfold(self, |mut reader| async move {
            let chunk = reader.next().await?;
            Some((Ok::<_, Infallible>(chunk), reader))
        });
        let mut response = Response::new(Body::from_stream(chunks));
        set_stream_headers(response.headers_mut());
        response
    }

    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        let silent_until = Instant::now() + PING;
        let mut is_last = false;
        loop {
            if self.has_ended {
                return None;
            }
            // Appends after this are noticed below.
            self.changes.mark_unchanged();
            let read = self
                .turns
                .hub
                .read(&self.session, &self.live, self.after)
                .await;
            // The client reconnects with its last number.
            let read = read.ok()?;
            if self.live.is_removed() {
                return None;
            }
            if self.generation == 0 {
                // The log began after the reader.
                self.generation = read.generation;
            }
            // A log that was lost begins with the next append.
            if read.generation != self.generation && read.generation != 0 {
                // The log was lost, and numbers were given again.
                self.generation = read.generation;
                self.after = 0;
                // The outcome may have been lost with the log.
                self.has_ended = self.is_settled().await;
                return Some(self.reset());
            }
            if read.has_gap {
                let first = read
                    .events
                    .first()
                    .map_or(self.after, |event| event.seq - 1);
                self.after = first;
                return Some(self.reset());
            }
            let bytes = self.format(&read.events);
            if !bytes.is_empty() {
                return Some(bytes.into());
            }
            if self.has_ended || is_last {
                return None;
            }
            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.shutdown.wait_for(|is_down| *is_down) => false,
                }
            };
            match timeout_at(silent_until, changed).await {
                Ok(true) => {}
                // The last events may have been appended at the same time.
                Ok(false) => is_last = true,
                Err(_) => return Some(padding()),
            }
        }
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
            let kind = event_kind(&event.text);
            let id = self.id(event.seq);
            text.push_str(&format!(
                "id: {id}\nevent: {kind}\ndata: {}\n\n",
                event.text
            ));
            if matches!(self.scope, EventScope::Turn(_)) && is_end(kind) {
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
