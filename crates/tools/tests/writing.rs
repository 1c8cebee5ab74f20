//! The writing tools: what they change, what they say, and what they leave alone.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_message::ToolCall;
use logue_tools::{Builtin, Outcome, Reach, Roots, Toolbox};
use serde_json::json;

async fn call_with(reach: &Reach, name: &str, arguments: &str) -> Outcome {
    let mut toolbox = Toolbox::new();
    for declared in ["append_to_file", "find_and_replace", "apply_patch"] {
        let tool = Builtin::declared(declared).unwrap().tool(reach);
        toolbox.add(tool).unwrap();
    }
    toolbox.call(&ToolCall::new("c", name, arguments)).await
}

async fn call(root: &Path, name: &str, arguments: serde_json::Value) -> Outcome {
    let roots = Arc::new(Roots::new([root.to_owned()]).unwrap());
    call_with(&Reach::new(roots), name, &arguments.to_string()).await
}

async fn patch(root: &Path, patch: &str) -> Outcome {
    call(root, "apply_patch", json!({ "input": patch })).await
}

/// A folder with a root `project` in it and a file beside the root.
struct Project {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self {
            _folder: folder,
            root,
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// Every file below and beside the root with its content.
    fn all(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        let mut folders = vec![self.root.parent().unwrap().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path.clone());
                }
                all.push((path.clone(), fs::read(&path).ok()));
            }
        }
        all.sort();
        all
    }
}

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
        Outcome::done("a.txt: 5 bytes appended, 8 in all")
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
        Outcome::done("a.txt: replaced once, line 2")
    );
    let twice = replace("one", "1", false).await;
    assert!(!twice.ok);
    assert!(twice.text.contains("2 times, lines 1, 3"), "{}", twice.text);
    assert_eq!(project.read("a.txt"), "one\n2\none\n");
    assert_eq!(
        replace("one", "$1", true).await,
        Outcome::done("a.txt: replaced 2 times, lines 1, 3")
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
async fn a_patch_adds_changes_moves_and_deletes() {
    let project = Project::new(&[
        ("src/a.rs", "one\ntwo\nthree\nfour\n"),
        ("old.txt", "x\n"),
        ("from.txt", "keep\nlose\n"),
    ]);
    fs::set_permissions(
        project.root.join("from.txt"),
        fs::Permissions::from_mode(0o751),
    )
    .unwrap();
    fs::set_permissions(
        project.root.join("src/a.rs"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    let outcome = patch(
        &project.root,
        "*** Begin Patch\n\
         *** Add File: new/b.txt\n+hello\n+\n+*** world\n\
         *** Update File: src/a.rs\n@@\n one\n-two\n+2\n three\n@@ three\n-four\n+4\n+5\n*** End of File\n\
         *** Delete File: old.txt\n\n\
         *** Update File: from.txt\n*** Move to: to/there.txt\n keep\n-lose\n\
         *** End Patch\n",
    )
    .await;
    assert_eq!(
        outcome,
        Outcome::done(
            "The patch is applied:\nA new/b.txt\nM src/a.rs\nD old.txt\nM from.txt -> to/there.txt"
        )
    );
    assert_eq!(project.read("new/b.txt"), "hello\n\n*** world\n");
    assert_eq!(project.read("src/a.rs"), "one\n2\nthree\n4\n5\n");
    assert_eq!(project.read("to/there.txt"), "keep\n");
    assert!(!project.root.join("old.txt").exists() && !project.root.join("from.txt").exists());
    let mode = |name: &str| {
        fs::metadata(project.root.join(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("to/there.txt") & 0o777, 0o751);
    assert_eq!(mode("src/a.rs") & 0o777, 0o640);
    assert_eq!(project.all().len(), 8, "nothing else is left behind");
}

#[tokio::test]
async fn a_patch_comes_as_json_or_as_it_is() {
    let text = "*** Begin Patch\n*** Add File: F\n+x\n*** End Patch";
    for arguments in [
        json!({ "input": text }).to_string(),
        json!({ "patch": text }).to_string(),
        json!(text).to_string(),
        text.to_owned(),
        format!("\n{}\n\n", text.replace('\n', "\r\n")),
    ] {
        let project = Project::new(&[]);
        let roots = Arc::new(Roots::new([project.root.clone()]).unwrap());
        let outcome = call_with(&Reach::new(roots), "apply_patch", &arguments).await;
        assert!(outcome.ok, "{arguments}: {}", outcome.text);
        assert_eq!(project.read("F"), "x\n");
    }
}

/// Each: the file, the body of its update, the file afterwards.
#[tokio::test]
async fn hunks_find_their_place() {
    let class = "class A:\n    def f():\n        pass\n\nclass B:\n    def f():\n        pass\n";
    for (name, before, hunks, after) in [
        ("no context goes to the end", "a\n", "+b\n", "a\nb\n"),
        (
            "no context goes behind its header",
            "a\nb\n",
            "@@ a\n+x\n",
            "a\nx\nb\n",
        ),
        ("an empty file", "", "+b\n", "b\n"),
        ("the first of equal places", "a\na\n", "-a\n+b\n", "b\na\n"),
        (
            "behind the hunk before",
            "a\na\n",
            "-a\n+b\n@@\n-a\n+c\n",
            "b\nc\n",
        ),
        (
            "the end of the file",
            "a\nb\na\n",
            "-a\n+c\n*** End of File\n",
            "a\nb\nc\n",
        ),
        (
            "trailing white space",
            "a  \nb\n",
            " a\n-b\n+c\n",
            "a  \nc\n",
        ),
        (
            "indentation",
            "\ta\n\tb\n",
            "     a\n-    b\n+\tc\n",
            "\ta\n\tc\n",
        ),
        (
            "empty lines without their space",
            "a\n\nb\n",
            " a\n\n-b\n+c\n",
            "a\n\nc\n",
        ),
        (
            "empty lines behind a hunk",
            "a\nb\n",
            "-a\n+c\n\n\n@@\n-b\n+d\n\n",
            "c\nd\n",
        ),
        (
            "a text without a last line break",
            "a\nb",
            " a\n-b\n+c\n",
            "a\nc\n",
        ),
        (
            "kept without a last line break",
            "a\nb",
            "-a\n+c\n b\n",
            "c\nb",
        ),
        ("added behind no line break", "a", " a\n+b\n", "a\nb\n"),
        ("CR LF stays", "a\r\nb\r\n", " a\n-b\n+c\n", "a\r\nc\r\n"),
        (
            "a byte order mark stays",
            "\u{FEFF}a\nb\n",
            "-a\n+c\n",
            "\u{FEFF}c\nb\n",
        ),
        (
            "the numbers of a unified diff",
            "a\nb\n",
            "@@ -1,2 +1,2 @@ fn x()\n a\n-b\n+c\n",
            "a\nc\n",
        ),
        (
            "a header that ends in @@",
            "f\na\ng\na\n",
            "@@ g @@\n-a\n+b\n",
            "f\na\ng\nb\n",
        ),
        (
            "a header that a line begins with",
            "fn f(x) {\na\n",
            "@@ fn f\n-a\n+b\n",
            "fn f(x) {\nb\n",
        ),
        (
            "a header again",
            "f\na\nb\n",
            "@@ f\n-a\n+1\n@@ f\n-b\n+2\n",
            "f\n1\n2\n",
        ),
        (
            "two headers",
            class,
            "@@ class B:\n@@     def f():\n-        pass\n+        return\n",
            &class.replacen(
                "class B:\n    def f():\n        pass",
                "class B:\n    def f():\n        return",
                1,
            ),
        ),
        (
            "no new line break",
            "a\n",
            "-a\n+b\n\\ No newline at end of file\n",
            "b\n",
        ),
        ("all lines go", "a\nb\n", "-a\n-b\n", ""),
        (
            "text in other letters",
            "ä\n\u{2028}\n",
            "-ä\n+ö\n",
            "ö\n\u{2028}\n",
        ),
    ] {
        let project = Project::new(&[("f", before)]);
        let text = format!("*** Begin Patch\n*** Update File: f\n{hunks}*** End Patch\n");
        let outcome = patch(&project.root, &text).await;
        assert!(outcome.ok, "{name}: {}", outcome.text);
        assert_eq!(project.read("f"), after, "{name}");
    }
}

#[tokio::test]
async fn a_hunk_without_a_place_says_what_is_there() {
    let file = "fn a() {\n    one();\n    two();\n}\nfn b() {\n}\n";
    for (hunks, said) in [
        (
            "@@\n fn a() {\n     one();\n-    three();\n",
            "f: hunk 1 (patch line 3): the file has no such lines. Nearest: 2 of its 3 old lines are at \
             line 1 of the file; then line 3 is `    two();`, where the hunk has `    three();`",
        ),
        (
            "-nothing\n     two();\n",
            "hunk 1 (patch line 3): the file has no line `nothing`. Nearest: the hunk's old line 2 is \
             line 3 of the file, behind `    one();`",
        ),
        (
            "-x\n-y\n",
            "the file has no line `x`, and none of those behind it",
        ),
        (
            "-fn b() {\n+fn c() {\n@@\n-fn a() {\n+fn d() {\n",
            "hunk 2 (patch line 5): its lines are at line 1 of the file, before those of the hunk before",
        ),
        (
            "-fn a() {\n*** End of File\n",
            "its lines are at line 1 of the file, but the file does not end behind them",
        ),
        (
            "@@ fn z() {\n+x\n",
            "the file has no line `fn z() {`, which its @@ names",
        ),
        (
            "*bold*\n",
            "patch line 3: a line of a hunk begins with a space",
        ),
        ("@@ fn a() {\n", "patch line 3: the hunk has no lines"),
        ("", "patch line 2: the update of `f` has no hunk"),
        (
            "*** End of File\n",
            "patch line 3: a hunk is expected before it",
        ),
        (
            "-fn b() {\n+x\n*** Add File: f\n+x\n",
            "f: is there already",
        ),
        (
            "-fn b() {\n+x\n*** Add File: g\nx\n",
            "each line of a new file begins with `+`; found `x`",
        ),
        (
            "-fn b() {\n+x\n*** Add File: g\n+a\n\n+b\n",
            "patch line 7: each line of a new file",
        ),
        (
            "-fn b() {\n+x\n*** Delete File: g\n",
            "g: there is no such file",
        ),
        (
            "-fn b() {\n+x\n*** Update File: g\n+x\n",
            "g: there is no such file; use `*** Add File:`",
        ),
        (
            "*** Move to: h\n",
            "h: is there already, so `f` does not move there",
        ),
        (
            "-fn b() {\n+x\n*** Rename File: g\n",
            "`*** End Patch` is expected; found `*** Rename File: g`",
        ),
        ("-fn b() {\n+x\n*** Add File:\n", "the path is missing"),
    ] {
        let project = Project::new(&[("f", file), ("h", "")]);
        let before = project.all();
        let text = format!("*** Begin Patch\n*** Update File: f\n{hunks}*** End Patch\n");
        let outcome = patch(&project.root, &text).await;
        assert!(!outcome.ok, "{hunks} was applied");
        assert!(outcome.text.contains(said), "{hunks}: {}", outcome.text);
        assert!(
            outcome.text.ends_with(". Nothing was changed"),
            "{}",
            outcome.text
        );
        assert_eq!(project.all(), before, "{hunks}");
    }
    let project = Project::new(&[]);
    for (text, said) in [
        ("", "the patch is empty"),
        ("diff --git a/f b/f\n", "patch line 1: a patch begins with"),
        ("*** Begin Patch\n*** End Patch\n", "names no file"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", "may be cut"),
        (
            "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nx",
            "patch line 5: nothing follows",
        ),
    ] {
        let outcome = patch(&project.root, text).await;
        assert!(
            !outcome.ok && outcome.text.contains(said),
            "{text}: {}",
            outcome.text
        );
    }
    assert!(!project.root.join("a").exists());
}

#[tokio::test]
async fn a_file_may_be_named_more_than_once() {
    let project = Project::new(&[("f", "a\n"), ("g", "old\n")]);
    let outcome = patch(
        &project.root,
        "*** Begin Patch\n*** Update File: f\n-a\n+b\n*** Update File: ./f\n-b\n+c\n\
         *** Delete File: g\n*** Add File: g\n+new\n*** Add File: h\n+x\n*** Delete File: h\n\
         *** End Patch",
    )
    .await;
    assert!(outcome.ok, "{}", outcome.text);
    assert_eq!(project.read("f"), "c\n");
    assert_eq!(project.read("g"), "new\n");
    assert!(!project.root.join("h").exists());
}

#[tokio::test]
async fn what_is_no_text_may_move_and_go() {
    let project = Project::new(&[]);
    fs::write(project.root.join("a.bin"), b"\xff\x00").unwrap();
    fs::write(project.root.join("b.bin"), b"\xfe").unwrap();
    let text = "*** Begin Patch\n*** Update File: a.bin\n*** Move to: c/d.bin\n*** Delete File: b.bin\n\
                *** End Patch";
    let outcome = patch(&project.root, text).await;
    assert!(outcome.ok, "{}", outcome.text);
    assert_eq!(fs::read(project.root.join("c/d.bin")).unwrap(), b"\xff\x00");
    assert!(!project.root.join("a.bin").exists() && !project.root.join("b.bin").exists());
    let text = "*** Begin Patch\n*** Update File: c/d.bin\n+x\n*** End Patch";
    assert!(
        patch(&project.root, text)
            .await
            .text
            .contains("not UTF-8 text (byte 0)")
    );
}

#[tokio::test]
async fn one_patch_writes_only_so_much() {
    let large = "a\n".repeat(8_000_000);
    let files: Vec<String> = (0..5).map(|number| format!("{number}.txt")).collect();
    let named: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), &*large)).collect();
    let project = Project::new(&named);
    let before = project.all();
    let body: String = files
        .iter()
        .map(|name| format!("*** Update File: {name}\n+b\n"))
        .collect();
    let outcome = patch(
        &project.root,
        &format!("*** Begin Patch\n{body}*** End Patch"),
    )
    .await;
    assert!(
        outcome.text.contains("writes more than 67108864 bytes"),
        "{}",
        outcome.text
    );
    assert!(project.all() == before, "something was changed");
}

/// What each tool does with a path.
fn writes(path: &str) -> [(&'static str, serde_json::Value); 6] {
    let patch = |body: String| json!({"input": format!("*** Begin Patch\n{body}*** End Patch")});
    [
        ("append_to_file", json!({"path": path, "content": "x"})),
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
    let reach = Reach::new(roots)
        .keeping(project.root.join("prompt.md"))
        .keeping(project.root.join("transcript.md"));
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
            let outcome = call_with(&reach, name, &arguments.to_string()).await;
            assert!(!outcome.ok, "{name} {arguments}: {}", outcome.text);
            assert_eq!(project.all(), before, "{name} {arguments}");
        }
    }
    let other = json!({"path": ".github/a.yml", "content": "x"}).to_string();
    assert!(call_with(&reach, "append_to_file", &other).await.ok);
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
        ("d", "no regular file"),
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
async fn a_patch_that_cannot_be_written_leaves_everything_as_it_was() {
    let project = Project::new(&[("a", "1\n"), ("z", "1\n")]);
    let before = project.all();
    // A file and a folder of the same name: known only when it is written.
    let outcome = patch(
        &project.root,
        "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Add File: new/n\n+x\n*** Add File: new/n/m\n+x\n\
         *** Update File: z\n-1\n+2\n*** End Patch",
    )
    .await;
    assert!(!outcome.ok, "{}", outcome.text);
    assert!(
        outcome.text.ends_with("Nothing was changed"),
        "{}",
        outcome.text
    );
    assert_eq!(project.all(), before);
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
        ("apply_patch", "{}"),
        ("apply_patch", "[]"),
        ("apply_patch", r#"{"input":7}"#),
    ] {
        let outcome = call_with(&Reach::new(roots.clone()), name, arguments).await;
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
