//! Properties of patches: what a difference of two texts says turns one into the other, and a patch
//! that fails changes nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use logue_message::ToolCall;
use logue_tools::{AccessScope, Builtin, Roots, ToolResult, Toolbox};
use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

fn apply(root: &Path, patch: &str) -> ToolResult {
    let roots = Arc::new(Roots::new([root.to_owned()]).unwrap());
    let mut toolbox = Toolbox::new();
    toolbox
        .add(Builtin::ApplyPatch.tool(&AccessScope::new(roots)))
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(toolbox.call(&ToolCall::new("c", "apply_patch", patch)))
}

/// The update of a file from one text to another, with so many lines around each change.
fn update(name: &str, from: &str, to: &str, context: usize, ends: bool) -> String {
    let mut patch = format!("*** Update File: {name}\n");
    let diff = TextDiff::from_lines(from, to);
    let mut groups = diff.grouped_ops(context);
    if groups.is_empty() {
        // Nothing changes; a hunk of one line says so.
        return from
            .lines()
            .next()
            .map_or(String::new(), |line| format!("{patch}@@\n {line}\n"));
    }
    let lines = from.lines().count();
    for group in &mut groups {
        patch.push_str("@@\n");
        for change in group
            .iter()
            .flat_map(|operation| diff.iter_changes(operation))
        {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            patch.push(sign);
            patch.push_str(change.value());
        }
        if ends
            && group
                .last()
                .is_some_and(|last| last.old_range().end == lines)
        {
            patch.push_str("*** End of File\n");
        }
    }
    patch
}

fn text(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Lines that are like one another, and like the marks of a patch.
fn alike() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        " ",
        "a",
        "a ",
        " a",
        "b",
        "+a",
        "-a",
        "@@ a",
        "*** End Patch",
        "*** Update File: x",
        "\t",
        "ä",
    ]);
    prop::collection::vec(line.prop_map(str::to_owned), 0..30).prop_map(|lines| text(&lines))
}

/// Lines of which no two are alike, in two orders.
fn distinct() -> impl Strategy<Value = (String, String)> {
    let numbers: Vec<u32> = (0..40).collect();
    let some = prop::sample::subsequence(numbers, 0..40);
    let lines = |numbers: Vec<u32>| {
        let line = |number: u32| format!("{}line {number}", " ".repeat((number % 3) as usize));
        text(&numbers.into_iter().map(line).collect::<Vec<_>>())
    };
    let kept = (some.clone(), some.clone()).prop_map(move |(a, b)| (lines(a), lines(b)));
    let moved = (some.clone(), some.prop_shuffle()).prop_map(move |(a, b)| (lines(a), lines(b)));
    prop_oneof![kept, moved]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_whole_difference_gives_the_second_text(from in alike(), to in alike(), ends: bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, &from).unwrap();
        let body = update("f", &from, &to, usize::MAX / 4, ends);
        prop_assume!(!body.is_empty());
        let outcome = apply(folder.path(), &format!("*** Begin Patch\n{body}*** End Patch\n"));
        prop_assert!(outcome.ok, "{}\n{body}", outcome.text);
        prop_assert_eq!(fs::read_to_string(&file).unwrap(), to);
    }

    #[test]
    fn hunks_with_context_give_the_second_text(
        (from, to) in distinct(),
        context in 1_usize..4,
        ends: bool,
        crlf: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let stored = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        fs::write(&file, stored(&from)).unwrap();
        let body = update("f", &from, &to, context, ends);
        prop_assume!(!body.is_empty());
        let outcome = apply(folder.path(), &format!("*** Begin Patch\n{body}*** End Patch\n"));
        prop_assert!(outcome.ok, "{}\n{body}", outcome.text);
        // What an empty text ended its lines with is not known.
        let expected = if from.is_empty() { to } else { stored(&to) };
        prop_assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    }

    #[test]
    fn a_patch_that_fails_changes_nothing(
        (from, to) in distinct(),
        other in alike(),
        lost in any::<prop::sample::Index>(),
        instead in "(\\*\\*\\* |@@|[+ -])?[a-z:* ]{0,12}",
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("f"), &from).unwrap();
        fs::write(path("g"), &other).unwrap();
        let body = format!(
            "*** Begin Patch\n*** Add File: n/n\n+x\n{}*** Update File: g\n*** Move to: h\n{}*** End Patch\n",
            update("f", &from, &to, 1, false),
            update("g", &other, &to, 3, true).split_once('\n').map_or("", |(_, hunks)| hunks),
        );
        let mut lines: Vec<&str> = body.lines().collect();
        let lost = lost.index(lines.len());
        lines[lost] = &instead;
        let outcome = apply(folder.path(), &lines.join("\n"));
        if !outcome.ok {
            prop_assert!(outcome.text.ends_with("Nothing was changed"), "{}", outcome.text);
            prop_assert_eq!(fs::read_to_string(path("f")).unwrap(), from);
            prop_assert_eq!(fs::read_to_string(path("g")).unwrap(), other);
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn anything_is_answered(lines in prop::collection::vec(prop::sample::select(vec![
        "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: f", "*** Delete File: f",
        "*** Move to: b", "*** End of File", "@@", "@@ x", "@@ -1 +1 @@", "+", "-", " ", "", "-x", " x", "+y", "\\",
    ]), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), "x\n\nx\n").unwrap();
        let outcome = apply(folder.path(), &format!("*** Begin Patch\n{}\n*** End Patch", lines.join("\n")));
        if !outcome.ok {
            prop_assert!(outcome.text.ends_with("Nothing was changed"), "{}", outcome.text);
            prop_assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "x\n\nx\n");
        }
    }
}

#[test]
fn a_patch_of_like_lines_is_not_compared_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "a\n".repeat(2_000_000)).unwrap();
    // Each hunk is sought in vain through the whole file, by every way of comparing.
    let hunk = format!("@@\n{} b\n-c\n", " a\n".repeat(20));
    let body = format!("@@\n{}", " a\n-a\n".repeat(1_000)) + &hunk.repeat(10_000);
    let outcome = apply(
        folder.path(),
        &format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n"),
    );
    assert!(outcome.text.contains("hunk 2"), "{}", outcome.text);
    // Headers that are found at the end only send each hunk there and back.
    fs::write(folder.path().join("f"), "a\n".repeat(2_000_000) + "b\n").unwrap();
    let body = "@@ b\n@@ a\n a\n".repeat(10_000);
    let outcome = apply(
        folder.path(),
        &format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n"),
    );
    assert!(
        outcome.text.contains("too many lines to compare"),
        "{}",
        outcome.text
    );
    // A file that is named again and again is read as often.
    let body = "*** Update File: f\n-a\n+a\n".repeat(10_000);
    let outcome = apply(
        folder.path(),
        &format!("*** Begin Patch\n{body}*** End Patch\n"),
    );
    assert!(!outcome.ok, "{}", outcome.text);
}
