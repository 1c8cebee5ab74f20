//! Hidden text: no outlet of a server contains reasoning, or messages of `system` and `developer`.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Random, Received, Reply, soak};

use crate::client::Served;
#[cfg(feature = "otlp")]
use crate::collector::{Collector, Reaction};
use crate::program::{folder, logue};

/// The mark of each hidden text, in a form that no other text has.
const MARK: &str = "HIDDEN";

const AGENT: &str = "<config model=\"m\"/>\n\
    <system>HIDDEN-SYSTEM rules</system>\n<developer>HIDDEN-DEVELOPER rules</developer>\n\
    <tool name=\"work\" command=\"printf done\"/>\n<tool name=\"free\" command=\"printf free\"/>\n";

/// Returns the system message that a request contains, as a server quotes it in an error.
fn quoted(request: &Received) -> String {
    let text = request.body["messages"].to_string();
    assert!(text.contains(MARK), "{text}");
    json!({"error": {"message": format!("cannot process {text}"), "type": "x"}}).to_string()
}

/// Returns a random reply to a request.
fn reply_to(request: &Received, random: &mut Random) -> Reply {
    if request.line.starts_with("GET ") {
        return Reply::Answer(Answer::text("a list"));
    }
    let thought = |answer: Answer| answer.with_reasoning("HIDDEN-THOUGHT about the question");
    match random.below(9) {
        0 => Reply::Status(400, Vec::new(), quoted(request)),
        1 => Reply::Status(
            503,
            vec![("retry-after".into(), "0".into())],
            quoted(request),
        ),
        2 => {
            let delta = json!({"choices": [{"index": 0, "finish_reason": null,
                "delta": {"reasoning_content": "HIDDEN-THOUGHT cut"}}]});
            Reply::Cut(format!("data: {delta}\n\n").into_bytes())
        }
        3 => Reply::Answer(thought(
            Answer::text("I work.").with_call("c1", "work", "{}"),
        )),
        4 => Reply::Answer(thought(Answer::text("").with_call("c1", "free", "{}"))),
        5 => Reply::Answer(thought(Answer::text("").with_call("c1", "free", "{\"HI"))),
        6 => Reply::Answer(Answer::text("plain answer")),
        _ => Reply::Answer(thought(Answer::text("an answer with **marks**"))),
    }
}

/// A request of a client.
struct Step {
    method: &'static str,
    path: String,
    body: Value,
}

fn step(random: &mut Random, signals: &[String]) -> Step {
    let session = format!("/v1/sessions/s{}", random.below(3));
    let post = |path: String, body: Value| Step {
        method: "POST",
        path,
        body,
    };
    let user = json!([{"role": "user", "content": "a question"}]);
    match random.below(16) {
        13 => post("/v1/unknown".to_owned(), json!({})),
        14 => {
            // A structured answer, of which nothing is kept or everything.
            let store = random.below(2) == 0;
            let body = json!({"model": "agent", "store": store, "stream": random.below(2) == 0,
                "input": "a question", "text": {"format": {"type": "json_object"}}});
            post("/v1/responses".to_owned(), body)
        }
        10 | 11 => {
            let (stream, background) = (random.below(2) == 0, random.below(4) == 0);
            let body = json!({"model": "agent", "stream": stream, "background": background,
                "input": "a question"});
            post("/v1/responses".to_owned(), body)
        }
        12 => {
            let run = random.next_u64().to_string();
            let body = json!({"threadId": format!("s{}", random.below(3)), "runId": run,
                "messages": [{"id": "m1", "role": "user", "content": "a question"}],
                "tools": [], "context": [], "state": {}, "forwardedProps": {}});
            post("/v1/ag-ui/agent".to_owned(), body)
        }
        0 => post(format!("{session}/retry"), json!({})),
        1 => post(format!("{session}/fork"), json!({})),
        2 => post(format!("{session}/rerun"), json!({"step": 1})),
        3 => {
            let stream = random.below(2) == 0;
            let body = json!({"model": "agent", "stream": stream, "messages": user});
            post("/v1/chat/completions".to_owned(), body)
        }
        4..=5 if !signals.is_empty() => {
            let signal = &signals[random.below(signals.len())];
            let decision = ["approve", "deny"][random.below(2)];
            let body = json!({"approval": decision, "note": "as agreed"});
            post(format!("/v1/signals/{signal}"), body)
        }
        _ => post(format!("{session}/send"), json!({"message": "a question"})),
    }
}

/// Returns the ids of responses in an answer.
fn response_ids(text: &str) -> impl Iterator<Item = String> {
    let ids = text.split("\"resp_").skip(1);
    ids.filter_map(|rest| Some(format!("resp_{}", rest.split_once('"')?.0)))
}

/// Returns what every reading path answers.
fn readings(
    served: &Served,
    responses: &std::collections::BTreeSet<String>,
) -> Vec<(String, String)> {
    let mut paths: Vec<String> = ["agents", "models", "sessions", "signals"]
        .map(|name| format!("/v1/{name}"))
        .into();
    paths.extend(["/metrics", "/openapi.json", "/docs", "/"].map(str::to_owned));
    paths.extend(
        ["a", "SYSTEM", "rules"].map(|word| format!("/v1/sessions?titles=true&search={word}")),
    );
    let mut read = Vec::new();
    for id in responses {
        let path = format!("/v1/responses/{id}");
        paths.push(format!("{path}/input_items"));
        // A response that waits to run has no end to stream to.
        let shown = served.get(&path);
        if !["queued", "in_progress"].contains(&shown.json()["status"].as_str().unwrap_or_default())
        {
            paths.push(format!("{path}?stream=true"));
        }
        paths.push(path);
    }
    paths.extend(["/readyz", "/healthz", "/v1/unknown"].map(str::to_owned));
    let sessions = served.get("/v1/sessions").json();
    for session in sessions["sessions"].as_array().unwrap() {
        let path = format!("/v1/sessions/{}", session["session"].as_str().unwrap());
        paths.push(path.clone());
        paths.push(format!("{path}/messages"));
        // Conversations are the sessions of one token.
        paths.push(format!("{path}/items").replace("/sessions/", "/conversations/"));
        // What the web page reads.
        paths.push(format!("{path}/messages?form=nodes"));
        // The server was started without its debug view.
        paths.push(format!("{path}/messages?view=debug"));
        for form in ["chatmd", "openchatml", "json"] {
            paths.push(format!("{path}/export?form={form}"));
        }
    }
    for path in paths {
        let answered = served.get(&path);
        read.push((path, format!("{}{}", answered.head, answered.text)));
    }
    read
}

/// Fails if a text of an outlet contains a hidden one.
fn check(outlet: &str, text: &str) {
    assert!(!text.contains(MARK), "{outlet}: {text}");
}

#[test]
fn random_conversations_show_nothing_hidden_anywhere() {
    let rounds = soak::rounds(6, 200);
    for round in 0..u64::from(rounds) {
        let count = AtomicUsize::new(0);
        let reply = move |request: &Received| {
            let number = count.fetch_add(1, Ordering::SeqCst) as u64;
            reply_to(request, &mut Random::new(round * 1_000 + number))
        };
        let model = ModelServer::start_by(reply, Delivery::Random(round)).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        command.env("RUST_LOG", "info");
        #[cfg(feature = "otlp")]
        let collector = Collector::start(Reaction::Accept);
        #[cfg(feature = "otlp")]
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
        let rules = [
            "agent.md",
            "--permission",
            "work=ask",
            "--permission",
            "free=allow",
        ];
        let served = Served::start_with(command, &rules);
        let mut random = Random::new(round);
        let mut outcomes = std::collections::BTreeSet::new();
        let mut responses = std::collections::BTreeSet::new();
        for _ in 0..14 {
            let waiting = served.get("/v1/signals");
            check("/v1/signals", &waiting.text);
            let waiting = waiting.json();
            let signals = waiting["signals"].as_array().unwrap().iter();
            let signals: Vec<String> = signals
                .map(|signal| signal["signal_id"].as_str().unwrap().to_owned())
                .collect();
            let step = step(&mut random, &signals);
            let accept = ["application/json", "text/event-stream"][random.below(2)];
            let headers = [("accept", accept)];
            let answered =
                served.request(step.method, &step.path, &headers, &step.body.to_string());
            outcomes.insert(answered.status);
            responses.extend(response_ids(&answered.text));
            check(&step.path, &format!("{}{}", answered.head, answered.text));
        }
        assert!(outcomes.len() > 1, "round {round}: {outcomes:?}");
        for (path, text) in readings(&served, &responses) {
            check(&path, &text);
        }
        for session in ["s0", "s1", "s2"] {
            check(session, &served.logged_events(session));
        }
        let ended = served.end();
        assert_eq!(ended.status, Some(143), "round {round}");
        check("standard output", &ended.stdout);
        check("standard error", &ended.stderr);
        #[cfg(feature = "otlp")]
        {
            let spans = collector.text();
            assert!(spans.contains("a question"), "round {round}");
            check("spans", &spans);
        }
        let requests = model.received();
        let asked = requests.iter().filter(|request| request.body.is_object());
        assert!(asked.count() > 5, "round {round}");
    }
}
