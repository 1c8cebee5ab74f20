//! `logue check` for programs: SARIF, annotations, and warnings that count.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{folder, run, run_with_input};

/// A warning, and an error with a label, behind a character of two bytes and one of four.
const PROMPT: &str = "<tool name=\"odoc_search\"/>\n<user>é🦀\n</assistant>\n";

fn sarif(folder: &std::path::Path, arguments: &[&str]) -> (i32, Value) {
    let ran = run(
        folder,
        [&["check", "--format", "sarif"], arguments].concat(),
    );
    assert_eq!(ran.stderr, "");
    (ran.status, serde_json::from_str(&ran.stdout).unwrap())
}

#[test]
fn a_log_has_one_run_with_its_rules_and_results() {
    let folder = folder(&[("my prompts/a.md", PROMPT)]);
    let (status, log) = sarif(folder.path(), &["."]);
    assert_eq!(status, 8);
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let [run] = log["runs"].as_array().unwrap().as_slice() else {
        panic!("{log}");
    };
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    assert_eq!(run["invocations"], json!([{"executionSuccessful": true}]));
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "logue");
    assert_eq!(driver["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        driver["rules"],
        json!([
            {
                "id": "tool-unsupported",
                "shortDescription": {"text": "A built-in of another program that Logue does not provide."},
                "helpUri": "docs/errors/tool-unsupported.md",
            },
            {
                "id": "E-MD-MISMATCHED-TAG",
                "shortDescription": {"text": "A closing tag names another element than the open one."},
                "helpUri": "docs/errors/E-MD-MISMATCHED-TAG.md",
            },
        ])
    );
    let results = run["results"].as_array().unwrap();
    let facts: Vec<_> = results
        .iter()
        .map(|result| (&result["ruleId"], &result["ruleIndex"], &result["level"]))
        .collect();
    assert_eq!(
        facts,
        [
            (&json!("tool-unsupported"), &json!(0), &json!("warning")),
            (&json!("E-MD-MISMATCHED-TAG"), &json!(1), &json!("error")),
        ]
    );
    assert!(results[0].get("relatedLocations").is_none());
    let text = results[1]["message"]["text"].as_str().unwrap();
    assert!(text.starts_with("`</assistant>` does not match the open `<user>`\n"));
    assert!(text.contains("\nexpected: `</user>`\nhelp: "), "{text}");
    assert_eq!(
        results[1]["locations"],
        json!([{"physicalLocation": {
            "artifactLocation": {"uri": "my%20prompts/a.md"},
            "region": {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 13},
        }}])
    );
    assert_eq!(
        results[1]["relatedLocations"],
        json!([{
            "id": 1,
            "message": {"text": "`<user>` is opened here"},
            "physicalLocation": {
                "artifactLocation": {"uri": "my%20prompts/a.md"},
                "region": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 7},
            },
        }])
    );
}

#[test]
fn columns_of_a_log_are_characters() {
    let folder = folder(&[]);
    let ran = run_with_input(
        folder.path(),
        &["check", "--format", "sarif", "-"],
        "<user>é🦀</user>x",
    );
    let log: Value = serde_json::from_str(&ran.stdout).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "stdin");
    assert_eq!(
        place["region"],
        json!({"startLine": 1, "startColumn": 16, "endLine": 1, "endColumn": 17})
    );
}

#[test]
fn a_log_without_findings_is_a_log() {
    let folder = folder(&[("a.md", "<user>hi</user>\n")]);
    let (status, log) = sarif(folder.path(), &["a.md"]);
    assert_eq!((status, &log["runs"][0]["results"]), (0, &json!([])));
}

#[test]
fn a_file_that_cannot_be_read_is_a_result_of_a_run_that_failed() {
    let folder = folder(&[("a.md", "<user>hi</user>\n")]);
    let (status, log) = sarif(folder.path(), &["a.md", "/nowhere/at all.md"]);
    assert_eq!(status, 3);
    let run = &log["runs"][0];
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    assert_eq!(run["results"][0]["ruleId"], "E-SOURCE-READ");
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        place["artifactLocation"]["uri"],
        "file:///nowhere/at%20all.md"
    );
}

#[test]
fn annotations_are_one_line_each() {
    let folder = folder(&[("a,b.md", PROMPT)]);
    let ran = run(folder.path(), ["check", "--format", "github", "a,b.md"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (8, ""));
    assert_snapshot!(ran.stdout, @r"
    ::warning file=a%2Cb.md,line=1,endLine=1,col=1,endColumn=27,title=tool-unsupported::the built-in tool `odoc_search` of ochat is not supported%0Ahelp: calls of it are rejected; supported are read_file, get_contents, read_dir, read_directory, import_image, apply_patch, append_to_file, find_and_replace, webpage_to_markdown, search, write_file, browser, browser.search, browser.open, browser.find, python, fork
    ::error file=a%2Cb.md,line=3,endLine=3,col=1,endColumn=13,title=E-MD-MISMATCHED-TAG::`</assistant>` does not match the open `<user>`%0Aexpected: `</user>`%0Ahelp: tags that are meant as text go into a RAW block: `RAW|</assistant>|RAW`
    ");
}

#[test]
fn warnings_count_where_they_are_denied() {
    let folder = folder(&[
        ("a.md", "<tool name=\"odoc_search\"/>\n"),
        ("b.md", "<user>x</user>"),
    ]);
    for (arguments, status) in [
        (&["check", "a.md"][..], 0),
        (&["check", "--deny", "warnings", "a.md"], 8),
        (&["check", "--deny", "warnings", "b.md"], 0),
        (&["check", "--deny", "warnings", "absent.md"], 3),
        (&["check", "--deny", "everything", "b.md"], 2),
        (&["check", "--json", "--format", "sarif", "b.md"], 2),
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.stderr);
    }
    let json = run(folder.path(), ["check", "--json", "a.md"]);
    let same = run(folder.path(), ["check", "--format", "json", "a.md"]);
    assert_eq!((json.status, &json.stdout), (0, &same.stdout));
}

/// Every command reads a text without header and channels alike, and loses no answer.
#[test]
fn answers_without_a_channel_are_kept_by_every_command() {
    let text = "<|start|>user<|message|>hi<|end|><|start|>assistant<|message|>hello<|end|>";
    let folder = folder(&[("a.txt", text)]);
    let outputs = [
        run(folder.path(), ["view", "a.txt"]),
        run(folder.path(), ["convert", "--to", "openai", "a.txt"]),
        run(folder.path(), ["tokens", "render", "--text", "a.txt"]),
    ];
    for ran in outputs {
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(
            ran.stdout.contains("hello"),
            "{} {}",
            ran.stdout,
            ran.stderr
        );
    }
}
