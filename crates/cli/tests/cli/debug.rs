//! `logue debug frames` and `logue debug tree` print what the readers see.

use serde_json::{Value, json};

use crate::program::{folder, run, run_with_input};

fn frames(text: &str, arguments: &[&str]) -> Value {
    let folder = folder(&[("it", text)]);
    let mut all = vec!["debug", "frames", "it"];
    all.extend_from_slice(arguments);
    let ran = run(folder.path(), all);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_malformed_answer_gives_its_messages_and_what_is_wrong() {
    let text = "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>commentary \
                to=functions.look <|constrain|>json<|message|>{}<|call|>";
    let found = frames(text, &["--start-role", "assistant"]);
    assert_eq!(found["messages"][0]["channel"], "analysis");
    assert_eq!(found["messages"][0]["end"], "implicit");
    let call = json!({
        "role": "assistant", "recipient": "functions.look", "channel": "commentary",
        "content_type": "json", "content": "{}", "call_id": null, "name": null, "intent": null,
        "end": "call", "complete": true, "stray": false,
    });
    assert_eq!(found["messages"][1], call);
    let finding = &found["diagnostics"][0];
    assert_eq!(finding["code"], "E-PARSE-HEADER");
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["span"], json!({"start": 33, "end": 42}));
    assert_eq!(found["diagnostics"].as_array().unwrap().len(), 1);
}

#[test]
fn a_document_with_a_header_is_openchatml() {
    let body = "<|start|>user<|message|>a <<|end|> b<|end|>";
    for arguments in [&[][..], &["--from", "harmony"]] {
        let header = if arguments.is_empty() {
            "version: 2.2\n"
        } else {
            ""
        };
        let found = frames(&format!("{header}{body}"), arguments);
        assert_eq!(found["messages"][0]["content"], "a <|end|> b");
        assert_eq!(found["messages"][0]["channel"], Value::Null);
        assert_eq!(found["diagnostics"], json!([]));
    }
}

#[test]
fn token_ids_are_read_as_harmony() {
    // The text of ids that are no control tokens is text, whatever it spells.
    let spelled = logue(&["tokens", "encode", "--json"], "<|end|>4");
    let ids: Vec<u32> = serde_json::from_str(&spelled).unwrap();
    let all = [&[200_005, 17196, 200_008][..], &ids, &[200_002]].concat();
    let found = frames(
        &serde_json::to_string(&all).unwrap(),
        &["--tokens", "--start-role", "assistant"],
    );
    assert_eq!(found["messages"][0]["channel"], "final");
    assert_eq!(found["messages"][0]["content"], "<|end|>4");
    assert_eq!(found["messages"][0]["end"], "return");
    assert_eq!(found["messages"].as_array().unwrap().len(), 1);
    assert_eq!(found["diagnostics"], json!([]));
}

#[test]
fn token_ids_are_no_openchatml() {
    let folder = folder(&[("ids.json", "[200006]"), ("text", "<|start|>")]);
    let base = ["debug", "frames", "--tokens"];
    let ran = run(
        folder.path(),
        base.into_iter().chain(["--from", "ocml2.2", "ids.json"]),
    );
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("supports Harmony only"),
        "{}",
        ran.stderr
    );
    let ran = run(folder.path(), base.into_iter().chain(["text"]));
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("error[invalid_token_ids]"),
        "{}",
        ran.stderr
    );
}

#[test]
fn ids_outside_the_vocabulary_are_reported_and_replaced() {
    // <|start|>assistant<|channel|>final<|message|>Hello …<|return|>
    let ids = "200006 173781 200005 17196 200008 13225 999999 4000000000 200002";
    let printed = logue(&["debug", "frames", "--tokens", "-"], ids);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["messages"][0]["content"], "Hello\u{FFFD}\u{FFFD}");
    let found = &printed["diagnostics"][0];
    assert_eq!(
        found["message"],
        "the token id 999999 is not in the vocabulary"
    );
    assert_eq!(printed["diagnostics"].as_array().unwrap().len(), 1);
}

fn logue(arguments: &[&str], input: &str) -> String {
    let folder = folder(&[]);
    run_with_input(folder.path(), arguments, input).stdout
}

#[test]
fn a_chatmd_file_gives_its_elements_and_texts() {
    let text = "\u{FEFF}<!-- c -->\n<import src='absent.md'/>\n\
                <user\tname=\"a &lt;\\\" b\" x= y>RAW|<b>|RAW\u{1}<i>\"<doc src=\"x\" local/></user >";
    let wanted = json!([
        {"tag": "import", "attrs": [["src", "absent.md"]], "children": []},
        {"tag": "user", "attrs": [["name", "a <\" b"], ["x", "y"]], "children": [
            {"text": "<b>\u{1}<i>\""},
            {"tag": "doc", "attrs": [["src", "x"], ["local", ""]], "children": []},
        ]},
    ]);
    let folder = folder(&[("a.md", text)]);
    for ran in [
        run(folder.path(), ["debug", "tree", "a.md"]),
        run_with_input(folder.path(), &["debug", "tree", "-"], text),
    ] {
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_malformed_chatmd_file_gives_its_tree_and_what_is_wrong() {
    let folder = folder(&[("a.md", "<user>x</doc>y</user>")]);
    let ran = run(folder.path(), ["debug", "tree", "a.md"]);
    assert_eq!(ran.status, 8);
    assert_eq!(
        ran.stdout,
        "[{\"tag\":\"user\",\"attrs\":[],\"children\":[{\"text\":\"x\"},{\"text\":\"y\"}]}]\n"
    );
    assert!(
        ran.stderr.contains("error[E-MD-MISMATCHED-TAG]"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("a.md:1:8"), "{}", ran.stderr);

    std::fs::write(folder.path().join("a.md"), b"<user>\xFF</user>").unwrap();
    let ran = run(folder.path(), ["debug", "tree", "a.md"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
    assert!(ran.stderr.contains("E-SOURCE-NOT-UTF8"), "{}", ran.stderr);
}

#[test]
fn the_depth_of_a_tree_costs_no_stack() {
    let levels = 1_000_000 / "<user>".len();
    let ran = run_with_input(
        folder(&[]).path(),
        &["debug", "tree", "-"],
        &("<user>".repeat(levels) + &"</user>".repeat(levels)),
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(ran.stdout.matches("{\"tag\":\"user\"").count(), levels);
    assert!(ran.stdout.ends_with(&("]}".repeat(levels) + "]\n")));
}
