//! The stream of a run's events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::chat::problem::Problem;
use crate::chat::sse::{padding, set_stream_headers};

/// The longest silence of a stream.
const PING: Duration = Duration::from_secs(8);

/// The reason that a run has no more events.
pub(super) enum Stopped {
    /// The client left. The turn continues.
    Left,
    Refused(Refusal),
}

/// A problem that ends a run.
pub(super) struct Refusal {
    problem: Problem,
    /// The open interrupts, if they are the reason.
    interrupts: Option<Value>,
}

impl<P: Into<Problem>> From<P> for Stopped {
    fn from(problem: P) -> Self {
        Self::Refused(Refusal {
            problem: problem.into(),
            interrupts: None,
        })
    }
}

impl Refusal {
    pub(super) fn with_interrupts(problem: Problem, interrupts: Vec<Value>) -> Self {
        Self {
            problem,
            interrupts: Some(Value::Array(interrupts)),
        }
    }
}

/// The sending end of the stream of a run.
pub(super) struct RunOutlet {
    sender: mpsc::Sender<Value>,
    thread: String,
    run: String,
    has_started: bool,
}

impl RunOutlet {
    /// Creates an outlet with the response that it writes.
    pub(super) fn new(thread: &str, run: &str) -> (Self, Response) {
        let (sender, events) = mpsc::channel(64);
        let outlet = Self {
            sender,
            thread: thread.to_owned(),
            run: run.to_owned(),
            has_started: false,
        };
        (outlet, response(events))
    }

    pub(super) async fn send(&self, event: Value) -> Result<(), Stopped> {
        let sent = self.sender.send(event).await;
        sent.map_err(|_| Stopped::Left)
    }

    pub(super) async fn started(&mut self) -> Result<(), Stopped> {
        self.has_started = true;
        self.send(
            json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run,
            "protocolVersion": "1.0"}),
        )
        .await
    }

    pub(super) async fn custom(&self, name: &str, value: Value) -> Result<(), Stopped> {
        let name = format!("logue.{name}");
        self.send(json!({"type": "CUSTOM", "name": name, "value": value}))
            .await
    }

    pub(super) async fn finished(&self, outcome: Value) -> Result<(), Stopped> {
        self.send(
            json!({"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run,
            "outcome": outcome}),
        )
        .await
    }

    pub(super) async fn refused(&mut self, refusal: &Refusal) -> Result<(), Stopped> {
        if !self.has_started {
            self.started().await?;
        }
        let problem = &refusal.problem;
        let mut about = problem.to_json();
        if let Some(interrupts) = &refusal.interrupts {
            about["interrupts"] = interrupts.clone();
        }
        self.send(json!({"type": "RUN_ERROR", "message": problem.detail,
            "code": problem.code, "metadata": {"logue": about}}))
            .await
    }
}

fn response(events: mpsc::Receiver<Value>) -> Response {
    let first = true;
    let chunks = stream::unfold((events, first), |(mut events, first)| async move {
        // The first bytes do not wait for the agent.
        let bytes = if first {
            padding()
        } else {
            match timeout(PING, events.recv()).await {
                Err(_) => padding(),
                Ok(None) => return None,
                Ok(Some(event)) => written(&event, &mut events),
            }
        };
        Some((Ok::<_, Infallible>(bytes), (events, false)))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    set_stream_headers(response.headers_mut());
    response
}

/// Writes an event and those that have arrived after it.
fn written(event: &Value, events: &mut mpsc::Receiver<Value>) -> Bytes {
    let mut text = format!("data: {event}\n\n");
    while text.len() < 16 * 1024
        && let Ok(event) = events.try_recv()
    {
        text.push_str(&format!("data: {event}\n\n"));
    }
    text.into()
}
