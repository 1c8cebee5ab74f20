//! `logue fix`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{contents, folder, run, run_with_input};

const DAMAGED: &str = "\
<user>Which tools?</user>
<reasoning id=\"r\">
<summary>
Declare `<tool name=\"x\"/>` and close \"<config
</summary>
</reasoning>
<tool_call tool_call_id=\"c\" function_name=\"read_file\">
\t<doc src=\"./.chatmd/0.tool-call.c.json\" local>
</tool_call>
<tool_response tool_call_id=\"c\">
RAW|none|RAW</tool_response>
<assistant id=\"a\">
\tRAW|
\t\tNone.
\t\t  Really.
\t|RAW
</assistant>

<user>

</user>";

const REPAIRED: &str = "\
<user>Which tools?</user>
<reasoning id=\"r\">
<summary>RAW|
Declare `<tool name=\"x\"/>` and close \"<config
|RAW</summary>
</reasoning>
<tool_call tool_call_id=\"c\" function_name=\"read_file\">
\t<doc src=\"./.chatmd/0.tool-call.c.json\" local/>
</tool_call>
<tool_response tool_call_id=\"c\">
RAW|none|RAW</tool_response>
<assistant id=\"a\">
RAW|None.
  Really.|RAW
</assistant>

";

#[test]
fn without_write_the_repairs_are_only_told() {
    let folder = folder(&[("a.md", DAMAGED)]);
    let ran = run(folder.path(), ["fix", "--check", "a.md"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stdout, @r"
    a.md:3:1: put the text of a summary that quotes tags into RAW blocks: the tags that a summary quotes are read as elements
    a.md:8:2: end `<doc>` in `/>`: a tag without its slash stays open and contains the following text
    a.md:13:2: remove the indentation of the text of `<assistant>`: the tabs were added when the text was saved
    a.md:19:1: remove an empty `<user>`: an empty message is not sent to the model
    ");
    assert_snapshot!(ran.stderr, @"1 file would be repaired, 0 unchanged");
    assert_eq!(contents(folder.path()).len(), 1);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.md")).unwrap(),
        DAMAGED
    );
}

#[test]
fn write_repairs_and_keeps_the_original() {
    let folder = folder(&[("a.md", DAMAGED)]);
    assert_eq!(run(folder.path(), ["check", "a.md"]).status, 8);
    let ran = run(folder.path(), ["fix", "a.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("a.md"), REPAIRED);
    assert_eq!(read("a.md.orig"), DAMAGED);
    let checked = run(folder.path(), ["check", "--no-file-checks", "a.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    let again = run(folder.path(), ["fix", "--check", "a.md"]);
    assert_eq!((again.status, again.stdout.as_str()), (0, ""));

    // A second original does not take the place of the first.
    std::fs::write(folder.path().join("a.md"), DAMAGED).unwrap();
    assert_eq!(run(folder.path(), ["fix", "a.md"]).status, 0);
    assert_eq!(read("a.md.orig.2"), DAMAGED);

    std::fs::write(folder.path().join("a.md"), DAMAGED).unwrap();
    let ran = run(folder.path(), ["fix", "--no-backup", "a.md"]);
    assert_eq!(ran.status, 0);
    assert_eq!(contents(folder.path()).len(), 3);
}

#[test]
fn what_cannot_be_repaired_is_told_and_the_rest_is_repaired() {
    let text = "<user>the </tool> tag</user>\n<user>x</assistant>\n";
    let folder = folder(&[("a.md", text)]);
    let ran = run(folder.path(), ["fix", "a.md"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stdout, @"a.md:1:11: put the mentioned tag `<tool>` into a RAW block: a tag without a meaning in its place is not sent to the model");
    assert_snapshot!(ran.stderr, @r"
    error[E-MD-MISMATCHED-TAG]: `</assistant>` does not match the open `<user>`
     --> a.md:2:8
      |
    2 | <user>x</assistant>
      | ------ ^^^^^^^^^^^^ expected `</user>`
      | |
      | `<user>` is opened here
      |
      = help: tags that are meant as text go into a RAW block: `RAW|</assistant>|RAW`

    1 file repaired, 0 unchanged, 1 with errors
    ");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.md")).unwrap(),
        "<user>the RAW|</tool>|RAW tag</user>\n<user>x</assistant>\n"
    );
}

#[test]
fn diff_shows_what_changes() {
    let folder = folder(&[("a.md", "<user>use <tool/> now</user>\n")]);
    let ran = run(folder.path(), ["fix", "--diff", "a.md"]);
    assert_eq!(ran.status, 8);
    assert_snapshot!(ran.stdout, @r"
    --- a/a.md
    +++ b/a.md
    @@ -1 +1 @@
    -<user>use <tool/> now</user>
    +<user>use RAW|<tool/>|RAW now</user>
    ");
}

#[test]
fn standard_input_is_told_of_or_repaired() {
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["fix", "--check", "-"], DAMAGED);
    assert_eq!(ran.status, 8);
    assert!(ran.stdout.starts_with("<stdin>:3:1: "), "{}", ran.stdout);
    let ran = run_with_input(folder.path(), &["fix", "-"], DAMAGED);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, REPAIRED));
    assert!(ran.stderr.starts_with("<stdin>:3:1: "), "{}", ran.stderr);
}

#[test]
fn json_names_each_change_and_what_remains() {
    let text = "<user>é <tool/></user>\n<user>x</assistant>\n";
    let folder = folder(&[("a.md", text)]);
    let ran = run(folder.path(), ["fix", "--check", "--json", "a.md"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (8, ""));
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["file"], "a.md");
    assert_eq!(object["changed"], true);
    assert_eq!(object["written"], false);
    assert_eq!(object["changes"][0]["repair"], "mention");
    assert_eq!(object["changes"][0]["start"]["column"], 9);
    assert_eq!(object["diagnostics"][0]["code"], "E-MD-MISMATCHED-TAG");
    assert_eq!(object["diagnostics"][0]["start"]["line"], 2);
    let ran = run(folder.path(), ["fix", "--json", "a.md"]);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["written"], true);
    assert!(object["copy"].as_str().unwrap().ends_with("a.md.orig"));
}

#[test]
fn a_file_that_a_run_holds_is_not_touched() {
    let folder = folder(&[("a.md", DAMAGED)]);
    let held = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.path().join("a.md"))
        .unwrap();
    held.try_lock().unwrap();
    let ran = run(folder.path(), ["fix", "a.md"]);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert_eq!(
        contents(folder.path()),
        [("a.md".to_owned(), DAMAGED.into())]
    );
}
