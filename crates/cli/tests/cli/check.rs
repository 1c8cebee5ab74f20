//! `logue check` and the commands that describe the program.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{folder, run, run_with_input};

#[test]
fn findings_are_shown_with_place_and_remedy() {
    let folder = folder(&[("prompt.md", "<user>hello\n</assistant>\n")]);
    let ran = run(folder.path(), ["check", "prompt.md"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (8, ""));
    assert_snapshot!(ran.stderr, @r"
    error[E-MD-MISMATCHED-TAG]: `</assistant>` does not match the open `<user>`
     --> prompt.md:2:1
      |
    1 | <user>hello
      | ------ `<user>` is opened here
    2 | </assistant>
      | ^^^^^^^^^^^^ expected `</user>`
      |
      = help: tags that are meant as text go into a RAW block: `RAW|</assistant>|RAW`

    1 file checked: 1 error, 0 warnings
    ");
}

#[test]
fn folders_are_searched_and_prose_is_left_alone() {
    let folder = folder(&[
        ("README.md", "# A heading\n\nNo prompt.\n"),
        ("a.md", "<!-- note -->\n<user>hi</user>\n"),
        ("deep/b.chatmd", "<user>hi\n"),
        (
            "deep/c.ocml",
            "version: 2.2\n<|start|>user<|message|>hi<|end|>\n",
        ),
        (".hidden/d.chatmd", "<user>hi\n"),
    ]);
    let ran = run(folder.path(), ["check", "."]);
    assert_eq!(ran.status, 8);
    assert!(
        ran.stderr
            .ends_with("3 files checked: 1 error, 0 warnings\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("deep/b.chatmd:1:1"), "{}", ran.stderr);
}

#[test]
fn json_names_every_place() {
    let folder = folder(&[]);
    let ran = run_with_input(
        folder.path(),
        &["check", "--json", "-"],
        "<user>é</user> stray\n",
    );
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let finding: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(finding["code"], "E-MD-TOP-LEVEL-TEXT");
    assert_eq!(finding["start"]["line"], 1);
    assert_eq!(finding["start"]["column"], 16);
    assert_eq!(finding["severity"], "error");
}

#[test]
fn unreadable_paths_are_no_findings() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["check", "absent.md"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
}

#[test]
fn the_program_describes_itself() {
    let folder = folder(&[]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(folder.path(), ["completions", shell]);
        assert!(ran.status == 0 && ran.stdout.contains("logue"), "{shell}");
    }
    let ran = run(folder.path(), ["man"]);
    assert!(ran.stdout.contains(".TH"), "{}", ran.stdout);
    assert_eq!(run(folder.path(), ["man", "."]).status, 0);
    assert!(folder.path().join("logue-run.1").exists());
    let ran = run(folder.path(), ["--version"]);
    assert_eq!(
        ran.stdout,
        concat!("logue ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn harmony_is_checked_by_its_own_rules() {
    let folder = folder(&[(
        "a.harmony",
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{oops<|call|>",
    )]);
    let ran = run(folder.path(), ["check", "."]);
    assert_eq!((ran.status, ran.stdout.as_str()), (8, ""));
    assert_snapshot!(ran.stderr, @r"
    error[E-BODY-CONSTRAINT-VIOLATION]: the body is not JSON: key must be a string at line 1, column 2 of it
     --> ./a.harmony:1:84
      |
    1 | <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{oops<|call|>
      |                                                                                    ^^^^^ expected JSON
      |
      = help: ask the model for the message again; its text is kept as it is

    1 file checked: 1 error, 0 warnings
    ");
}

#[test]
fn calls_are_held_against_declarations_in_harmony_too() {
    let declared = "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n\
                    type f = (_: { x: number }) => any;\n\n} // namespace functions<|end|>";
    let call = |tool: &str, arguments: &str| {
        format!(
            "<|start|>assistant to=functions.{tool}<|channel|>commentary <|constrain|>json\
             <|message|>{arguments}<|call|>"
        )
    };
    let text = format!("{declared}{}{}", call("f", r#"{"x":"s"}"#), call("g", "{}"));
    let folder = folder(&[("a.harmony", text.as_str())]);
    let ran = run(folder.path(), ["check", "--json", "."]);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let found: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let messages: Vec<&str> = found
        .iter()
        .map(|one| one["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        messages,
        [
            "the arguments of `functions.f` do not fit its declaration: expected a number at `$.x`, found a string",
            "no tool `functions.g` is declared"
        ]
    );
}

#[test]
fn a_reply_of_another_tool_is_reported() {
    let text = "version: 2.2\n\
        <|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>\n\
        <|start|>tool name=functions.g call_id=a to=assistant<|channel|>commentary<|message|>1<|end|>\n";
    let folder = folder(&[("a.ocml", text)]);
    let ran = run(folder.path(), ["check", "a.ocml"]);
    let message =
        "warning[E-CALL-SCHEMA]: the reply is of `functions.g`, its call of `functions.f`";
    assert!(ran.stderr.contains(message), "{}", ran.stderr);
    assert!(ran.stderr.contains("a.ocml:3:20"), "{}", ran.stderr);
    let same = text.replace("functions.g", "f");
    std::fs::write(folder.path().join("a.ocml"), same).unwrap();
    let ran = run(folder.path(), ["check", "a.ocml"]);
    assert!(!ran.stderr.contains("E-CALL-SCHEMA"), "{}", ran.stderr);
}
