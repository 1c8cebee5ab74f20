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
    let ran = run(folder.path(), ["view", "--show-hidden", "a.md"]);
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
    let ran = run_with_input(folder.path(), &["view", "--show-hidden", "-"], HARMONY);
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

fn lines(range: std::ops::RangeInclusive<usize>) -> String {
    let lines: Vec<String> = range.map(|number| format!("line {number}")).collect();
    lines.join("\n")
}

#[test]
fn long_texts_are_folded_until_they_are_asked_for() {
    let text = format!(
        "<user>Read this: RAW|{}|RAW\nWhat is wrong?</user>\n\
         <tool_call tool_call_id=\"c1\" function_name=\"look\">RAW|{{\"a\":\"{}\"}}|RAW</tool_call>\n\
         <tool_response tool_call_id=\"c1\">RAW|{}|RAW</tool_response>\n\
         <assistant>RAW|{}|RAW</assistant>\n",
        lines(1..=200),
        "é".repeat(3000),
        lines(1..=20),
        lines(1..=60),
    );
    let folder = folder(&[("a.md", &text)]);
    let ran = run(folder.path(), ["view", "--show-hidden", "a.md"]);
    let wanted = format!(
        "user\nRead this: {}\n… 161 more lines (1.3 KB)\n{}\nWhat is wrong?\n\n\
         assistant · commentary · to look · call_id c1 · hidden from users\n\
         {{\"a\":\"{}… 5.4 KB more in this line\n\n\
         tool · call_id c1 · hidden from users\n{}\n… 12 more lines (95 B)\n\n\
         assistant\n{}\n",
        lines(1..=30),
        lines(192..=200),
        "é".repeat(297),
        lines(1..=8),
        lines(1..=60),
    );
    assert_eq!(ran.stdout, wanted);
    let full = run(folder.path(), ["view", "--show-hidden", "--full", "a.md"]);
    assert!(!full.stdout.contains("more lines"));
    for text in ["\nline 200\n", &"é".repeat(3000), "\nline 20\n"] {
        assert!(full.stdout.contains(text), "{text}");
    }
    let json = run(folder.path(), ["view", "--json", "a.md"]);
    assert!(json.stdout.contains("line 100") && !json.stdout.contains("more lines"));
}

#[test]
fn what_could_drive_a_terminal_is_made_visible_on_the_way_into_a_pager() {
    let text = "<user name=\"\u{1b}[2J\">a\u{1b}[31mred\u{1b}[0m\u{7}\r\n\u{202e}b\tc\rd</user>\n";
    let folder = folder(&[("a.md", text)]);
    let ran = run(folder.path(), ["view", "a.md"]);
    assert_snapshot!(ran.stdout, @r"
    user · name \u{1b}[2J
    a\u{1b}[31mred\u{1b}[0m\u{7}
    \u{202e}b	c\u{d}d
    ");
}

#[test]
fn payload_files_are_shown_as_references() {
    let text = "<tool_call tool_call_id=\"c1\" function_name=\"look\">\n  \
                <doc src=\"./.chatmd/0.tool-call.c1.json\" local/>\n</tool_call>\n\
                <tool_response tool_call_id=\"c1\">\n  \
                <doc src=\"./.chatmd/gone.json\" local/>\n</tool_response>\n";
    let folder = folder(&[
        ("in/a.md", text),
        ("in/.chatmd/0.tool-call.c1.json", &"x".repeat(5234)),
    ]);
    let ran = run(folder.path(), ["view", "--show-hidden", "in/a.md"]);
    assert_snapshot!(ran.stdout, @r"
    assistant · commentary · to look · call_id c1 · hidden from users
    → ./.chatmd/0.tool-call.c1.json (5.2 KB)

    tool · call_id c1 · hidden from users
    → ./.chatmd/gone.json (not found)
    ");
    let ran = run(
        folder.path(),
        ["view", "--show-hidden", "--json", "in/a.md"],
    );
    let first: serde_json::Value =
        serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        first["payloads"],
        serde_json::json!([{"src": "./.chatmd/0.tool-call.c1.json", "bytes": 5234}])
    );
    let ran = run_with_input(folder.path(), &["view", "--show-hidden", "-"], text);
    assert!(
        ran.stdout.ends_with("\n→ ./.chatmd/gone.json\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn payload_files_are_shown_inline_on_request() {
    let text = "<tool_call tool_call_id=\"c1\" function_name=\"look\">\n  \
                <doc src=\"./.chatmd/0.tool-call.c1.json\" local/>\n</tool_call>\n\
                <tool_response tool_call_id=\"c1\">\n  \
                <doc src=\"./.chatmd/1.tool-call-result.c1.json\" local/>\n  \
                <img src=\"./.chatmd/plot.png\" local/>\n</tool_response>\n\
                <tool_response tool_call_id=\"c2\">\n  \
                <doc src=\"./.chatmd/gone.json\" local/>\n</tool_response>\n\
                <assistant>\nSee <doc src=\"./.chatmd/1.tool-call-result.c1.json\" local/> \
                and <doc src=\"other.md\" local/>.\n</assistant>\n";
    let lines: String = lines(1..=80);
    let folder = folder(&[
        ("in/a.md", text),
        ("in/other.md", "elsewhere"),
        (
            "in/.chatmd/0.tool-call.c1.json",
            "{\"path\": \"\u{1b}[2J\"}",
        ),
        ("in/.chatmd/1.tool-call-result.c1.json", &lines),
        ("in/.chatmd/plot.png", "1234"),
    ]);
    let ran = run(
        folder.path(),
        ["view", "--show-hidden", "--full", "in/a.md"],
    );
    let shown = ran.stdout.replace(&lines, "LINES");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_snapshot!(shown, @r#"
    assistant · commentary · to look · call_id c1 · hidden from users
    {"path": "\u{1b}[2J"}

    tool · call_id c1 · hidden from users
    LINES
    → ./.chatmd/plot.png (4 B)

    tool · call_id c2 · hidden from users
    → ./.chatmd/gone.json (not found)

    assistant
    See LINES and <doc src="other.md" local/>.
    "#);
    let arguments = ["view", "--show-hidden", "--full", "--json", "in/a.md"];
    let ran = run(folder.path(), arguments);
    let mut rows = ran.stdout.lines();
    let mut row = || serde_json::from_str::<serde_json::Value>(rows.next().unwrap()).unwrap();
    let call = row();
    assert_eq!(call["content"], "{\"path\": \"\u{1b}[2J\"}");
    assert_eq!(call["payloads"][0]["src"], "./.chatmd/0.tool-call.c1.json");
    assert_eq!(
        row()["content"],
        format!("{lines}\n→ ./.chatmd/plot.png (4 B)\n")
    );
    // Without the flag, only the place is shown.
    let ran = run(folder.path(), ["view", "--show-hidden", "in/a.md"]);
    assert!(!ran.stdout.contains("path\""), "{}", ran.stdout);
}

#[test]
fn what_can_be_shown_of_a_broken_file_is_shown() {
    let folder = folder(&[("a.md", "<user>hi</user>\nstray\n<assistant>there")]);
    let ran = run(folder.path(), ["view", "a.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "user\nhi\n\nassistant\nthere\n")
    );
    assert!(ran.stderr.contains("E-MD-TOP-LEVEL-TEXT"), "{}", ran.stderr);
    assert!(ran.stderr.contains("E-MD-UNCLOSED-TAG"), "{}", ran.stderr);
}

#[test]
fn colours_tell_who_speaks() {
    let folder = folder(&[("a.md", CHATMD)]);
    let ran = crate::program::logue(folder.path())
        .args(["view", "--show-hidden", "a.md"])
        .env_remove("NO_COLOR")
        .env("CLICOLOR_FORCE", "1")
        .output()
        .unwrap();
    let shown = String::from_utf8(ran.stdout).unwrap();
    for heading in [
        "\u{1b}[33msystem · hidden from users\u{1b}[0m\n",
        "\u{1b}[1;36muser\u{1b}[0m\n",
        "\u{1b}[32massistant · analysis",
        "\u{1b}[35mtool · call_id c1",
        "\u{1b}[1;32massistant\u{1b}[0m\n",
    ] {
        assert!(shown.contains(heading), "{heading:?} in {shown:?}");
    }
}
