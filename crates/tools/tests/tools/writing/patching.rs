//! Patches: what they do, where hunks go, and what is said of those that go nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use logue_tools::{AccessScope, Roots, ToolResult};
use serde_json::json;

use super::project::{Project, call_with, patch};

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
        ToolResult::success(
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
        let outcome = call_with(&AccessScope::new(roots), "apply_patch", &arguments).await;
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
             line 3 of the file, after `    one();`",
        ),
        (
            "-x\n-y\n",
            "the file has no line `x`, and none of the following ones",
        ),
        (
            "-fn b() {\n+fn c() {\n@@\n-fn a() {\n+fn d() {\n",
            "hunk 2 (patch line 5): its lines are at line 1 of the file, before those of the hunk before",
        ),
        (
            "-fn a() {\n*** End of File\n",
            "its lines are at line 1 of the file, but the file does not end after them",
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
    let names = files.iter();
    let body: String = names
        .flat_map(|name| ["*** Update File: ", name, "\n+b\n"])
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
async fn a_patch_of_too_many_files_is_refused_before_anything_is_written() {
    let project = Project::new(&[]);
    let of = |files: usize| {
        let sections = (0..files).map(|n| format!("*** Add File: d/{n}\n+x\n"));
        let sections: String = sections.collect();
        format!("*** Begin Patch\n{sections}*** End Patch\n")
    };
    let refused = patch(&project.root, &of(20_000)).await;
    assert!(!refused.ok, "{refused:?}");
    assert!(
        refused
            .text
            .contains("names 20000 files, and 1000 are the most"),
        "{}",
        refused.text
    );
    assert!(!project.root.join("d").exists());
    let applied = patch(&project.root, &of(1_000)).await;
    assert!(applied.ok, "{}", applied.text);
    assert_eq!(fs::read_dir(project.root.join("d")).unwrap().count(), 1_000);
}
