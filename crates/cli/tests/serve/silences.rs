//! Streams of every interface while the model is silent: their first bytes, and their signs of life.

use std::io::{BufReader, Read as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

use crate::client::{Served, read_chunk};
use crate::program::{folder, logue};

/// The promised longest silence of a stream.
const SILENCE: Duration = Duration::from_secs(10);
/// The bytes of a comment that proxies do not hold back.
const PADDING: usize = 2_048;

/// Reads a stream until its second sign of life. Returns the waits for both.
fn waits(served: &Served, path: &str, headers: &[(&str, &str)], body: &Value) -> [Duration; 2] {
    let begun = Instant::now();
    let headers = [headers, &[("accept", "text/event-stream")]].concat();
    let stream = match body {
        Value::Null => served.connect("GET", path, &headers, ""),
        body => served.connect("POST", path, &headers, &body.to_string()),
    };
    let stream = stream.unwrap();
    // The reader fails if a silence is longer than promised.
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(reader.read(&mut byte).unwrap(), 1, "{path}");
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    let first = read_chunk(&mut reader).unwrap_or_default();
    assert!(first.starts_with(b":") && first.len() >= PADDING, "{path}");
    let first = begun.elapsed();
    // Events of the turn that has begun precede the silence.
    let mut last = Instant::now();
    loop {
        let chunk = read_chunk(&mut reader);
        let chunk = chunk.unwrap_or_else(|| panic!("{path} is silent for {SILENCE:?}"));
        if chunk.starts_with(b":") {
            return [first, last.elapsed()];
        }
        last = Instant::now();
    }
}

#[test]
fn a_silent_model_silences_no_stream() {
    let model = ModelServer::start_by(|_| Reply::Silent, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let agents = Served::start_with(command, &["agent.md"]);
    let arguments = ["harmony:gpt-oss-20b", "--upstream", &model.base_url()];
    let gateway = Served::start(folder.path(), &arguments);
    let messages = json!([{"role": "user", "content": "go"}]);
    let chat = |model: &str| json!({"model": model, "stream": true, "messages": messages});
    let response = |model: &str| json!({"model": model, "stream": true, "input": "go"});
    let mut stateless = response("agent");
    stateless["store"] = json!(false);
    let run = json!({"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "m1", "role": "user", "content": "go"}]});
    let (chats, responses) = ("/v1/chat/completions", "/v1/responses");
    let session = [("x-logue-session", "s2")];
    let faces = [
        (
            &agents,
            "/v1/sessions/s1/send",
            &[][..],
            json!({"message": "go"}),
        ),
        (&agents, chats, &[], chat("agent")),
        (&agents, chats, &session, chat("agent")),
        (&agents, responses, &[], response("agent")),
        (&agents, responses, &[], stateless),
        (&agents, "/v1/ag-ui/agent", &[], run),
        (&gateway, chats, &[], chat("gpt-oss-20b")),
        (&gateway, responses, &[], response("gpt-oss-20b")),
    ];
    std::thread::scope(|scope| {
        for (served, path, headers, body) in &faces {
            scope.spawn(move || {
                let [first, next] = waits(served, path, headers, body);
                println!("{path}: first bytes after {first:?}, then after {next:?}");
            });
        }
    });
    // No stream has ended by an answer.
    assert!(model.received().len() >= faces.len());
    // Streams that follow the turns which have begun.
    let followed = ["/v1/sessions/s1/events", "/v1/events?session=s1:"];
    std::thread::scope(|scope| {
        for path in followed {
            let agents = &agents;
            scope.spawn(move || {
                let [first, next] = waits(agents, path, &[], &Value::Null);
                println!("{path}: first bytes after {first:?}, then after {next:?}");
            });
        }
    });
}
