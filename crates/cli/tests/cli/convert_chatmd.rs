//! `logue convert` between ChatMD and the envelope: nothing is lost in silence.

use std::path::Path;

use chatmd::{Document, Evaluation, MemoryWorld, evaluate, write};
use insta::assert_snapshot;
use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::program::{folder, run, run_with_input};

/// Every element and attribute that means something, and a few that do not.
const EVERYTHING: &str = r#"<!-- a note -->
<config model="gpt-4o" max_tokens="800" temperature="0.25" reasoning_effort="low" id="main" show_tool_call/>
<config model="other"/>
<tool name="read_file"/>
<tool name="rg" command="rg" description="search"/>
<tool name="t" agent="a.md" local/>
<tool mcp_server="stdio:x" include="a,b" strict/>
<doc src="top.md" local/>
<import src="rules.md"/>
<system>Rules. <import src="r.md"/></system>
<developer name="d">Be brief.</developer>
<user name="Ada" id="u1" status="x">Look <doc src="x.md" local/><img src="a.png" local/><img src="https://example.org/a.png"/><agent src="b.md" local>go</agent><summary>gone</summary></user>
<reasoning id="r1" status="completed"><summary>RAW|one|RAW</summary><summary kind="x">two</summary></reasoning>
<reasoning id="r2"/>
<assistant id="m1" status="completed" phase="final" name="Bot">RAW|I look.|RAW</assistant>
<tool_call type="custom_tool_call" tool_call_id="c1" function_name="apply_patch" id="i1"><doc src="./.chatmd/p.json" local/></tool_call>
<tool_response tool_call_id="c1" id="0"><doc src="./.chatmd/gone.json" local/></tool_response>
<msg role="tool" tool_call tool_call_id="c2" function_name="rg">{}</msg>
<msg role="tool" tool_call_id="c2">ok</msg>
<assistant>  </assistant>
"#;

#[test]
fn encrypted_reasoning_passes_through_chatmd() {
    let text = "version: 2.2\n<|start|>user<|message|>Hi<|end|>\n\
                <|start|>assistant encrypted=QUJD<|channel|>analysis<|message|><|end|>\n\
                <|start|>assistant<|channel|>final<|message|>Hello<|return|>\n";
    let folder = folder(&[("a.ocml", text)]);
    let json = ["convert", "a.ocml", "--to", "json", "-o", "a.json"];
    assert_eq!(run(folder.path(), json).status, 0);
    for file in ["a.ocml", "a.json"] {
        let ran = run(
            folder.path(),
            ["convert", file, "--to", "chatmd", "-o", "a.chatmd"],
        );
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{file}");
        let written = std::fs::read_to_string(folder.path().join("a.chatmd")).unwrap();
        assert!(written.contains("encrypted=\"QUJD\""), "{written}");
        let back = run(folder.path(), ["convert", "a.chatmd", "--to", "ocml2.2"]);
        assert_eq!(back.status, 0, "{}", back.stderr);
        assert!(
            back.stdout
                .contains("encrypted=QUJD<|channel|>analysis<|message|><|end|>"),
            "{}",
            back.stdout
        );
        std::fs::remove_file(folder.path().join("a.chatmd")).unwrap();
    }
}

#[test]
fn whatever_is_not_carried_is_listed() {
    let folder = folder(&[
        ("a.chatmd", EVERYTHING),
        (".chatmd/p.json", "the patch"),
        ("x.md", "not a payload"),
    ]);
    let ran = run(folder.path(), ["convert", "a.chatmd", "--to", "ocml2.2"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stdout, @r#"
    version: 2.2
    model: gpt-4o
    generation_settings: {"temperature": 0.25, "max_tokens": 800, "reasoning_effort": "low", "builtin_tools": ["read_file"]}
    <|start|>system<|message|>Rules. <import src="r.md"/><|end|>
    <|start|>developer name=d<|message|>Be brief.<|end|>
    <|start|>user name=Ada<|message|>Look <doc src="x.md" local/><|end|>
    <|start|>user name=Ada content_type=image_url continues=message<|message|>https://example.org/a.png<|end|>
    <|start|>user name=Ada continues=message<|message|><agent src="b.md" local>go</agent><|end|>
    <|start|>assistant name=Bot<|channel|>analysis<|message|>one

    two<|end|>
    <|start|>assistant name=Bot intent=preamble phase=final<|channel|>commentary<|message|>I look.<|end|>
    <|start|>assistant to=functions.apply_patch call_id=c1 name=Bot content_type=text<|channel|>commentary<|message|>the patch<|call|>
    <|start|>tool name=functions.apply_patch call_id=c1 to=assistant<|channel|>commentary<|message|><|end|>
    <|start|>assistant to=functions.rg call_id=c2<|channel|>commentary<|constrain|>json<|message|>{}<|call|>
    <|start|>tool name=functions.rg call_id=c2 to=assistant<|channel|>commentary<|message|>ok<|end|>
    "#);
    assert_snapshot!(ran.stderr.replace("a.chatmd: ", ""), @r"
    content: transcript: line 8: `<doc>` outside every message is not sent to the model
    content: transcript: line 9: an import is not expanded
    content: transcript: line 12: an image is not fetched
    content: transcript: line 12: `<summary>` inside `<user>` is not sent to the model
    content: transcript: line 17: a document is not fetched
    structure: transcript: 3 tool declarations dropped: rg, t, an MCP server
    structure: transcript: a comment dropped
    structure: transcript: `status` of a `<user>` dropped
    structure: transcript: `status` of a `<assistant>` dropped
    structure: transcript: `status` of a `<reasoning>` dropped
    structure: transcript: `kind` of a `<summary>` dropped
    structure: transcript: `show_tool_call` of a `<config>` dropped
    structure: transcript: the summaries of a `<reasoning>` joined to one
    structure: transcript: line 3: this `<config>` has no effect; the first one is used
    structure: transcript: line 10: an import is not expanded, its element stays as text
    structure: transcript: line 12: a document is not fetched, its element stays as text
    structure: transcript: line 12: an agent is not asked, its element stays as text
    structure: transcript: line 14: a `<reasoning>` without words dropped
    structure: transcript: line 17: the `type` of a response becomes that of its call
    structure: transcript: line 20: empty assistant message is not sent to the model
    identity: transcript: `id` of a `<user>` dropped
    identity: transcript: `id` of a `<assistant>` dropped
    identity: transcript: `id` of a `<tool_call>` dropped
    identity: transcript: `id` of a `<tool_response>` dropped
    identity: transcript: `id` of 2 `<reasoning>` dropped
    identity: transcript: `id` of a `<config>` dropped
    ");
    let strict = run(
        folder.path(),
        ["convert", "a.chatmd", "--to", "ocml2.2", "--strict"],
    );
    assert_eq!((strict.status, strict.stdout.as_str()), (8, ""));
    let json = run(
        folder.path(),
        ["convert", "a.chatmd", "--to", "json", "--json"],
    );
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(report["losses"].as_array().unwrap().len() >= 26, "{report}");
}

#[test]
fn only_payload_files_beside_the_transcript_are_read() {
    let text = |src: &str| {
        format!(
            "<tool_call tool_call_id=\"c\" function_name=\"f\"><doc src=\"{src}\" local/></tool_call>\n\
             <tool_response tool_call_id=\"c\">ok</tool_response>\n"
        )
    };
    let folder = folder(&[
        ("secret", "a secret"),
        ("in/secret", "a secret"),
        ("in/.chatmd/p.json", "{\"a\":1}"),
        ("in/.chatmd/deep/p.json", "a secret"),
    ]);
    std::os::unix::fs::symlink("../secret", folder.path().join("in/.chatmd/link")).unwrap();
    for (src, read) in [
        ("./.chatmd/p.json", true),
        (".chatmd/p.json", true),
        ("./.chatmd/gone.json", false),
        ("./.chatmd/link", false),
        ("./.chatmd/../secret", false),
        ("./.chatmd/deep/p.json", false),
        ("secret", false),
        ("../secret", false),
    ] {
        std::fs::write(folder.path().join("in/a.chatmd"), text(src)).unwrap();
        let ran = run(folder.path(), ["convert", "in/a.chatmd", "--to", "ocml2.2"]);
        assert_eq!(ran.stdout.contains("{\"a\":1}"), read, "{src}");
        assert_eq!(!ran.stderr.contains("is not fetched"), read, "{src}");
        assert!(!ran.stdout.contains("a secret"), "{src}");
    }
    // What has no folder has no payloads.
    let ran = run_with_input(
        &folder.path().join("in"),
        &["convert", "-", "--from", "chatmd", "--to", "ocml2.2"],
        &text("./.chatmd/p.json"),
    );
    assert!(!ran.stdout.contains("{\"a\":1}"));
}

#[test]
fn what_chatmd_has_no_place_for_is_listed() {
    let text = r#"version: 2.2
model: m
generation_settings: {"top_k": 5, "max_tokens": "many"}
note: of somebody
<|start|>user name=Ada<|message|>hi<|end|>
<|start|>assistant name=Bot<|channel|>analysis<|message|>hm<|end|>
<|start|>assistant name=Bot to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>
<|start|>tool name=functions.g call_id=c1 to=assistant<|channel|>commentary<|message|>ok<|end|>
<|start|>assistant intent=preamble<|channel|>commentary<|message|>one<|end|>
<|start|>assistant<|channel|>analysis<|message|>two<|end|>
<|start|>assistant<|channel|>final<|message|>three<|return|>
"#;
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["convert", "-", "--to", "chatmd"], text);
    assert_snapshot!(ran.stderr, @r#"
    <stdin>: structure: transcript: the setting "top_k" dropped
    <stdin>: structure: transcript: the setting "max_tokens" dropped
    <stdin>: structure: transcript: the key "note" of the header dropped
    <stdin>: identity: message 2: the name of a message without words dropped
    <stdin>: identity: message 3: the name of a tool dropped, as its call does not contain it
    "#);
    assert_snapshot!(ran.stdout, @r#"
    <config model="m"/>
    <user name="Ada">
    RAW|hi|RAW</user>
    <reasoning id="reasoning_1">
    <summary>
    RAW|hm|RAW</summary>
    </reasoning>
    <tool_call tool_call_id="c1" function_name="f">
    RAW|{}|RAW</tool_call>
    <tool_response tool_call_id="c1">
    RAW|ok|RAW</tool_response>
    <assistant phase="commentary">
    RAW|one|RAW</assistant>
    <reasoning id="reasoning_2">
    <summary>
    RAW|two|RAW</summary>
    </reasoning>
    <assistant>
    RAW|three|RAW</assistant>
    "#);
    let strict = run_with_input(
        folder.path(),
        &["convert", "-", "--to", "chatmd", "--strict=structure"],
        text,
    );
    assert_eq!((strict.status, strict.stdout.as_str()), (8, ""));
}

#[test]
fn answers_that_reason_between_calls_are_told_of() {
    let call =
        |id: &str| format!("<tool_call tool_call_id=\"{id}\" function_name=\"f\">{{}}</tool_call>");
    let response = |id: &str| format!("<tool_response tool_call_id=\"{id}\">ok</tool_response>");
    let thought = "<reasoning id=\"r\"><summary>hm</summary></reasoning>";
    let text = [
        call("1"),
        thought.to_owned(),
        call("2"),
        response("1"),
        response("2"),
    ];
    let folder = folder(&[("a.chatmd", &text.concat())]);
    let ran = run(folder.path(), ["convert", "a.chatmd", "--to", "ocml2.2"]);
    assert!(
        ran.stderr.contains("are grouped differently"),
        "{}",
        ran.stderr
    );
}

/// Texts with everything that either language could take for its own.
fn words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("RAW|".to_owned()),
        Just("|RAW".to_owned()),
        Just("</user>".to_owned()),
        Just("<doc src=\"x\" local/>".to_owned()),
        Just("<|end|>".to_owned()),
        Just("<|start|>user<|message|>".to_owned()),
        Just("<|literal|>".to_owned()),
        Just("\n".to_owned()),
        Just("é🦀 \\ \"".to_owned()),
        "[a-z<>|&]{1,6}",
    ];
    prop::collection::vec(piece, 1..6)
        .prop_map(|pieces| pieces.concat())
        .prop_filter("a blank message is none", |text| !text.trim().is_empty())
}

fn name() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-zA-Z][a-zA-Z0-9_-]{0,8}")
}

/// One turn: what somebody says, or an answer with its calls and their responses.
fn turn() -> impl Strategy<Value = String> {
    let message = (0..3_usize, name(), words()).prop_map(|(who, name, text)| {
        let speakers = [
            chatmd::MessageRole::User,
            chatmd::MessageRole::System,
            chatmd::MessageRole::Developer,
        ];
        write::message(&write::MessageRecord::new(speakers[who], &text).with_name(name.as_deref()))
    });
    let call = (any::<bool>(), words(), words());
    let answer = (
        prop::collection::vec(words(), 0..3),
        prop::option::of((name(), words())),
        prop::collection::vec(call, 0..3),
        any::<u32>(),
    );
    let answer = answer.prop_map(|(thoughts, reply, calls, number)| {
        let mut text = String::new();
        for thought in &thoughts {
            text.push_str(&write::reasoning("r", &[thought]));
        }
        if let Some((name, reply)) = &reply {
            text.push_str(&write::message(
                &write::MessageRecord::new(chatmd::MessageRole::Assistant, reply)
                    .with_name(name.as_deref()),
            ));
        }
        let mut responses = String::new();
        for (index, (custom, arguments, result)) in calls.iter().enumerate() {
            let id = format!("c{number}_{index}");
            let arguments = if *custom {
                arguments.clone()
            } else {
                json!({ "text": arguments }).to_string()
            };
            text.push_str(&write::tool_call(
                &write::ToolCallRecord::new(&id, "look_up", write::Payload::Inline(&arguments))
                    .with_custom(*custom),
            ));
            responses.push_str(&write::tool_response(
                &write::ToolResponseRecord::new(&id, write::Payload::Inline(result))
                    .with_custom(*custom),
            ));
        }
        text + &responses
    });
    prop_oneof![message, answer]
}

fn document() -> impl Strategy<Value = String> {
    let config = (
        prop::option::of("[a-z0-9.:-]{1,12}"),
        prop::option::of(any::<u32>()),
        prop::option::of(0..400_u32),
        prop::option::of("low|medium|high"),
    );
    (config, prop::collection::vec(turn(), 1..6)).prop_map(|(config, turns)| {
        let (model, max_tokens, temperature, effort) = config;
        let config = write::ConfigRecord::default()
            .with_model(model.as_deref())
            .with_max_tokens(max_tokens.map(u64::from))
            .with_temperature(temperature.map(|value| f64::from(value) / 100.0))
            .with_reasoning_effort(effort.as_deref());
        let config = if config == write::ConfigRecord::default() {
            String::new()
        } else {
            write::config(&config)
        };
        config + &turns.concat()
    })
}

fn evaluated(text: &str) -> Evaluation {
    let tree = chatmd::parse(text);
    assert!(!tree.has_errors(), "{text}");
    let (document, _) = Document::from_tree(&tree);
    evaluate(&document, &mut MemoryWorld::new())
}

/// What of a message must come back: who, its thoughts, its words, its calls, what it answers.
#[derive(Debug, PartialEq)]
struct Kept {
    role: logue_message::Role,
    developer: bool,
    name: Option<String>,
    thoughts: Vec<String>,
    words: String,
    calls: Vec<ToolCall>,
    answers: Option<String>,
}

fn kept(message: &ChatMessage) -> Kept {
    let thoughts = match &message.content {
        Content::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Thinking { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    Kept {
        role: message.role,
        developer: message.developer,
        name: message.name.clone(),
        thoughts,
        words: message.text(),
        calls: message.tool_calls.clone(),
        answers: message.tool_call_id.clone(),
    }
}

/// Converts texts, one a line, and gives the new ones with what was lost of each.
fn converted(folder: &Path, texts: &[String], from: &str, to: &str) -> Vec<(String, String)> {
    let lines: String = texts
        .iter()
        .map(|text| json!({ "text": text }).to_string() + "\n")
        .collect();
    let arguments = [
        "convert", "--jsonl", "--json", "--from", from, "--to", to, "-",
    ];
    let ran = run_with_input(folder, &arguments, &lines);
    let reports = ran.stdout.lines();
    reports
        .filter(|line| !line.starts_with("{\"summary\""))
        .map(|line| {
            let report: Value = serde_json::from_str(line).unwrap();
            let text = report["text"].as_str().unwrap_or_default().to_owned();
            (text, report["losses"].to_string())
        })
        .collect()
}

proptest! {
    // Each case is two processes and a score of documents.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn there_and_back_keeps_what_was_said(texts in prop::collection::vec(document(), 20)) {
        let folder = folder(&[]);
        let there = converted(folder.path(), &texts, "chatmd", "ocml2.2");
        let frames: Vec<String> = there.iter().map(|(text, _)| text.clone()).collect();
        let back = converted(folder.path(), &frames, "ocml2.2", "chatmd");
        prop_assert_eq!((there.len(), back.len()), (texts.len(), texts.len()));
        for ((text, (frames, lost)), (again, more)) in texts.iter().zip(&there).zip(&back) {
            let (before, after) = (evaluated(text), evaluated(again));
            prop_assert_eq!(&before.config.model, &after.config.model);
            prop_assert_eq!(before.config.max_tokens, after.config.max_tokens);
            prop_assert_eq!(before.config.temperature, after.config.temperature);
            prop_assert_eq!(&before.config.reasoning_effort, &after.config.reasoning_effort);
            let before: Vec<Kept> = before.messages.iter().map(kept).collect();
            let after: Vec<Kept> = after.messages.iter().map(kept).collect();
            prop_assert!(before == after, "{text}\n--\n{frames}\n--\n{again}\n{lost}\n{more}");
            // The generator gives ids to reasoning, which has no place for them there.
            for losses in [lost, more] {
                let listed: Vec<Value> = serde_json::from_str(losses).unwrap();
                for loss in listed {
                    let text = loss["text"].as_str().unwrap();
                    prop_assert!(text.starts_with("`id` of ") && text.contains("<reasoning>"), "{}", text);
                }
            }
        }
    }
}

#[test]
fn built_in_tools_survive_and_single_faults_do_not_refuse_a_file() {
    let text = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<tool name=\"browser\"/>\n\
        <tool name=\"nonsense\"/>\n<user>\nRAW|hi|RAW</user>\n\
        <tool_response tool_call_id=\"c9\">\nRAW|kept|RAW</tool_response>\n";
    let folder = folder(&[("a.chatmd", text)]);
    let command = ["convert", "--to", "ocml2.2", "-o", "a.ocml", "a.chatmd"];
    let ran = run(folder.path(), command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let listed = [
        "dropped: nonsense",
        "the reply has no call, so its tool is named `unknown_tool`",
    ];
    for loss in listed {
        assert!(ran.stderr.contains(loss), "{}", ran.stderr);
    }
    let ran = run(folder.path(), ["convert", "--to", "chatmd", "a.ocml"]);
    let expected = text.replace("<tool name=\"nonsense\"/>\n", "");
    assert_eq!(ran.stdout, expected, "{}", ran.stderr);
}
