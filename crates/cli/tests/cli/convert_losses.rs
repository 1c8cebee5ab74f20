//! The severity of losses in `logue convert`: what is written, the status, and the counts.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{Ran, folder, run, run_with_input};

/// A picture is content, the kind of a refusal structure, the name of a user identity.
const PICTURE: &str = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}]}"#;
const REFUSAL: &str = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"refusal":"No."}]}"#;
const NAME: &str = r#"{"messages":[{"role":"user","name":"ada","content":"Hi"}]}"#;
const PLAIN: &str = r#"{"messages":[{"role":"user","content":"Hi"}]}"#;

fn convert(line: &str, flags: &[&str]) -> Ran {
    let folder = folder(&[("a.json", line)]);
    let flags = ["convert", "a.json", "--to", "sharegpt"]
        .iter()
        .chain(flags);
    run(folder.path(), flags.copied())
}

#[test]
fn lost_content_is_written_and_has_a_status_of_its_own() {
    let written = |ran: &Ran| ran.stdout.contains("\"from\":\"human\"");
    for (line, flags, status, is_written) in [
        (PICTURE, &[][..], 8, true),
        (PICTURE, &["--allow-loss=content"], 0, true),
        (PICTURE, &["--strict"], 8, false),
        (PICTURE, &["--strict=identity"], 8, false),
        (REFUSAL, &[], 0, true),
        (REFUSAL, &["--strict"], 0, true),
        (REFUSAL, &["--strict=content"], 0, true),
        (REFUSAL, &["--strict=structure"], 8, false),
        (REFUSAL, &["--strict=identity"], 8, false),
        (NAME, &[], 0, true),
        (NAME, &["--strict=structure"], 0, true),
        (NAME, &["--strict=identity"], 8, false),
        (PLAIN, &["--strict=identity"], 0, true),
    ] {
        let ran = convert(line, flags);
        let found = (ran.status, written(&ran));
        assert_eq!(
            found,
            (status, is_written),
            "{line} {flags:?}\n{}",
            ran.stderr
        );
    }
    let both = convert(PICTURE, &["--strict", "--allow-loss=content"]);
    assert_eq!(both.status, 2, "{}", both.stderr);
}

#[test]
fn ids_in_order_are_no_loss() {
    let called = |id: &str, constrain: &str| {
        format!(
            "<|start|>assistant to=functions.f call_id={id}<|channel|>commentary{constrain}<|message|>{{}}<|call|>\n\
             <|start|>tool name=functions.f call_id={id} to=assistant<|channel|>commentary<|message|>1<|end|>\n"
        )
    };
    let folder = folder(&[]);
    let constrain = "<|constrain|>json";
    for (form, constrain) in [
        ("ocml2.0", ""),
        ("harmony", constrain),
        ("ocml0.1", constrain),
        ("sharegpt", constrain),
    ] {
        for (id, status) in [("call_1", 0), ("mine", 8)] {
            let flags = ["convert", "--to", form, "--strict=identity"];
            let text = called(id, constrain);
            let ran = run_with_input(folder.path(), &flags, &text);
            assert_eq!(ran.status, status, "{form} {id}: {}", ran.stderr);
        }
    }
}

#[test]
fn losses_of_a_data_set_are_counted_by_severity() {
    let lines = [PLAIN, PICTURE, NAME, PICTURE, REFUSAL].join("\n");
    let folder = folder(&[("data.jsonl", &lines)]);
    let ran = run(folder.path(), ["convert", "data.jsonl", "--to", "sharegpt"]);
    assert_eq!((ran.status, ran.stdout.lines().count()), (8, 5));
    assert_snapshot!(ran.stderr, @r"
    5 conversations converted, 0 refused, 4 losses
    content: image-dropped (2 in 2 conversations), first data.jsonl:2: frame 2: an image dropped
    structure: part-changed (1 in 1 conversation), first data.jsonl:5: message 2: a refusal is read as text
    identity: name-dropped (1 in 1 conversation), first data.jsonl:3: frame 1: name dropped
    ");
    let ran = run(
        folder.path(),
        [
            "convert",
            "data.jsonl",
            "--to",
            "sharegpt",
            "--json",
            "--allow-loss",
            "content",
        ],
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let summary = &last["summary"];
    assert_eq!(summary["converted"], 5);
    let kinds: Vec<_> = summary["losses"].as_array().unwrap().iter().collect();
    assert_eq!(kinds[0]["severity"], "content");
    assert_eq!(kinds[0]["kind"], "image-dropped");
    assert_eq!(
        (&kinds[0]["count"], &kinds[0]["conversations"]),
        (&2.into(), &2.into())
    );
    assert_eq!(kinds.last().unwrap()["kind"], "name-dropped");
}

/// A rendering lists the images of results as a conversion does, and no other content.
#[test]
fn a_rendering_pairs_results_with_images() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    let row = json!([
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": [image.clone()]},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}, image]},
    ]);
    let folder = folder(&[("a.json", &row.to_string())]);
    let content = |arguments: &[&str]| {
        let ran = run(folder.path(), arguments);
        let lines = ran.stderr.lines().filter(|line| line.contains("content: "));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let converted = content(&["convert", "a.json", "--to", "harmony"]);
    assert_eq!(converted.len(), 2, "{converted:?}");
    assert!(
        converted
            .iter()
            .all(|line| line.ends_with("an image dropped")),
        "{converted:?}"
    );
    assert_eq!(
        content(&["tokens", "render", "--bare", "a.json"]),
        converted
    );
    let prompt = content(&["tokens", "render", "a.json"]);
    assert_eq!(prompt, converted);
}

#[test]
fn a_rendering_lists_the_marks_of_answers_and_joined_parts() {
    let text = "version: 2.2\n<|start|>user<|message|>a<|end|>\n\
                <|start|>user content_type=image_url continues=message<|message|>https://example.org/a.png<|end|>\n\
                <|start|>user continues=message<|message|>b<|end|>\n\
                <|start|>assistant status=interrupted<|channel|>final<|message|>So<|end|>\n\
                <|start|>user<|message|>c<|end|>\n\
                <|start|>assistant phase=final_answer<|channel|>final<|message|>Yes<|return|>\n";
    let folder = folder(&[("a.ocml", text)]);
    let ran = run(folder.path(), ["tokens", "render", "a.ocml"]);
    insta::assert_snapshot!(ran.stderr, @r"
    a.ocml: content: frame 2: an image dropped
    a.ocml: structure: frame 3: the parts of the text are joined
    a.ocml: structure: message 2: an interrupted answer reads as complete
    a.ocml: structure: message 4: the phase of an answer dropped
    ");
    assert_eq!(ran.status, 8);
}

#[test]
fn an_unknown_built_in_tool_does_not_drop_the_others() {
    let text = "version: 2.2\ngeneration_settings: {\"builtin_tools\": [\"read_file\", \"nosuch\"]}\n\
                <|start|>user<|message|>Hi.<|end|>\n";
    let folder = folder(&[("a.ocml", text)]);
    let loss = "transcript: \"nosuch\" in the setting \"builtin_tools\" dropped: it is not a built-in tool";
    for (form, known) in [
        ("openai", r#""name":"read_file""#),
        ("anthropic", r#""name":"read_file""#),
        ("chatmd", r#"<tool name="read_file"/>"#),
    ] {
        let ran = run(folder.path(), ["convert", "a.ocml", "--to", form]);
        assert_eq!(
            ran.stdout.matches(known).count(),
            1,
            "{form}: {}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("nosuch"), "{form}: {}", ran.stdout);
        assert_eq!(
            ran.stderr.matches(loss).count(),
            1,
            "{form}: {}",
            ran.stderr
        );
        assert_eq!(
            ran.stderr.matches("dropped").count(),
            1,
            "{form}: {}",
            ran.stderr
        );
    }
    let ran = run(folder.path(), ["tokens", "render", "--text", "a.ocml"]);
    assert!(ran.stdout.contains("type read_file = "), "{}", ran.stdout);
    assert!(ran.stderr.contains(loss), "{}", ran.stderr);
}

#[test]
fn a_signature_that_is_written_is_no_loss() {
    let text = "<user>q</user>\n<reasoning id=\"rs_1\" signature=\"SIG\"><summary>s</summary></reasoning>\n\
                <assistant>a</assistant>\n";
    let folder = folder(&[("a.md", text)]);
    for form in ["chatmd", "ocml2.2", "json"] {
        let flags = ["convert", "a.md", "--to", form, "--keep-reasoning"];
        let ran = run(folder.path(), flags);
        assert!(ran.stdout.contains("SIG"), "{form}: {}", ran.stdout);
        assert!(!ran.stderr.contains("signature"), "{form}: {}", ran.stderr);
    }
    let ran = run(
        folder.path(),
        ["convert", "a.md", "--to", "openai", "--keep-reasoning"],
    );
    assert!(!ran.stdout.contains("SIG"), "{}", ran.stdout);
    assert!(ran.stderr.contains("signature"), "{}", ran.stderr);
}
