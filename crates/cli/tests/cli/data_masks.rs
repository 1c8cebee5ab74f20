//! `logue data mask`: columns, classes, refused rows, truncation, the view for people.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{Ran, folder, logue, run};

const CHAT: &str = r#"{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","reasoning_content":"Easy.","content":"4"}]}"#;

/// Masks rows and returns the run and the rows of the output.
fn mask(folder: &Path, options: &[&str]) -> (Ran, Vec<Value>) {
    let common = ["data", "mask", "in.jsonl", "-o", "out.jsonl"];
    let ran = run(folder, common.iter().chain(options));
    let text = fs::read_to_string(folder.join("out.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (ran, rows.collect())
}

/// The codes in the quarantine, in order.
fn refused(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("out.jsonl.quarantine.jsonl")).unwrap_or_default();
    let codes = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(!row["help"][0].as_str().unwrap().is_empty(), "{row}");
        row["code"].as_str().unwrap().to_owned()
    });
    codes.collect()
}

fn numbers(row: &Value, column: &str) -> Vec<i64> {
    let values = row[column].as_array().unwrap();
    values.iter().map(|value| value.as_i64().unwrap()).collect()
}

/// The text of the trained tokens of a row.
fn trained(row: &Value) -> String {
    let labels = numbers(row, "labels");
    let ids = labels.into_iter().filter_map(|id| u32::try_from(id).ok());
    logue_o200k::decode_text(&ids.collect::<Vec<_>>()).unwrap()
}

#[test]
fn columns_are_ready_for_training() {
    let folder = folder(&[("in.jsonl", &format!("{CHAT}\n{CHAT}\n"))]);
    let (ran, rows) = mask(folder.path(), &["--to", "harmony"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(rows.len(), 2);
    let row = &rows[0];
    let (ids, labels) = (numbers(row, "input_ids"), numbers(row, "labels"));
    let masks = numbers(row, "assistant_masks");
    assert_eq!(numbers(row, "attention_mask"), vec![1; ids.len()]);
    assert_eq!((labels.len(), masks.len()), (ids.len(), ids.len()));
    for ((id, label), mask) in ids.iter().zip(&labels).zip(&masks) {
        assert_eq!(*label, if *mask == 1 { *id } else { -100 });
    }
    assert_eq!(
        trained(row),
        "<|channel|>analysis<|message|>Easy.<|end|>\
         <|start|>assistant<|channel|>final<|message|>4<|return|>"
    );
    let (_, rows) = mask(
        folder.path(),
        &[
            "--to",
            "harmony",
            "--columns",
            "text,spans",
            "--train",
            "answer,terminator",
        ],
    );
    let row = &rows[0];
    let text = row["text"].as_str().unwrap();
    let spans = row["spans"].as_array().unwrap().iter();
    let spans = spans.filter(|span| span["trained"] == true).map(|span| {
        let place = |key: &str| usize::try_from(span[key].as_u64().unwrap()).unwrap();
        (
            span["class"].as_str().unwrap(),
            &text[place("start")..place("end")],
        )
    });
    assert_eq!(
        spans.collect::<Vec<_>>(),
        [
            ("answer", "<|start|>assistant<|channel|>final<|message|>4"),
            ("terminator", "<|return|>")
        ]
    );
}

#[test]
fn rows_without_a_right_mask_are_refused_with_codes() {
    let rows = [
        // The stop token of the answer is that of a history.
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"A"},{"role":"user","content":"b"}]}"#,
        r#"{"messages":[{"role":"user","content":"a"}]}"#,
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"A","weight":0}]}"#,
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"A","train":false}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"image_url"}]},{"role":"assistant","content":"A"}]}"#,
        r#"{"messages":[{"role":"robot","content":"a"}]}"#,
        r#"{"messages":["#,
        CHAT,
    ];
    let folder = folder(&[("in.jsonl", &rows.join("\n"))]);
    let (ran, written) = mask(folder.path(), &["--to", "harmony"]);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert_eq!(written.len(), 1);
    assert_eq!(
        refused(folder.path()),
        [
            "E-DATA-STOP-UNTRAINED",
            "E-DATA-MASK-EMPTY",
            "E-DATA-MASK-EMPTY",
            "E-DATA-MASK-MARK",
            "E-DATA-MASK-CONTENT",
            "E-JSON-SHAPE",
            "E-JSON-SYNTAX"
        ]
    );
    let (_, written) = mask(
        folder.path(),
        &[
            "--to",
            "harmony",
            "--drop-trailing",
            "--marks",
            "weight,ignore",
        ],
    );
    assert_eq!(written.len(), 3);
    assert_eq!(
        trained(&written[0]),
        "<|channel|>final<|message|>A<|return|>"
    );
}

#[test]
fn rows_that_say_nothing_or_contradict_themselves_are_refused() {
    let row = |message: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant",{message}}}]}}"#
        )
    };
    let rows = [
        CHAT.replacen('{', "{\"weight\":0,", 1),
        CHAT.replacen('{', "{\"weight\":0.5,", 1),
        CHAT.replacen('{', "{\"train\":true,", 1),
        row(r#""content":"""#),
        row(r#""content":"<think>Hm.</think>""#),
        row(r#""content":"y","reasoning":"a","thinking":"b""#),
        row(r#""content":"y","value":"z""#),
        row(r#""content":"y","content":"z""#),
        row(r#""content":"y","from":"gpt""#),
    ];
    let folder = folder(&[("in.jsonl", &rows.join("\n"))]);
    let (ran, written) = mask(folder.path(), &["--to", "harmony"]);
    assert_eq!((ran.status, written.len()), (8, 0), "{}", ran.stderr);
    let expected = [
        "E-DATA-MASK-EMPTY",
        "E-DATA-MASK-MARK",
        "E-DATA-MASK-MARK",
        "E-DATA-MASK-EMPTY",
        "E-DATA-MASK-EMPTY",
        "E-DATA-MASK-CONTENT",
        "E-JSON-SHAPE",
        "E-JSON-SHAPE",
        "E-JSON-SHAPE",
    ];
    assert_eq!(refused(folder.path()), expected);
}

#[test]
fn rows_of_other_shapes_are_converted_for_each_form() {
    let rows = [
        r#"{"instruction":"x","output":"A"}"#,
        r#"{"prompt":"x","completion":"A"}"#,
        r#"{"conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"A"}]}"#,
        r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]},{"role":"assistant","content":"A"}]}"#,
        r#"{"prompt":"x","chosen":"y","rejected":"z"}"#,
    ];
    let folder = folder(&[("in.jsonl", &rows.join("\n"))]);
    for form in ["harmony", "ocml2.2"] {
        let (ran, written) = mask(folder.path(), &["--to", form, "--restart"]);
        assert_eq!((ran.status, written.len()), (8, 4), "{}", ran.stderr);
        for row in &written {
            let text = trained(row);
            assert!(
                text.ends_with("<|channel|>final<|message|>A<|return|>"),
                "{text}"
            );
        }
        assert!(trained(&written[3]).contains("to=functions.f"));
        assert_eq!(refused(folder.path()), ["E-DATA-MASK-CONTENT"]);
    }
}

#[test]
fn a_refusal_names_what_to_do() {
    let folder = folder(&[("in.jsonl", CHAT)]);
    let stderr = |options: &[&str]| mask(folder.path(), options).0.stderr;
    let left_out = stderr(&["--to", "harmony", "--reasoning", "drop"]);
    assert!(left_out.contains("E-DATA-MASK-EMPTY"), "{left_out}");
    assert!(left_out.contains("--train-without-reasoning"), "{left_out}");
    let reasoning = stderr(&["--to", "harmony", "--train", "reasoning,terminator"]);
    assert!(reasoning.contains("E-DATA-STOP-UNTRAINED"), "{reasoning}");
    assert!(
        reasoning.contains("train `answer` and `call` as well"),
        "{reasoning}"
    );
    let accepted = [
        "--to",
        "harmony",
        "--train",
        "reasoning,terminator",
        "--allow-untrained-stop",
    ];
    let (ran, rows) = mask(folder.path(), &accepted);
    assert_eq!(ran.status, 0);
    assert_eq!(
        trained(&rows[0]),
        "<|channel|>analysis<|message|>Easy.<|end|>"
    );
}

#[test]
fn tool_calls_are_never_dropped() {
    let row = r#"{"messages":[{"role":"user","content":"Tide?"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"tide","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"06:12"},{"role":"assistant","content":"At 06:12."}]}"#;
    let folder = folder(&[("in.jsonl", row)]);
    let (_, rows) = mask(folder.path(), &["--to", "harmony"]);
    assert_eq!(
        trained(&rows[0]),
        " to=functions.tide<|channel|>commentary <|constrain|>json<|message|>{}<|call|>\
         <|channel|>final<|message|>At 06:12.<|return|>"
    );
}

#[test]
fn a_tokenizer_of_another_form_fails_before_the_first_row() {
    let folder = folder(&[("in.jsonl", CHAT)]);
    let command = [
        "data",
        "mask",
        "in.jsonl",
        "-o",
        "out.jsonl",
        "--to",
        "chatml",
    ];
    let ran = run(folder.path(), command);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("E-DATA-SPECIAL-TOKEN"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("`<|im_start|>`"), "{}", ran.stderr);
    assert!(!folder.path().join("out.jsonl").exists());
}

#[test]
fn truncation_counts_the_trained_tokens_again() {
    let folder = folder(&[("in.jsonl", CHAT)]);
    let base = ["--to", "harmony", "--max-length"];
    let with = |more: &[&str]| {
        let options: Vec<&str> = base.iter().chain(more).copied().collect();
        let (ran, rows) = mask(folder.path(), &options);
        (ran.status, rows.len(), refused(folder.path()))
    };
    assert_eq!(with(&["10"]), (8, 0, vec!["E-DATA-TOO-LONG".to_owned()]));
    let empty = vec!["E-DATA-MASK-EMPTY".to_owned()];
    assert_eq!(with(&["10", "--truncate", "right"]), (8, 0, empty));
    assert_eq!(with(&["20", "--truncate", "left"]), (0, 1, vec![]));
}

#[test]
fn people_see_the_mask_of_a_row() {
    let folder = folder(&[("in.jsonl", &format!("{{}}\n{CHAT}\n"))]);
    let show = ["data", "mask", "in.jsonl", "--to", "harmony", "--show"];
    let ran = run(folder.path(), show.iter().chain(&["2"]));
    assert_snapshot!(ran.stdout, @r"
    row 2: 73 tokens, 13 trained
                 <|start|>system<|message|>
      context    You are ChatGPT, a large language model trained by OpenAI.⏎
                 Knowledge cutoff: 2024-06⏎
                 ⏎
                 Reasoning: medium⏎
                 ⏎
                 # Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>
                 <|start|>user<|message|>
      context    2+2?<|end|>
                 <|start|>assistant
    + reasoning  <|channel|>analysis<|message|>Easy.
    + terminator <|end|>
    + answer     <|start|>assistant<|channel|>final<|message|>4
    + terminator <|return|>
    ");
    let coloured = logue(folder.path())
        .args(show)
        .arg("2")
        .env_remove("NO_COLOR")
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    let coloured = String::from_utf8(coloured.stdout).unwrap();
    assert!(coloured.contains("\u{1b}[32m+ "), "{coloured}");
    let ran = run(folder.path(), show.iter().chain(&["1"]));
    assert_eq!(ran.status, 8);
    assert!(ran.stderr.contains("error[E-JSON-SHAPE]"), "{}", ran.stderr);
    let ran = run(folder.path(), show.iter().chain(&["3"]));
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("the input has 2 rows"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_output_does_not_depend_on_the_threads() {
    let rows: String = (0..3_000)
        .map(|number| {
            CHAT.replace("2+2?", &format!("{number}? {}", "w ".repeat(number % 300))) + "\n"
        })
        .collect();
    let folder = folder(&[("in.jsonl", &rows)]);
    let mut outputs = ["1", "4"].map(|jobs| {
        let (ran, rows) = mask(folder.path(), &["--to", "harmony", "--jobs", jobs]);
        assert_eq!((ran.status, rows.len()), (0, 3_000));
        fs::read(folder.path().join("out.jsonl")).unwrap()
    });
    let [one, four] = &mut outputs;
    assert!(one == four);
}
