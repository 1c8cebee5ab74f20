//! The writing tools: what they change, what they say, and what they leave alone.
#![cfg(unix)]

mod confined;
mod patching;
mod previewing;
mod project;
mod unified;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use logue_tools::{AccessScope, Roots, ToolResult};
use serde_json::json;

use self::project::{Project, call, call_with};

#[tokio::test]
async fn text_is_appended_as_it_is() {
    let project = Project::new(&[("a.txt", "one")]);
    let outcome = call(
        &project.root,
        "append_to_file",
        json!({"path": "a.txt", "content": "\ntwo\n"}),
    );
    assert_eq!(
        outcome.await,
        ToolResult::success("a.txt: 5 bytes appended, 8 in all")
    );
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    let new = json!({"file": "new/deep/b.txt", "content": "ä"});
    assert!(call(&project.root, "append_to_file", new).await.ok);
    assert_eq!(project.read("new/deep/b.txt"), "ä");
}

#[tokio::test]
async fn a_text_is_replaced_once_or_everywhere() {
    let project = Project::new(&[("a.txt", "one\ntwo\none\n")]);
    let replace = |find: &str, with: &str, all: bool| {
        let arguments = json!({"path": "a.txt", "find": find, "replace": with, "all": all});
        call(&project.root, "find_and_replace", arguments)
    };
    assert_eq!(
        replace("two", "2", false).await,
        ToolResult::success("a.txt: replaced once, line 2")
    );
    let twice = replace("one", "1", false).await;
    assert!(!twice.ok);
    assert!(twice.text.contains("2 times, lines 1, 3"), "{}", twice.text);
    assert_eq!(project.read("a.txt"), "one\n2\none\n");
    assert_eq!(
        replace("one", "$1", true).await,
        ToolResult::success("a.txt: replaced 2 times, lines 1, 3")
    );
    assert_eq!(project.read("a.txt"), "$1\n2\n$1\n");
    let aliases = json!({"file": "a.txt", "search": "2", "replace": ""});
    assert!(call(&project.root, "find_and_replace", aliases).await.ok);
    assert_eq!(project.read("a.txt"), "$1\n\n$1\n");
}

#[tokio::test]
async fn a_text_that_is_not_there_comes_with_the_nearest_line() {
    let project = Project::new(&[
        ("a.rs", "fn a() {\n    b();\n}\n"),
        ("dos.txt", "a\r\nb\r\n"),
    ]);
    for (path, find, hint) in [
        ("a.rs", "  b();\n  c();", "line 2 is like its first line"),
        ("dos.txt", "a\nb", "end in CR LF"),
        ("a.rs", "nowhere", "the text is not there. Nothing"),
        ("a.rs", "", "must not be empty"),
    ] {
        let arguments = json!({"path": path, "find": find, "replace": "x", "all": false});
        let outcome = call(&project.root, "find_and_replace", arguments).await;
        assert!(
            !outcome.ok && outcome.text.contains(hint),
            "{find:?}: {}",
            outcome.text
        );
    }
}

#[tokio::test]
async fn what_is_no_writable_text_is_refused() {
    let project = Project::new(&[
        ("mine.txt", "mine\n"),
        ("locked.txt", "secret\n"),
        ("d/x", ""),
    ]);
    fs::write(project.root.join("latin"), b"secret caf\xe9\n").unwrap();
    fs::write(project.root.join("huge"), vec![b'a'; 16 * 1024 * 1024 + 1]).unwrap();
    let locked = project.root.join("locked.txt");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).unwrap();
    let before = project.all();
    for (path, said) in [
        ("locked.txt", "read-only"),
        ("d", "not a regular file"),
        ("d/x/y", "one of its folders is a file"),
        ("huge", "larger than"),
        ("", "names no file"),
        ("new/", "names no file"),
        ("a\0b", "names no file"),
    ] {
        let arguments = json!({"path": path, "content": "x"});
        let outcome = call(&project.root, "append_to_file", arguments).await;
        assert!(
            !outcome.ok && outcome.text.contains(said),
            "{path}: {}",
            outcome.text
        );
    }
    let arguments = json!({"path": "latin", "find": "secret", "replace": "x", "all": true});
    let outcome = call(&project.root, "find_and_replace", arguments).await;
    assert!(
        outcome.text.contains("is not UTF-8 text (byte 10)"),
        "{}",
        outcome.text
    );
    let longer = "a".repeat(17 * 1024 * 1024);
    let arguments = json!({"path": "new.txt", "content": longer});
    let outcome = call(&project.root, "append_to_file", arguments).await;
    assert!(
        outcome.text.contains("more than the 16777216 bytes"),
        "{}",
        outcome.text
    );
    let arguments = json!({"path": "mine.txt", "find": "m", "replace": longer, "all": true});
    assert!(!call(&project.root, "find_and_replace", arguments).await.ok);
    assert!(project.all() == before, "something was changed");
}

#[tokio::test]
async fn wrong_arguments_are_told() {
    let project = Project::new(&[("a.txt", "a")]);
    let roots = Arc::new(Roots::new([project.root.clone()]).unwrap());
    for (name, arguments) in [
        ("append_to_file", "{"),
        ("append_to_file", r#"{"path":"a.txt"}"#),
        ("append_to_file", r#"{"path":"a.txt","content":1}"#),
        (
            "append_to_file",
            r#"{"path":"a.txt","content":"","mode":"w"}"#,
        ),
        ("find_and_replace", r#"{"path":"a.txt","find":"a"}"#),
        (
            "find_and_replace",
            r#"{"path":"a.txt","find":"a","replace":"b","all":"yes"}"#,
        ),
        (
            "write_file",
            r#"{"path":"b.txt","file":"a.txt","content":"x"}"#,
        ),
        (
            "append_to_file",
            r#"{"path":"b.txt","file":"a.txt","content":"x"}"#,
        ),
        (
            "find_and_replace",
            r#"{"path":"a.txt","find":"a","search":"b","replace":"b","all":true}"#,
        ),
        ("apply_patch", "{}"),
        ("apply_patch", "[]"),
        ("apply_patch", r#"{"input":7}"#),
    ] {
        let outcome = call_with(&AccessScope::new(roots.clone()), name, arguments).await;
        assert!(!outcome.ok, "{name} {arguments}");
    }
    assert_eq!(project.read("a.txt"), "a");
}

#[tokio::test]
async fn writers_at_the_same_time_lose_nothing() {
    let project = Project::new(&[("log", "")]);
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let root = project.root.clone();
            tokio::spawn(async move {
                let line = json!({"path": "log", "content": format!("{number}\n")});
                assert!(call(&root, "append_to_file", line).await.ok);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(project.read("log").lines().count(), 20);
}
