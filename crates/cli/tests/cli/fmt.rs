//! `logue fmt`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{contents, folder, logue, run, run_with_input};

const LOOSE: &str = "<config model='m' />\n<user>Hi</user >\n\n\n<assistant>Hello</assistant>";
const CANONICAL: &str =
    "<config model=\"m\"/>\n\n<user>Hi</user>\n\n<assistant>Hello</assistant>\n";

#[test]
fn files_are_formatted_in_place_and_named() {
    let folder = folder(&[
        ("a.chatmd", LOOSE),
        ("b.chatmd", CANONICAL),
        ("deep/c.md", LOOSE),
        ("prose.md", "# Prose  \n"),
        (
            "d.ocml",
            "version: 2.2\n<|start|>user<|message|>hi<|end|>\n",
        ),
    ]);
    let ran = run(folder.path(), ["fmt", "."]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_snapshot!(ran.stdout, @r"
    ./a.chatmd
    ./deep/c.md
    ");
    assert_snapshot!(ran.stderr, @"2 files formatted, 1 unchanged");
    for name in ["a.chatmd", "b.chatmd", "deep/c.md"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text, CANONICAL, "{name}");
    }
    assert_eq!(
        contents(folder.path()).len(),
        5,
        "nothing else is left behind"
    );
    let again = run(folder.path(), ["fmt", "."]);
    assert_eq!((again.status, again.stdout.as_str()), (0, ""));
}

#[test]
fn check_and_diff_write_nothing() {
    let folder = folder(&[("a.chatmd", LOOSE), ("b.chatmd", CANONICAL)]);
    let before = contents(folder.path());
    let ran = run(folder.path(), ["fmt", "--check", "a.chatmd", "b.chatmd"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (8, "a.chatmd\n"));
    assert_snapshot!(ran.stderr, @"1 file would be formatted, 1 unchanged");
    let ran = run(folder.path(), ["fmt", "--diff", "a.chatmd", "b.chatmd"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stdout, @r#"
    --- a/a.chatmd
    +++ b/a.chatmd
    @@ -1,5 +1,5 @@
    -<config model='m' />
    -<user>Hi</user >
    +<config model="m"/>
     
    +<user>Hi</user>
     
    -<assistant>Hello</assistant>
    \ No newline at end of file
    +<assistant>Hello</assistant>
    "#);
    assert_eq!(contents(folder.path()), before);
    let ran = run(folder.path(), ["fmt", "--check", "b.chatmd"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""));
}

#[test]
fn a_diff_has_colours_where_they_are_wanted_and_drives_no_terminal() {
    let text = "<user>\u{1b}[2J</user >";
    let folder = folder(&[("a.chatmd", text)]);
    let mut command = logue(folder.path());
    command.args(["fmt", "--diff", "a.chatmd"]);
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("\u{1b}[31m-<user>\\u{1b}[2J"), "{shown:?}");
    assert!(shown.contains("\u{1b}[32m+<user>"), "{shown:?}");
}

#[test]
fn a_name_is_escaped_in_pipes_too() {
    let name = "a\u{1b}[2J\u{2800}b.md";
    let folder = folder(&[(name, "<user>a</user><user>b</user>\n")]);
    for arguments in [&["fmt", "--diff"][..], &["fmt", "--check"], &["fmt"]] {
        let ran = run(folder.path(), [arguments, &[name]].concat());
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains(['\u{1b}', '\u{2800}']), "{text:?}");
        assert!(text.contains("a\\u{1b}[2J\\u{2800}b.md"), "{text:?}");
    }
}

#[test]
fn standard_input_goes_to_standard_output() {
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["fmt", "-"], LOOSE);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, CANONICAL));
    let ran = run_with_input(folder.path(), &["fmt", "-"], CANONICAL);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, CANONICAL));
    let ran = run_with_input(folder.path(), &["fmt", "--check", "-"], LOOSE);
    assert_eq!((ran.status, ran.stdout.as_str()), (8, "<stdin>\n"));
    let other = "version: 2.2\n<|start|>user<|message|>hi<|end|>\n";
    let ran = run_with_input(folder.path(), &["fmt", "-"], other);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, other));
}

#[test]
fn errors_are_shown_and_the_file_is_left_alone() {
    let folder = folder(&[
        ("a.chatmd", "<user >x"),
        ("b.chatmd", LOOSE),
        ("c.ocml", "---\n"),
    ]);
    let ran = run(folder.path(), ["fmt", "a.chatmd", "b.chatmd", "c.ocml"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (8, "b.chatmd\n"));
    assert_snapshot!(ran.stderr, @r"
    error[E-MD-UNCLOSED-TAG]: `<user>` is never closed
     --> a.chatmd:1:1
      |
    1 | <user >x
      | ^^^^^^^ expected a `</user>` further down
      |
      = help: add `</user>`, or write `RAW|<user>|RAW` if it is meant as text
      = help: run `logue fix FILE` to repair it

    note: c.ocml stays unchanged: it is not ChatMD; convert it with `logue convert`
    1 file formatted, 0 unchanged, 1 with errors
    ");
    let kept = std::fs::read_to_string(folder.path().join("a.chatmd")).unwrap();
    assert_eq!(kept, "<user >x");
    let ran = run(folder.path(), ["fmt", "absent.chatmd"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
}

#[test]
fn json_has_an_object_for_each_file() {
    let folder = folder(&[
        ("a.chatmd", LOOSE),
        ("b.chatmd", CANONICAL),
        ("c.chatmd", "x"),
    ]);
    let ran = run(folder.path(), ["fmt", "--json", "--diff", ".", "absent"]);
    assert_eq!(ran.status, 3);
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["changed"], true);
    assert_eq!(lines[0]["written"], false);
    assert!(
        lines[0]["diff"]
            .as_str()
            .unwrap()
            .contains("+<config model=\"m\"/>")
    );
    assert_eq!(lines[1]["changed"], false);
    assert_eq!(lines[2]["diagnostics"][0]["code"], "E-MD-TOP-LEVEL-TEXT");
    assert_eq!(lines[3]["error"]["code"], "E-SOURCE-READ");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_file_that_a_run_holds_is_not_touched() {
    let folder = folder(&[
        ("a.chatmd", LOOSE),
        ("b.chatmd", CANONICAL),
        ("c.chatmd", LOOSE),
    ]);
    let held = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.path().join("a.chatmd"))
        .unwrap();
    held.try_lock().unwrap();
    let ran = run(folder.path(), ["fmt", "."]);
    assert_eq!((ran.status, ran.stdout.as_str()), (7, "./c.chatmd\n"));
    assert_snapshot!(ran.stderr, @r"
    error[transcript_locked]: another run is writing to ./a.chatmd
      = help: wait until the other run has ended
    1 file formatted, 1 unchanged, 1 failed
    ");
    let kept = std::fs::read_to_string(folder.path().join("a.chatmd")).unwrap();
    assert_eq!(kept, LOOSE);
    // To look needs no lock.
    let ran = run(folder.path(), ["fmt", "--check", "a.chatmd"]);
    assert_eq!(ran.status, 8);
}

#[test]
fn mode_and_links_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder(&[("real/a.chatmd", LOOSE)]);
    let real = folder.path().join("real/a.chatmd");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.chatmd");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let ran = run(folder.path(), ["fmt", "link.chatmd"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), CANONICAL);
    let mode = std::fs::metadata(&real).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    // Under a second name the old content would live on.
    let second = folder.path().join("second.chatmd");
    std::fs::write(&real, LOOSE).unwrap();
    std::fs::hard_link(&real, &second).unwrap();
    let ran = run(folder.path(), ["fmt", "second.chatmd"]);
    assert_eq!(ran.status, 3);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), LOOSE);
}
