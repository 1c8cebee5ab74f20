//! `logue tokens` counts, encodes and decodes.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{Ran, folder, logue, run, run_with_input};

fn tokens(arguments: &[&str], input: &str) -> Ran {
    let folder = folder(&[]);
    let arguments = [&["tokens"], arguments].concat();
    run_with_input(folder.path(), &arguments, input)
}

fn succeeds(arguments: &[&str], input: &str) -> String {
    let ran = tokens(arguments, input);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    ran.stdout
}

#[test]
fn files_are_counted_in_a_table() {
    let folder = folder(&[
        ("hello", "Hello, world!"),
        ("empty", ""),
        ("long", &"The quick brown fox.\n".repeat(50)),
    ]);
    let ran = run(folder.path(), ["tokens", "count", "hello", "empty", "long"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_snapshot!(ran.stdout, @"
    tokens  bytes  file
         4     13  hello
         0      0  empty
       250   1050  long
       254   1063  total
    ");
    let one = run(folder.path(), ["tokens", "count", "hello"]);
    assert_snapshot!(one.stdout, @"
    tokens  bytes  file
         4     13  hello
    ");
    let ran = run(
        folder.path(),
        ["tokens", "count", "--json", "hello", "empty"],
    );
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = json!({
        "files": [
            {"file": "hello", "tokens": 4, "bytes": 13},
            {"file": "empty", "tokens": 0, "bytes": 0},
        ],
        "total": {"tokens": 4, "bytes": 13},
    });
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_cannot_be_read_spoils_no_other() {
    let folder = folder(&[("hello", "Hello, world!"), ("folder/file", "")]);
    std::fs::write(folder.path().join("bytes"), b"a\xE2\x82").unwrap();
    let ran = run(
        folder.path(),
        ["tokens", "count", "missing", "folder", "bytes", "hello"],
    );
    assert_eq!(ran.status, 3);
    assert_snapshot!(ran.stdout, @"
    tokens  bytes  file
         4     13  hello
    ");
    assert_snapshot!(ran.stderr, @"
    error[E-SOURCE-READ]: file `missing` not found
      = help: check the path, which is relative to the current directory
    error[E-SOURCE-READ]: `folder` is a directory
      = help: name a file in it
    error[E-SOURCE-NOT-UTF8]: `bytes` is not UTF-8 text: invalid at byte 1
      = help: save the file as UTF-8
    ");
}

#[test]
fn a_long_text_has_the_tokens_of_its_whole() {
    let words = "Naïve counting of 1234 tokens: it's 世界。\r\n\t(a < b)\n/c\n".repeat(8_000);
    let unbroken = "世界".repeat(60_000);
    for text in [&words, &unbroken, &"a".repeat(200_000)] {
        let folder = folder(&[("it", text)]);
        let read = |arguments: [&str; 4]| -> Value {
            let ran = run(folder.path(), arguments);
            assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
            serde_json::from_str(&ran.stdout).unwrap()
        };
        let ids = logue_o200k::encode(text);
        assert_eq!(read(["tokens", "encode", "--json", "it"]), json!(ids));
        let counted = read(["tokens", "count", "--json", "it"]);
        let size = json!({"tokens": ids.len(), "bytes": text.len()});
        assert_eq!(counted["total"], size);
    }
}

#[test]
fn what_looks_like_a_control_token_is_text_unless_said_otherwise() {
    let text = "<|start|>user";
    assert_eq!(succeeds(&["encode"], text), "27 91 5236 91 29 1428\n");
    assert_eq!(
        succeeds(&["encode", "--special-tokens"], text),
        "200006 1428\n"
    );
    assert_eq!(
        succeeds(&["encode", "--special-tokens", "--json"], text),
        "[200006,1428]\n"
    );
    assert_snapshot!(succeeds(&["count", "--special-tokens"], text), @"
    tokens  bytes  file
         2     13  <stdin>
    ");
    assert_eq!(succeeds(&["encode"], ""), "\n");
    assert_eq!(succeeds(&["encode", "--json"], ""), "[]\n");
}

#[test]
fn ids_give_the_text_again() {
    let text = "Hello, world! 世界 🦊\n";
    let ids = succeeds(&["encode"], text);
    assert_eq!(succeeds(&["decode"], &ids), text);
    let ids = succeeds(&["encode", "--json"], text);
    assert_eq!(succeeds(&["decode"], &ids), text);
    assert_eq!(succeeds(&["decode"], " 200006\n\t1428 "), "<|start|>user");
    assert_eq!(succeeds(&["decode"], ""), "");
}

#[test]
fn half_a_character_is_replaced_or_exact() {
    let half = logue_o200k::encode("\u{1F98A}")[0];
    let bytes = logue_o200k::token_bytes(half).unwrap();
    assert!(std::str::from_utf8(bytes).is_err());
    let folder = folder(&[("ids", &format!("[{half}, 13225]"))]);
    let shown = run(folder.path(), ["tokens", "decode", "ids"]);
    assert_eq!(shown.stdout, "\u{FFFD}Hello");
    let mut command = logue(folder.path());
    let raw = command.args(["tokens", "decode", "--raw", "ids"]);
    assert_eq!(raw.output().unwrap().stdout, [bytes, b"Hello"].concat());
}

#[test]
fn what_is_no_id_is_told() {
    let error_of = |input: &str| {
        let ran = tokens(&["decode"], input);
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
        ran.stderr
    };
    assert_snapshot!(error_of("200006, 1428"), @"
    error[invalid_token_ids]: `<stdin>`: invalid token id `200006,`
      = help: give a JSON array, or numbers from 0 to 201088 separated by white space
    ");
    assert_snapshot!(error_of("[200006, 201089]"), @"
    error[invalid_token_ids]: `<stdin>`: invalid token id `201089`
      = help: give a JSON array, or numbers from 0 to 201088 separated by white space
    ");
    assert_snapshot!(error_of("[200006"), @"
    error[invalid_token_ids]: <stdin>:1:7: invalid JSON: the text ends within a list
      = help: give an array of numbers, such as [200006, 1428]
    ");
    for input in [
        "-1",
        "1.5",
        "[1.5]",
        "[\"a\"]",
        "[-1]",
        "201089",
        "99999999999999999999",
    ] {
        assert!(
            error_of(input).starts_with("error[invalid_token_ids]"),
            "{input}"
        );
    }
}

const SESSION: &str = "version: 2.2
<|start|>user<|message|>2 + 2?<|end|>
<|start|>assistant<|channel|>analysis<|message|>Easy.<|end|>
<|start|>assistant<|channel|>final<|message|>4.<|return|>
<|start|>user<|message|>And 3 + 3?<|end|>
<|start|>assistant<|channel|>final<|message|>6.<|return|>
";

fn rendered(text: &str, arguments: &[&str]) -> Ran {
    let folder = folder(&[("it.ocml", text)]);
    run(
        folder.path(),
        [&["tokens", "render", "--bare", "it.ocml"], arguments].concat(),
    )
}

#[test]
fn a_transcript_is_rendered_as_harmony() {
    let ran = rendered(SESSION, &["--text"]);
    assert_eq!(ran.status, 0);
    assert_snapshot!(ran.stdout, @"<|start|>user<|message|>2 + 2?<|end|><|start|>assistant<|channel|>final<|message|>4.<|end|><|start|>user<|message|>And 3 + 3?<|end|><|start|>assistant<|channel|>final<|message|>6.<|end|>");
    assert_snapshot!(ran.stderr, @"");
    let whole = rendered(SESSION, &["--text", "--keep-reasoning"]).stdout;
    assert!(whole.contains("Easy."), "{whole}");
    let prompt = rendered(SESSION, &["--text", "--next-role", "assistant"]).stdout;
    assert_eq!(prompt, format!("{}<|start|>assistant", ran.stdout));
    let training = rendered(SESSION, &["--text", "--training"]).stdout;
    assert!(training.ends_with("6.<|return|>"), "{training}");
}

#[test]
fn rendered_ids_spell_the_rendered_text() {
    let text = rendered(SESSION, &["--text"]).stdout;
    let ids = rendered(SESSION, &[]).stdout;
    assert_eq!(succeeds(&["decode"], &ids), text);
    let json = rendered(SESSION, &["--json"]).stdout;
    let json: Vec<u32> = serde_json::from_str(&json).unwrap();
    let words: Vec<u32> = ids
        .split(' ')
        .map(|id| id.trim().parse().unwrap())
        .collect();
    assert_eq!(json, words);
    // Harmony is read back and rendered the same.
    let folder = folder(&[("it.txt", &text)]);
    let again = run(
        folder.path(),
        ["tokens", "render", "--from", "harmony", "--text", "it.txt"],
    );
    assert_eq!(again.stdout, text);
}

#[test]
fn a_body_that_spells_a_token_is_rendered_to_ids_only() {
    let session = "version: 2.2\n<|start|>user<|message|>What is <<|end|>?<|end|>\n";
    let ran = rendered(session, &["--text"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
    assert!(
        ran.stderr.contains("error[E-WRITE-REFUSED]"),
        "{}",
        ran.stderr
    );
    let ran = rendered(session, &[]);
    assert_eq!(ran.status, 0);
    assert_eq!(ran.stdout.matches("200007").count(), 1);
    let both = rendered(session, &["--training", "--next-role", "assistant"]);
    assert_eq!(both.status, 2);
}

#[test]
fn a_chatmd_document_is_refused_and_convert_is_named() {
    let text = "<config model=\"echo:\"/>\n<user>hi</user>\n";
    let folder = folder(&[("x.md", text), ("x.chatmd", text)]);
    for file in ["x.md", "x.chatmd"] {
        let ran = run(folder.path(), ["debug", "frames", file]);
        assert_eq!(ran.status, 3, "{file}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout, "");
        let help = format!("logue convert {file} --to ocml2.2");
        assert!(
            ran.stderr.contains("error[E-SOURCE-READ]") && ran.stderr.contains(&help),
            "{file}: {}",
            ran.stderr
        );
    }
}

/// Every form gets the system and developer messages that a server gets.
#[test]
fn every_form_is_rendered_as_a_request() {
    let system = "<|start|>system<|message|>You are Logue.\nKnowledge cutoff: 2024-06\n\
                  Current date: 2026-01-31\n\nReasoning: low\n\n# Valid channels: analysis, \
                  commentary, final. Channel must be included for every message.<|end|>";
    let developer = "<|start|>developer<|message|># Instructions\n\nBe brief.<|end|>";
    let turn = "<|start|>user<|message|>Hi.<|end|><|start|>assistant";
    let expected = format!("{system}{developer}{turn}");
    let texts = [
        (
            "a.json",
            r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi."}]"#,
        ),
        (
            "b.json",
            r#"{"conversations":[{"from":"system","value":"Be brief."},{"from":"human","value":"Hi."}]}"#,
        ),
        ("c.md", "<system>Be brief.</system>\n<user>Hi.</user>\n"),
        (
            "d.ocml",
            "version: 2.2\n<|start|>system<|message|>Be brief.<|end|>\n<|start|>user<|message|>Hi.<|end|>\n",
        ),
        (
            "e.chatml",
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n",
        ),
    ];
    let folder = folder(&texts);
    let flags = [
        "--text",
        "--next-role",
        "assistant",
        "--reasoning-effort",
        "low",
        "--date",
        "2026-01-31",
        "--identity",
        "You are Logue.",
    ];
    for (name, _) in texts {
        let ran = run(
            folder.path(),
            [&["tokens", "render", name], &flags[..]].concat(),
        );
        assert_eq!(ran.stdout, expected, "{name}: {}", ran.stderr);
        let bare = run(
            folder.path(),
            ["tokens", "render", "--bare", "--text", name],
        );
        let plain = "<|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>Hi.<|end|>";
        assert_eq!(bare.stdout, plain, "{name}: {}", bare.stderr);
    }
}

/// What a request sends is rendered: the settings of a prompt, and results that name no tool.
#[test]
fn settings_and_results_without_a_tool_are_rendered() {
    let call = "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>";
    let harmony = [
        "<|start|>user<|message|>Go<|end|>",
        call,
        "<|start|>tool<|channel|>commentary<|message|>RESULT<|end|>",
    ];
    let folder = folder(&[
        ("p.md", "<config reasoning_effort=\"low\"/><user>Hi</user>"),
        (
            "p.ocml",
            "version: 2.2\ngeneration_settings: {\"reasoning_effort\": \"high\"}\n<|start|>user<|message|>Hi<|end|>\n",
        ),
        ("h.txt", &harmony.concat()),
    ]);
    for (name, expected) in [
        ("p.md", "Reasoning: low\n"),
        ("p.ocml", "Reasoning: high\n"),
        (
            "h.txt",
            "<|start|>functions.f<|channel|>commentary<|message|>RESULT<|end|>",
        ),
    ] {
        let ran = run(folder.path(), ["tokens", "render", "--text", name]);
        assert!(
            ran.stdout.contains(expected),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn each_conversation_of_a_data_set_is_a_line() {
    let rows = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n\n\
                {\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}\n";
    let folder = folder(&[("rows.jsonl", rows), ("no.json", "[]"), ("text", "hello")]);
    let ran = run(folder.path(), ["tokens", "render", "--bare", "rows.jsonl"]);
    let lines: Vec<String> = ran
        .stdout
        .lines()
        .map(|ids| succeeds(&["decode"], ids))
        .collect();
    let message = |text: &str| format!("<|start|>user<|message|>{text}<|end|>");
    assert_eq!(lines, [message("a"), message("b")]);
    let text = run(folder.path(), ["tokens", "render", "--text", "rows.jsonl"]);
    assert_eq!((text.status, text.stdout.as_str()), (2, ""));
    for name in ["no.json", "text"] {
        let ran = run(folder.path(), ["tokens", "render", name]);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (3, ""),
            "{name}: {}",
            ran.stderr
        );
    }
}

#[test]
fn both_conversations_of_a_pair_are_rendered() {
    let pair = r#"{"prompt":"2+3?","chosen":[{"role":"assistant","content":"5"}],"rejected":[{"role":"assistant","content":"6"}]}"#;
    let folder = folder(&[("pair.json", pair)]);
    let named = ["--from", "preference"];
    for form in [&[][..], &named[..]] {
        let arguments = [&["tokens", "render", "--bare", "pair.json"], form].concat();
        let ran = run(folder.path(), arguments);
        let text = |ids: &str| succeeds(&["decode"], ids);
        let lines: Vec<String> = ran.stdout.lines().map(text).collect();
        let conversation = |answer: &str| {
            format!(
                "<|start|>user<|message|>2+3?<|end|>\
                 <|start|>assistant<|channel|>final<|message|>{answer}<|end|>"
            )
        };
        let expected = [conversation("5"), conversation("6")];
        assert_eq!(lines, expected, "{}", ran.stderr);
    }
    let text = run(folder.path(), ["tokens", "render", "--text", "pair.json"]);
    assert_eq!((text.status, text.stdout.as_str()), (2, ""));
}
