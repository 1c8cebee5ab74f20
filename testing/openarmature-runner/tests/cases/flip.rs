//! A case of which one expectation is turned around must fail: each expectation of each case.

use std::fs;

use openarmature_runner::{cases, run_case};
use serde_json::{Map, Value, json};

/// The keys of expectations; all values below are expectations, or lists or mappings of them.
const EXPECTING: &[&str] = &[
    "expected",
    "expected_error",
    "expected_final_state",
    "expected_listener_callback",
    "saved_session_assertions",
    "loaded_session_state",
    "refused",
    "invariants",
];

/// A list of things that must not be there says nothing of things that it does not name, and who
/// listens and which observer is meant are names and not expectations.
const NO_EXPECTATION: &[&str] = &["excludes_fields", "attributes_absent", "raised_at"];

#[test]
fn a_flipped_expectation_fails() {
    let mut files: Vec<_> = fs::read_dir(super::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut flipped = 0;
    let mut deaf = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for case in cases(&text).unwrap() {
            let mut of_case = 0;
            for path in expectations(&case) {
                let mut turned = case.clone();
                let leaf = turned.pointer_mut(&path).unwrap();
                *leaf = opposite(leaf);
                of_case += 1;
                if run_case(&turned).failures.is_empty() {
                    deaf.push(format!("{} {}: {path}", file.display(), case["name"]));
                }
            }
            assert!(of_case > 0, "{} expects nothing", case["name"]);
            flipped += of_case;
        }
    }
    assert_eq!(deaf, Vec::<String>::new());
    assert!(flipped > 500, "only {flipped} expectations");
}

/// The places of all expectations in a case.
fn expectations(case: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(case, String::new(), false, &mut found);
    found
}

fn walk(value: &Value, path: String, expecting: bool, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if NO_EXPECTATION.contains(&key.as_str()) {
                    continue;
                }
                let below = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                let expecting = expecting || EXPECTING.contains(&key.as_str());
                walk(value, below, expecting, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{path}/{index}"), expecting, found);
            }
        }
        _ if expecting => found.push(path),
        _ => {}
    }
}

fn opposite(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!(!value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => json!(number + 1),
            None => json!(0),
        },
        Value::String(text) => json!(format!("{text}~")),
        Value::Array(_) => json!([{ "role": "user", "content": "~" }]),
        Value::Object(_) => Value::Object(Map::from_iter([("~".to_owned(), json!(1))])),
        Value::Null => json!("~"),
    }
}
