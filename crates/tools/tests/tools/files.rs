//! The reading tools: what they show, and what they refuse.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use logue_message::ToolCall;
use logue_tools::{AccessScope, Builtin, Roots, ToolResult, Toolbox};

async fn call(root: &Path, name: &str, arguments: &str) -> ToolResult {
    let roots = Arc::new(Roots::new([root.to_owned()]).unwrap());
    let mut toolbox = Toolbox::new();
    for declared in ["read_file", "read_dir"] {
        toolbox
            .add(
                Builtin::declared(declared)
                    .unwrap()
                    .tool(&AccessScope::new(roots.clone())),
            )
            .unwrap();
    }
    toolbox.call(&ToolCall::new("c", name, arguments)).await
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(root.join("src/lib.rs"), "").unwrap();
    fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    folder
}

#[tokio::test]
async fn a_file_is_shown_with_its_lines() {
    let folder = project();
    let root = folder.path().join("project");
    let shown = call(&root, "read_file", r#"{"file":"a.txt"}"#).await;
    assert_eq!(
        shown,
        ToolResult::success("a.txt:1-3\ntotal lines: 3\none\ntwo\nthree\n")
    );
    let shown = call(
        &root,
        "read_file",
        r#"{"path":"a.txt","offset":1,"line_count":1}"#,
    )
    .await;
    assert_eq!(
        shown,
        ToolResult::success("a.txt:2-2\ntotal lines: 3\ntwo\n")
    );
    let shown = call(&root, "read_file", r#"{"file":"a.txt","offset":9}"#).await;
    assert_eq!(shown, ToolResult::success("a.txt:9-9\ntotal lines: 3\n"));
}

#[tokio::test]
async fn a_folder_is_listed_in_order() {
    let folder = project();
    let root = folder.path().join("project");
    let listed = call(&root, "read_directory", r#"{"path":"."}"#).await;
    assert_eq!(listed, ToolResult::success("a.txt\nsrc/"));
}

#[tokio::test]
async fn nothing_outside_the_roots_is_read() {
    let folder = project();
    let root = folder.path().join("project");
    symlink("../secret.txt", root.join("link.txt")).unwrap();
    symlink("..", root.join("up")).unwrap();
    let absolute = folder.path().join("secret.txt").display().to_string();
    for path in [
        "../secret.txt",
        "link.txt",
        "up/secret.txt",
        "src/../../secret.txt",
        &absolute,
    ] {
        let arguments = format!("{{\"file\":{path:?}}}");
        let outcome = call(&root, "read_file", &arguments).await;
        assert!(!outcome.ok, "{path} was read");
        assert!(outcome.text.contains("outside"), "{path}: {}", outcome.text);
    }
    for path in ["..", "up", "/"] {
        let arguments = format!("{{\"path\":{path:?}}}");
        assert!(
            !call(&root, "read_directory", &arguments).await.ok,
            "{path} was listed"
        );
    }
}

#[tokio::test]
async fn whether_something_outside_exists_is_not_told() {
    let folder = project();
    let root = folder.path().join("project");
    let there = call(&root, "read_file", r#"{"file":"../secret.txt"}"#).await;
    let absent = call(&root, "read_file", r#"{"file":"../nothing.txt"}"#).await;
    assert_eq!(
        there.text.replace("secret", "X"),
        absent.text.replace("nothing", "X")
    );
}

#[tokio::test]
async fn what_is_no_text_file_is_refused() {
    let folder = project();
    let root = folder.path().join("project");
    fs::write(root.join("binary"), b"\x00\x01").unwrap();
    fs::write(root.join("latin"), b"caf\xe9").unwrap();
    let status = std::process::Command::new("mkfifo")
        .arg(root.join("pipe"))
        .status()
        .unwrap();
    assert!(status.success());
    for file in ["binary", "src", "pipe", "absent", "a\u{0}b"] {
        let arguments = serde_json::json!({ "file": file }).to_string();
        assert!(
            !call(&root, "read_file", &arguments).await.ok,
            "{file} was read"
        );
    }
    let latin = call(&root, "read_file", r#"{"file":"latin"}"#).await;
    assert!(latin.ok && latin.text.ends_with("caf\u{FFFD}"), "{latin:?}");
}

#[tokio::test]
async fn a_large_file_is_cut_and_says_how_to_go_on() {
    let folder = project();
    let root = folder.path().join("project");
    fs::write(root.join("large"), "0123456789abcde\n".repeat(40_000)).unwrap();
    let shown = call(&root, "read_file", r#"{"file":"large"}"#).await;
    assert!(shown.text.len() < 400_000);
    assert!(
        shown.text.ends_with("read on with offset 23808]"),
        "{}",
        &shown.text[380_000..]
    );
}

#[tokio::test]
async fn wrong_arguments_and_undeclared_tools_are_told() {
    let folder = project();
    let root = folder.path().join("project");
    for (name, arguments) in [
        ("read_file", "{"),
        ("read_file", "[]"),
        ("read_file", "{}"),
        ("read_file", r#"{"file":"a.txt","mode":"w"}"#),
        ("read_file", r#"{"file":"a.txt","offset":-1}"#),
        ("read_directory", r#"{"path":1}"#),
        ("rm", r#"{"path":"."}"#),
        ("get_contents", r#"{"file":"a.txt"}"#),
    ] {
        assert!(!call(&root, name, arguments).await.ok, "{name} {arguments}");
    }
    assert!(
        call(&root, "rm", "{}")
            .await
            .text
            .contains("read_file, read_directory")
    );
}
