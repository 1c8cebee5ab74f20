//! Metrics: their documented names, their values after known requests, and their bounded labels.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use testkit::{Answer, Delivery, Gate, ModelServer, Received, Reply, end_of_stream, text_delta};

use crate::client::Served;
use crate::gateway::{MODEL, PATH, body, gateway, reply, user};
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m-7\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";

/// A metric by its name: its form and its labels.
type Metrics = BTreeMap<String, (String, Vec<String>)>;

/// The metrics that the page documents for a server.
fn documented(server: &str) -> Metrics {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("serve-operations.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `logue_"));
    let mut metrics = Metrics::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[4] != server && cells[4] != "both" {
            continue;
        }
        let name = cells[1].trim_matches('`').to_owned();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.trim_matches('`').to_owned());
        metrics.insert(name, (cells[2].to_owned(), labels.collect()));
    }
    metrics
}

/// The metrics that a text contains. A label is known where the metric has a value.
fn printed(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, form) = rest.split_once(' ').unwrap();
            metrics.insert(name.to_owned(), (form.to_owned(), Vec::new()));
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name);
            let labels = line.split_once('{').map_or("", |(_, rest)| rest);
            let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
            let labels = labels.split(',').filter_map(|pair| pair.split_once('='));
            let labels = labels.map(|(label, _)| label.to_owned());
            let own = metrics.get_mut(name);
            let own = own.unwrap_or_else(|| panic!("no type of `{name}`"));
            own.1 = labels.filter(|label| label != "le").collect();
        }
    }
    metrics
}

/// Fails if a text does not contain this line.
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|own| own == line), "{line}\n{text}");
}

/// Calls the tool once in a turn whose message says so.
fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    match last["content"].as_str().unwrap_or_default() {
        "fail" => Reply::Status(400, Vec::new(), "{}".to_owned()),
        "work" => Reply::Answer(Answer::text("").with_call("call_1", "work", "{}")),
        _ => Reply::Answer(Answer::text("done")),
    }
}

#[test]
fn values_follow_the_turns_and_names_are_documented() {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let send = |session: &str, text: &str| {
        let path = format!("/v1/sessions/{session}/send");
        served.post(&path, &json!({ "message": text }))
    };
    assert_eq!(send("s1", "hello").status, 200);
    let key = [("idempotency-key", "k")];
    for _ in 0..2 {
        // The second is a repetition.
        let body = json!({"message": "again"}).to_string();
        let sent = served.request("POST", "/v1/sessions/s1/send", &key, &body);
        assert_eq!(sent.status, 200, "{sent:?}");
    }
    assert_eq!(send("s2", "fail").status, 422);
    let waiting = send("s3", "work");
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let text = served.get("/metrics").text;
    has(&text, "logue_approvals_waiting 1");
    has(&text, "logue_turns_running 0");
    has(&text, "logue_event_streams_open 0");

    let signal = waiting.json()["signal"]["signal_id"].clone();
    let path = format!("/v1/signals/{}", signal.as_str().unwrap());
    let decided = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!(decided.status, 200, "{decided:?}");
    let messages = json!([{"role": "user", "content": "hello"}]);
    let completion = json!({"model": "agent", "messages": messages});
    let answered = served.post("/v1/chat/completions", &completion);
    assert_eq!(answered.status, 200, "{answered:?}");
    let response = json!({"model": "agent", "input": "hello", "store": false});
    let answered = served.post("/v1/responses", &response);
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(served.get("/v1/sessions/absent").status, 404);
    assert_eq!(served.get("/of/a/client").status, 404);
    let bearer = [("host", "other.example")];
    let refused = served.request("POST", "/v1/responses", &bearer, "{}");
    assert_eq!(refused.status, 403, "{refused:?}");
    let events = served.events("GET", "/v1/sessions/s1/events", None, "");

    let text = served.get("/metrics").text;
    for line in [
        "logue_approvals_waiting 0",
        "logue_event_streams_open 1",
        "logue_turns_total{agent=\"agent\",outcome=\"completed\"} 5",
        "logue_turns_total{agent=\"agent\",outcome=\"errored\"} 1",
        "logue_turns_total{agent=\"agent\",outcome=\"suspended\"} 1",
        "logue_turn_duration_seconds_count{agent=\"agent\"} 7",
        "logue_turn_first_delta_seconds_count{agent=\"agent\"} 5",
        // Each answer of the model double has these counts.
        "logue_tokens_total{agent=\"agent\",model=\"m-7\",kind=\"input\"} 66",
        "logue_tokens_total{agent=\"agent\",model=\"m-7\",kind=\"output\"} 42",
        "logue_problems_total{code=\"session_not_found\"} 1",
        "logue_problems_total{code=\"path_not_found\"} 1",
        "logue_problems_total{code=\"host_refused\"} 1",
        "logue_problems_total{code=\"provider_invalid_request\"} 1",
        "logue_http_requests_total{method=\"POST\",route=\"/v1/sessions/{session}/send\",status=\"2xx\"} 4",
        "logue_http_requests_total{method=\"POST\",route=\"/v1/sessions/{session}/send\",status=\"4xx\"} 1",
        "logue_http_requests_total{method=\"GET\",route=\"other\",status=\"4xx\"} 1",
        "logue_http_requests_total{method=\"POST\",route=\"/v1/responses\",status=\"4xx\"} 1",
    ] {
        has(&text, line);
    }
    for own in ["s1", "absent", "of/a/client", "other.example"] {
        assert!(!text.contains(&format!("\"{own}\"")), "{text}");
    }
    let mut documented = documented("agents");
    // A server without `--store-listen` has none.
    assert!(documented.remove("logue_store_listen_up").is_some());
    assert_eq!(printed(&text), documented);
    drop(events);
}

#[test]
fn a_turn_whose_client_leaves_is_counted() {
    let gate = Gate::new();
    let held = gate.clone();
    let parts = vec![Vec::new(), [text_delta("done"), end_of_stream()].concat()];
    let reply = move |_: &Received| Reply::Gated(parts.clone(), held.clone());
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md"]);
    let body = json!({"message": "hello"}).to_string();
    let kept = served.connect("POST", "/v1/sessions/s1/send", &[], &body);
    let messages = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": "agent", "messages": messages}).to_string();
    let lost = served.connect("POST", "/v1/chat/completions", &[], &body);
    wait_until(|| "both ask".into(), || model.received().len() == 2);
    drop((kept, lost));
    let counted = |line: &str| served.get("/metrics").text.contains(line);
    for line in [
        "logue_turns_total{agent=\"agent\",outcome=\"cut\"} 1\n",
        "route=\"/v1/chat/completions\",status=\"none\"} 1\n",
        "route=\"/v1/sessions/{session}/send\",status=\"none\"} 1\n",
        "logue_turns_running 1\n",
    ] {
        wait_until(|| line.to_owned(), || counted(line));
    }
    // One is for the connection that the server has cut.
    gate.open();
    gate.open();
    let line = "logue_turns_total{agent=\"agent\",outcome=\"completed\"} 1\n";
    wait_until(|| line.to_owned(), || counted(line));
}

#[test]
fn a_gateway_prints_the_documented_metrics() {
    let unclosed = "<|channel|>final<|message|>Hello.<|return|>";
    let model = ModelServer::start(vec![reply(unclosed)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let answered = served.post(PATH, &body(&json!([user("Hi.")]), &json!({})));
    assert_eq!(answered.status, 200, "{answered:?}");
    let unknown = json!({"model": "of a client", "messages": [user("Hi.")]});
    assert_eq!(served.post(PATH, &unknown).status, 404);
    let text = served.get("/metrics").text;
    has(&text, "logue_gateway_requests_total{outcome=\"ok\"} 1");
    has(&text, "logue_problems_total{code=\"model_not_found\"} 1");
    let route = "logue_http_requests_total{method=\"POST\",route=\"/v1/chat/completions\"";
    has(&text, &format!("{route},status=\"2xx\"}} 1"));
    assert!(!text.contains("of a client"), "{text}");
    let mut documented = documented("gateway");
    let mut printed = printed(&text);
    // Nothing was repaired or asked again.
    for name in ["logue_gateway_repairs_total", "logue_gateway_reasks_total"] {
        documented.get_mut(name).unwrap().1.clear();
        printed.get_mut(name).unwrap().1.clear();
    }
    assert_eq!(printed, documented, "{MODEL}");
}

#[test]
fn refusals_by_limits_are_counted() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let token = |name: &str| {
        let create = ["serve", "token", "create", name, "--scope", "read"];
        let ran = run(folder.path(), create);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        format!("Bearer {}", ran.stdout.trim())
    };
    let (client, operator) = (token("client"), token("operator"));
    let served = Served::start(
        folder.path(),
        &["agent.md", "--max-requests-per-minute", "3"],
    );
    let get = |token: &str, path: &str| {
        let headers = [("authorization", token)];
        served.request("GET", path, &headers, "")
    };
    let statuses = [(); 5].map(|()| get(&client, "/v1/sessions").status);
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let text = get(&operator, "/metrics").text;
    has(&text, "logue_problems_total{code=\"rate_limited\"} 2");
    assert_eq!(get("Bearer wrong", "/metrics").status, 401);
    let text = get(&operator, "/metrics").text;
    has(&text, "logue_problems_total{code=\"unauthorized\"} 1");
    for secret in [&client, &operator] {
        let secret = secret.trim_start_matches("Bearer ");
        assert!(!text.contains(secret), "{text}");
        assert!(!served.said().contains(secret), "{}", served.said());
    }
}
