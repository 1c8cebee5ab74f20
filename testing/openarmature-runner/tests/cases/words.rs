//! Unknown words fail at any place.

use openarmature_runner::{cases, run_case};
use serde_json::{Value, json};

fn whole() -> Value {
    json!({
        "name": "whole",
        "state": { "fields": { "n": { "type": "int", "default": 0 } } },
        "entry": "a",
        "nodes": { "a": { "update": { "n": 1 } } },
        "edges": [{ "from": "a", "to": "END" }],
        "invocations": [{
            "name": "run",
            "expected": {
                "outcome": "completed",
                "final_state": { "n": 1 },
                "observer_event_invariants": {},
            },
        }],
    })
}

#[test]
fn a_case_of_known_words_holds() {
    assert_eq!(run_case(&whole()).failures, Vec::<String>::new());
}

#[test]
fn an_unknown_word_fails_wherever_it_stands() {
    for place in [
        "",
        "/state",
        "/state/fields/n",
        "/nodes/a",
        "/edges/0",
        "/invocations/0",
        "/invocations/0/expected",
        "/invocations/0/expected/observer_event_invariants",
    ] {
        let mut case = whole();
        let at = case.pointer_mut(place).unwrap().as_object_mut().unwrap();
        at.insert("sudden_word".to_owned(), json!(true));
        let failures = run_case(&case).failures;
        assert!(
            failures
                .iter()
                .any(|one| one.contains("fixture_directive_unknown")),
            "{place}: {failures:?}"
        );
    }
}

#[test]
fn unknown_values_fail_too() {
    for (place, value) in [
        ("/state/fields/n/type", json!("complex")),
        ("/state/fields/n/reducer", json!("mix")),
        ("/nodes/a", json!({ "subgraph": "nowhere" })),
        ("/session_store", json!("cupboard")),
        (
            "/session_migrations",
            json!([{ "from_version": "1", "to_version": "2", "migrate": "magic" }]),
        ),
        ("/harness", json!({ "mode": "chatty" })),
        ("/observers", json!([{ "name": "o", "behavior": "sing" }])),
        (
            "/invocations/0/expected/observer_events",
            json!({ "nobody": [] }),
        ),
    ] {
        let mut case = whole();
        let (parent, key) = place.rsplit_once('/').unwrap();
        let at = case.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        at.insert(key.to_owned(), value);
        assert!(!run_case(&case).failures.is_empty(), "{place}");
    }
}

#[test]
fn a_case_that_expects_nothing_fails() {
    let mut case = whole();
    case["chat_turns"] = json!([]);
    assert!(!run_case(&case).failures.is_empty());
}

#[test]
fn an_unknown_invariant_fails() {
    let mut case = whole();
    case["invariants"] = json!({ "all_is_well": true });
    let failures = run_case(&case).failures;
    assert_eq!(
        failures,
        ["fixture_directive_unknown: the invariant `all_is_well`"]
    );
}

#[test]
fn an_invariant_without_the_words_that_check_it_fails() {
    let mut case = whole();
    case["invariants"] = json!({ "outbound_marked_retry_safe": true });
    let failures = run_case(&case).failures;
    assert!(
        failures[0].contains("not checked without `outbound_payload_includes`"),
        "{failures:?}"
    );
}

#[test]
fn null_is_a_value_and_not_an_absent_key() {
    let place = "/invocations/0/expected";
    for (key, value) in [("final_state", json!(null)), ("error", json!(null))] {
        let mut case = whole();
        let at = case.pointer_mut(place).unwrap().as_object_mut().unwrap();
        at.insert(key.to_owned(), value);
        assert!(!run_case(&case).failures.is_empty(), "{key}");
    }
}

#[test]
fn what_a_file_says_of_all_cases_is_said_of_each() {
    let text = "
cases:
  - {name: one, invariants: {a: true}}
  - {name: two}
invariants: {b: true}
";
    let cases = cases(text).unwrap();
    assert_eq!(cases[0]["invariants"], json!({ "a": true, "b": true }));
    assert_eq!(cases[1]["invariants"], json!({ "b": true }));
}

#[test]
fn what_is_no_file_of_cases_is_no_file() {
    for text in [
        "",
        "cases: {}",
        "cases: [",
        "others: []",
        "cases: []\nmore: 1",
    ] {
        assert!(cases(text).is_err(), "{text:?}");
    }
}
