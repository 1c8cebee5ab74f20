//! Failed turns of sessions: what is shown of them, and what a later turn may repeat.

use serde_json::json;
use testkit::{Answer, Reply};

use crate::program::run;
use crate::resumed::{
    DEPLOY, KEYED, ask, call, kill_in_the_tool, prepared, runs, server, status, suspended, text,
};
use crate::send::show;

#[test]
fn a_failed_turn_is_shown_with_its_reason_and_remedy() {
    let server = server(vec![status(503), call(), status(503), text("fine")]);
    let folder = prepared(DEPLOY);
    for (attempt, turn) in [(1, "turn 1"), (2, "turn 2")] {
        let failed = ask(folder.path(), &server, &KEYED);
        assert_eq!(failed.status, 4, "{}", failed.stderr);
        let shown = run(folder.path(), ["sessions", "show", "s"]);
        let expected = format!("── {turn} failed: provider_unavailable\n");
        assert!(shown.stdout.contains(&expected), "{}", shown.stdout);
        assert!(shown.stdout.contains("away"), "{}", shown.stdout);
        assert!(
            shown.stdout.contains("\nhelp: logue sessions retry s\n"),
            "{}",
            shown.stdout
        );
        // The second attempt replaces the first one.
        assert_eq!(shown.stdout.matches(" failed: ").count(), 1, "{attempt}");
        let shown = show(folder.path(), "s");
        let last = shown["failed"].as_array().unwrap().last().unwrap();
        assert_eq!(last["code"], "provider_unavailable", "{last}");
        assert!(last["message"].as_str().unwrap().contains("away"), "{last}");
        assert_eq!(last["help"], "logue sessions retry s", "{last}");
        assert_eq!(last["continued"], json!(false), "{last}");
    }
    let store = format!("sqlite:{}", folder.path().join("none.db").display());
    let other = [&KEYED[..], &["--store", &store]].concat();
    let done = ask(folder.path(), &server, &["sessions", "retry", "s"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert!(!shown.stdout.contains("failed"), "{}", shown.stdout);
    let shown = show(folder.path(), "s");
    for failed in shown["failed"].as_array().unwrap() {
        assert_eq!(failed["continued"], json!(true), "{failed}");
        assert!(failed.get("help").is_none(), "{failed}");
    }
    // The hint names a store that is not the usual one.
    let away = crate::resumed::server(vec![status(503)]);
    assert_eq!(ask(folder.path(), &away, &other).status, 4);
    let shown = run(folder.path(), ["sessions", "show", "--store", &store, "s"]);
    let hint = format!("help: logue sessions retry s --store {store}\n");
    assert!(shown.stdout.contains(&hint), "{}", shown.stdout);
}

type Command<'a> = &'a [&'a str];

const SHIP: [&str; 5] = ["send", "--agent", "p.md", "s", "ship it"];

/// Whatever its key is, and whatever came in between, a message does not repeat a call by itself.
#[test]
fn a_call_of_a_failed_turn_is_not_repeated_without_a_person() {
    let other_key = ["send", "--idempotency-key", "other", "s", "ship it"];
    let hello = ["send", "s", "hello"];
    let ways: [(&str, Command<'_>, Vec<Command<'_>>); 4] = [
        ("another key", &KEYED, vec![&other_key]),
        ("a key after none", &SHIP, vec![&other_key]),
        ("after an answer", &SHIP, vec![&hello, &SHIP]),
        (
            "another message",
            &SHIP,
            vec![&["send", "s", "is it done?"]],
        ),
    ];
    for (way, first, later) in ways {
        let mut replies = vec![call(), status(503)];
        replies.extend((1..later.len()).map(|_| text("hi")));
        replies.extend([call(), text("fine")]);
        let server = server(replies);
        let folder = prepared(DEPLOY);
        let failed = ask(folder.path(), &server, first);
        assert_eq!(failed.status, 4, "{way}: {}", failed.stderr);
        let mut signal = None;
        for (at, command) in later.iter().enumerate() {
            let ran = ask(folder.path(), &server, command);
            let is_last = at + 1 == later.len();
            let expected = if is_last { 6 } else { 0 };
            assert_eq!(ran.status, expected, "{way}: {}", ran.stderr);
            let mut lines = ran.stderr.lines();
            let line = lines.find(|line| line.contains("logue signal"));
            signal = line.and_then(|line| line.split_whitespace().nth(2).map(str::to_owned));
        }
        assert_eq!(runs(folder.path()), "ran\n", "{way}");
        let signal = signal.unwrap();
        let approved = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
        assert_eq!(approved.status, 0, "{way}: {}", approved.stderr);
        assert_eq!(runs(folder.path()), "ran\nran\n", "{way}");
    }
}

/// A message that is said again after others reaches the model, however often that fails.
#[test]
fn a_message_that_is_said_again_is_in_each_request_until_its_answer() {
    let server = server(vec![
        call(),
        status(503),
        text("hi"),
        status(503),
        status(503),
        text("shipped"),
    ]);
    let folder = prepared(DEPLOY);
    assert_eq!(ask(folder.path(), &server, &KEYED).status, 4);
    let hello = ask(folder.path(), &server, &["send", "s", "hello"]);
    assert_eq!(hello.status, 0, "{}", hello.stderr);
    for status in [4, 4, 0] {
        let again = ask(folder.path(), &server, &KEYED);
        assert_eq!(again.status, status, "{}", again.stderr);
        let request = server.received().pop().unwrap().body;
        let last = request["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["content"], "ship it", "{request}");
    }
    assert_eq!(runs(folder.path()), "ran\n");
}

/// Once a turn has answered, another message may have the same call, and so may one with other arguments.
#[test]
fn other_calls_and_later_messages_run_as_before() {
    let other = Answer::text("I try.").with_call("c2", "deploy", r#"{"arguments":["-v"]}"#);
    let server = server(vec![
        call(),
        status(503),
        Reply::Answer(other),
        text("fine"),
        call(),
        text("again"),
    ]);
    let folder = prepared(DEPLOY);
    assert_eq!(ask(folder.path(), &server, &SHIP).status, 4);
    for (message, answer) in [
        ("ship it, verbosely", "I try.\n\nfine\n"),
        ("once more", "I try.\n\nagain\n"),
    ] {
        let ran = ask(folder.path(), &server, &["send", "s", message]);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, answer),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(runs(folder.path()), "ran\nran\nran\n");
}

/// Names what runs.
const NAMED: &str = "echo $1 >> runs\n";

fn call_of(word: &str) -> Reply {
    let arguments = json!({ "arguments": [word] }).to_string();
    Reply::Answer(Answer::text("").with_call("c1", "deploy", arguments))
}

/// A signal that was given decides nothing that its turn asks later.
#[test]
fn each_question_of_a_turn_has_its_own_signal() {
    let hello = ["send", "s", "hello"];
    for between in [true, false] {
        let mut replies = vec![call_of("asked"), status(503)];
        replies.extend(between.then(|| text("hi")));
        replies.extend([call_of("later"), text("fine")]);
        let server = server(replies);
        let folder = prepared(NAMED);
        let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
        let first = suspended(folder.path(), &server, &asking);
        let approve = ["signal", &first, "--approve"];
        let failed = ask(folder.path(), &server, &approve);
        assert_eq!(failed.status, 4, "{}", failed.stderr);
        let second = if between {
            assert_eq!(ask(folder.path(), &server, &hello).status, 0);
            suspended(folder.path(), &server, &KEYED)
        } else {
            // The signal tries the turn again.
            suspended(folder.path(), &server, &approve)
        };
        assert_ne!(first, second);
        for again in [&approve[..], &approve[..], &KEYED[..]] {
            assert_eq!(suspended(folder.path(), &server, again), second);
            assert_eq!(runs(folder.path()), "asked\n");
        }
        let done = ask(folder.path(), &server, &["signal", &second, "--approve"]);
        assert_eq!(
            (done.status, done.stdout.as_str()),
            (0, "fine\n"),
            "{}",
            done.stderr
        );
        assert_eq!(runs(folder.path()), "asked\nlater\n");
    }
}

#[test]
fn the_same_command_continues_a_killed_turn() {
    for again in [&SHIP[..], &["send", "s", "ship it"]] {
        let server = server(vec![
            call_of("one"),
            text("fine"),
            call_of("one"),
            text("again"),
        ]);
        let folder = prepared("echo $1 >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\n");
        kill_in_the_tool(folder.path(), &server, &SHIP);
        for (answer, ran_so_far, messages) in [("fine\n", "one\n", 4), ("again\n", "one\none\n", 8)]
        {
            let ran = ask(folder.path(), &server, again);
            assert_eq!(
                (ran.status, ran.stdout.as_str()),
                (0, answer),
                "{}",
                ran.stderr
            );
            assert_eq!(runs(folder.path()), ran_so_far);
            let shown = show(folder.path(), "s");
            assert_eq!(shown["messages"].as_array().unwrap().len(), messages);
        }
        // After an answer the same message is a new one.
        assert_eq!(server.received().len(), 4);
    }
}

#[test]
fn the_same_command_continues_a_killed_turn_that_was_approved() {
    let server = server(vec![call_of("one"), text("fine"), call_of("one")]);
    let folder = prepared("echo $1 >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\n");
    let asking = [&SHIP[..], &["--permission", "deploy=ask"]].concat();
    let signal = suspended(folder.path(), &server, &asking);
    kill_in_the_tool(folder.path(), &server, &["signal", &signal, "--approve"]);
    let allowing = [&SHIP[..], &["--permission", "deploy=allow"]].concat();
    let ran = ask(folder.path(), &server, &allowing);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(folder.path()), "one\n");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn other_messages_do_not_continue_a_killed_turn() {
    let server = server(vec![call_of("one"), text("fine"), text("hi")]);
    let folder = prepared("echo $1 >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\n");
    kill_in_the_tool(folder.path(), &server, &SHIP);
    let ran = ask(folder.path(), &server, &["send", "s", "hello"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "hi\n"),
        "{}",
        ran.stderr
    );
    let shown = show(folder.path(), "s");
    assert_eq!(shown["messages"].as_array().unwrap().len(), 6, "{shown}");
}
