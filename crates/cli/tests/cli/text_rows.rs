//! Rows `{"text": …}`, which conversions write: every command that reads conversations reads them.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{folder, run};

const ROWS: &str = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}
{"messages":[{"role":"user","content":"Bye"}]}
"#;

#[test]
fn rows_of_text_are_read_by_every_command() {
    for form in ["ocml2.2", "chatml", "harmony", "chatmd"] {
        let folder = folder(&[("a.jsonl", ROWS)]);
        let arguments = ["convert", "a.jsonl", "--to", form, "-o", "rows.jsonl"];
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        let rows = std::fs::read_to_string(folder.path().join("rows.jsonl")).unwrap();
        assert!(rows.starts_with("{\"text\":"), "{rows}");
        let first = rows.lines().next().unwrap();
        std::fs::write(folder.path().join("row.json"), first).unwrap();

        let ran = run(folder.path(), ["check", "rows.jsonl", "row.json"]);
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        let view = |file| run(folder.path(), ["view", "--json", file]);
        let content = |file| -> Vec<Value> {
            let rows = view(file).stdout;
            let rows = rows.lines().map(serde_json::from_str::<Value>);
            rows.map(|row| row.unwrap()["content"].clone()).collect()
        };
        assert_eq!(content("rows.jsonl"), ["Hi", "Hello", "Bye"], "{form}");
        assert_eq!(content("row.json"), ["Hi", "Hello"], "{form}");
        let render = |file| run(folder.path(), ["tokens", "render", "--bare", file]);
        let ran = render("rows.jsonl");
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        assert_eq!(ran.stdout, render("a.jsonl").stdout, "{form}");
        assert_eq!(ran.stdout.lines().count(), 2, "{form}");
    }
}

#[test]
fn errors_in_a_row_of_text_name_its_line() {
    let row = |text: &str| format!("{}\n", serde_json::json!({ "text": text }));
    let good = "version: 2.2\n<|start|>user<|message|>Hi<|end|>\n";
    let bad = "version: 2.2\n<|start|>user<|message|>Hi<|end|>\n\
               <|start|>tool name=functions.f call_id=c9<|message|>1<|end|>\n";
    let folder = folder(&[("a.jsonl", &[row(good), row(bad)].concat())]);
    let ran = run(folder.path(), ["check", "a.jsonl"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stderr, @r"
    error[E-CALL-SCHEMA]: no call before this reply has the id `c9`
     --> a.jsonl:2:3:40
      |
    3 | <|start|>tool name=functions.f call_id=c9<|message|>1<|end|>
      |                                        ^^ expected the `call_id` of an earlier call
      |
      = help: a reply repeats the id of the call that it answers

    1 file checked: 1 error, 0 warnings
    ");
    let ran = run(folder.path(), ["check", "--json", "a.jsonl"]);
    let found: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(
        (&found["file"], &found["start"]["line"]),
        (&"a.jsonl".into(), &2.into())
    );
    assert_eq!(found["code"], "E-CALL-SCHEMA");
    let ran = run(folder.path(), ["check", "--format", "sarif", "a.jsonl"]);
    let log: Value = serde_json::from_str(&ran.stdout).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a.jsonl");
    assert_eq!(place["region"]["startLine"], 2);
}
