//! A server that ends: what clients receive until its turns have ended.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::Served;
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

#[test]
fn a_server_that_ends_is_not_ready_and_begins_no_turn() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let mut served = Served::start_with(command, &["agent.md"]);
    assert_eq!(served.get("/readyz").status, 200);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    stream.until("answer.delta");
    let id = i32::try_from(served.child.id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    wait_until(
        || "the server is ready".to_owned(),
        || served.get("/readyz").status == 503,
    );
    assert_eq!(served.get("/readyz").json()["code"], "server_draining");

    // New connections are answered.
    assert_eq!(served.get("/healthz").status, 200);
    assert_eq!(
        served.get("/v1/sessions").json()["sessions"][0]["session"],
        "s1"
    );
    let mut second = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
    second.until("answer.delta");
    let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}]});
    let chat = served.post("/v1/chat/completions", &chat);
    assert_eq!(chat.status, 503, "{chat:?}");
    assert_eq!(chat.json()["error"]["code"], "server_draining", "{chat:?}");
    for path in [
        "/v1/sessions/s2/send",
        "/v1/sessions/s1/send",
        "/v1/sessions/s1/retry",
    ] {
        let refused = served.post(path, &json!({"message": "more"}));
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["code"], "server_draining", "{refused:?}");
        assert!(refused.head.contains("retry-after: 1\r\n"), "{refused:?}");
    }
    gate.open();
    gate.open();
    for stream in [&mut stream, &mut second] {
        let ended = stream.until("turn.completed");
        assert_eq!(
            ended.last().unwrap().data["messages"][0]["content"],
            "one two"
        );
    }
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
    assert_eq!(model.received().len(), 1);
    let listed = run(
        folder.path(),
        ["sessions", "list", "--store", "sqlite:s.db"],
    );
    assert!(listed.stdout.contains("s1"), "{}", listed.stdout);
    assert!(!listed.stdout.contains("s2"), "{}", listed.stdout);
}

/// The requests of all faces that last, with a text that their end contains.
fn lasting() -> Vec<(&'static str, serde_json::Value, &'static str, &'static str)> {
    let user = json!([{"role": "user", "content": "go"}]);
    let chat = "/v1/chat/completions";
    let responses = "/v1/responses";
    let run = json!({"threadId": "t1", "runId": "r1", "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "messages": [{"id": "m", "role": "user", "content": "go"}]});
    vec![
        (
            "/v1/sessions/s1/send",
            json!({"message": "go"}),
            "503",
            "server_ends",
        ),
        (
            chat,
            json!({"model": "agent", "messages": user}),
            "503",
            "server_ends",
        ),
        (
            chat,
            json!({"model": "agent", "messages": user, "stream": true}),
            "200",
            "\"code\":\"server_ends\"",
        ),
        (
            responses,
            json!({"model": "agent", "input": "go"}),
            "503",
            "server_ends",
        ),
        (
            responses,
            json!({"model": "agent", "input": "go", "stream": true}),
            "200",
            "event: error\n",
        ),
        (
            responses,
            json!({"model": "agent", "input": "go", "store": false}),
            "503",
            "server_ends",
        ),
        (
            responses,
            json!({"model": "agent", "input": "go", "store": false, "stream": true}),
            "200",
            "event: response.failed\n",
        ),
        ("/v1/ag-ui/agent", run, "200", "\"code\":\"server_ends\""),
    ]
}

#[test]
fn every_open_request_gets_an_end_after_the_drain() {
    let pieces = vec![text_delta("one "), text_delta("two")];
    let model = ModelServer::start_by(
        move |_| Reply::Gated(pieces.clone(), Gate::new()),
        Delivery::Whole,
    )
    .unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let mut served = Served::start_with(command, &["agent.md", "--drain", "1s"]);
    let requests = lasting();
    let answers = std::thread::scope(|scope| {
        let opened: Vec<_> = requests
            .iter()
            .map(|(path, body, ..)| {
                let served = &served;
                scope.spawn(move || served.try_request("POST", path, &[], &body.to_string()))
            })
            .collect();
        wait_until(
            || "the turns have not begun".to_owned(),
            || model.received().len() == requests.len(),
        );
        let id = i32::try_from(served.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        let answers = opened.into_iter().map(|one| one.join().unwrap());
        answers.collect::<Vec<_>>()
    });
    for ((path, body, status, end), answer) in requests.iter().zip(answers) {
        let answer = answer.unwrap_or_else(|| panic!("{path} {body}: no answer"));
        assert_eq!(
            answer.status.to_string(),
            *status,
            "{path} {body}: {answer:?}"
        );
        assert!(answer.text.contains(end), "{path} {body}: {answer:?}");
        if *status == "503" {
            assert!(answer.head.contains("retry-after: 1\r\n"), "{answer:?}");
        }
    }
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_response_that_the_end_of_a_server_cuts_continues_with_the_next_one() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(testkit::Answer::text("two")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let start = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        Served::start_with(command, &["agent.md", "--drain", "1s"])
    };
    let served = start();
    let body = json!({"model": "agent", "input": "go", "stream": true}).to_string();
    let mut stream = served.events("POST", "/v1/responses", None, &body);
    let mut events = stream.until("response.output_text.delta");
    let id = events[0].data["response"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(served.end().status, Some(143));
    while let Some(event) = stream.next() {
        events.push(event);
    }
    let number = |at: usize| events[at].data["sequence_number"].as_u64().unwrap();
    let last = events.len() - 1;
    assert_eq!(events[last].data["code"], "server_ends", "{events:?}");
    assert_eq!(number(last), number(last - 1), "{events:?}");

    let served = start();
    let path = format!(
        "/v1/responses/{id}?stream=true&starting_after={}",
        number(last)
    );
    let mut stream = served.events("GET", &path, None, "");
    let first = stream.next().unwrap();
    assert_eq!(
        first.data["sequence_number"].as_u64(),
        Some(number(last) + 1)
    );
    stream.until("response.completed");
}

#[test]
fn a_stream_of_events_that_the_end_of_a_server_cuts_says_how_to_resume() {
    let pieces = vec![text_delta("one "), text_delta("two")];
    let replies = vec![
        Reply::Gated(pieces, Gate::new()),
        Reply::Answer(testkit::Answer::text("two")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let start = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        Served::start_with(command, &["agent.md", "--drain", "1s"])
    };
    let served = start();
    let body = json!({"message": "go"}).to_string();
    let mut sent = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let mut events = sent.until("answer.delta");
    let path = "/v1/sessions/s1/events";
    let mut followed = served.events("GET", path, Some("0-1"), "");
    followed.until("answer.delta");
    let several = "/v1/events?session=s1:0-1";
    let mut several = served.events("GET", several, None, "");
    assert_eq!(served.end().status, Some(143));
    events.extend(sent.until("stream.ended"));
    let last = events.last().unwrap();
    assert_eq!(last.data["code"], "server_ends", "{events:?}");
    assert_eq!(last.id, events[events.len() - 2].id);
    assert_eq!(followed.until("stream.ended").last().unwrap().id, last.id);
    assert!(sent.next().is_none() && followed.next().is_none());
    let mut kinds = Vec::new();
    while let Some(event) = several.next() {
        kinds.push(event.data["event"]["type"].clone());
    }
    assert_eq!(kinds.last(), Some(&json!("stream.ended")), "{kinds:?}");

    let served = start();
    let mut next = served.events("GET", path, Some(&last.id), "");
    let events = next.until("turn.completed");
    let number = |id: &str| id.split_once('-').unwrap().0.parse::<u64>().unwrap();
    assert_eq!(number(&events[0].id), number(&last.id) + 1, "{events:?}");
}
