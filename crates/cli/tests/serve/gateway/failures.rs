//! Failures of the upstream server, and clients that leave.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testkit::{Completion, Delivery, Gate, ModelServer, Reply, Stall, StallingServer, Wire};

use super::{PATH, body, emitted, gateway, reply, user};
use crate::program::{folder, run};
use crate::waiting::wait_until;

const DONE: &str = "<|channel|>final<|message|>done<|return|>";

/// Sends a request and returns the open connection.
fn open(address: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    stream
}

#[test]
fn an_error_of_the_upstream_server_keeps_its_meaning() {
    let wait = vec![("retry-after".to_owned(), "7".to_owned())];
    let cases = [
        (429, wait.clone(), 429, "provider_rate_limit", Some("7")),
        (503, wait, 503, "provider_unavailable", Some("7")),
        (500, Vec::new(), 503, "provider_unavailable", Some("1")),
        (401, Vec::new(), 502, "provider_authentication", None),
        (400, Vec::new(), 400, "provider_invalid_request", None),
    ];
    for (given, headers, status, code, retry) in cases {
        let error = json!({"error": {"message": "scripted"}}).to_string();
        let model = ModelServer::start(vec![Reply::Status(given, headers, error)], Delivery::Whole);
        let model = model.unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        for is_stream in [false, true] {
            let body = body(&json!([user("go")]), &json!({"stream": is_stream}));
            let answer = served.post(PATH, &body);
            assert_eq!(answer.status, status, "{given} {answer:?}");
            assert_eq!(answer.json()["error"]["code"], code, "{answer:?}");
            let mut lines = answer.head.lines();
            let found = lines.find_map(|line| line.strip_prefix("retry-after: "));
            assert_eq!(found, retry, "{answer:?}");
        }
        // The gateway's client repeats requests, the gateway does not.
        assert_eq!(model.received().len(), 2, "{given}");
    }
}

#[test]
fn text_of_an_unknown_channel_is_not_sent() {
    // The server omits control tokens, and sends the rest after the first bytes of a stream.
    let texts = ["<|channel|>", "The secret plan. ", "The answer."];
    let pieces = texts.map(|text| (Vec::new(), text.replace("<|channel|>", "analysis")));
    let omitted = Completion::new(Wire::VllmText, pieces.to_vec());
    let gate = Gate::new();
    let bytes = omitted.stream();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let replies = vec![
        Reply::Completion(omitted.clone()),
        Reply::Completion(omitted.clone()),
        Reply::Gated(vec![first.to_vec(), second.to_vec()], gate.clone()),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    for is_stream in [false, true] {
        let body = body(&json!([user("go")]), &json!({"stream": is_stream}));
        let answer = served.post(PATH, &body);
        assert_eq!(answer.status, 502, "{answer:?}");
        let code = &answer.json()["error"]["code"];
        assert_eq!(code, "provider_invalid_response", "{answer:?}");
    }
    let body = body(&json!([user("go")]), &json!({"stream": true}));
    let mut stream = served.events("POST", PATH, None, &body.to_string());
    // The status is sent before the end of the output.
    let begun = stream.next().unwrap().data;
    gate.open();
    let last = stream.next().unwrap().data;
    assert_eq!(begun["choices"][0]["delta"]["role"], "assistant", "{begun}");
    assert_eq!(last["error"]["code"], "provider_invalid_response", "{last}");
    assert!(stream.next().is_none());
}

#[test]
fn a_broken_upstream_stream_ends_the_answer_with_an_error() {
    let bytes = emitted(DONE).stream();
    let cut = bytes.get(..bytes.len() / 2).unwrap().to_vec();
    let model = ModelServer::start(vec![Reply::Cut(cut)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let whole = served.post(PATH, &body(&json!([user("go")]), &json!({})));
    assert_eq!(whole.status, 503, "{whole:?}");
    let streamed = served.post(PATH, &body(&json!([user("go")]), &json!({"stream": true})));
    assert!(
        streamed.text.contains("provider_unavailable"),
        "{streamed:?}"
    );
    assert!(!streamed.text.contains("[DONE]"), "{streamed:?}");
}

#[test]
fn a_client_that_leaves_cancels_the_upstream_request() {
    for is_stream in [false, true] {
        let upstream = StallingServer::start(Stall::Silent).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &upstream.base_url(), &[]);
        let body = body(&json!([user("go")]), &json!({"stream": is_stream})).to_string();
        let mut stream = open(&served.address, &body);
        wait_until(|| "no request".to_owned(), || upstream.begun() == 1);
        if is_stream {
            // The first bytes arrive although the model is silent.
            let mut first = [0; 4096];
            let read = stream.read(&mut first).unwrap();
            let head = String::from_utf8_lossy(first.get(..read).unwrap()).into_owned();
            assert!(head.contains("text/event-stream"), "{head}");
        }
        drop(stream);
        wait_until(|| "the request runs".to_owned(), || upstream.closed() == 1);
        let cancelled = "logue_gateway_requests_total{outcome=\"cancelled\"} 1\n";
        wait_until(
            || "it is not counted".to_owned(),
            || served.get("/metrics").text.contains(cancelled),
        );
    }
}

#[test]
fn further_requests_are_refused_while_the_permitted_number_runs() {
    let gate = Gate::new();
    let bytes = emitted(DONE).stream();
    let pieces = bytes
        .chunks(bytes.len() / 2 + 1)
        .map(<[u8]>::to_vec)
        .collect();
    let model = ModelServer::start(vec![Reply::Gated(pieces, gate.clone())], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &["--max-concurrent", "1"]);
    let body = body(&json!([user("go")]), &json!({}));
    let mut first = open(&served.address, &body.to_string());
    wait_until(|| "no request".to_owned(), || model.received().len() == 1);
    let refused = served.post(PATH, &body);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    gate.open();
    let mut answer = [0; 4096];
    let read = first.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(answer.get(..read).unwrap()).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_gateway_requires_an_upstream_server_and_one_model() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let cases: [(&[&str], &str); 4] = [
        (&["harmony:m"], "no upstream server is configured"),
        (
            &["harmony:", "--upstream", "http://localhost:1"],
            "names no model",
        ),
        (
            &["agent.md", "harmony:m"],
            "a gateway serves one model and no agents",
        ),
        (
            &["agent.md", "--upstream", "http://localhost:1"],
            "--upstream requires a model",
        ),
    ];
    for (arguments, message) in cases {
        let arguments = ["serve"].iter().chain(arguments);
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}

#[test]
fn a_large_body_is_refused() {
    let model = ModelServer::start(vec![reply(DONE)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let body = body(&json!([user(&"x".repeat(9 * 1024 * 1024))]), &json!({}));
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let length = body.to_string().len();
    let address = &served.address;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server may answer before it has read the body.
    drop(stream.write_all(body.to_string().as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
    assert_eq!(model.received().len(), 0);
}

#[test]
fn requests_that_outlast_the_drain_get_an_end() {
    let model = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let mut served = gateway(folder.path(), &model.base_url(), &["--drain", "1s"]);
    let request = |is_stream: bool| {
        let more = json!({ "stream": is_stream });
        body(&json!([user("light")]), &more).to_string()
    };
    let answers = std::thread::scope(|scope| {
        let opened = [false, true].map(|is_stream| {
            let (served, text) = (&served, request(is_stream));
            scope.spawn(move || served.try_request("POST", PATH, &[], &text))
        });
        wait_until(
            || "the requests have not begun".to_owned(),
            || model.received().len() == opened.len(),
        );
        let id = i32::try_from(served.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        opened.map(|one| one.join().unwrap().unwrap())
    });
    assert_eq!(answers.each_ref().map(|answer| answer.status), [503, 200]);
    for answer in answers {
        assert!(answer.text.contains("server_ends"), "{answer:?}");
        assert!(!answer.text.contains("[DONE]"), "{answer:?}");
    }
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_gateway_that_ends_is_not_ready_and_ends_its_streams() {
    let gate = Gate::new();
    let bytes = emitted(DONE).stream();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let pieces = vec![first.to_vec(), second.to_vec()];
    let model = ModelServer::start(vec![Reply::Gated(pieces, gate.clone())], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[]);
    let mut served = gateway(folder.path(), &model.base_url(), &[]);
    let request = body(&json!([user("go")]), &json!({"stream": true}));
    let mut stream = served.events("POST", PATH, None, &request.to_string());
    stream.next().unwrap();
    let id = i32::try_from(served.child.id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    // New connections are answered.
    wait_until(
        || "the gateway is ready".to_owned(),
        || served.get("/readyz").status == 503,
    );
    assert_eq!(served.get("/healthz").status, 200);
    for (path, more) in [(PATH, "messages"), ("/v1/responses", "input")] {
        let mut request = json!({"model": super::MODEL});
        request[more] = json!([user("go")]);
        let refused = served.post(path, &request);
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "server_draining");
        assert!(refused.head.contains("retry-after: 1\r\n"), "{refused:?}");
    }
    gate.open();
    let mut text = String::new();
    loop {
        let choice = stream.next().unwrap().data["choices"][0].clone();
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        if choice["finish_reason"] == "stop" {
            break;
        }
    }
    assert_eq!(text, "done");
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
    assert_eq!(model.received().len(), 1);
}

#[test]
fn an_error_does_not_repeat_the_upstream_server() {
    let secret = "SECRET-THOUGHT";
    let in_stream = json!({"error": {"message": secret, "code": 400}});
    let in_stream = format!("data: {in_stream}\n\n").into_bytes();
    let message = |text: &str| json!({"error": {"message": text}}).to_string();
    let replies = [
        Reply::Status(400, Vec::new(), message(secret)),
        Reply::Status(500, Vec::new(), secret.to_owned()),
        Reply::Status(
            400,
            Vec::new(),
            message(&format!("context length of {secret}")),
        ),
        Reply::Status(404, Vec::new(), message(&format!("unknown model {secret}"))),
        Reply::Body("text/event-stream", in_stream),
        Reply::Body("application/json", secret.as_bytes().to_vec()),
        Reply::Body("text/html", secret.as_bytes().to_vec()),
    ];
    let folder = folder(&[]);
    let stopped = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let refused = stopped.base_url();
    drop(stopped);
    let mut details = Vec::new();
    let cases = replies.into_iter().map(Some).chain([None]);
    for reply in cases {
        let model = reply.map(|reply| ModelServer::start(vec![reply], Delivery::Whole).unwrap());
        let url = model
            .as_ref()
            .map_or(refused.clone(), ModelServer::base_url);
        let upstream = format!("{url}?key=SECRET-KEY");
        let served = gateway(folder.path(), &upstream, &[]);
        for (path, more) in [(PATH, "messages"), ("/v1/responses", "input")] {
            for is_stream in [false, true] {
                let mut request = json!({"model": super::MODEL, "stream": is_stream});
                request[more] = json!([user("go")]);
                let answer = served.post(path, &request);
                assert!(answer.text.contains("provider_"), "{answer:?}");
                assert!(!answer.text.contains("SECRET"), "{answer:?}");
                assert!(!answer.text.contains("127.0.0.1"), "{answer:?}");
                if !is_stream {
                    let answer = answer.json();
                    details.push(answer["error"]["message"].as_str().unwrap().to_owned());
                }
            }
        }
        assert!(!served.said().contains("SECRET"), "{}", served.said());
    }
    // What a client can do about it remains.
    let details = details.join("\n");
    for cause in [
        "the model server answered with the status 500",
        "exceeds the context of the model",
        "does not have the model",
        "the model server refuses connections",
    ] {
        assert!(details.contains(cause), "{cause}: {details}");
    }
}
