//! What a person is shown before a call, and that the call does that or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use logue_message::ToolCall;
use logue_tools::{AccessScope, Builtin, Preview, Roots, ToolResult, Toolbox};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::project::Project;
use super::unified::apply;

fn toolbox(root: &Path) -> Toolbox {
    let roots = Roots::new([root.to_owned()]).unwrap();
    let scope = AccessScope::new(roots.into());
    let mut toolbox = Toolbox::new();
    let names = [
        "write_file",
        "append_to_file",
        "find_and_replace",
        "apply_patch",
    ];
    for builtin in Builtin::from_names(&names).unwrap() {
        toolbox.add(builtin.tool(&scope)).unwrap();
    }
    toolbox
}

async fn preview(root: &Path, name: &str, arguments: &Value) -> Preview {
    let call = ToolCall::new("c", name, arguments.to_string());
    toolbox(root).preview(&call).await.unwrap()
}

async fn approved(root: &Path, name: &str, arguments: &Value, preview: &Preview) -> ToolResult {
    let call = ToolCall::new("c", name, arguments.to_string());
    let fingerprint = preview.fingerprint.as_deref();
    toolbox(root).call_approved(&call, fingerprint).await
}

#[tokio::test]
async fn a_preview_is_a_diff_and_changes_nothing() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "gone\n")]);
    let before = project.all();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Delete File: b.txt\n\
                 *** Add File: d/c.txt\n+new\n*** End Patch";
    for (name, arguments, expected) in [
        (
            "write_file",
            json!({"path": "a.txt", "content": "one\ntwo\nthree"}),
            "a.txt: changes (+1 -1 lines)\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three\n+three\n\\ No newline at end of file\n",
        ),
        (
            "write_file",
            json!({"path": "new.txt", "content": "x\u{1b}[2J\n"}),
            "new.txt: is created (6 bytes, 1 line)\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\\u{1b}[2J\n",
        ),
        (
            "append_to_file",
            json!({"path": "a.txt", "content": "four\n"}),
            "a.txt: changes (+1 -0 lines)\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n one\n two\n three\n+four\n",
        ),
        (
            "find_and_replace",
            json!({"path": "a.txt", "find": "two", "replace": "2", "all": true}),
            "a.txt: changes (+1 -1 lines)\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        ),
        (
            "apply_patch",
            json!({ "input": patch }),
            "a.txt: changes (+1 -1 lines)\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\
             b.txt: is removed (5 bytes, 1 line)\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
             d/c.txt: is created (4 bytes, 1 line)\n--- /dev/null\n+++ b/d/c.txt\n@@ -0,0 +1 @@\n+new\n",
        ),
        (
            "write_file",
            json!({"path": "a.txt", "content": "one\ntwo\nthree\n"}),
            "Nothing would change.\n",
        ),
        (
            "find_and_replace",
            json!({"path": "a.txt", "find": "\u{202e}", "replace": "", "all": true}),
            "The call would fail: a.txt: the text is not there. Nothing was changed\n",
        ),
        (
            "write_file",
            json!({"path": "../\u{1b}x", "content": ""}),
            "The call would fail: ../\\u{1b}x: is outside the directories that may be read\n",
        ),
    ] {
        assert_eq!(
            preview(&project.root, name, &arguments).await.text,
            expected
        );
        assert_eq!(project.all(), before, "{name}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_preview_names_what_a_link_leads_to() {
    let project = Project::new(&[("real.txt", "old\n")]);
    std::os::unix::fs::symlink("real.txt", project.root.join("link.txt")).unwrap();
    let arguments = json!({"path": "link.txt", "content": "new\n"});
    let shown = preview(&project.root, "write_file", &arguments).await.text;
    assert!(
        shown.starts_with("link.txt (which is real.txt): changes"),
        "{shown}"
    );
    assert!(shown.contains("--- a/real.txt\n"), "{shown}");
}

/// What somebody else does between the look and the call.
type Between = fn(&Path);

#[tokio::test]
async fn what_was_approved_is_done_or_nothing() {
    let arguments = json!({"path": "a.txt", "find": "old", "replace": "new", "all": true});
    let table: [(Between, Option<&str>); 6] = [
        (|_| {}, Some("a new line\n")),
        (
            |root| fs::write(root.join("a.txt"), "an old line, and another\n").unwrap(),
            None,
        ),
        (
            // The same bytes as before are what was shown.
            |root| {
                fs::write(root.join("a.txt"), "x").unwrap();
                fs::write(root.join("a.txt"), "a old line\n").unwrap();
            },
            Some("a new line\n"),
        ),
        (
            |root| fs::write(root.join("a.txt"), "nothing of it\n").unwrap(),
            None,
        ),
        (|root| fs::remove_file(root.join("a.txt")).unwrap(), None),
        (
            // The same content in another place is another change.
            |root| {
                fs::rename(root.join("a.txt"), root.join("b.txt")).unwrap();
                #[cfg(unix)]
                std::os::unix::fs::symlink("b.txt", root.join("a.txt")).unwrap();
            },
            None,
        ),
    ];
    for (number, (between, expected)) in table.into_iter().enumerate() {
        let project = Project::new(&[("a.txt", "a old line\n")]);
        let shown = preview(&project.root, "find_and_replace", &arguments).await;
        between(&project.root);
        let before = project.all();
        let outcome = approved(&project.root, "find_and_replace", &arguments, &shown).await;
        assert_eq!(outcome.ok, expected.is_some(), "{number}: {outcome:?}");
        match expected {
            Some(expected) => assert_eq!(project.read("a.txt"), expected),
            None => assert_eq!(project.all(), before, "{number}"),
        }
    }
}

#[tokio::test]
async fn an_approved_failure_does_not_become_a_success() {
    let project = Project::new(&[("a.txt", "text\n")]);
    let arguments = json!({"path": "a.txt", "find": "old", "replace": "new", "all": true});
    let shown = preview(&project.root, "find_and_replace", &arguments).await;
    assert!(shown.text.starts_with("The call would fail"));
    fs::write(project.root.join("a.txt"), "old\n").unwrap();
    let outcome = approved(&project.root, "find_and_replace", &arguments, &shown).await;
    assert!(
        !outcome.ok
            && outcome
                .text
                .contains("changed since this call was approved")
    );
    assert_eq!(project.read("a.txt"), "old\n");
}

#[tokio::test]
async fn a_large_change_is_cut_and_says_how_much_is_missing() {
    let project = Project::new(&[]);
    let content = format!("{}\n{}", "y".repeat(10_000), "line\n".repeat(100_000));
    let arguments = json!({"path": "a.txt", "content": content});
    let shown = preview(&project.root, "write_file", &arguments).await;
    assert!(shown.text.len() < 140_000);
    assert!(
        shown
            .text
            .contains("[5904 more bytes of this line are not shown]")
    );
    let tail = shown.text.lines().last().unwrap();
    assert!(
        tail.starts_with("[cut here: ") && tail.ends_with("not shown]"),
        "{tail}"
    );
    // All of it is what was approved, also what was not shown.
    let other = json!({"path": "a.txt", "content": format!("{content}!")});
    assert!(
        !approved(&project.root, "write_file", &other, &shown)
            .await
            .ok
    );
    assert!(
        approved(&project.root, "write_file", &arguments, &shown)
            .await
            .ok
    );
    assert_eq!(project.read("a.txt"), content);
}

#[tokio::test]
async fn two_files_that_have_nothing_in_common_are_compared_in_time() {
    let lines = |seed: usize| -> String {
        let line = |at: usize| format!("{}\n", (at * 7_919 + seed) % 50_021);
        (0..200_000).map(line).collect()
    };
    let project = Project::new(&[("a.txt", &lines(1))]);
    let arguments = json!({"path": "a.txt", "content": lines(25_000)});
    let started = std::time::Instant::now();
    let shown = preview(&project.root, "write_file", &arguments).await;
    assert!(shown.text.starts_with("a.txt: changes"));
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[tokio::test]
async fn write_file_tells_what_it_did() {
    let project = Project::new(&[("a.txt", "one\ntwo\n")]);
    let digest = "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8";
    let write = |arguments: Value| {
        let root = project.root.clone();
        async move {
            let call = ToolCall::new("c", "write_file", arguments.to_string());
            toolbox(&root).call(&call).await
        }
    };
    for (arguments, ok, text) in [
        (
            json!({"path": "b.txt", "content": "x\ny"}),
            true,
            "b.txt: created, 3 bytes, 2 lines, sha256 9ab9de25768ac172235e119b76362ecddad33878fe9a7792cdddbe47236f9a87",
        ),
        (
            json!({"path": "b.txt", "content": "z", "create_only": true}),
            false,
            "b.txt: is there already. Nothing was changed",
        ),
        (
            json!({"path": "c.txt", "content": "z", "expected_sha256": digest}),
            false,
            "c.txt: there is no such file. Nothing was changed",
        ),
        (
            json!({"path": "a.txt", "content": "z", "expected_sha256": digest, "create_only": true}),
            false,
            "E-CALL-SCHEMA: expected_sha256: a file that is only made holds nothing before",
        ),
        (
            json!({"path": "a.txt", "content": "z", "expected_sha256": "12"}),
            false,
            "E-CALL-SCHEMA: expected_sha256: must be 64 hexadecimal digits",
        ),
        (
            json!({"path": "a.txt", "content": "z", "expected_sha256": "0".repeat(64)}),
            false,
            "a.txt: holds something else than expected",
        ),
        (
            json!({"path": "a.txt", "content": "one\n2\n", "expected_sha256": format!("sha256:{}", digest.to_uppercase())}),
            true,
            "a.txt: replaced, 6 bytes, +1 -1 lines, sha256 ",
        ),
        (
            json!({"path": "a.txt", "content": "one\n2\n"}),
            true,
            "a.txt: holds exactly that already, sha256 ",
        ),
        (
            json!({"path": "a\u{0}.txt", "content": ""}),
            false,
            "\"a\\0.txt\" names no file",
        ),
        (
            json!({"path": "logue.toml", "content": ""}),
            false,
            "logue.toml: tools do not write it",
        ),
        (
            json!({"path": ".git/config", "content": ""}),
            false,
            ".git/config: tools do not write it",
        ),
        (
            json!({"path": "../secret.txt", "content": ""}),
            false,
            "../secret.txt: is outside",
        ),
        (
            json!({"path": "a.txt", "content": "", "mode": "x"}),
            false,
            "E-CALL-SCHEMA: `mode` is not a parameter of this tool; the parameters are path, file, content",
        ),
        (
            json!({"path": "big.txt", "content": "x".repeat(16 * 1024 * 1024 + 1)}),
            false,
            "big.txt: would have 16777217 bytes",
        ),
    ] {
        let outcome = write(arguments).await;
        assert!(
            outcome.ok == ok && outcome.text.starts_with(text),
            "{outcome:?}"
        );
    }
    assert_eq!(project.read("a.txt"), "one\n2\n");
    assert_eq!(project.read("b.txt"), "x\ny");
}

/// Contents of few different lines, so that they have much in common, with everything that could go
/// wrong in showing them.
fn content() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        8 => "[ab]{0,2}",
        1 => Just("\u{1b}[31m".to_owned()),
        1 => Just("\\u{1b} \\x{ff} \\".to_owned()),
        1 => Just("--- a/x\r".to_owned()),
        1 => Just("\u{202e}\u{0}é\t".to_owned()),
        1 => Just("@@ -1 +1 @@".to_owned()),
    ];
    (prop::collection::vec(line, 0..24), any::<bool>()).prop_map(|(lines, ended)| {
        let end = if ended && !lines.is_empty() { "\n" } else { "" };
        lines.join("\n") + end
    })
}

fn changing_call() -> impl Strategy<Value = (&'static str, Value)> {
    let path = || prop_oneof![Just("a.txt"), Just("d/b.txt"), Just("latin.txt")];
    prop_oneof![
        (path(), content())
            .prop_map(|(path, content)| ("write_file", json!({"path": path, "content": content}))),
        (path(), content()).prop_map(|(path, content)| (
            "append_to_file",
            json!({"path": path, "content": content})
        )),
        ("[ab\n]{1,2}", content()).prop_map(|(find, replace)| (
            "find_and_replace",
            json!({"path": "a.txt", "find": find, "replace": replace, "all": true})
        )),
        ("[ab]{0,2}", "[ab]{0,2}", any::<bool>()).prop_map(|(old, new, to_new)| {
            let patch = if to_new {
                format!("*** Add File: e.txt\n+{old}\n+{new}\n*** Delete File: a.txt")
            } else {
                format!("*** Update File: a.txt\n*** Move to: f.txt\n@@\n-{old}\n+{new}")
            };
            let input = format!("*** Begin Patch\n{patch}\n*** End Patch");
            ("apply_patch", json!({ "input": input }))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_is_shown_is_what_happens(old in content(), (name, arguments) in changing_call()) {
        let project = Project::new(&[("a.txt", &old)]);
        fs::write(project.root.join("latin.txt"), b"caf\xE9\nno end").unwrap();
        let files = |root: &Path| -> BTreeMap<String, Vec<u8>> {
            let names = ["a.txt", "d/b.txt", "latin.txt", "e.txt", "f.txt"];
            let files = names.iter().filter_map(|name| {
                Some(((*name).to_owned(), fs::read(root.join(name)).ok()?))
            });
            files.collect()
        };
        let before = files(&project.root);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let shown = runtime.block_on(preview(&project.root, name, &arguments));
        prop_assert_eq!(&files(&project.root), &before);
        prop_assert!(shown.text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        let mut expected = before.clone();
        for (name, content) in apply(&shown.text, &before) {
            match content {
                Some(content) => drop(expected.insert(name, content)),
                None => drop(expected.remove(&name)),
            }
        }
        let outcome = runtime.block_on(approved(&project.root, name, &arguments, &shown));
        prop_assert_eq!(outcome.ok, !shown.text.starts_with("The call would fail"));
        let mut after = files(&project.root);
        // A diff has no lines for a file without any.
        if shown.text.contains("a.txt: is removed (0 bytes") {
            expected.remove("a.txt");
        }
        if shown.text.contains("is created (0 bytes") {
            after.retain(|name, content| before.contains_key(name) || !content.is_empty());
        }
        prop_assert_eq!(after, expected, "{}", shown.text);
    }
}
