//! `logue data check` and `logue data stats`: findings, groups, SARIF, measures, the page.

use std::fs;

use serde_json::Value;

use crate::program::{folder, run};

const GOOD: &str = r#"{"source":"a","messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Good day, how are you?"}]}"#;

/// A data set with every kind of finding, in two groups.
fn data_set() -> String {
    let mut rows = String::new();
    for _ in 0..40 {
        rows.push_str(GOOD);
        rows.push('\n');
    }
    for row in [
        r#"{"source":"b","messages":[{"role":"user","content":"Hi"}]}"#,
        r#"{"source":"b","messages":[{"role":"assistant","content":"Yes"},{"role":"user","content":"<|im_start|>system"}]}"#,
        r#"{"source":"b","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":"{\"q\":7}"}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"assistant","content":"b"}],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}]}"#,
        r#"{"source":"b","messages":[{"role":"user","#,
        r#"{"source":"b"}"#,
    ] {
        rows.push_str(row);
        rows.push('\n');
    }
    rows
}

#[test]
fn control_tokens_of_every_family_are_found() {
    let tokens = [
        "<|turn>",
        "<turn|>",
        "<|channel>",
        "<channel|>",
        "<|tool_call>",
        "<tool_call|>",
        "<unk>",
        "<pad>",
        "<tools>",
        "</tools>",
        "<start_of_turn>",
        "<|eot_id|>",
        "<｜User｜>",
        "[INST]",
        "<|START_OF_TURN_TOKEN|>",
    ];
    for token in tokens {
        let row = GOOD.replace("Hello", &format!("a{token}b"));
        let folder = folder(&[("in.jsonl", &row)]);
        let ran = run(folder.path(), ["data", "check", "in.jsonl"]);
        let expected = format!("a message contains the control token `{token}`");
        assert!(ran.stderr.contains(&expected), "{token}: {}", ran.stderr);
    }
}

#[test]
fn each_finding_is_reported_by_code_by_place_and_by_group() {
    let folder = folder(&[("in.jsonl", &data_set())]);
    let ran = run(
        folder.path(),
        ["data", "check", "in.jsonl", "--by", "source"],
    );
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    for expected in [
        "45 rows checked: 4 errors, 2 warnings, 39 exact duplicates",
        "error[E-DATA-MASK-EMPTY]: 1 row, first in.jsonl:41: ",
        "error[E-CALL-SCHEMA]: 1 row, first in.jsonl:43: ",
        "error[E-JSON-SYNTAX]: 1 row, first in.jsonl:44: ",
        "error[E-JSON-SHAPE]: 1 row, first in.jsonl:45: ",
        "warning[hidden-control-token]: 1 row, first in.jsonl:42: ",
        "warning[data-no-answer]: 1 row, first in.jsonl:42: ",
        "--> in.jsonl:42:",
        "(not JSON)",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
    }
    let of_b = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("b "))
        .unwrap();
    let words: Vec<&str> = of_b.split_whitespace().take(4).collect();
    assert_eq!(words, ["b", "4", "3", "1"], "{of_b}");

    let ran = run(
        folder.path(),
        ["data", "check", "in.jsonl", "--by", "source", "--json"],
    );
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["rows"], 45);
    assert_eq!(value["readable"], 43);
    assert_eq!(value["groups"]["a"]["rows_with_errors"], 0);
    assert_eq!(value["groups"]["b"]["findings"]["E-JSON-SHAPE"], 1);
    assert_eq!(
        value["errors"][0]["first"]["line"], 43,
        "{}",
        value["errors"]
    );
}

#[test]
fn a_whole_data_set_passes_unless_warnings_are_denied() {
    let warned =
        r#"{"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}"#;
    let folder = folder(&[("good.jsonl", GOOD), ("warned.jsonl", warned)]);
    for (file, deny, status) in [
        ("good.jsonl", &["--deny", "warnings"][..], 0),
        ("warned.jsonl", &[], 0),
        ("warned.jsonl", &["--deny", "warnings"], 8),
    ] {
        let arguments = ["data", "check", file]
            .into_iter()
            .chain(deny.iter().copied());
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, status, "{file} {deny:?}: {}", ran.stderr);
    }
}

#[test]
fn sarif_has_each_finding_with_its_line_in_the_file() {
    let folder = folder(&[("in.jsonl", &data_set())]);
    let ran = run(folder.path(), ["data", "check", "in.jsonl", "--sarif"]);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let log: Value = serde_json::from_str(&ran.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 6, "{}", ran.stdout);
    let lines: Vec<_> = results
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            assert_eq!(place["artifactLocation"]["uri"], "in.jsonl");
            place["region"]["startLine"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(lines, [41, 42, 42, 43, 44, 45]);
}

#[test]
fn stats_count_tokens_roles_and_calls() {
    let folder = folder(&[("in.jsonl", &data_set())]);
    let ran = run(folder.path(), ["data", "stats", "in.jsonl", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["messages"]["user"], 43);
    assert_eq!(value["calls"]["look"], 1);
    // "Hello" is one token, "Good day, how are you?" seven.
    assert_eq!(value["in_a_row"]["tokens"]["p50"], 8);
    assert_eq!(value["in_a_row"]["tokens_of_the_assistant"]["p50"], 7);
    let ran = run(folder.path(), ["data", "stats", "in.jsonl"]);
    assert!(
        ran.stdout.contains("tokens of the assistant"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_page_contains_the_plots_and_no_markup_of_the_data_set() {
    let hostile =
        r#"{"source":"<script>alert(1)</script>","messages":[{"role":"user","content":"Hi"}]}"#;
    let folder = folder(&[("in.jsonl", &format!("{}{hostile}\n", data_set()))]);
    let arguments = [
        "data",
        "check",
        "in.jsonl",
        "--by",
        "source",
        "--report",
        "report.html",
    ];
    let ran = run(folder.path(), arguments);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    // No row has reasoning, so its distribution is not drawn.
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.contains("E-DATA-MASK-EMPTY"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script"), "{page}");
    for outside in ["http:", "https:", "//", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}
