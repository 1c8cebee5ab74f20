//! `logue scan`: hidden control tokens.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{Ran, folder, run, run_with_input};

fn shown(ran: &Ran) -> String {
    format!(
        "{}\n--- stdout\n{}--- stderr\n{}",
        ran.status, ran.stdout, ran.stderr
    )
}

#[test]
fn tokens_are_underlined_where_they_are_spelled() {
    let folder = folder(&[(
        "data.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"fine\"}]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"é\\u003c|im_start|>system\"}]}\n",
    )]);
    let ran = run(folder.path(), ["scan", "data.jsonl"]);
    assert_snapshot!(shown(&ran), @r#"
    8
    --- stdout
    --- stderr
    warning[hidden-control-token]: `<|im_start|>` appears in message text
     --> data.jsonl:2:41
      |
    2 | {"messages":[{"role":"user","content":"é\u003c|im_start|>system"}]}
      |                                         ^^^^^^^^^^^^^^^^^ expected text without control tokens
      |
      = help: a model may read it as markup; check the origin of the text

    1 file scanned: 1 hidden control token, 0 escaped
    "#);
}

#[test]
fn escaped_tokens_do_no_harm() {
    let folder = folder(&[(
        "a.ocml",
        "version: 2.2\n<|start|>user<|message|>How do I write <<|end|>?<|end|>\n",
    )]);
    let ran = run(folder.path(), ["scan", "a.ocml"]);
    assert_snapshot!(shown(&ran), @r"
    0
    --- stdout
    --- stderr
    a.ocml:2:41: `<|end|>` is escaped and harmless here
    1 file scanned: 0 hidden control tokens, 1 escaped
    ");
}

#[test]
fn folders_and_prose_are_searched() {
    let folder = folder(&[
        ("in/a.md", "<user>say <|end|></user>\n"),
        ("in/b.txt", "nothing here\n"),
        ("in/deep/c.txt", "one <|im_end|> and <|endoftext|>\n"),
        ("in/d.chatml", "<|im_start|>user\nhi<|im_end|>\n"),
    ]);
    let ran = run(folder.path(), ["scan", "--json", "in"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (8, ""));
    let found: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let places: Vec<String> = found
        .iter()
        .map(|found| {
            format!(
                "{} {} {}",
                found["file"].as_str().unwrap(),
                found["token"].as_str().unwrap(),
                found["start"]
            )
        })
        .collect();
    assert_snapshot!(places.join("\n"), @r#"
    in/a.md <|end|> {"offset":10,"line":1,"column":11}
    in/deep/c.txt <|im_end|> {"offset":4,"line":1,"column":5}
    in/deep/c.txt <|endoftext|> {"offset":19,"line":1,"column":20}
    "#);
    let clean = run(folder.path(), ["scan", "in/b.txt", "in/d.chatml"]);
    assert_eq!(clean.status, 0, "{}", clean.stderr);
}

#[test]
fn a_long_stream_has_exact_places() {
    let folder = folder(&[]);
    // Over several pieces, with a token across a border and one at the end of a line of megabytes.
    let mut text = String::from("first\n");
    text.push_str(&"é".repeat(32 * 1024 - 5));
    text.push_str("<|end|>\n");
    text.push_str(&"x".repeat(3 * 1024 * 1024));
    text.push_str("<|im_end|>");
    let ran = run_with_input(folder.path(), &["scan", "--json", "-"], &text);
    assert_eq!(ran.status, 8);
    for (line, token) in ran.stdout.lines().zip(["<|end|>", "<|im_end|>"]) {
        let found: Value = serde_json::from_str(line).unwrap();
        assert_eq!(found["token"], token);
        let offset = text.find(token).unwrap();
        assert_eq!(found["start"]["offset"], offset);
        let before = &text[..offset];
        let begin = before.rfind('\n').unwrap() + 1;
        assert_eq!(found["start"]["line"], before.matches('\n').count() + 1);
        assert_eq!(
            found["start"]["column"],
            before[begin..].chars().count() + 1
        );
    }
    assert_eq!(ran.stdout.lines().count(), 2);
}

#[test]
fn many_findings_take_no_longer_than_many_lines() {
    let folder = folder(&[]);
    let text = "<|end|>".repeat(2000);
    let ran = run_with_input(folder.path(), &["scan", "--json", "-"], &text);
    assert_eq!(ran.stdout.lines().count(), 2000);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["start"]["column"], 7 * 1999 + 1);
}

#[test]
fn the_form_may_be_told() {
    let folder = folder(&[("a", "<|im_start|>user\nhi<|im_end|>\n")]);
    assert_eq!(run(folder.path(), ["scan", "a"]).status, 0);
    assert_eq!(
        run(folder.path(), ["scan", "--from", "text", "a"]).status,
        8
    );
    assert_eq!(
        run(folder.path(), ["scan", "--from", "harmony", "a"]).status,
        8
    );
    assert_eq!(run(folder.path(), ["scan", "missing"]).status, 3);
}

#[test]
fn families_are_chosen() {
    let text = "<start_of_turn>user\n<tool_call>{}</tool_call> [INST]\n";
    let folder = folder(&[("a.txt", text)]);
    let tokens = |arguments: &[&str]| {
        let ran = run(
            folder.path(),
            [&["scan", "--json", "a.txt"], arguments].concat(),
        );
        let lines = ran.stdout.lines().map(serde_json::from_str::<Value>);
        let tokens = lines.map(|line| line.unwrap()["token"].as_str().unwrap().to_owned());
        (ran.status, tokens.collect::<Vec<_>>().join(" "))
    };
    let all = "<start_of_turn> <tool_call> </tool_call> [INST]".to_owned();
    assert_eq!(tokens(&[]), (8, all));
    let gemma = "<start_of_turn>".to_owned();
    assert_eq!(tokens(&["--family", "gemma"]), (8, gemma.clone()));
    let not = [
        "--no-family",
        "qwen",
        "--no-family",
        "llama",
        "--no-family",
        "mistral",
    ];
    assert_eq!(tokens(&not), (8, gemma));
    assert_eq!(tokens(&["--family", "kimi"]), (0, String::new()));
    assert_eq!(
        run(folder.path(), ["scan", "--family", "x", "a.txt"]).status,
        2
    );
}

#[test]
fn families_that_contradict_are_refused() {
    let folder = folder(&[("a.txt", "a <|end|> b\n")]);
    let scan = |flags: &[&str]| run(folder.path(), [&["scan", "a.txt"], flags].concat());
    let ran = scan(&["--family", "llama", "--no-family", "llama"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let fault = "error[usage]: --family llama and --no-family llama contradict";
    assert!(ran.stderr.contains(fault), "{}", ran.stderr);
    let ran = scan(&["--family", "openchatml", "--no-family", "llama"]);
    assert_ne!(ran.status, 2, "{}", ran.stderr);
}
