//! The events of a session compared with its history, and a model that answers in many pieces.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Gate, Random, Received, Reply};

use crate::client::{Event, Served};

/// A prompt whose tool has an effect that is counted.
pub(crate) const AGENT: &str =
    "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n";
pub(crate) const SCRIPT: &str = "echo ran >> runs\nprintf done\n";

/// Calls the tool until the request contains a result. The gate releases each piece.
pub(crate) fn answer_of(request: &Received, gate: &Gate, seed: u64) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let has_result = messages.iter().any(|message| message["role"] == "tool");
    let answer = if has_result {
        Answer::text("h i j k l m n o p q r s t u")
    } else {
        Answer::text("a b c d e f g").with_call("c1", "work", "{}")
    };
    let bytes = answer.stream(&mut Random::new(seed));
    let pieces = bytes.chunks(160).map(<[u8]>::to_vec).collect();
    Reply::Gated(pieces, gate.clone())
}

/// Fails unless the numbers count up from 1 without a gap.
pub(crate) fn check_numbers(events: &[Event]) {
    let numbers = events.iter().map(|event| {
        let (seq, generation) = event.id.split_once('-').unwrap();
        assert_eq!(generation, "1");
        seq.parse::<u64>().unwrap()
    });
    let numbers: Vec<u64> = numbers.collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "{events:?}");
}

pub(crate) fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.kind() == kind).count()
}

/// Fails unless the events of a turn with one call and one decision are those of its history.
pub(crate) fn check_turn(served: &Served, folder: &Path, session: &str, events: &[Event]) {
    check_numbers(events);
    for kind in ["turn.suspended", "turn.completed"] {
        assert_eq!(count(events, kind), 1, "`{kind}` in {events:?}");
    }
    for turn in 1..=2 {
        let accepted = events
            .iter()
            .filter(|event| event.kind() == "turn.accepted" && event.data["turn"] == turn);
        assert!(accepted.count() <= 1, "{events:?}");
    }
    let history = served.get(&format!("/v1/sessions/{session}/messages"));
    let history = history.json()["messages"].as_array().unwrap().clone();
    // The question to the person is a message of its own.
    let turn = history
        .iter()
        .filter(|message| message["name"] != "logue-approval");
    let turn: Vec<&Value> = turn.collect();
    let roles: Vec<&str> = turn
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    check_outcomes(events, &history);
    check_answers(events, &history);

    let starts = count(events, "tool.started");
    assert_eq!(count(events, "tool.ended"), starts, "{events:?}");

    // A call that had begun when the server was killed is not run again.
    let runs = std::fs::read_to_string(folder.join("runs")).unwrap_or_default();
    let result = turn[2]["content"].as_str().unwrap_or_default();
    if result.contains("done") {
        assert_eq!(runs, "ran\n", "{history:?}");
    } else {
        assert!(
            turn[2].to_string().contains("E-TOOL-CANCELLED"),
            "{history:?}"
        );
        assert!(runs.is_empty() || runs == "ran\n", "{runs}");
    }
}

/// Fails unless the messages of the outcomes are those of the history.
fn check_outcomes(events: &[Event], history: &[Value]) {
    let mut told: Vec<Value> = Vec::new();
    for event in events {
        if event.data["message"]["role"] == "user" {
            told.push(event.data["message"].clone());
        }
        if let Some(messages) = event.data["messages"].as_array() {
            let from = event.data["from"].as_u64().unwrap();
            told.truncate(usize::try_from(from).unwrap());
            told.extend(messages.iter().cloned());
        }
    }
    assert_eq!(told, history, "{events:?}");
}

/// Fails unless the pieces of each answer are its text.
fn check_answers(events: &[Event], history: &[Value]) {
    let mut text = String::new();
    let mut answers = Vec::new();
    for event in events {
        match event.kind() {
            "answer.started" | "answer.withdrawn" | "turn.recovered" => text.clear(),
            "answer.delta" => text.push_str(event.data["text"].as_str().unwrap()),
            "answer.completed" => {
                assert_eq!(event.data["message"]["content"], text, "{events:?}");
                answers.push(event.data["message"].clone());
            }
            _ => {}
        }
    }
    for answer in &answers {
        assert!(history.contains(answer), "{answer} in {history:?}");
    }
}
