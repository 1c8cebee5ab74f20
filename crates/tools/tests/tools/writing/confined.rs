//! Where the tools write, and where nothing makes them write.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use logue_tools::{AccessScope, Roots};
use serde_json::json;

use super::project::{Project, call, call_with, patch};

/// What each tool does with a path.
fn writes(path: &str) -> [(&'static str, serde_json::Value); 7] {
    let patch = |body: String| json!({"input": format!("*** Begin Patch\n{body}*** End Patch")});
    [
        ("append_to_file", json!({"path": path, "content": "x"})),
        ("write_file", json!({"path": path, "content": "x"})),
        (
            "find_and_replace",
            json!({"path": path, "find": "secret", "replace": "x", "all": true}),
        ),
        ("apply_patch", patch(format!("*** Add File: {path}\n+x\n"))),
        (
            "apply_patch",
            patch(format!("*** Update File: {path}\n-secret\n+x\n")),
        ),
        ("apply_patch", patch(format!("*** Delete File: {path}\n"))),
        (
            "apply_patch",
            patch(format!("*** Update File: mine.txt\n*** Move to: {path}\n")),
        ),
    ]
}

#[tokio::test]
async fn nothing_outside_the_roots_is_written() {
    let project = Project::new(&[("mine.txt", "mine\n"), ("src/lib.rs", "")]);
    symlink("../secret.txt", project.root.join("link.txt")).unwrap();
    symlink("../nothing.txt", project.root.join("dangling.txt")).unwrap();
    symlink("..", project.root.join("up")).unwrap();
    let absolute = project
        .root
        .parent()
        .unwrap()
        .join("secret.txt")
        .display()
        .to_string();
    let before = project.all();
    for path in [
        "../secret.txt",
        "../new.txt",
        "link.txt",
        "dangling.txt",
        "up/secret.txt",
        "up/new.txt",
        "up/new/er.txt",
        "src/../../secret.txt",
        "nothing/../../secret.txt",
        "/secret-of-nobody.txt",
        &absolute,
    ] {
        for (name, arguments) in writes(path) {
            let outcome = call(&project.root, name, arguments.clone()).await;
            assert!(!outcome.ok, "{name} {arguments}: {}", outcome.text);
            assert_eq!(project.all(), before, "{name} {arguments}");
        }
    }
    // What is outside is answered the same, there or not.
    let append = |path: &str| {
        call(
            &project.root,
            "append_to_file",
            json!({"path": path, "content": ""}),
        )
    };
    let (there, absent) = (
        append("up/secret.txt").await,
        append("up/nothing.txt").await,
    );
    assert_eq!(
        there.text.replace("secret", "X"),
        absent.text.replace("nothing", "X")
    );
}

#[tokio::test]
async fn links_inside_are_followed_and_stay() {
    let project = Project::new(&[("real/a.txt", "secret\n")]);
    symlink("real/a.txt", project.root.join("link.txt")).unwrap();
    symlink("real", project.root.join("folder")).unwrap();
    let appended = json!({"path": "link.txt", "content": "more\n"});
    assert!(call(&project.root, "append_to_file", appended).await.ok);
    let outcome = patch(
        &project.root,
        "*** Begin Patch\n*** Update File: folder/a.txt\n-secret\n+open\n*** Update File: real/a.txt\n-more\n+most\n*** End Patch",
    )
    .await;
    assert!(outcome.ok, "{}", outcome.text);
    assert_eq!(project.read("real/a.txt"), "open\nmost\n");
    assert!(project.root.join("link.txt").is_symlink());
    let removed = patch(
        &project.root,
        "*** Begin Patch\n*** Delete File: link.txt\n*** End Patch",
    )
    .await;
    assert!(
        !removed.ok && removed.text.contains("is a link"),
        "{}",
        removed.text
    );
}

#[tokio::test]
async fn what_says_what_is_allowed_is_left_alone() {
    let project = Project::new(&[
        ("prompt.md", "secret"),
        ("mine.txt", "mine\n"),
        ("logue.toml", "secret"),
        (".git/config", "secret"),
        (".chatmd/1.json", "secret"),
    ]);
    symlink("prompt.md", project.root.join("alias.md")).unwrap();
    let roots = Arc::new(Roots::new([project.root.clone()]).unwrap());
    let scope = AccessScope::new(roots)
        .with_protected_file(project.root.join("prompt.md"))
        .with_protected_file(project.root.join("transcript.md"));
    let before = project.all();
    for path in [
        "prompt.md",
        "alias.md",
        "./PROMPT.md",
        "transcript.md",
        "logue.toml",
        "sub/Logue.toml",
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".chatmd/1.json",
        ".chatmd/new.json",
    ] {
        for (name, arguments) in writes(path) {
            let outcome = call_with(&scope, name, &arguments.to_string()).await;
            assert!(!outcome.ok, "{name} {arguments}: {}", outcome.text);
            assert_eq!(project.all(), before, "{name} {arguments}");
        }
    }
    let other = json!({"path": ".github/a.yml", "content": "x"}).to_string();
    assert!(call_with(&scope, "append_to_file", &other).await.ok);
}
