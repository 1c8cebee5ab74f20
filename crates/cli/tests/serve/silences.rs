//! Streams of every interface while the model is silent: their first bytes, and their signs of life.

use std::io::{BufReader, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Answer, Completion, Delivery, Gate, ModelServer, Random, Reply, Wire};

use crate::client::{Served, read_chunk};
use crate::program::{folder, logue};

/// The promised longest silence of a stream.
const SILENCE: Duration = Duration::from_secs(10);
/// The pace of a model that answers slowly.
const PACE: Duration = Duration::from_millis(1_500);
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

/// A model whose gates open at a pace: each step of an agent calls a tool, and a gateway receives
/// reasoning.
fn slow_model(gates: &Arc<Mutex<Vec<Gate>>>) -> ModelServer {
    let gates = Arc::clone(gates);
    let reply = move |request: &testkit::Received| {
        let gate = Gate::new();
        let mut gates = gates.lock().unwrap();
        gates.push(gate.clone());
        let pieces = if request.body.get("prompt").is_some() {
            let opening = (Vec::new(), "<|channel|>analysis<|message|>".to_owned());
            let thought = (Vec::new(), " still".to_owned());
            let pieces = std::iter::once(opening).chain(std::iter::repeat_n(thought, 30));
            let bytes = Completion::new(Wire::Plain, pieces.collect()).stream();
            let events = bytes.split_inclusive(|byte| *byte == b'\n');
            events.map(<[u8]>::to_vec).collect()
        } else {
            let id = format!("c{}", gates.len());
            let answer = Answer::text("").with_call(id, "work", "{}");
            // The whole answer waits.
            vec![Vec::new(), answer.stream(&mut Random::new(7))]
        };
        Reply::Gated(pieces, gate)
    };
    ModelServer::start_by(reply, Delivery::Whole).unwrap()
}

#[test]
fn a_turn_without_visible_events_silences_no_stream() {
    let gates = Arc::default();
    let model = slow_model(&gates);
    let agent = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";
    let folder = folder(&[("agent.md", agent)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let agents = Served::start_with(command, &["agent.md", "--permission", "work=allow"]);
    let arguments = ["harmony:gpt-oss-20b", "--upstream", &model.base_url()];
    let gateway = Served::start(folder.path(), &arguments);
    let messages = json!([{"role": "user", "content": "go"}]);
    let chat = |model: &str| json!({"model": model, "stream": true, "messages": messages});
    let response = json!({"model": "gpt-oss-20b", "stream": true, "input": "go"});
    let (chats, responses) = ("/v1/chat/completions", "/v1/responses");
    let session = [("x-logue-session", "s2")];
    let hidden = [("x-logue-reasoning", "none")];
    let faces = [
        (&agents, chats, &[][..], chat("agent")),
        (&agents, chats, &session, chat("agent")),
        (&gateway, chats, &hidden, chat("gpt-oss-20b")),
        (&gateway, responses, &hidden, response),
    ];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(PACE);
                for gate in gates.lock().unwrap().iter() {
                    gate.open();
                }
            }
        });
        let waiting = faces.each_ref().map(|(served, path, headers, body)| {
            scope.spawn(move || {
                let [first, next] = waits(served, path, headers, body);
                println!("{path}: first bytes after {first:?}, then after {next:?}");
            })
        });
        let ended = waiting.map(std::thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::SeqCst);
        for one in ended {
            one.unwrap();
        }
    });
    // The agents have called tools in the meantime.
    assert!(model.received().len() > faces.len());
}
