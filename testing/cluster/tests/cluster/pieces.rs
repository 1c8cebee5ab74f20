//! The events of one turn, as its listeners receive them.

use std::time::{Duration, Instant};

use cluster::{Cluster, Event, EventStream, Received, events, request};
use serde_json::Value;

/// The time in which a listener receives an expected event; another owner waits for a lease of 10 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A listener of a session.
pub(crate) struct Listener {
    stream: EventStream,
    /// The received events.
    pub(crate) events: Vec<Event>,
}

impl Listener {
    /// Follows a session at a server, after an id of an event.
    pub(crate) fn follow(address: &str, session: &str, after: &str) -> Self {
        let path = format!("/v1/sessions/{session}/events");
        let stream = events(address, &path, after, PATIENCE).unwrap().unwrap();
        Self::of(stream)
    }

    /// Reads the events of an open stream.
    pub(crate) fn of(stream: EventStream) -> Self {
        Self {
            stream,
            events: Vec::new(),
        }
    }

    /// Receives events until one has a text; returns whether it came in time.
    pub(crate) fn wait_for(&mut self, text: &str) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.stream.receive() {
                Ok(Received::Event(event)) => {
                    let is_found = event.data.contains(text);
                    self.events.push(event);
                    if is_found {
                        return true;
                    }
                }
                Ok(Received::Comment) => {}
                Ok(Received::End) | Err(_) => return false,
            }
        }
        false
    }

    /// Returns the types of the events, with the texts of pieces that follow each other as one.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        for event in &self.events {
            let (kind, text) = kind_and_text(&event.data);
            match kinds.last_mut() {
                Some(last) if kind == PIECE && last.starts_with(PIECE) => {
                    last.push_str(&text);
                }
                _ => kinds.push(kind + &text),
            }
        }
        kinds
    }
}

/// The type of an event with a piece of an answer.
const PIECE: &str = "answer.delta";

fn kind_and_text(data: &str) -> (String, String) {
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let kind = data["type"].as_str().unwrap_or_default();
    let text = data["text"]
        .as_str()
        .map(|text| format!(" {}", text.trim()));
    (kind.to_owned(), text.unwrap_or_default())
}

/// Returns the id of the last event of a session.
pub(crate) fn last_event(address: &str, session: &str) -> String {
    let path = format!("/v1/sessions/{session}");
    let shown = request(address, ("GET", &path), &[], "", PATIENCE).unwrap();
    shown.body["events_after"].as_str().unwrap().to_owned()
}

/// Sends a message under a key and returns the answer; an error if the connection ends.
pub(crate) fn send(
    address: &str,
    session: &str,
    (key, text): (&str, &str),
) -> std::io::Result<cluster::Answer> {
    let path = format!("/v1/sessions/{session}/send");
    let body = serde_json::json!({ "message": text }).to_string();
    let headers = [("idempotency-key", key)];
    request(address, ("POST", &path), &headers, &body, 2 * PATIENCE)
}

/// Returns the texts of the answers in the history of a session.
pub(crate) fn answers(cluster: &Cluster, node: usize, session: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/messages?limit=100");
    let address = cluster.nodes[node].address();
    let page = request(address, ("GET", &path), &[], "", PATIENCE).unwrap();
    let messages = page.body["messages"].as_array().cloned();
    let messages = messages.unwrap_or_default().into_iter();
    let answers = messages.filter(|message| message["role"] == "assistant");
    answers
        .map(|answer| answer["content"].to_string())
        .collect()
}

/// Waits until a question to the database has an answer.
pub(crate) fn wait_until(cluster: &Cluster, question: &str, answer: &str) {
    let begun = Instant::now();
    while cluster.database.query(question).unwrap() != answer {
        assert!(begun.elapsed() < PATIENCE, "{question} is not {answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
