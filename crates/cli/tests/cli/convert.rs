//! `logue convert`: every form, losses, refusals, lines, folders.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{Ran, folder, run, run_with_input};

const TRANSCRIPT: &str = r#"version: 2.2
model: gpt-4o
<|start|>system<|message|>Be brief.<|end|>
<|start|>user<|message|>How is Tokyo?<|end|>
<|start|>assistant<|channel|>analysis<|message|>Ask the tool.<|end|>
<|start|>assistant to=functions.weather call_id=wx1<|channel|>commentary<|constrain|>json<|message|>{"city":"Tokyo"}<|call|>
<|start|>tool name=functions.weather call_id=wx1 to=assistant<|channel|>commentary<|message|>20<|end|>
<|start|>assistant<|channel|>final<|message|>20 degrees.<|return|>
"#;

/// Status, output and errors in one text.
fn shown(ran: &Ran) -> String {
    format!(
        "{}\n--- stdout\n{}--- stderr\n{}",
        ran.status, ran.stdout, ran.stderr
    )
}

#[test]
fn losses_are_listed_and_change_no_status() {
    let folder = folder(&[("a.ocml", TRANSCRIPT)]);
    let ran = run(folder.path(), ["convert", "a.ocml", "--to", "ocml2.0"]);
    assert_snapshot!(shown(&ran), @r#"
    0
    --- stdout
    version: 2.0
    model: gpt-4o
    <|start|>system<|message|>Be brief.<|end|>
    <|start|>user<|message|>How is Tokyo?<|end|>
    <|start|>assistant<|channel|>analysis<|message|>Ask the tool.<|end|>
    <|start|>assistant to=functions.weather<|channel|>commentary<|message|>{"city":"Tokyo"}<|call|>
    <|start|>functions.weather to=assistant<|channel|>commentary<|message|>20<|end|>
    <|start|>assistant<|channel|>final<|message|>20 degrees.<|return|>
    --- stderr
    a.ocml: structure: frame 4: constrain dropped
    a.ocml: identity: frame 4: call_id dropped
    a.ocml: identity: frame 5: call_id dropped
    "#);
}

#[test]
fn strict_refuses_and_writes_nothing() {
    let folder = folder(&[("a.ocml", TRANSCRIPT)]);
    let ran = run(
        folder.path(),
        [
            "convert",
            "a.ocml",
            "--to",
            "ocml2.0",
            "--strict=structure",
            "-o",
            "b.ocml",
        ],
    );
    assert_snapshot!(shown(&ran), @r"
    8
    --- stdout
    --- stderr
    a.ocml: structure: frame 4: constrain dropped
    a.ocml: identity: frame 4: call_id dropped
    a.ocml: identity: frame 5: call_id dropped
    error[E-WRITE-REFUSED]: a.ocml: something would be lost, and --strict forbids it
      = help: correct the conversation, or omit --strict
    ");
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = folder(&[("a.ocml", TRANSCRIPT), ("b.json", "old")]);
    let ran = run(
        folder.path(),
        ["convert", "a.ocml", "--to", "json", "-o", "b.json"],
    );
    assert_eq!(
        (ran.status, shown(&ran).as_str()),
        (0, "0\n--- stdout\n--- stderr\n")
    );
    let back = run(
        folder.path(),
        ["convert", "b.json", "--to", "ocml2.2", "--strict"],
    );
    assert_eq!(back.stdout, TRANSCRIPT, "{}", back.stderr);
}

#[test]
fn links_stay_and_devices_are_let_alone() {
    let folder = folder(&[("a.ocml", TRANSCRIPT), ("deep/real.json", "old")]);
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("deep/real.json", &link).unwrap();
    let ran = run(
        folder.path(),
        ["convert", "a.ocml", "--to", "json", "-o", "link.json"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let real = std::fs::read_to_string(folder.path().join("deep/real.json")).unwrap();
    assert!(real.contains("20 degrees."));
    let ran = run(
        folder.path(),
        ["convert", "a.ocml", "--to", "json", "-o", "/dev/full"],
    );
    assert_eq!(ran.status, 3);
    assert!(ran.stderr.contains("not a regular file"), "{}", ran.stderr);
}

#[test]
fn a_folder_without_conversations_is_no_success() {
    let folder = folder(&[("in/a.bin", "x"), ("talk/a.txt", TRANSCRIPT)]);
    let ran = run(
        folder.path(),
        ["convert", "in", "--to", "chatml", "-o", "out"],
    );
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("names end in"), "{}", ran.stderr);
    let ran = run(
        folder.path(),
        ["convert", "talk", "--to", "json", "-o", "out"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(folder.path().join("out/a.json").is_file());
}

#[test]
fn json_tells_everything() {
    let folder = folder(&[("a.ocml", TRANSCRIPT)]);
    let ran = run(
        folder.path(),
        ["convert", "a.ocml", "--to", "sharegpt", "--json"],
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["from"], "ocml2.2");
    assert_eq!(report["frames"], 6);
    assert_eq!(report["losses"][0]["subject"], "frame");
    assert_eq!(report["losses"][0]["number"], 3);
    assert_eq!(report["losses"][0]["severity"], "note");
    assert_eq!(report["losses"][0]["kind"], "hidden-omitted");
    let text = report["text"].as_str().unwrap();
    assert!(
        text.contains("observation") && !text.contains("Ask the tool"),
        "{text}"
    );
    let refused = run(
        folder.path(),
        [
            "convert",
            "a.ocml",
            "--to",
            "sharegpt",
            "--json",
            "--strict=identity",
        ],
    );
    assert_eq!(refused.status, 8);
    let report: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(report["error"]["code"], "E-WRITE-REFUSED");
    assert!(report.get("text").is_none());
}

#[test]
fn lines_stay_lines() {
    let lines = concat!(
        r#"{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}"#,
        "\n\n",
        r#"{"conversations":[{"from":"human","value":"<|im_end|>"}]}"#,
        "\n"
    );
    let folder = folder(&[]);
    let openai = run_with_input(folder.path(), &["convert", "--to", "openai"], lines);
    assert_snapshot!(shown(&openai), @r#"
    0
    --- stdout
    {"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
    {"messages":[{"role":"user","content":"<|im_end|>"}]}
    --- stderr
    "#);
    // And on as texts, and back.
    let texts = run_with_input(folder.path(), &["convert", "--to", "ocml2.2"], lines);
    assert_snapshot!(shown(&texts), @r#"
    0
    --- stdout
    {"text":"version: 2.2\n<|start|>user<|message|>a<|end|>\n<|start|>assistant<|channel|>final<|message|>b<|return|>\n"}
    {"text":"version: 2.2\n<|start|>user<|message|><|im_end|><|end|>\n"}
    --- stderr
    "#);
    let back = run_with_input(
        folder.path(),
        &["convert", "--to", "sharegpt", "--strict", "--jsonl"],
        &texts.stdout,
    );
    assert_eq!(back.stdout, lines.replace("\n\n", "\n"), "{}", back.stderr);
}

#[test]
fn a_bad_line_is_named_and_the_others_are_converted() {
    let lines = concat!(
        r#"{"messages":[{"role":"user","content":"a"}]}"#,
        "\n",
        r#"{"messages":[{"role":"usher","content":"a"}]}"#,
        "\n",
        r#"{"messages":[{"role":"user","content":"b"}]}"#,
        "\n"
    );
    let folder = folder(&[("data.jsonl", lines)]);
    let ran = run(folder.path(), ["convert", "data.jsonl", "--to", "sharegpt"]);
    assert_snapshot!(shown(&ran), @r#"
    3
    --- stdout
    {"conversations":[{"from":"human","value":"a"}]}
    {"conversations":[{"from":"human","value":"b"}]}
    --- stderr
    error[E-JSON-SHAPE]: this is not a role
     --> data.jsonl:2:22
      |
    2 | {"messages":[{"role":"usher","content":"a"}]}
      |                      ^^^^^^^ expected `system`, `developer`, `user`, `assistant` or `tool`
      |
      = help: correct it, or name the form that the file has

    data.jsonl:2: content: message 1: left out, because it cannot be read
    error[E-WRITE-REFUSED]: data.jsonl:2: it could not be read completely
      = help: correct the errors, or name the form of the file with --from
    "#);
    let strict = run(
        folder.path(),
        [
            "convert",
            "data.jsonl",
            "--to",
            "sharegpt",
            "--strict",
            "-o",
            "out.jsonl",
        ],
    );
    assert_eq!(strict.status, 3);
    assert!(!folder.path().join("out.jsonl").exists());
    let strict = run(
        folder.path(),
        ["convert", "data.jsonl", "--to", "sharegpt", "--strict"],
    );
    assert_eq!((strict.status, strict.stdout.as_str()), (3, ""));
}

#[test]
fn an_array_of_conversations_becomes_another() {
    let text = r#"[
 {"conversations": [{"from": "human", "value": "a"}]},
 {"conversations": [{"from": "human", "value": "b"}]}
]"#;
    let folder = folder(&[("data.json", text)]);
    let ran = run(folder.path(), ["convert", "data.json", "--to", "openai"]);
    assert_snapshot!(shown(&ran), @r#"
    0
    --- stdout
    [
    {"messages":[{"role":"user","content":"a"}]},
    {"messages":[{"role":"user","content":"b"}]}
    ]
    --- stderr
    "#);
}

#[test]
fn folders_are_converted_file_by_file() {
    let folder = folder(&[
        ("in/a.ocml", TRANSCRIPT),
        ("in/deep/b.md", "<user>hi</user>\n"),
        ("in/README.md", "# Prose\n"),
        ("in/package.json", "{\"name\":\"x\"}"),
        (
            "in/bad.ocml",
            "version: 3.0\n<|start|>user<|message|>a<|end|>\n",
        ),
        (
            "in/data.jsonl",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n",
        ),
    ]);
    let ran = run(
        folder.path(),
        [
            "convert",
            "in",
            "--to",
            "openai",
            "--keep-reasoning",
            "-o",
            "out",
        ],
    );
    assert_snapshot!(shown(&ran), @r"
    3
    --- stdout
    --- stderr
    error[E-PARSE-VERSION]: version 3.0 is of another major version and is not read
     --> in/bad.ocml:1:10
      |
    1 | version: 3.0
      |          ^^^ expected `2.2`, or `2.0` for an older transcript
      |
      = help: write `version: 2.2`, by which its frames are shown, and check it again

    error[E-WRITE-REFUSED]: in/bad.ocml: it could not be read completely
      = help: correct the errors, or name the form of the file with --from
    in/package.json: skipped, not a conversation
    3 conversations converted, 1 refused, 0 losses
    ");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name));
    assert!(read("a.json").unwrap().contains("reasoning_content"));
    assert!(read("deep/b.json").unwrap().contains("hi"));
    assert!(read("data.jsonl").unwrap().starts_with("{\"messages\":"));
    for name in ["README.json", "package.json", "bad.json"] {
        assert!(read(name).is_err(), "{name}");
    }
    let nowhere = run(folder.path(), ["convert", "in", "--to", "openai"]);
    assert_eq!(nowhere.status, 2, "{}", nowhere.stderr);
}

#[test]
fn chatmd_goes_both_ways() {
    let text = "<config model=\"gpt-4o\" temperature=\"0.5\"/>
<developer>
RAW|Be brief.|RAW</developer>
<user>
RAW|Look <b>.|RAW</user>
<reasoning id=\"reasoning_1\">
<summary>
RAW|a thought|RAW</summary>
</reasoning>
<assistant>
RAW|I will look.|RAW</assistant>
<tool_call tool_call_id=\"c1\" function_name=\"look\">
RAW|{\"a\":1}|RAW</tool_call>
<tool_response tool_call_id=\"c1\">
RAW|seen|RAW</tool_response>
<assistant>
RAW|Done.|RAW</assistant>
";
    let folder = folder(&[("a.md", text)]);
    let ran = run(folder.path(), ["convert", "a.md", "--to", "ocml2.2"]);
    assert_snapshot!(shown(&ran), @r#"
    0
    --- stdout
    version: 2.2
    model: gpt-4o
    generation_settings: {"temperature": 0.5}
    <|start|>developer<|message|>Be brief.<|end|>
    <|start|>user<|message|>Look <b>.<|end|>
    <|start|>assistant<|channel|>analysis<|message|>a thought<|end|>
    <|start|>assistant intent=preamble<|channel|>commentary<|message|>I will look.<|end|>
    <|start|>assistant to=functions.look call_id=c1<|channel|>commentary<|constrain|>json<|message|>{"a":1}<|call|>
    <|start|>tool name=functions.look call_id=c1 to=assistant<|channel|>commentary<|message|>seen<|end|>
    <|start|>assistant<|channel|>final<|message|>Done.<|return|>
    --- stderr
    a.md: identity: transcript: `id` of a `<reasoning>` dropped
    "#);
    let back = run_with_input(folder.path(), &["convert", "--to", "chatmd"], &ran.stdout);
    assert_eq!((back.stdout.as_str(), back.stderr.as_str()), (text, ""));
}

#[test]
fn what_chatmd_names_is_listed() {
    let text = "<tool name=\"read_file\"/>\n<user>Sum up <doc src=\"a.md\" local/></user>\n";
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["convert", "--to", "openai"], text);
    assert_eq!(ran.status, 0);
    assert!(ran.stdout.contains(r#"Sum up <doc src=\"a.md\" local/>"#));
    let start = r#"{"tools":[{"type":"function","function":{"name":"read_file","#;
    assert!(ran.stdout.starts_with(start), "{}", ran.stdout);
    assert_snapshot!(ran.stderr, @r"
    <stdin>: structure: transcript: line 2: a document is not fetched, its element stays as text
    <stdin>: structure: transcript: built-in tools become declarations of functions
    ");
}

#[test]
fn an_unknown_form_is_asked_for() {
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["convert", "--to", "openai"], "hello\n");
    assert_snapshot!(shown(&ran), @r"
    3
    --- stdout
    --- stderr
    error[usage]: unknown form of `<stdin>`
      = help: name it with --from
    ");
    let bad = run(folder.path(), ["convert", "--to", "latin"]);
    assert_eq!(bad.status, 2);
    assert!(bad.stderr.contains("ocml2.2"), "{}", bad.stderr);
}

#[test]
fn a_broken_text_has_a_place() {
    let folder = folder(&[("a.json", "[{\"role\":\"user\",}]")]);
    let ran = run(
        folder.path(),
        ["convert", "--from", "openai", "a.json", "--to", "ocml2.2"],
    );
    assert_snapshot!(shown(&ran), @r#"
    3
    --- stdout
    --- stderr
    error[E-JSON-SYNTAX]: this is not JSON: key must be a string
     --> a.json:1:17
      |
    1 | [{"role":"user",}]
      |                 ^ expected valid JSON
      |
      = help: correct the text here; nothing of the conversation was read

    a.json: content: transcript: the text is left out, because it is not JSON
    error[E-WRITE-REFUSED]: a.json: it could not be read completely
      = help: correct the errors, or name the form of the file with --from
    "#);
}

/// The results of tools in an OpenAI form, each with the arguments of its call.
fn answered(messages: &str) -> Vec<(String, String)> {
    let messages: Value = serde_json::from_str(messages).unwrap();
    let messages = messages.as_array().unwrap();
    let calls = messages.iter().flat_map(|message| {
        let calls = message["tool_calls"].as_array();
        calls.into_iter().flatten().map(|call| {
            let arguments = &call["function"]["arguments"];
            (call["id"].clone(), arguments.as_str().unwrap().to_owned())
        })
    });
    let calls: Vec<_> = calls.collect();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let mut answered: Vec<_> = results
        .map(|result| {
            let call = calls.iter().find(|(id, _)| *id == result["tool_call_id"]);
            let content = result["content"].as_str().unwrap().to_owned();
            (call.unwrap().1.clone(), content)
        })
        .collect();
    answered.sort();
    answered
}

/// Replies keep their calls in forms without ids, whatever order they have.
#[test]
fn replies_in_another_order_keep_their_calls() {
    let call = |id: &str, n: u32| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{\"n\":{n}}}"}}}}"#
        )
    };
    let messages = format!(
        r#"[{{"role":"user","content":"hi"}},
        {{"role":"assistant","content":null,"tool_calls":[{},{},{}]}},
        {{"role":"tool","tool_call_id":"c","content":"3"}},
        {{"role":"tool","tool_call_id":"a","content":"1"}},
        {{"role":"tool","tool_call_id":"b","content":"2"}},
        {{"role":"assistant","content":"done"}}]"#,
        call("a", 1),
        call("b", 2),
        call("c", 3)
    );
    let folder = folder(&[("a.json", &messages)]);
    let expected = answered(&messages);
    for form in [
        "harmony", "ocml2.2", "ocml2.0", "ocml0.1", "sharegpt", "json", "json2.0", "chatmd",
    ] {
        let from = [
            "convert", "a.json", "--from", "openai", "--to", form, "-o", form,
        ];
        assert_eq!(run(folder.path(), from).status, 0, "{form}");
        let back = ["convert", form, "--from", form, "--to", "openai"];
        let back = run(folder.path(), back);
        assert_eq!(answered(&back.stdout), expected, "{form}: {}", back.stderr);
    }
}

/// The shortest form of a reply has neither channel nor recipient.
#[test]
fn a_reply_without_channel_and_recipient_is_kept() {
    let text = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>\
        <|start|>functions.f<|message|>42<|end|><|start|>assistant<|channel|>final<|message|>done<|return|>";
    let folder = folder(&[("a.harmony", text)]);
    let ran = run(folder.path(), ["convert", "a.harmony", "--to", "openai"]);
    assert_eq!(answered(&ran.stdout), [("{}".to_owned(), "42".to_owned())]);
    let render = ["tokens", "render", "--text", "a.harmony"];
    let ran = run(folder.path(), render);
    assert!(
        ran.stdout.contains("<|message|>42<|end|>"),
        "{}",
        ran.stdout
    );
}
