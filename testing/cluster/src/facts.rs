//! What was acknowledged, compared with the database, the listeners and the effects.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::http::{Event, request};
use crate::model::{SAY, WORK, text, user_text};
use crate::record::Record;

/// The time of one request of a page of a history.
const PATIENCE: Duration = Duration::from_secs(20);

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The acknowledged messages.
    pub messages: usize,
    /// The approved calls.
    pub calls: usize,
    /// The calls that were interrupted, of which each ran at most once.
    pub interrupted: usize,
    /// The interrupted calls that ran once.
    pub interrupted_effects: usize,
    /// The events of all sessions.
    pub events: usize,
    /// The listeners that received all of them.
    pub listeners: usize,
}

/// Compares everything; returns the counts, and adds violated facts to the record.
///
/// # Errors
/// Returns an error if the cluster cannot be read.
pub fn check(cluster: &Cluster, record: &mut Record) -> io::Result<Figures> {
    let mut figures = Figures {
        messages: record.acknowledged.len(),
        ..Figures::default()
    };
    check_keys(cluster, record)?;
    let effects = effects(cluster)?;
    let sessions = cluster
        .database
        .query("select convert_from(id, 'UTF8') from logue.session")?;
    for session in sessions.lines() {
        let history = history(cluster, session)?;
        check_history(session, &history, &effects, record, &mut figures);
        check_events(session, record, &mut figures);
    }
    check_effects(&effects, record);
    let verified = cluster.run(&["sessions", "verify"])?;
    if !verified.status.success() {
        let said = String::from_utf8_lossy(&verified.stdout);
        let error = String::from_utf8_lossy(&verified.stderr);
        record.violation(format!("`sessions verify` found: {said}{error}"));
    }
    Ok(figures)
}

/// Each acknowledged key is one entry.
fn check_keys(cluster: &Cluster, record: &mut Record) -> io::Result<()> {
    let found = cluster.database.query(
        "select convert_from(key, 'UTF8'), count(*), min(pos & 4294967295) \
         from logue.entry where key is not null group by key",
    )?;
    let mut found: BTreeMap<&str, &str> = found
        .lines()
        .filter_map(|line| line.split_once('|'))
        .collect();
    for (key, (session, entry)) in record.acknowledged.clone() {
        let stored = found.remove(key.as_str());
        if stored != Some(format!("1|{entry}").as_str()) {
            record.violation(format!(
                "{key} of {session} is entry {entry}, stored: {stored:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the number of runs of each call.
fn effects(cluster: &Cluster) -> io::Result<BTreeMap<String, usize>> {
    let mut effects = BTreeMap::new();
    let file = cluster.folder().join("effects");
    let lines = if file.exists() {
        fs::read_to_string(file)?
    } else {
        String::new()
    };
    for line in lines.lines() {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    Ok(effects)
}

/// Reads the history of a session, also over cut connections to the database.
fn history(cluster: &Cluster, session: &str) -> io::Result<Vec<Value>> {
    let mut history: Vec<Value> = Vec::new();
    let mut before = String::new();
    let mut attempts = 0;
    loop {
        let node = &cluster.nodes[attempts % cluster.nodes.len()];
        let path = format!("/v1/sessions/{session}/messages?limit=100{before}");
        let page = request(node.address(), ("GET", &path), &[], "", PATIENCE);
        let page = match page {
            Ok(page) if page.status == 200 => page.body,
            _ if attempts < 20 => {
                attempts += 1;
                continue;
            }
            Ok(page) => return Err(io::Error::other(format!("{path}: {page:?}"))),
            Err(error) => return Err(error),
        };
        let messages = page["messages"].as_array().cloned().unwrap_or_default();
        history.splice(0..0, messages);
        let from = page["from"].as_u64().unwrap_or(0);
        if from == 0 {
            return Ok(history);
        }
        before = format!("&before={from}");
    }
}

/// Each acknowledged message is in the history once, with one answer, and each call has one result.
fn check_history(
    session: &str,
    history: &[Value],
    effects: &BTreeMap<String, usize>,
    record: &mut Record,
    figures: &mut Figures,
) {
    let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut results: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for message in history {
        if let Some(text) = user_text(message) {
            let key = text.strip_prefix(SAY).or_else(|| text.strip_prefix(WORK));
            *messages.entry(key.unwrap_or(text)).or_default() += 1;
        } else if message["role"] == "tool" {
            let call = message["tool_call_id"].as_str().unwrap_or_default();
            results
                .entry(call.trim_start_matches("call-"))
                .or_default()
                .push(message);
        } else {
            let text = text(message);
            let key = text
                .strip_prefix("echo ")
                .or_else(|| text.strip_prefix("did "));
            if let Some(key) = key {
                *answers.entry(key).or_default() += 1;
            }
        }
    }
    for (key, (own, _)) in record.acknowledged.clone() {
        if own != session {
            continue;
        }
        let count = messages.get(key.as_str()).copied().unwrap_or(0);
        if count != 1 {
            record.violation(format!(
                "{key} is {count} times in the history of {session}"
            ));
        }
        let count = answers.get(key.as_str()).copied().unwrap_or(0);
        if count != 1 {
            record.violation(format!("{key} is answered {count} times in {session}"));
        }
    }
    for (key, count) in &messages {
        if *count > 1 {
            record.violation(format!(
                "{key} is {count} times in the history of {session}"
            ));
        }
    }
    for (key, results) in &results {
        figures.calls += 1;
        let runs = effects.get(*key).copied().unwrap_or(0);
        let is_cancelled = results
            .iter()
            .any(|result| result.to_string().contains("E-TOOL-CANCELLED"));
        if results.len() != 1 {
            record.violation(format!("the call of {key} has {} results", results.len()));
        }
        if is_cancelled {
            figures.interrupted += 1;
            figures.interrupted_effects += runs;
        } else if runs != 1 {
            record.violation(format!("the call of {key} was done, and ran {runs} times"));
        }
        if !record.approved.contains(*key) {
            record.violation(format!("the call of {key} ran, and was not approved"));
        }
    }
}

/// No call ran twice, and none without a decision.
fn check_effects(effects: &BTreeMap<String, usize>, record: &mut Record) {
    for (key, count) in effects {
        if *count != 1 {
            record.violation(format!("the call of {key} ran {count} times"));
        }
        if !record.approved.contains(key) {
            record.violation(format!("the call of {key} ran, and was not approved"));
        }
    }
}

/// All listeners received the same events; each turn has one end, and each message is in one event.
fn check_events(session: &str, record: &mut Record, figures: &mut Figures) {
    let streams = record.events.get(session).cloned().unwrap_or_default();
    let Some((first, others)) = streams.split_first() else {
        return;
    };
    figures.listeners += streams.len();
    figures.events += first.len();
    for other in others {
        let differs = first.iter().zip(other).find(|(one, two)| one != two);
        if let Some((one, two)) = differs {
            record.violation(format!(
                "listeners of {session} received {one:?} and {two:?}"
            ));
        } else if first.len() != other.len() {
            let (one, two) = (first.len(), other.len());
            record.violation(format!(
                "listeners of {session} received {one} and {two} events"
            ));
        }
    }
    let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
    let mut messages: BTreeMap<String, usize> = BTreeMap::new();
    let mut pieces = String::new();
    for Event { data, .. } in first {
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        let kind = data["type"].as_str().unwrap_or_default();
        if matches!(kind, "turn.completed" | "turn.suspended" | "turn.failed") {
            *ends.entry(data["turn"].as_u64().unwrap_or(0)).or_default() += 1;
        }
        match kind {
            "answer.started" | "answer.withdrawn" | "turn.recovered" => pieces.clear(),
            "answer.delta" => pieces.push_str(data["text"].as_str().unwrap_or_default()),
            "answer.completed" if text(&data["message"]) != pieces => {
                let text = text(&data["message"]);
                record.violation(format!(
                    "the pieces of an answer in {session} are {pieces:?}, its text {text:?}"
                ));
            }
            _ => {}
        }
        let listed = data["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for text in listed
            .iter()
            .chain([&data["message"]])
            .filter_map(user_text)
        {
            *messages.entry(text.to_owned()).or_default() += 1;
        }
    }
    check_order(session, first, record);
    for (turn, count) in ends {
        if count != 1 {
            record.violation(format!("turn {turn} of {session} has {count} ends"));
        }
    }
    for (key, (own, entry)) in record.acknowledged.clone() {
        let count = |kind| messages.get(&format!("{kind}{key}")).copied().unwrap_or(0);
        let count = count(SAY) + count(WORK);
        if own == session && count != 1 {
            record.violation(format!(
                "{key}, entry {entry}, is in {count} events of {session}"
            ));
        }
    }
}

/// The events of a turn end before those of the next one begin, except for its acceptance.
fn check_order(session: &str, events: &[Event], record: &mut Record) {
    let mut open: Option<u64> = None;
    for (at, event) in events.iter().enumerate() {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let kind = data["type"].as_str().unwrap_or_default();
        let Some(turn) = data["turn"].as_u64().filter(|_| kind != "turn.accepted") else {
            continue;
        };
        if let Some(open) = open.filter(|open| *open != turn) {
            let around: Vec<_> = events[at.saturating_sub(12)..]
                .iter()
                .take(24)
                .map(|event| &event.data)
                .collect();
            record.violation(format!(
                "{kind} of turn {turn} in {session} comes before the end of turn {open}: {around:#?}"
            ));
        }
        let is_end = matches!(kind, "turn.completed" | "turn.suspended" | "turn.failed");
        open = Some(turn).filter(|_| !is_end);
    }
}
