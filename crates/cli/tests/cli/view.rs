//! `logue view` shows what a person may see, in both languages.

use insta::assert_snapshot;

use crate::program::{folder, run, run_with_input};

const CHATMD: &str = r#"<system>the rules</system>
<user>question</user>
<reasoning id="r1"><summary>RAW|a thought|RAW</summary></reasoning>
<tool_call tool_call_id="c1" function_name="look">RAW|{"a":1}|RAW</tool_call>
<tool_response tool_call_id="c1">RAW|a result|RAW</tool_response>
<assistant>RAW|the answer|RAW</assistant>
"#;

const OPENCHATML: &str = r#"version: 2.2
<|start|>system<|message|>the rules<|end|>
<|start|>user<|message|>question<|end|>
<|start|>assistant<|channel|>analysis<|message|>a thought<|end|>
<|start|>assistant to=functions.look call_id=c1<|channel|>commentary<|constrain|>json<|message|>{"a":1}<|call|>
<|start|>tool name=functions.look call_id=c1 to=assistant<|channel|>commentary<|message|>a result<|end|>
<|start|>assistant<|channel|>nonsense<|message|>who knows<|end|>
<|start|>assistant<|channel|>final<|message|>the answer<|return|>
"#;

#[test]
fn hidden_parts_stay_hidden() {
    let folder = folder(&[("a.md", CHATMD), ("b.ocml", OPENCHATML)]);
    let chatmd = run(folder.path(), ["view", "a.md"]);
    assert_eq!(
        chatmd.stdout, "user\nquestion\n\nassistant\nthe answer\n",
        "{}",
        chatmd.stderr
    );
    let openchatml = run(folder.path(), ["view", "b.ocml"]);
    assert_eq!(
        openchatml.stdout,
        "user\nquestion\n\nassistant · final\nthe answer\n"
    );
}

#[test]
fn everything_is_shown_on_request_and_marked() {
    let folder = folder(&[("a.md", CHATMD)]);
    let ran = run(folder.path(), ["view", "--debug-channels", "a.md"]);
    assert_snapshot!(ran.stdout, @r#"
    system · hidden from users
    the rules

    user
    question

    assistant · analysis · hidden from users
    a thought

    assistant · commentary · to look · call_id c1 · hidden from users
    {"a":1}

    tool · call_id c1 · hidden from users
    a result

    assistant
    the answer
    "#);
}

const HARMONY: &str = "<|start|>user<|message|>question<|end|><|start|>assistant<|channel|>analysis<|message|>a thought<|end|><|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|><|start|>assistant<|message|>no channel<|end|><|start|>assistant<|channel|>final<|message|>the answer<|return|>";

#[test]
fn harmony_is_found_and_shown() {
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["view", "-"], HARMONY);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "user\nquestion\n\nassistant · final\nthe answer\n"),
        "{}",
        ran.stderr
    );
    let ran = run_with_input(folder.path(), &["view", "--debug-channels", "-"], HARMONY);
    assert_snapshot!(ran.stdout, @r"
    user
    question

    assistant · analysis · hidden from users
    a thought

    assistant · commentary · to functions.look · hidden from users
    {}

    assistant · unknown · hidden from users
    no channel

    assistant · final
    the answer
    ");
}

#[test]
fn every_conversation_of_a_folder_is_shown() {
    let folder = folder(&[
        ("in/a.md", "<user>hi</user>\n"),
        ("in/README.md", "# Prose\n"),
        ("in/deep/b.harmony", HARMONY),
    ]);
    let ran = run(folder.path(), ["view", "in"]);
    assert_snapshot!(ran.stdout, @r"
    ==> in/a.md <==
    user
    hi

    ==> in/deep/b.harmony <==
    user
    question

    assistant · final
    the answer
    ");
    let ran = run(folder.path(), ["view", "--json", "in"]);
    let first: serde_json::Value =
        serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["file"], &first["content"]),
        (&"in/a.md".into(), &"hi".into())
    );
}
