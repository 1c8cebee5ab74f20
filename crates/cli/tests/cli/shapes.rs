//! JSON of programs and data sets on the command line: one detection for every command.

use crate::program::{folder, run, run_with_input};

const PAIR: &str = r#"{"prompt":"2+3?","chosen":"5","rejected":"6"}"#;
const ANTHROPIC: &str = r#"{"system":"Be brief.","messages":[{"role":"user","content":"Tide?"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"tide","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"06:12"}]}]}"#;

#[test]
fn a_pair_becomes_two_labelled_lines() {
    let folder = folder(&[("data.jsonl", PAIR), ("one.json", PAIR)]);
    for file in ["data.jsonl", "one.json"] {
        let ran = run(folder.path(), ["convert", file, "--to", "openai"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        for (label, answer) in [("chosen", "5"), ("rejected", "6")] {
            let line = format!(
                r#"{{"label":"{label}","messages":[{{"role":"user","content":"2+3?"}},{{"role":"assistant","content":"{answer}"}}]}}"#
            );
            assert!(ran.stdout.contains(&line), "{file}: {}", ran.stdout);
        }
    }
}

#[test]
fn lines_of_messages_are_one_conversation() {
    let lines = concat!(
        r#"{"role":"user","content":"Hi"}"#,
        "\n",
        r#"{"role":"assistant","channel":"analysis","content":"Greet."}"#,
        "\n",
        r#"{"role":"assistant","channel":"final","content":"Hello","terminator":"return"}"#,
        "\n"
    );
    let expected = "version: 2.2\n<|start|>user<|message|>Hi<|end|>\n\
        <|start|>assistant<|channel|>analysis<|message|>Greet.<|end|>\n\
        <|start|>assistant<|channel|>final<|message|>Hello<|return|>\n";
    let folder = folder(&[("frames.jsonl", lines)]);
    let named = run(
        folder.path(),
        ["convert", "frames.jsonl", "--to", "ocml2.2"],
    );
    let piped = run_with_input(folder.path(), &["convert", "--to", "ocml2.2"], lines);
    for ran in [named, piped] {
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, expected),
            "{}",
            ran.stderr
        );
    }
    let shown = run(folder.path(), ["view", "frames.jsonl"]);
    assert!(shown.stdout.contains("Hello") && !shown.stdout.contains("Greet."));
}

#[test]
fn requests_of_providers_are_written_and_read() {
    let folder = folder(&[("a.json", ANTHROPIC)]);
    let there = run(folder.path(), ["convert", "a.json", "--to", "responses"]);
    assert_eq!((there.status, there.stderr.as_str()), (0, ""));
    assert!(
        there
            .stdout
            .contains(r#""type":"function_call","call_id":"t1""#)
    );
    let back = run_with_input(
        folder.path(),
        &["convert", "--to", "anthropic"],
        &there.stdout,
    );
    assert_eq!((back.status, back.stderr.as_str()), (0, ""));
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&back.stdout), value(ANTHROPIC));
}

#[test]
fn every_command_reads_json_as_json() {
    let rows = format!("{ANTHROPIC}\n{PAIR}\n");
    let folder = folder(&[("data.jsonl", &rows), ("a.json", ANTHROPIC)]);
    let view = run(folder.path(), ["view", "a.json"]);
    assert_eq!(view.status, 0, "{}", view.stderr);
    assert!(view.stdout.contains("Tide?"), "{}", view.stdout);
    let view = run(folder.path(), ["view", "data.jsonl"]);
    for part in [
        "==> data.jsonl:1 <==",
        "==> data.jsonl:2 <==",
        "Tide?",
        "2+3?",
        "6",
    ] {
        assert!(view.stdout.contains(part), "{part}: {}", view.stdout);
    }
    let check = run(folder.path(), ["check", "data.jsonl", "a.json"]);
    assert_eq!(check.status, 0, "{}", check.stderr);
}

#[test]
fn findings_have_a_place_in_their_line() {
    let rows = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n\
        {\"messages\":[{\"role\":\"usher\",\"content\":\"a\"}]}\n";
    let folder = folder(&[("data.jsonl", rows)]);
    for command in ["check", "view"] {
        let ran = run(folder.path(), [command, "data.jsonl"]);
        assert!(
            ran.stderr.contains("data.jsonl:2:22"),
            "{command}: {}",
            ran.stderr
        );
    }
    assert_eq!(run(folder.path(), ["check", "data.jsonl"]).status, 8);
}

#[test]
fn a_bad_line_does_not_hide_the_others() {
    let row =
        |text: &str| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}\n");
    let rows = [
        "nope\n",
        &row("one"),
        "{\"messages\":[{\"role\":\"user\"\n",
        "\n",
        "{\"messages\":[{\"role\":\"usher\",\"content\":\"x\"}]}\n",
        &row("two"),
        &row("three"),
    ]
    .concat();
    // The extension or the rows themselves show that these are lines.
    let folder = folder(&[
        ("data.jsonl", &rows),
        ("data.json", rows.trim_start_matches("nope\n")),
    ]);
    for (file, places) in [
        (
            "data.jsonl",
            ["data.jsonl:1:2", "data.jsonl:3:28", "data.jsonl:5:22"],
        ),
        (
            "data.json",
            ["data.json:2:28", "data.json:4:22", "data.json:4:22"],
        ),
    ] {
        let checked = run(folder.path(), ["check", file]);
        assert_eq!(checked.status, 8, "{file}: {}", checked.stderr);
        let viewed = run(folder.path(), ["view", file]);
        assert_eq!(viewed.status, 3, "{file}: {}", viewed.stderr);
        for place in places {
            assert!(checked.stderr.contains(place), "{file}: {}", checked.stderr);
            assert!(viewed.stderr.contains(place), "{file}: {}", viewed.stderr);
        }
        for text in ["one", "two", "three"] {
            assert!(viewed.stdout.contains(text), "{file}: {}", viewed.stdout);
        }
    }
    // A formatted document is one conversation, and has one error.
    let formatted = "{\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"a\"},\n    \
        {\"role\": \"user\", \"content\": \"b\"}\n  ]\n";
    std::fs::write(folder.path().join("one.json"), formatted).unwrap();
    let checked = run(folder.path(), ["check", "one.json"]);
    assert!(checked.stderr.contains(": 1 error,"), "{}", checked.stderr);
}

#[test]
fn an_unknown_shape_is_refused_with_its_keys() {
    let row = r#"{"instruct":"Translate","inputs":"chat","outputs":"cat"}"#;
    let folder = folder(&[
        ("row.json", row),
        ("rows.jsonl", &format!("{row}\n{PAIR}\n")),
    ]);
    for (command, status) in [("convert", 3), ("check", 8), ("view", 3)] {
        let mut arguments = vec![command, "row.json"];
        if command == "convert" {
            arguments.extend(["--to", "openai"]);
        }
        let ran = run(folder.path(), arguments);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (status, ""),
            "{command}: {}",
            ran.stderr
        );
        for part in [
            "E-JSON-SHAPE",
            "\"instruct\", \"inputs\", \"outputs\"",
            "(instruction)",
        ] {
            assert!(
                ran.stderr.contains(part),
                "{command} {part}: {}",
                ran.stderr
            );
        }
    }
    let ran = run(folder.path(), ["convert", "rows.jsonl", "--to", "openai"]);
    assert_eq!(
        (ran.status, ran.stdout.lines().count()),
        (3, 2),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("rows.jsonl:1:1"), "{}", ran.stderr);
}

#[test]
fn forms_that_are_only_read_are_no_output() {
    let folder = folder(&[("a.json", PAIR)]);
    let ran = run(folder.path(), ["convert", "a.json", "--to", "preference"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let ran = run(
        folder.path(),
        [
            "convert",
            "a.json",
            "--from",
            "preference",
            "--to",
            "openai",
        ],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn an_empty_file_is_named_as_such() {
    let folder = folder(&[("empty.json", " \n")]);
    for command in [
        &["convert", "--to", "openai", "empty.json"][..],
        &["tokens", "render", "empty.json"],
    ] {
        let ran = run(folder.path(), command);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        let fault = "error[E-SOURCE-READ]: `empty.json` is empty";
        assert!(ran.stderr.contains(fault), "{}", ran.stderr);
    }
}

#[test]
fn the_remedy_for_a_control_token_in_harmony_text_works() {
    let row = "{\"messages\":[{\"role\":\"user\",\"content\":\"a <|end|> b\"}]}";
    let folder = folder(&[("row.json", row)]);
    let ran = run(folder.path(), ["convert", "--to", "harmony", "row.json"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let remedy = "remove it from the text, or render to ids (`logue tokens render`)";
    assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
    assert!(!ran.stderr.contains("escaped form"), "{}", ran.stderr);
    let ran = run(folder.path(), ["tokens", "render", "row.json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = run(folder.path(), ["tokens", "render", "--text", "row.json"]);
    assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
}
