//! Files that are no prompt: an error that says why and where, never a panic.

use std::fs::File;

use crate::program::{folder, run, run_with_input};

#[test]
fn what_is_no_prompt_is_refused_with_its_place() {
    let folder = folder(&[
        ("unclosed.md", "<config model=\"m\"/>\n<user>\nhello\n"),
        ("text.md", "<user>hi</user>\nstray\n"),
        (
            "attribute.md",
            "<config temperature=\"warm\"/>\n<user>hi</user>\n",
        ),
        ("tool.md", "<tool name=\"teleport\"/>\n<user>hi</user>\n"),
        (
            "doc.md",
            "<config model=\"m\"/>\n<user><doc src=\"absent.txt\" local/></user>\n",
        ),
        (
            "outside.md",
            "<config model=\"m\"/>\n<user><doc src=\"../../etc/passwd\" local/></user>\n",
        ),
        ("raw.md", "<user>RAW|open</user>\n"),
        ("session.ocml", "<|start|>user<|message|>hi<|end|>\n"),
        ("empty.md", ""),
        ("model.md", "<user>hi</user>\n"),
        ("sub/inner.md", ""),
    ]);
    std::fs::write(folder.path().join("latin.md"), b"<user>caf\xe9</user>\n").unwrap();
    let huge = File::create(folder.path().join("huge.md")).unwrap();
    huge.set_len(1_000_000_000).unwrap();
    for (file, code, place) in [
        ("absent.md", "E-SOURCE-READ", "absent.md"),
        ("sub", "E-SOURCE-READ", "is a directory"),
        ("/dev/null", "E-SOURCE-READ", "not a regular file"),
        ("huge.md", "E-SOURCE-TOO-LARGE", "64 MiB"),
        ("latin.md", "E-SOURCE-NOT-UTF8", "latin.md:1:10"),
        ("unclosed.md", "E-MD-UNCLOSED-TAG", "unclosed.md:2:1"),
        ("text.md", "E-MD-TOP-LEVEL-TEXT", "text.md:2:1"),
        ("attribute.md", "E-MD-INVALID-ATTRIBUTE", "attribute.md:1:"),
        ("tool.md", "E-MD-UNKNOWN-TOOL", "tool.md:1:"),
        ("doc.md", "E-MD-DOCUMENT-UNREADABLE", "doc.md:2:7"),
        ("outside.md", "E-OUTSIDE-ROOTS", "--root DIR"),
        ("raw.md", "E-MD-UNTERMINATED-RAW", "raw.md:1:7"),
        (
            "session.ocml",
            "model_not_configured",
            "fragment-without-header",
        ),
        ("empty.md", "no_user_input", "<user>"),
        ("model.md", "model_not_configured", "-m"),
    ] {
        for write in [&["run"][..], &["run", "--no-save"]] {
            let arguments = [write, &[file]].concat();
            let ran = run(folder.path(), &arguments);
            assert_eq!(ran.status, 3, "{file}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(&format!("error[{code}]")),
                "{file}: {}",
                ran.stderr
            );
            assert!(ran.stderr.contains(place), "{file}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("help: "),
                "{file} says nothing of what to do: {}",
                ran.stderr
            );
            assert_eq!(ran.stdout, "", "{file}");
        }
    }
}

#[test]
fn both_from_standard_input_is_wrong_usage() {
    let folder = folder(&[]);
    let ran = run_with_input(folder.path(), &["run", "-", "-"], "x");
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert_eq!(run(folder.path(), ["run"]).status, 2);
    assert_eq!(run(folder.path(), ["walk"]).status, 2);
    assert_eq!(run(folder.path(), ["--help"]).status, 0);
}

#[test]
fn a_wrong_setting_is_shown_at_its_place() {
    for (settings, place) in [
        ("[model]\nidle_secs = 3\n", "logue.toml:2:1"),
        ("[run]\nmax_requests = 0\n", "logue.toml:2:16"),
        ("[run\n", "logue.toml:1:5"),
    ] {
        let folder = folder(&[("prompt.md", "<user>hi</user>\n"), ("logue.toml", settings)]);
        let ran = run(folder.path(), ["run", "--json", "prompt.md"]);
        assert_eq!(ran.status, 3);
        assert!(
            ran.stderr.contains("error[E-CONFIG-INVALID]"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
        assert!(
            ran.stdout.contains("\"event\":\"turn.failed\""),
            "{}",
            ran.stdout
        );
    }
}
