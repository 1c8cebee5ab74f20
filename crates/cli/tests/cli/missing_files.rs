//! `logue check` looks whether the files exist that a document names.

use insta::assert_snapshot;

use crate::program::{folder, run, run_with_input};

const PROMPT: &str = "<import src=\"rules.md\"/>
<tool name=\"t\" agent=\"agents/t.md\" local/>
<user>
<doc src=\"here.md\" local/> <doc src=\"gone.md\" local/> <doc src=\"gone.md\" local/>
<img src=\"gone.png\" local/> <img src=\"https://example.org/gone.png\"/>
<agent src=\"gone/agent.md\" local><doc src=\"./folder\" local/></agent>
</user>
";

#[test]
fn missing_files_are_named_where_they_are_named_first() {
    let folder = folder(&[
        ("in/prompt.md", PROMPT),
        ("in/here.md", "# Here\n"),
        ("in/folder/x.md", "# Inside\n"),
        ("rules.md", "# Not the one beside the prompt\n"),
    ]);
    let ran = run(folder.path(), ["check", "in/prompt.md"]);
    assert_eq!(ran.status, 8);
    let lines: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("error") || line.contains("-->"))
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    error[missing-file]: cannot read the import "rules.md": rules.md: not found
     --> in/prompt.md:1:1
    error[missing-file]: the prompt "agents/t.md" does not exist
     --> in/prompt.md:2:1
    error[missing-file]: the document "gone.md" does not exist
     --> in/prompt.md:4:28
    error[missing-file]: the image "gone.png" does not exist
     --> in/prompt.md:5:1
    error[missing-file]: the prompt "gone/agent.md" does not exist
     --> in/prompt.md:6:1
    error[missing-file]: the document "./folder" is a directory
     --> in/prompt.md:6:34
    "#);
}

#[test]
fn nobody_looks_where_it_is_not_wanted_or_has_no_place() {
    let folder = folder(&[("prompt.md", PROMPT)]);
    let ran = run(folder.path(), ["check", "--no-file-checks", "prompt.md"]);
    assert_eq!(ran.stderr, "1 file checked: 0 errors, 0 warnings\n");
    let ran = run_with_input(folder.path(), &["check", "-"], PROMPT);
    assert_eq!(ran.stderr, "1 file checked: 0 errors, 0 warnings\n");
}

#[test]
fn hundreds_of_lost_payloads_do_not_drown_the_rest() {
    let mut text = String::from("<user>\n");
    for number in 0..300 {
        text.push_str(&format!("<doc src=\"./.chatmd/{number}.json\" local/>\n"));
    }
    text.push_str("<doc src=\"nul\0\" local/></user>\n");
    let folder = folder(&[("prompt.md", &text)]);
    let ran = run(folder.path(), ["check", "prompt.md"]);
    assert!(
        ran.stderr
            .ends_with("1 file checked: 20 errors, 0 warnings\n"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("help: 281 more files are not shown"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_file_outside_is_an_error_as_in_a_run() {
    let prompt = "<user><doc src=\"../../../../../../../../etc/passwd\" local/></user>\n";
    let folder = folder(&[("p/prompt.md", prompt), ("p/latin.md", "<user>x</user>\n")]);
    std::fs::write(folder.path().join("p/latin.md"), b"<user>\xE9</user>\n").unwrap();
    let run_status = run(
        folder.path(),
        ["run", "--no-save", "-m", "echo:", "p/prompt.md"],
    )
    .status;
    assert_eq!(run_status, 3);
    let ran = run(folder.path(), ["check", "p/prompt.md"]);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let start = "error[E-OUTSIDE-ROOTS]: the document \"../../../../../../../../etc/passwd\" is \
                 outside the directory of the prompt\n --> p/prompt.md:1:7\n";
    assert!(ran.stderr.starts_with(start), "{}", ran.stderr);
    let skipped = run(folder.path(), ["check", "--no-file-checks", "p/prompt.md"]);
    assert_eq!(skipped.status, 0, "{}", skipped.stderr);
    // A file that was read is a finding, even if it is not text.
    let latin = run(folder.path(), ["check", "p/latin.md"]);
    assert_eq!(latin.status, 8, "{}", latin.stderr);
    assert!(
        latin
            .stderr
            .ends_with("1 file checked: 1 error, 0 warnings\n"),
        "{}",
        latin.stderr
    );
}

/// A run of such prompts always fails.
#[test]
fn agents_that_ask_for_their_own_prompt_are_found() {
    let folder = folder(&[
        (
            "own.md",
            "<user><agent src=\"own.md\" local>q</agent></user>",
        ),
        ("a.md", "<user><agent src=\"b.md\" local>q</agent></user>"),
        ("b.md", "<user><agent src=\"./a.md\" local>q</agent></user>"),
        (
            "tool.md",
            "<tool name=\"s\" agent=\"tool.md\" description=\"x\" local/><user>q</user>",
        ),
    ]);
    for (name, place) in [("own.md", "own.md:1:"), ("a.md", "b.md:1:")] {
        let ran = run(folder.path(), ["check", name]);
        assert_eq!(ran.status, 8, "{name}: {}", ran.stdout);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        for expected in ["error[E-MD-AGENT-FAILED]", "calls itself", place] {
            assert!(text.contains(expected), "{name}: {text}");
        }
    }
    let ran = run(folder.path(), ["check", "tool.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
}
