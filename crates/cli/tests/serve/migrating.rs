//! A server on a store whose sessions are moved meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::postgres::PostgresServer;
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::{Answered, Served};
use crate::program::{Ran, folder, logue};
use crate::waiting::wait_until;

/// The number of sessions, each with a client that sends one message after the other.
const CLIENTS: usize = 6;

fn on(folder: &Path, store: &str, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("LOGUE_STORE", store).args(arguments);
    command.output().unwrap().into()
}

/// The messages of a client by their keys.
#[derive(Default)]
struct Sent {
    /// Those with an answer that accepts them.
    accepted: BTreeMap<String, Answered>,
    /// The refusal with which the client ended.
    refused: Option<Answered>,
}

/// Sends messages until the session has been moved.
fn client(served: &Served, session: &str, count: &AtomicUsize, ends: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    let path = format!("/v1/sessions/{session}/send");
    for number in 0.. {
        let key = format!("{session}-{number}");
        let body = json!({"message": key, "agent": "agent"}).to_string();
        // A client repeats a message whose answer it does not understand as one.
        let answer = loop {
            let headers = [("idempotency-key", key.as_str())];
            let answer = served.request("POST", &path, &headers, &body);
            match answer.status {
                503 => assert!(answer.head.contains("retry-after"), "{answer:?}"),
                _ => break answer,
            }
        };
        match answer.status {
            200 | 202 => {
                sent.accepted.insert(key, answer);
                count.fetch_add(1, Ordering::Relaxed);
            }
            _ => {
                assert_eq!(answer.status, 409, "{answer:?}");
                assert_eq!(answer.json()["code"], "session_moved", "{answer:?}");
                sent.refused = Some(answer);
                return sent;
            }
        }
        if ends.load(Ordering::Relaxed) {
            return sent;
        }
    }
    sent
}

/// Moves the sessions of a store that a server uses, while its clients send messages.
///
/// Each accepted message has its answer in the new store exactly once, and each later one is
/// refused by name.
#[expect(clippy::print_stdout, reason = "a test reports what it ran")]
fn moves_in_use(from: &str, to: &str) {
    let calls = |asked: &Received| {
        let body = asked.body.to_string();
        Reply::Answer(
            if body.contains("deploy it") && !body.contains("\"tool\"") {
                Answer::text("Now.").with_call("c1", "deploy", "{\"arguments\":[]}")
            } else {
                Answer::text("deployed")
            },
        )
    };
    let model = ModelServer::start_by(calls, Delivery::Whole).unwrap();
    let folder = folder(&[
        ("agent.md", "<config model=\"echo:\"/>\n"),
        (
            "deploys.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        ("deploy.sh", "echo ran >> runs\n"),
    ]);
    let place = folder.path();
    let serve = |store: &str| {
        let mut command = logue(place);
        command.env("OPENAI_BASE_URL", model.base_url());
        let arguments = ["agent.md", "deploys.md", "--permission", "*=ask"];
        Served::start_on(command, "127.0.0.1:0", store, &arguments)
    };
    let served = serve(from);
    let body = json!({"message": "deploy it", "agent": "deploys"});
    let waits = served.post("/v1/sessions/waits/send", &body);
    assert_eq!(waits.status, 202, "{waits:?}");
    let waits = waits.json();
    let signal = waits["signal"]["signal_id"].as_str();
    let signal = signal.unwrap_or_else(|| panic!("{waits}")).to_owned();

    let (count, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sessions: Vec<String> = (0..CLIENTS).map(|number| format!("s{number}")).collect();
    let sent: Vec<Sent> = std::thread::scope(|scope| {
        let clients: Vec<_> = sessions
            .iter()
            .map(|session| scope.spawn(|| client(&served, session, &count, &ends)))
            .collect();
        wait_until(
            || "no client had an answer".to_owned(),
            || count.load(Ordering::Relaxed) >= 2 * CLIENTS,
        );
        // Sessions in use are left for a later run.
        let mut runs = 0;
        loop {
            let ran = on(
                place,
                from,
                &["sessions", "migrate", "--json", "--from", from, "--to", to],
            );
            runs += 1;
            assert!([0, 7].contains(&ran.status), "{}", ran.stderr);
            if ran.status == 0 {
                break;
            }
            if runs == 20 {
                ends.store(true, Ordering::Relaxed);
                panic!("the sessions stay in use: {}", ran.stdout);
            }
        }
        clients.into_iter().map(|one| one.join().unwrap()).collect()
    });

    // What the old store had accepted is in the new one; a decision counts there only.
    let path = format!("/v1/signals/{signal}");
    let approve = json!({"approval": "approve"});
    let refused = served.post(&path, &approve);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.json()["code"], "session_moved", "{refused:?}");
    let read = served.get("/v1/sessions/waits");
    assert_eq!(read.status, 200, "{read:?}");
    // The old store has no decision to offer, and does not forget the moves.
    assert_eq!(read.json()["signals"], json!([]), "{read:?}");
    let listed = served.get("/v1/signals");
    assert_eq!(listed.json()["signals"], json!([]), "{listed:?}");
    let metrics = served.get("/metrics");
    let none = "logue_approvals_waiting 0\n";
    assert!(metrics.text.contains(none), "{metrics:?}");
    for (session, body) in [("waits", &body), ("s0", &json!({"message": "s0-0"}))] {
        let removed = served.request("DELETE", &format!("/v1/sessions/{session}"), &[], "");
        assert_eq!(removed.status, 409, "{removed:?}");
        assert_eq!(removed.json()["code"], "session_moved", "{removed:?}");
        let path = format!("/v1/sessions/{session}/send");
        let headers = [("idempotency-key", "s0-0")];
        let again = served.request("POST", &path, &headers, &body.to_string());
        assert_eq!(again.json()["code"], "session_moved", "{again:?}");
    }
    served.kill();
    let shown = on(place, from, &["sessions", "show", "waits", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["suspended"], json!([]), "{shown}");
    let served = serve(to);
    let mut messages = 0;
    for (session, sent) in sessions.iter().zip(&sent) {
        assert!(sent.refused.is_some(), "{session} was never refused");
        let shown = || {
            let ran = on(place, to, &["sessions", "show", session, "--json"]);
            let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
            shown["messages"].clone()
        };
        // A message may have been accepted and not run; the new server runs it.
        wait_until(
            || format!("{session} has pending messages"),
            || served.get(&format!("/v1/sessions/{session}")).json()["pending"] == 0,
        );
        let before = shown();
        let texts: Vec<&str> = before
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        for key in sent.accepted.keys() {
            let times = texts.iter().filter(|text| *text == key).count();
            assert_eq!(times, 1, "{key} is in the new store {times} times");
        }
        let is_once = |text: &&str| texts.iter().filter(|other| other == &text).count() == 1;
        assert!(texts.iter().all(is_once), "{texts:?}");
        // The keys answer there as they did.
        for (key, answer) in sent.accepted.iter().take(3) {
            let path = format!("/v1/sessions/{session}/send");
            let body = json!({"message": key, "agent": "agent"}).to_string();
            let headers = [("idempotency-key", key.as_str())];
            let again = served.request("POST", &path, &headers, &body);
            assert_eq!(again.status, 200, "{again:?}");
            if answer.status == 200 {
                assert_eq!(again.json(), answer.json(), "{key}");
            }
        }
        assert_eq!(shown(), before);
        messages += sent.accepted.len();
    }
    for _ in 0..2 {
        let approved = served.post(&path, &approve);
        assert_eq!(approved.status, 200, "{approved:?}");
        let runs = std::fs::read_to_string(place.join("runs")).unwrap();
        assert_eq!(runs, "ran\n");
    }
    println!("{messages} messages of {CLIENTS} sessions were accepted before the moves");
}

#[test]
fn a_server_on_a_file_that_is_moved_to_a_database_loses_nothing() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    moves_in_use("sqlite:s.db", &server.database().unwrap().url());
}

#[test]
fn a_server_on_a_database_that_is_moved_to_another_one_loses_nothing() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let (from, to) = (server.database().unwrap(), server.database().unwrap());
    moves_in_use(&from.url(), &to.url());
}

#[test]
fn a_server_on_a_file_that_is_moved_to_another_file_loses_nothing() {
    moves_in_use("sqlite:s.db", "sqlite:new.db");
}

/// Serves an agent that answers, and one whose calls wait for a person.
fn outlets(place: &Path) -> (ModelServer, Served) {
    let call = |_: &Received| {
        let answer = Answer::text("Now.").with_call("c1", "work", "{}");
        Reply::Answer(answer)
    };
    let model = ModelServer::start_by(call, Delivery::Whole).unwrap();
    let mut command = logue(place);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments = ["agent.md", "asks.md", "--permission", "*=ask"];
    (model, Served::start_with(command, &arguments))
}

/// The input of a run of AG-UI, with a message or answers.
fn run_input(thread: &str, text: Option<&str>, resume: &Value) -> Value {
    let messages = text.map(|text| json!([{"id": text, "role": "user", "content": text}]));
    json!({"threadId": thread, "runId": format!("{text:?}{resume}"), "tools": [], "context": [],
        "state": {}, "forwardedProps": {}, "messages": messages.unwrap_or(json!([])),
        "resume": resume})
}

/// The turns that wait in a session, a thread and a response.
struct Waiting {
    signal: String,
    interrupt: Value,
    response: Value,
}

impl Waiting {
    fn begin(served: &Served) -> Self {
        let body = json!({"message": "go", "agent": "asks"});
        let sent = served.post("/v1/sessions/waits/send", &body);
        assert_eq!(sent.status, 202, "{sent:?}");
        let run = run_input("open", Some("go"), &Value::Null);
        let run = served.post("/v1/ag-ui/asks", &run).text;
        let mut data = run.lines().filter_map(|line| line.strip_prefix("data: "));
        let last: Value = serde_json::from_str(data.next_back().unwrap()).unwrap();
        let response = served.post("/v1/responses", &json!({"model": "asks", "input": "go"}));
        assert_eq!(response.status, 200, "{response:?}");
        Self {
            signal: sent.json()["signal"]["signal_id"]
                .as_str()
                .unwrap()
                .to_owned(),
            interrupt: last["outcome"]["interrupts"][0]["id"].clone(),
            response: response.json(),
        }
    }

    /// Decides about each turn, reads the signal, and sends a message instead of an answer.
    fn answers(&self, served: &Served) -> Vec<Answered> {
        let payload = json!({"approved": true});
        let answer =
            json!([{"interruptId": self.interrupt, "status": "resolved", "payload": payload}]);
        let request = self.response["output"].as_array().unwrap().last().unwrap();
        let approval = json!({"type": "mcp_approval_response", "approve": true,
            "approval_request_id": request["id"]});
        let decided = json!({"model": "asks", "previous_response_id": self.response["id"],
            "input": [approval]});
        let signal = format!("/v1/signals/{}", self.signal);
        vec![
            served.get(&signal),
            served.post(&signal, &json!({"approval": "approve"})),
            served.post("/v1/sessions/waits/retry", &json!({})),
            served.post("/v1/ag-ui/asks", &run_input("open", None, &answer)),
            served.post(
                "/v1/ag-ui/asks",
                &run_input("open", Some("more"), &Value::Null),
            ),
            served.post("/v1/responses", &decided),
        ]
    }
}

/// Every way to continue a session names the move, and changes nothing.
#[test]
fn a_moved_session_is_refused_by_every_outlet() {
    let folder = folder(&[
        ("agent.md", "<config model=\"echo:\"/>\n"),
        (
            "asks.md",
            "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n",
        ),
    ]);
    let place = folder.path();
    let (_model, served) = outlets(place);
    let run = |text: &str| run_input("thread", Some(text), &Value::Null);
    let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "one"}]});
    let in_session = [("x-logue-session", "chat"), ("idempotency-key", "k")];
    let completions = |body: &Value| {
        let path = "/v1/chat/completions";
        served.request("POST", path, &in_session, &body.to_string())
    };
    let first = json!({"message": "one", "agent": "agent"});
    let sent = served.post("/v1/sessions/s1/send", &first);
    assert_eq!(sent.status, 200, "{sent:?}");
    let completed = completions(&chat);
    assert_eq!(completed.status, 200, "{completed:?}");
    let response = served.post("/v1/responses", &json!({"model": "agent", "input": "one"}));
    let response = response.json()["id"].clone();
    let streamed = served.post("/v1/ag-ui/agent", &run("one"));
    assert!(streamed.text.contains("RUN_FINISHED"), "{streamed:?}");
    let waiting = Waiting::begin(&served);
    let before = served.get("/v1/sessions/s1").json();
    assert!(before.get("location").is_none(), "{before}");
    let moves = [
        "sessions",
        "migrate",
        "--from",
        "sqlite:s.db",
        "--to",
        "sqlite:new.db",
    ];
    let moved = on(place, "sqlite:s.db", &moves);
    assert_eq!(moved.status, 0, "{}", moved.stderr);
    let listed = || {
        let listed = on(
            place,
            "sqlite:s.db",
            &["sessions", "list", "--json", "--all"],
        );
        let mut lines: Vec<String> = listed.stdout.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let before = listed();
    let completions_of_session = |body: &Value| {
        let path = "/v1/chat/completions";
        served.request("POST", path, &in_session[..1], &body.to_string())
    };

    let more = json!({"model": "agent", "messages": [{"role": "user", "content": "two"}]});
    let continued = json!({"model": "agent", "input": "two", "previous_response_id": response});
    let id = response.as_str().unwrap();
    let mut answers = vec![
        served.post("/v1/sessions/s1/send", &json!({"message": "two"})),
        served.post("/v1/sessions/s1/cancel", &json!({})),
        served.post("/v1/sessions/s1/retry", &json!({})),
        served.post("/v1/sessions/s1/fork", &json!({})),
        served.post("/v1/sessions/s1/rerun", &json!({"step": 1})),
        served.request("DELETE", "/v1/sessions/s1", &[], ""),
        completions_of_session(&more),
        served.post("/v1/responses", &continued),
        served.request("DELETE", &format!("/v1/responses/{id}"), &[], ""),
        served.post("/v1/ag-ui/agent", &run("two")),
    ];
    answers.extend(waiting.answers(&served));
    for answer in answers {
        assert!(answer.text.contains("session_moved"), "{answer:?}");
        assert!([200, 409].contains(&answer.status), "{answer:?}");
        // Neither an interrupt, which is answered in the new store, nor its address.
        assert!(!answer.text.contains("responseSchema"), "{answer:?}");
        assert!(!answer.text.contains("new.db"), "{answer:?}");
    }
    assert_eq!(listed(), before);
    is_shown_as_moved(place, &served);
}

/// The record that stayed can be read, and names the move.
fn is_shown_as_moved(place: &Path, served: &Served) {
    let to = place.canonicalize().unwrap().join("new.db");
    let to = format!("sqlite:{}", to.display());
    let listed = served.get("/v1/sessions").json()["sessions"].clone();
    let listed = listed.as_array().unwrap();
    assert!(listed.len() > 3, "{listed:?}");
    let mut shown = listed.clone();
    shown.push(served.get("/v1/sessions/s1").json());
    for shown in shown {
        assert_eq!(shown["location"], "moved", "{shown}");
        assert_eq!(shown["moved_to"], *to, "{shown}");
    }
    let connected = served.post("/v1/ag-ui/asks", &run_input("open", None, &Value::Null));
    assert!(
        connected.text.contains("MESSAGES_SNAPSHOT"),
        "{connected:?}"
    );
    assert!(!connected.text.contains("responseSchema"), "{connected:?}");
    // A client with a token needs the scope `debug` for the address.
    for (name, scope, expected) in [
        ("reader", "read", Value::Null),
        ("operator", "read,debug", json!(to)),
    ] {
        let create = ["serve", "token", "create", name, "--scope", scope];
        let created = on(place, "sqlite:s.db", &create);
        assert_eq!(created.status, 0, "{}", created.stderr);
        let token = format!("Bearer {}", created.stdout.trim());
        let headers = [("authorization", token.as_str())];
        wait_until(
            || format!("no token is required: {}", served.said()),
            || served.get("/v1/sessions/s1").status == 401,
        );
        let mut read = served.request("GET", "/v1/sessions/s1", &headers, "");
        wait_until(
            || format!("the token `{name}` is unknown: {}", served.said()),
            || {
                read = served.request("GET", "/v1/sessions/s1", &headers, "");
                read.status == 200
            },
        );
        let shown = read.json();
        assert_eq!(shown["location"], "moved", "{shown}");
        assert_eq!(shown["moved_to"], expected, "{shown}");
    }
}
