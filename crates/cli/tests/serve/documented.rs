//! The requests of the documentation, sent to a server.

use std::path::Path;

use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::Served;
use crate::program::{folder, logue};

/// A documented request.
#[derive(Debug)]
struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    is_stream: bool,
}

/// Splits a line of a shell into words; only single quotes quote.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn request(line: &str) -> Request {
    let mut request = Request {
        method: "GET",
        path: String::new(),
        headers: Vec::new(),
        body: String::new(),
        is_stream: false,
    };
    let mut rest = words(line).into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-s" => {}
            "-N" => request.is_stream = true,
            "-H" => {
                let header = rest.next().unwrap();
                let (name, value) = header.split_once(": ").unwrap();
                request.headers.push((name.to_owned(), value.to_owned()));
            }
            "--json" => {
                request.method = "POST";
                request.body = rest.next().unwrap();
            }
            url => {
                let path = url.strip_prefix("http://127.0.0.1:8080").unwrap();
                path.clone_into(&mut request.path);
            }
        }
    }
    request
}

/// Returns the documented requests of a page.
fn requests(page: &str) -> Vec<Request> {
    let mut is_served = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_served = line == "```sh not-run: needs the server";
        } else if is_served {
            assert!(line.starts_with("curl "), "{line}");
            found.push(request(line));
        }
    }
    found
}

/// Calls the tool in each turn until the request ends with its result.
fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let has_result = messages.last().unwrap()["role"] == "tool";
    Reply::Answer(if has_result {
        Answer::text("done")
    } else {
        Answer::text("").with_call("call_1", "work", "{}")
    })
}

#[test]
fn documented_requests_succeed() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("serve.md")).unwrap();
    let requests = requests(&page);
    assert!(requests.len() > 5, "{requests:?}");
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let agent = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";
    let folder = folder(&[("agent.md", agent)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    for (at, request) in requests.into_iter().enumerate() {
        let mut path = request.path.clone();
        if path.contains("SIGNAL") {
            // Each decision is about a turn of its own.
            let body = serde_json::json!({"message": "go"});
            let waiting = served.post(&format!("/v1/sessions/own-{at}/send"), &body);
            assert_eq!(waiting.status, 202, "{waiting:?}");
            let waiting = waiting.json();
            let signal = waiting["signal"]["signal_id"].as_str().unwrap();
            path = path.replace("SIGNAL", signal);
        }
        if request.is_stream {
            let last = request.headers.first().map(|(_, last)| last.as_str());
            served.events(request.method, &path, last, &request.body);
            continue;
        }
        let headers = request.headers.iter();
        let headers: Vec<_> = headers.map(|(name, value)| (&**name, &**value)).collect();
        let answered = served.request(request.method, &path, &headers, &request.body);
        assert!(answered.status < 300, "{request:?}: {answered:?}");
    }
}
