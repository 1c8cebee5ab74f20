//! The next command need not wait for the lease of a process that ended.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};
use crate::send::show;
use crate::transcript::{say, serve};
use crate::waiting::{wait_for_file, wait_until};

/// Half of a lease: a command that waited for its end takes longer.
const HALF_A_LEASE: Duration = Duration::from_secs(5);

/// A session whose turn runs a tool that does not end.
fn in_the_tool(folder: &Path, server: &ModelServer) -> Child {
    let child = logue(folder)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["send", "--agent", "p.md", "s", "ship it"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_file(&folder.join("runs"));
    child
}

fn next_after(end: Signal) {
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        ("deploy.sh", "echo ran >> runs\nsleep 60\n"),
    ]);
    let server = serve(vec![
        Answer::text("I try.").with_call("c1", "deploy", "{\"arguments\":[]}"),
        Answer::text("It was interrupted."),
        Answer::text("The second answer."),
    ]);
    let mut child = in_the_tool(folder.path(), &server);
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(id, end).unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    let sent = say(folder.path(), &server, &["send", "s", "and on"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    assert_eq!(sent.stdout, "The second answer.\n");
    let took = begun.elapsed();
    assert!(took < HALF_A_LEASE, "{end}: {took:?}");
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs, "ran\n");
}

#[test]
fn a_terminated_process_gives_its_session_back() {
    next_after(Signal::SIGTERM);
    next_after(Signal::SIGINT);
}

#[test]
fn a_killed_process_of_this_machine_is_not_waited_for() {
    next_after(Signal::SIGKILL);
}

#[test]
fn an_interrupted_sender_learns_that_its_message_stays() {
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        ("deploy.sh", "echo ran >> runs\nsleep 60\n"),
    ]);
    let server = serve(vec![
        Answer::text("I try.").with_call("c1", "deploy", "{\"arguments\":[]}"),
        Answer::text("It was interrupted."),
        Answer::text("The second answer."),
    ]);
    let first = in_the_tool(folder.path(), &server);
    let second = logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["send", "s", "and on"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let inbox = || show(folder.path(), "s")["inbox"].as_array().unwrap().len();
    wait_until(
        || "the message was not accepted".to_owned(),
        || inbox() == 2,
    );
    let next = "the next command on s, or `logue sessions recover s`";
    for (child, left) in [
        (second, "the message stays in the inbox and runs with"),
        (first, "the turn continues with"),
    ] {
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(id, Signal::SIGINT).unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.status, 130, "{}", ran.stderr);
        let line = format!("stopped: {left} {next}\n");
        assert!(ran.stderr.ends_with(&line), "{}", ran.stderr);
        assert!(!ran.stderr.contains("cancelled"), "{}", ran.stderr);
        assert_eq!(inbox(), 2);
    }
    let recovered = say(folder.path(), &server, &["sessions", "recover", "s"]);
    assert_eq!(recovered.status, 0, "{}", recovered.stderr);
    assert_eq!(inbox(), 0);
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert!(
        shown.stdout.contains("The second answer."),
        "{}",
        shown.stdout
    );
}

#[test]
fn a_stopped_turn_that_would_end_does_not_promise_to_continue() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let server = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let child = logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args([
            "send",
            "--on-crash",
            "stop",
            "--agent",
            "p.md",
            "s",
            "hello",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(
        || "the model was not asked".to_owned(),
        || !server.received().is_empty(),
    );
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(id, Signal::SIGINT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 130, "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("the turn continues with"),
        "{}",
        ran.stderr
    );
    let command = "`logue sessions recover s --on-crash continue`";
    assert!(ran.stderr.contains(command), "{}", ran.stderr);
}
