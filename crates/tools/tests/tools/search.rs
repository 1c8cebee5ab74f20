//! `search`: what it finds, what it leaves out, and that nothing makes it run for long or far.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logue_message::Arguments;
use logue_tools::{Roots, Search, SearchLimits, Tool as _, ToolInvocation, ToolResult};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tool(roots: &[&Path], limits: SearchLimits) -> Search {
    let roots = Roots::new(roots.iter().map(|root| (*root).to_owned())).unwrap();
    Search::new(Arc::new(roots)).with_limits(limits)
}

async fn search(roots: &[&Path], arguments: Value) -> ToolResult {
    limited(roots, arguments, SearchLimits::default()).await
}

async fn limited(roots: &[&Path], arguments: Value, limits: SearchLimits) -> ToolResult {
    let arguments = Arguments::from_text(arguments.to_string());
    tool(roots, limits)
        .call(ToolInvocation::new("c", &arguments))
        .await
}

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

#[tokio::test]
async fn lines_come_with_file_and_number_in_the_order_of_the_paths() {
    let folder = tree(&[
        ("b.txt", b"one hit\r\nno\nHIT\n"),
        ("a/z.rs", b"\t hit \xE9 end"),
        ("a.md", b"# hit\n"),
        (
            "c/d/e.txt",
            b"1\n2\n3 hit\n4\n5\n6\n7\n8\n9 hit\n10 hit\n11\n",
        ),
    ]);
    let root = folder.path();
    for (arguments, expected) in [
        (
            json!({"pattern": "hit"}),
            "a/z.rs:1: \t hit \u{FFFD} end\na.md:1: # hit\nb.txt:1: one hit\nc/d/e.txt:3: 3 hit\n\
             c/d/e.txt:9: 9 hit\nc/d/e.txt:10: 10 hit\n6 matches in 4 files\n",
        ),
        (
            json!({"pattern": "^hit$", "ignore_case": true}),
            "b.txt:3: HIT\n1 match in 1 file\n",
        ),
        (
            json!({"pattern": "hit", "glob": "*.rs"}),
            "a/z.rs:1: \t hit \u{FFFD} end\n1 match in 1 file\n",
        ),
        (
            json!({"pattern": "hit", "glob": "!*.txt"}),
            "a/z.rs:1: \t hit \u{FFFD} end\na.md:1: # hit\n2 matches in 2 files\n",
        ),
        (
            json!({"pattern": "hit", "glob": "c/**/*.txt", "context": 1}),
            "c/d/e.txt-2- 2\nc/d/e.txt:3: 3 hit\nc/d/e.txt-4- 4\n--\nc/d/e.txt-8- 8\n\
             c/d/e.txt:9: 9 hit\nc/d/e.txt:10: 10 hit\nc/d/e.txt-11- 11\n3 matches in 1 file\n",
        ),
        (
            json!({"pattern": "hit", "path": "b.txt"}),
            "b.txt:1: one hit\n1 match in 1 file\n",
        ),
        (
            json!({"pattern": "hit", "path": "c"}),
            "c/d/e.txt:3: 3 hit\nc/d/e.txt:9: 9 hit\nc/d/e.txt:10: 10 hit\n3 matches in 1 file\n",
        ),
        (
            json!({"pattern": "hit", "max_results": 2, "context": 2, "path": "c"}),
            "c/d/e.txt-1- 1\nc/d/e.txt-2- 2\nc/d/e.txt:3: 3 hit\nc/d/e.txt-4- 4\nc/d/e.txt-5- 5\n\
             --\nc/d/e.txt-7- 7\nc/d/e.txt-8- 8\nc/d/e.txt:9: 9 hit\nc/d/e.txt-10- 10 hit\n\
             c/d/e.txt-11- 11\n2 matches in 1 file\n[the search stopped after 2 matches; there may \
             be more. Give a narrower `path`, `glob` or `pattern`]\n",
        ),
        (json!({"pattern": "absent|gone"}), "no match in 4 files\n"),
    ] {
        let outcome = search(&[root], arguments.clone()).await;
        assert_eq!(outcome, ToolResult::success(expected), "{arguments}");
    }
}

#[tokio::test]
async fn what_a_project_ignores_is_left_out() {
    let hit: &[u8] = b"hit\n";
    let folder = tree(&[
        (".gitignore", b"target/\n*.log\n!keep.log\n/top.txt\n"),
        (".ignore", b"ignored.md\n"),
        ("sub/.gitignore", b"!b.log\nown.txt\n"),
        ("target/a.txt", hit),
        ("a.log", hit),
        ("keep.log", hit),
        ("top.txt", hit),
        ("ignored.md", hit),
        (".hidden/a.txt", hit),
        (".env", hit),
        ("sub/top.txt", hit),
        ("sub/b.log", hit),
        ("sub/own.txt", hit),
        ("sub/target/c.txt", hit),
        ("sub/deeper/own.txt", hit),
        ("yes.txt", hit),
    ]);
    let found = |text: String| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.split_once(":1: hit"));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    let all = search(&[folder.path()], json!({"pattern": "hit"})).await;
    assert_eq!(
        found(all.text),
        ["keep.log", "sub/b.log", "sub/top.txt", "yes.txt"]
    );
    // What is named is searched, and the rules above it count for what is in it.
    for (path, expected) in [
        ("sub", vec!["sub/b.log", "sub/top.txt"]),
        ("target", vec!["target/a.txt"]),
        (".hidden", vec![".hidden/a.txt"]),
        (".env", vec![".env"]),
    ] {
        let some = search(&[folder.path()], json!({"pattern": "hit", "path": path})).await;
        assert_eq!(found(some.text), expected, "{path}");
    }
}

#[tokio::test]
async fn links_pipes_binaries_and_large_files_are_not_read() {
    let outside = tree(&[("secret.txt", b"hit outside\n")]);
    let folder = tree(&[
        ("a.txt", b"hit\n"),
        ("binary", b"hit\0\n"),
        ("large.txt", &b"hit\n".repeat(100)),
    ]);
    let root = folder.path();
    symlink(outside.path(), root.join("folder")).unwrap();
    symlink(outside.path().join("secret.txt"), root.join("file.txt")).unwrap();
    symlink(root, root.join("loop")).unwrap();
    for name in ["pipe", ".gitignore"] {
        let made = std::process::Command::new("mkfifo")
            .arg(root.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    let limits = SearchLimits::default().with_file_bytes(100);
    let outcome = limited(&[root], json!({"pattern": "hit"}), limits.clone()).await;
    assert_eq!(
        outcome.text,
        "a.txt:1: hit\n1 match in 1 file\n[not searched: 1 binary file, 1 file larger than 100 \
         bytes, 3 links]\n"
    );
    for path in ["folder", "file.txt", "folder/secret.txt", "..", "/etc"] {
        let outcome = search(&[root], json!({"pattern": "hit", "path": path})).await;
        assert!(
            !outcome.ok && outcome.text.contains("outside"),
            "{outcome:?}"
        );
    }
    let outcome = search(&[root], json!({"pattern": "hit", "path": "pipe"})).await;
    assert!(!outcome.ok, "{outcome:?}");
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_leads_nowhere() {
    let outside = tree(&[("a/secret.txt", b"hit outside\n")]);
    let folder = tree(&[("x/a/inside.txt", b"hit inside\n")]);
    let root = folder.path().to_owned();
    let (inner, parked) = (root.join("x"), root.join("parked"));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = {
        let (stop, inner, parked) = (Arc::clone(&stop), inner.clone(), parked.clone());
        let outside = outside.path().to_owned();
        std::thread::spawn(move || {
            let mut swaps = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&inner, &parked).unwrap();
                symlink(&outside, &inner).unwrap();
                fs::remove_file(&inner).unwrap();
                fs::rename(&parked, &inner).unwrap();
                swaps += 1;
            }
            swaps
        })
    };
    let mut inside = 0;
    for _ in 0..400 {
        let outcome = search(&[&root], json!({"pattern": "hit"})).await;
        assert!(!outcome.text.contains("outside"), "{outcome:?}");
        inside += usize::from(outcome.text.contains("inside"));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 10 && inside > 0);
}

#[tokio::test]
async fn hostile_expressions_are_refused_or_quick() {
    let folder = tree(&[
        ("a.txt", format!("{}!\n", "a".repeat(30_000)).as_bytes()),
        ("b.txt", &b"ab ".repeat(300_000)),
    ]);
    let started = Instant::now();
    for pattern in [
        "(a+)+$",
        "(a|aa)*b$",
        "(.*)*x",
        "((a{0,30}){0,30})b",
        r"(\w+\s?)+$",
    ] {
        let outcome = search(&[folder.path()], json!({"pattern": pattern})).await;
        assert!(outcome.ok, "{outcome:?}");
    }
    for (pattern, said) in [
        ("((a{1,1000}){1,1000}){1,1000}", "too large"),
        (r"\p{L}{1000}{1000}", ""),
        ("(", "E-CALL-SCHEMA: pattern: regex parse error"),
        (r"(a)\1", "backreferences"),
        (&format!("{}{}", "(".repeat(200), ")".repeat(200)), "nest"),
        (
            &"(".repeat(4_000),
            "E-CALL-SCHEMA: pattern: error: unclosed group",
        ),
        (&"a".repeat(5_000), "at most 4096 bytes"),
    ] {
        let outcome = search(&[folder.path()], json!({"pattern": pattern})).await;
        assert!(
            !outcome.ok && outcome.text.contains(said),
            "{pattern}: {outcome:?}"
        );
    }
    let outcome = search(&[folder.path()], json!({"pattern": "a", "glob": "{a,b"})).await;
    assert!(
        outcome.text.starts_with("E-CALL-SCHEMA: glob: "),
        "{outcome:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn every_limit_is_told() {
    let folder = tree(&[
        (
            "a.txt",
            format!("{}hit{}\n", "ä".repeat(300), "ö".repeat(600)).as_bytes(),
        ),
        ("b.txt", &b"hit\n".repeat(50)),
        ("c.txt", format!("{} hit\n", "-".repeat(300)).as_bytes()),
    ]);
    let root = &[folder.path()];
    let base = SearchLimits::default();
    let stopped = "there may be more";
    let ask = |limits: SearchLimits| limited(root, json!({"pattern": "hit"}), limits);
    let lines = ask(base.clone().with_line_bytes(200));
    let lines = lines.await.text;
    assert!(
        lines.contains("[not searched: what follows 200 bytes in 2 lines]"),
        "{lines}"
    );
    let entries = ask(base.clone().with_entries(2));
    let entries = entries.await.text;
    assert!(
        entries.contains("stopped after 2 files and folders") && entries.contains(stopped),
        "{entries}"
    );
    let output = ask(base.clone().with_output_bytes(900));
    let output = output.await.text;
    assert!(output.contains("because the answer has 900 bytes") && output.len() < 1_300);
    let matches = ask(base.clone().with_matches(3));
    let matches = matches.await.text;
    assert!(matches.contains("stopped after 3 matches"), "{matches}");
    let time = ask(base.with_time(Duration::ZERO));
    let time = time.await.text;
    assert!(time.contains("stopped after 0 s") && time.contains("no match in 0 files"));
    // A long line is shown around its match, and no character is cut in two.
    let long = search(root, json!({"pattern": "hit", "path": "a.txt"}))
        .await
        .text;
    let line = long.lines().next().unwrap();
    assert!(
        line.starts_with("a.txt:1: […] ää") && line.ends_with("öö […]"),
        "{line}"
    );
    assert!(line.contains("äähitöö") && line.len() < 600 && !line.contains('\u{FFFD}'));
}

#[tokio::test]
async fn names_cannot_forge_results() {
    let folder = tree(&[("a\nb.txt:1: forged\u{1b}", b"hit\n")]);
    let outcome = search(&[folder.path()], json!({"pattern": "hit"})).await;
    assert_eq!(
        outcome.text,
        "a\\u{a}b.txt:1: forged\\u{1b}:1: hit\n1 match in 1 file\n"
    );
}

#[tokio::test]
async fn roots_within_each_other_are_searched_once() {
    let folder = tree(&[
        ("one/a.txt", b"hit\n"),
        ("one/in/b.txt", b"hit\n"),
        ("two/c.txt", b"hit\n"),
    ]);
    let root = folder.path();
    let (one, within, two) = (root.join("one"), root.join("one/in"), root.join("two"));
    let outcome = search(&[&one, &within, &two], json!({"pattern": "hit"})).await;
    let real = fs::canonicalize(&two).unwrap();
    assert_eq!(
        outcome.text,
        format!(
            "a.txt:1: hit\nin/b.txt:1: hit\n{}/c.txt:1: hit\n3 matches in 3 files\n",
            real.display()
        )
    );
}

#[test]
fn a_dropped_call_ends_its_thread() {
    let folder = tree(&[]);
    // Every `a` may begin a match, and no automaton has room for all that may have begun.
    let mut state = 1_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if state >> 63 == 0 { 'a' } else { 'b' }
    };
    let line: String = (0..10_000).map(|_| letter()).chain(['\n']).collect();
    for number in 0..40 {
        fs::write(
            folder.path().join(format!("{number}.txt")),
            line.repeat(100),
        )
        .unwrap();
    }
    let limits = SearchLimits::default().with_time(Duration::from_secs(600));
    let tool = tool(&[folder.path()], limits);
    let arguments = Arguments::from_text(json!({"pattern": "a[ab]{400}c"}).to_string());
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async {
        let call = tool.call(ToolInvocation::new("c", &arguments));
        tokio::time::timeout(Duration::from_millis(50), call).await
    });
    // The runtime waits for its threads.
    drop(runtime);
    let took = started.elapsed();
    assert!(
        ended.is_err(),
        "the search was over in {took:?}, so nothing was cancelled"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Against what anybody would write: all lines of all files, in order.
    #[test]
    fn it_finds_what_a_plain_loop_finds(
        files in prop::collection::btree_map("[ab]/[a-c]\\.(rs|md)", "[abx\n\r é]{0,40}", 0..8),
        pattern in "(a|b|x|\\.|\\^|\\$|\\[ab\\]\\+| |é){1,4}",
        ignore_case in any::<bool>(),
        only_rs in any::<bool>(),
        context in 0..3_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in &files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let regex = regex::RegexBuilder::new(&pattern).case_insensitive(ignore_case).build();
        let regex = regex.unwrap();
        let mut expected = Vec::new();
        for (name, content) in &files {
            if only_rs && Path::new(name).extension() != Some("rs".as_ref()) {
                continue;
            }
            let mut lines: Vec<&str> = content.split('\n').collect();
            if content.ends_with('\n') || content.is_empty() {
                lines.pop();
            }
            let lines: Vec<&str> =
                lines.iter().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
            let hits: Vec<usize> =
                (0..lines.len()).filter(|at| regex.is_match(lines[*at])).collect();
            for (at, line) in lines.iter().enumerate() {
                if hits.contains(&at) {
                    expected.push(format!("{name}:{}: {line}", at + 1));
                } else if hits.iter().any(|hit| hit.abs_diff(at) <= context) {
                    expected.push(format!("{name}-{}- {line}", at + 1));
                }
            }
        }
        let mut arguments = json!({
            "pattern": pattern, "ignore_case": ignore_case, "context": context,
        });
        if only_rs {
            arguments["glob"] = json!("*.rs");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(search(&[folder.path()], arguments));
        prop_assert!(outcome.ok, "{outcome:?}");
        let found: Vec<&str> = outcome.text.split('\n').filter(|line| {
            line.starts_with("a/") || line.starts_with("b/")
        }).collect();
        prop_assert_eq!(found, expected);
    }
}
