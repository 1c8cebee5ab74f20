//! Several processes on one store, and a log of events that is lost.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Received, Reply, end_of_stream, text_delta};

use crate::client::{Event, Served};
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n";
const ECHO: &str = "<config model=\"echo:\"/>\n";
const EVENTS: &str = "/v1/sessions/s1/events";
const SEND: &str = "/v1/sessions/s1/send";

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md"])
}

fn say(served: &Served, session: &str, text: &str) {
    let path = format!("/v1/sessions/{session}/send");
    let answer = served.post(&path, &json!({ "message": text }));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn send_in_a_shell(folder: &Path, session: &str, text: &str) {
    let store = ["--store", "sqlite:s.db"];
    let ran = run(
        folder,
        ["send"].iter().chain(&store).chain(&[session, text]),
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// Returns the id after which a session's events follow.
fn last_id(served: &Served) -> String {
    let shown = served.get("/v1/sessions/s1").json();
    shown["events_after"].as_str().unwrap().to_owned()
}

fn generation(event: &Event) -> &str {
    event.id.split_once('-').unwrap().1
}

fn texts(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().unwrap().iter();
    messages
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

#[test]
fn a_turn_of_one_server_streams_through_another() {
    let gate = Gate::new();
    let gated = gate.clone();
    let answer = move |_: &Received| {
        let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
        Reply::Gated(pieces, gated.clone())
    };
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let (first, second) = (serve(folder.path(), &model), serve(folder.path(), &model));
    let turn = |served: &Served| {
        let body = json!({"message": "go"}).to_string();
        served.events("POST", SEND, None, &body)
    };
    let mut own = turn(&first);
    let begun = own.until("answer.delta");
    let last = begun.last().unwrap().id.clone();
    // The reader has the first events, in the memory of its server.
    let mut there = second.events("GET", EVENTS, Some("0-1"), "");
    assert_eq!(there.until("answer.delta"), begun);
    gate.open();
    let more = own.until("answer.delta");
    assert_eq!(there.until("answer.delta"), more);
    gate.open();
    let end = own.until("turn.completed");
    assert_eq!(there.until("turn.completed"), end);

    // A turn of the second server appears in the first, after what it had.
    let mut here = first.events("GET", EVENTS, Some(&last), "");
    here.until("turn.completed");
    let mut own = turn(&second);
    gate.open();
    gate.open();
    assert_eq!(here.until("turn.completed"), own.until("turn.completed"));
}

#[test]
fn a_turn_of_a_shell_reaches_a_reader_that_was_away() {
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    say(&served, "s2", "one");
    let last = last_id(&served);
    let mut other = served.events("GET", "/v1/sessions/s2/events", None, "");
    send_in_a_shell(folder.path(), "s1", "two");
    send_in_a_shell(folder.path(), "s2", "two");
    // The server has seen the changes of the store, those of both sessions.
    other.until("turn.completed");
    let mut stream = served.events("GET", EVENTS, Some(&last), "");
    let event = stream.next().unwrap();
    assert_eq!(event.kind(), "turn.completed");
    assert_eq!(texts(&event.data["messages"])[0], "two");
}

#[test]
fn an_outcome_is_left_to_its_own_process_first() {
    // A server that logged it at once would refuse the last events of that process.
    const OWNER_FIRST: Duration = Duration::from_millis(1_500);
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    let mut stream = served.events("GET", EVENTS, Some(&last_id(&served)), "");
    // A shell has no log of its own. The bound holds however slow the machine is.
    let begun = Instant::now();
    send_in_a_shell(folder.path(), "s1", "two");
    let ended = stream.until("turn.completed");
    assert!(begun.elapsed() >= OWNER_FIRST, "{ended:?}");
}

#[test]
fn a_session_that_a_shell_removes_ends_its_streams() {
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    let old = last_id(&served);
    let mut stream = served.events("GET", EVENTS, None, "");
    let removed = ["sessions", "rm", "--yes", "--store", "sqlite:s.db", "s1"];
    assert_eq!(run(folder.path(), removed).status, 0);
    assert!(stream.next().is_none());
    assert_eq!(served.get(EVENTS).status, 404);

    // Another session of that name has other numbers, also where they are equal.
    for text in ["one", "two", "three"] {
        say(&served, "s1", text);
    }
    let mut again = served.events("GET", EVENTS, Some(&old), "");
    assert_eq!(again.next().unwrap().kind(), "reset");
}

fn log_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let names = ["s.db-events", "s.db-events-wal", "s.db-events-shm"];
    names.map(|name| folder.join(name)).into()
}

#[test]
fn a_log_that_is_removed_is_created_anew_during_a_turn() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![
        Reply::Answer(Answer::text("zero")),
        Reply::Gated(pieces, gate.clone()),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    say(&served, "s1", "first");
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", SEND, None, &body);
    let old = stream.until("answer.delta").pop().unwrap();
    let mut reader = served.events("GET", EVENTS, Some(&old.id), "");
    // The server creates a new log as soon as the first of them is gone.
    for file in log_files(folder.path()).into_iter().rev() {
        fs::remove_file(file).unwrap();
    }
    // The new log begins before the turn ends.
    gate.open();
    let mut events = reader.until("answer.delta");
    gate.open();
    events.extend(reader.until("turn.completed"));
    assert_eq!(events[0].kind(), "reset");
    let end = events.last().unwrap();
    assert!(generation(end) > generation(&old), "{end:?}");
    // The outcome of the earlier turn is not repeated, and that of this one has its messages.
    let ends = events
        .iter()
        .filter(|event| event.kind() == "turn.completed");
    assert_eq!(ends.count(), 1, "{events:?}");
    assert_eq!(texts(&end.data["messages"]), ["go", "one two"]);
    let mut again = served.events("GET", EVENTS, Some(&old.id), "");
    assert_eq!(again.next().unwrap().kind(), "reset");
}

#[test]
fn a_log_that_is_removed_resets_readers_without_a_turn() {
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    let old = last_id(&served);
    let path = format!("/v1/events?session=s1:{old}");
    let mut readers = [
        served.events("GET", EVENTS, Some(&old), ""),
        served.events("GET", &path, None, ""),
    ];
    for file in log_files(folder.path()).into_iter().rev() {
        fs::remove_file(file).unwrap();
    }
    // Nothing is appended, so that only the loss wakes the readers.
    assert_eq!(readers[0].next().unwrap().kind(), "reset");
    let [own, shared] = &mut readers;
    assert_eq!(shared.next().unwrap().data["event"]["type"], "reset");
    say(&served, "s1", "two");
    let events = own.until("turn.completed");
    assert_eq!(texts(&events.last().unwrap().data["messages"]), ["two"]);
}

#[test]
fn a_damaged_log_is_created_anew() {
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    let old = last_id(&served);
    served.kill();
    let log = folder.path().join("s.db-events");
    let [_, wal, index] = log_files(folder.path()).try_into().unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes.truncate(100);
    bytes.resize(64 * 1024, 0xa5);
    fs::write(&log, bytes).unwrap();
    for file in [wal, index] {
        fs::remove_file(file).unwrap();
    }
    let verify = ["sessions", "verify", "--store", "sqlite:s.db"];
    let verified = run(folder.path(), verify);
    assert_eq!(verified.status, 8, "{}", verified.stdout);
    assert!(verified.stdout.contains("events"), "{}", verified.stdout);

    let served = Served::start(folder.path(), &["agent.md"]);
    let mut stream = served.events("GET", EVENTS, Some(&old), "");
    assert_eq!(stream.next().unwrap().kind(), "reset");
    say(&served, "s1", "two");
    let events = stream.until("turn.completed");
    assert_eq!(events[0].kind(), "turn.accepted");
    assert_eq!(run(folder.path(), verify).status, 0);
}

#[test]
fn a_restored_store_begins_a_new_log() {
    let folder = folder(&[("agent.md", ECHO)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    say(&served, "s1", "one");
    let backup = ["sessions", "backup", "--store", "sqlite:s.db", "b.db"];
    assert_eq!(run(folder.path(), backup).status, 0);
    for text in ["two", "three", "four"] {
        say(&served, "s1", text);
    }
    let old = last_id(&served);
    let restore = [
        "sessions",
        "restore",
        "--store",
        "sqlite:s.db",
        "b.db",
        "--replace",
    ];
    assert_eq!(run(folder.path(), restore).status, 0);
    let mut stream = served.events("GET", EVENTS, Some(&old), "");
    assert_eq!(stream.next().unwrap().kind(), "reset");
    say(&served, "s1", "again");
    let events = stream.until("turn.completed");
    let end = events.last().unwrap();
    assert_eq!(end.data["from"], 3, "{end:?}");
}
