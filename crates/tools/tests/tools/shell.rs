//! Shell tools: an argument vector in, output and exit status out, nothing left running.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use logue_message::Arguments;
use logue_tools::{
    CommandError, Roots, ShellOptions, ShellTool, Tool as _, ToolInvocation, ToolResult,
};

fn options() -> ShellOptions {
    let path = std::env::var_os("PATH").unwrap();
    ShellOptions::default().with_environment(vec![("PATH".into(), path)])
}

async fn run(folder: &Path, command: &str, arguments: &str, options: ShellOptions) -> ToolResult {
    let roots = Roots::new([folder.to_owned()]).unwrap();
    let tool = ShellTool::new("t", command, None, &roots, options).unwrap();
    let arguments = Arguments::from_text(arguments);
    tool.call(ToolInvocation::new("c", &arguments)).await
}

/// A script, so that a test can say exactly what the command does.
fn script(folder: &Path, body: &str) -> String {
    let path = folder.join("script");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path.display().to_string()
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn gone(pid: &str) -> bool {
    for _ in 0..100 {
        if !is_alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn arguments_reach_the_command_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(
        folder.path(),
        "printf %%s|%20%%s|",
        r#"{"arguments":[]}"#,
        options(),
    )
    .await;
    assert_eq!(outcome, ToolResult::success("%s| %s|\n[exit status 0]"));
    let outcome = run(
        folder.path(),
        "printf [%s]",
        r#"{"arguments":["$(touch owned); `id`","a b *"]}"#,
        options(),
    )
    .await;
    assert_eq!(
        outcome,
        ToolResult::success("[$(touch owned); `id`][a b *]\n[exit status 0]")
    );
    assert!(!folder.path().join("owned").exists());
}

#[tokio::test]
async fn both_streams_and_the_exit_status_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "echo out; echo err >&2; exit 3");
    let outcome = run(folder.path(), &command, r#"{"arguments":[]}"#, options()).await;
    assert!(!outcome.ok);
    assert!(
        outcome.text.contains("out\n") && outcome.text.contains("err\n"),
        "{outcome:?}"
    );
    assert!(outcome.text.ends_with("[exit status 3]"), "{outcome:?}");
    let command = script(folder.path(), "kill -9 $$");
    let outcome = run(folder.path(), &command, r#"{"arguments":[]}"#, options()).await;
    assert_eq!(
        outcome,
        ToolResult::failure("[killed by signal 9, SIGKILL]")
    );
}

#[tokio::test]
async fn output_is_cut_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().with_output_bytes(100);
    let outcome = run(
        folder.path(),
        "head -c 5000000 /dev/zero",
        r#"{"arguments":[]}"#,
        options,
    )
    .await;
    assert!(outcome.text.len() < 500);
    assert!(
        outcome.text.contains("cut at 100 bytes; 4999900 more"),
        "{}",
        outcome.text
    );
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "trap '' TERM; sleep 300 & echo $!; wait");
    let options = options().with_timeout(Duration::from_millis(400));
    let outcome = run(folder.path(), &command, r#"{"arguments":[]}"#, options).await;
    assert!(outcome.text.contains("E-TOOL-TIMEOUT"), "{outcome:?}");
    let pid = outcome.text.lines().next().unwrap().to_owned();
    assert!(gone(&pid).await, "child {pid} was left running");
}

#[tokio::test]
async fn a_child_left_behind_neither_delays_nor_survives() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "sleep 300 & echo $!");
    let started = Instant::now();
    let outcome = run(folder.path(), &command, r#"{"arguments":[]}"#, options()).await;
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(outcome.text.ends_with("[exit status 0]"), "{outcome:?}");
    let pid = outcome.text.lines().next().unwrap().to_owned();
    assert!(gone(&pid).await, "child {pid} was left running");
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "sleep 300 & echo $! > pid; wait");
    let call = run(folder.path(), &command, r#"{"arguments":[]}"#, options());
    let file = folder.path().join("pid");
    tokio::select! {
        _ = call => panic!("the command ended by itself"),
        () = async {
            while !fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } => {}
    }
    let pid = fs::read_to_string(&file).unwrap();
    assert!(gone(&pid).await, "child {pid} was left running");
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options();
    options.environment.push(("GIVEN".into(), "yes".into()));
    let outcome = run(folder.path(), "env", r#"{"arguments":[]}"#, options).await;
    assert!(outcome.text.contains("GIVEN=yes\n"));
    assert!(
        !outcome.text.contains("CARGO_MANIFEST_DIR"),
        "{}",
        outcome.text
    );
}

#[tokio::test]
async fn an_approval_of_another_script_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("deploy.sh");
    let arguments = Arguments::from_text(r#"{"arguments":[]}"#);
    for (text, runs) in [("echo ran >> runs\n", true), ("echo evil >> runs\n", false)] {
        drop(fs::remove_file(folder.path().join("runs")));
        fs::write(&script, "echo ran >> runs\n").unwrap();
        let roots = Roots::new([folder.path().to_owned()]).unwrap();
        let tool = ShellTool::new("t", "sh deploy.sh", None, &roots, options()).unwrap();
        let call = ToolInvocation::new("c", &arguments);
        let shown = tool.preview(call).await.unwrap();
        // Nobody compares the approval between this change and the effect but the tool itself.
        fs::write(&script, text).unwrap();
        let approved = call.with_approval(shown.fingerprint.as_deref());
        let outcome = tool.call(approved).await;
        assert_eq!(outcome.ok, runs, "{outcome:?}");
        assert_eq!(folder.path().join("runs").exists(), runs, "{outcome:?}");
    }
}

#[tokio::test]
async fn wrong_arguments_start_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        "{",
        r#"{"arguments":"x"}"#,
        r#"{"arguments":[1]}"#,
        r#"{"arguments":["\u0000"]}"#,
        r#"{"arguments":[],"cwd":"/"}"#,
    ] {
        let outcome = run(folder.path(), "touch started", arguments, options()).await;
        assert!(
            outcome.text.starts_with("E-CALL-SCHEMA"),
            "{arguments}: {outcome:?}"
        );
    }
    assert!(!folder.path().join("started").exists());
    let outcome = run(
        folder.path(),
        "no-such-program",
        r#"{"arguments":[]}"#,
        options(),
    )
    .await;
    assert!(outcome.text.contains("could not be started"), "{outcome:?}");
}

#[tokio::test]
async fn a_declared_command_is_taken_apart_without_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    for (command, words) in [
        ("a  b\tc", vec!["a", "b", "c"]),
        (r"'a b' c", vec!["a b", "c"]),
        (r#""a b" c"#, vec!["a b", "c"]),
        (r#"a' 'b" "c"#, vec!["a b c"]),
        (r#"'' """#, vec!["", ""]),
        (r"a%20b '%20' %2", vec!["a b", "%20", "%2"]),
        (r"a\ b \' \\ \%20", vec!["a b", "'", r"\", "%20"]),
        (r#""\" \\ \n" '\'"#, vec![r#"" \ \n"#, r"\"]),
        (
            r"$HOME * ; | > x `id` ~ #c",
            vec!["$HOME", "*", ";", "|", ">", "x", "`id`", "~", "#c"],
        ),
        ("ä\u{a0}ö", vec!["ä", "ö"]),
    ] {
        let command = format!("printf [%s] {command}");
        let outcome = run(
            folder.path(),
            &command,
            r#"{"arguments":["\"last one\""]}"#,
            options(),
        )
        .await;
        let words = words.join("][");
        assert_eq!(
            outcome.text,
            format!("[{words}][\"last one\"]\n[exit status 0]"),
            "{command}"
        );
    }
    let roots = Roots::new([folder.path().to_owned()]).unwrap();
    for (command, error) in [
        ("", CommandError::Empty),
        (" \t", CommandError::Empty),
        ("a 'b", CommandError::UnclosedQuote('\'')),
        ("a \"b\\\"", CommandError::UnclosedQuote('"')),
        ("a\\", CommandError::LoneBackslash),
        ("a\0", CommandError::Nul),
    ] {
        let tool = ShellTool::new("t", command, None, &roots, options());
        assert_eq!(tool.unwrap_err(), error, "{command:?}");
    }
}
