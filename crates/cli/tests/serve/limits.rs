//! Limits of turns and of requests: what is refused, before anything runs or is stored.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Delivery, Gate, ModelServer, Random, Received, Reply};

use crate::client::{Answered, Events, Served};
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";

/// A model that answers `hold` after a permit, calls a tool for `call`, and fails for `fail`.
struct Scene {
    folder: TempDir,
    model: ModelServer,
    gate: Gate,
}

impl Scene {
    fn new() -> Self {
        let gate = Gate::new();
        let gated = gate.clone();
        let answer = move |request: &Received| {
            let last = request.body["messages"].as_array().unwrap().last().unwrap();
            match last["content"].as_str() {
                Some("hold") => {
                    let bytes = Answer::text("held").stream(&mut Random::new(7));
                    Reply::Gated(vec![b": wait\n\n".to_vec(), bytes], gated.clone())
                }
                Some("call") => Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
                Some("fail") => Reply::Status(400, Vec::new(), "{}".to_owned()),
                _ => Reply::Answer(Answer::text("answer")),
            }
        };
        let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT), ("small.md", AGENT)]);
        Self {
            folder,
            model,
            gate,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn serve(&self, arguments: &[&str]) -> Served {
        let mut command = logue(self.path());
        command.env("OPENAI_BASE_URL", self.model.base_url());
        let first = ["agent.md", "small.md", "--permission", "work=ask"];
        let arguments: Vec<&str> = first.iter().chain(arguments).copied().collect();
        Served::start_with(command, &arguments)
    }

    fn token(&self, name: &str) -> String {
        let create = ["serve", "token", "create", name, "--scope", "read,send"];
        let ran = run(self.path(), create);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        format!("Bearer {}", ran.stdout.trim())
    }
}

fn message(text: &str) -> Value {
    json!({"message": text, "agent": "agent"})
}

fn send(served: &Served, session: &str, text: &str) -> Answered {
    served.post(&format!("/v1/sessions/{session}/send"), &message(text))
}

/// Begins a turn that runs until the gate is opened, and reads up to its request to the model.
fn hold(served: &Served, session: &str, headers: &[(&str, &str)]) -> Events {
    let path = format!("/v1/sessions/{session}/send");
    let body = message("hold").to_string();
    let events = served.try_events("POST", &path, headers, &body);
    let mut events = events.unwrap();
    events.until("answer.started");
    events
}

/// Checks a refusal and returns its code.
fn code_of(refused: &Answered) -> String {
    assert_eq!(refused.status, 429, "{refused:?}");
    let mut lines = refused.head.lines();
    let wait = lines.find_map(|line| line.strip_prefix("retry-after: "));
    let wait: u64 = wait.unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{refused:?}");
    let body = refused.json();
    let code = if let Some(error) = body.get("error") {
        assert_eq!(error["type"], "rate_limit_error", "{body}");
        error["code"].as_str()
    } else {
        let kind = "content-type: application/problem+json";
        assert!(refused.head.contains(kind), "{refused:?}");
        assert_eq!(body["status"], 429, "{body}");
        body["code"].as_str()
    };
    code.unwrap().to_owned()
}

fn ag_ui(run: &str, message: &str) -> Value {
    let messages = json!([{"id": run, "role": "user", "content": message}]);
    json!({"threadId": "t1", "runId": run, "messages": messages, "tools": [], "context": [],
        "state": {}, "forwardedProps": {}, "protocolVersion": "1.0"})
}

/// Runs an agent over AG-UI and returns the last event.
fn last_of_run(served: &Served, input: &Value) -> Value {
    let answered = served.post("/v1/ag-ui/agent", input);
    assert_eq!(answered.status, 200, "{answered:?}");
    let data = answered.text.lines();
    let last = data
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back();
    serde_json::from_str(last.unwrap()).unwrap()
}

/// The requests that begin a turn, after the turns that some of them continue.
struct Starts {
    /// Requests whose refusal is a response.
    requests: Vec<(String, Value)>,
    runs: Vec<Value>,
}

impl Starts {
    /// Has a turn that failed, one that has ended, and two that wait for a person.
    fn prepare(served: &Served) -> Self {
        assert_eq!(send(served, "failed", "fail").status, 422);
        assert_eq!(send(served, "done", "go").status, 200);
        let waiting = json!({"model": "agent", "input": "call"});
        let waiting = served.post("/v1/responses", &waiting).json();
        let output = waiting["output"].as_array().unwrap();
        let approval = output
            .iter()
            .find(|item| item["type"] == "mcp_approval_request");
        let approval = json!([{"type": "mcp_approval_response", "approve": true,
            "approval_request_id": approval.unwrap()["id"]}]);
        let signals = served.get("/v1/signals").json();
        let signal = signals["signals"][0]["signal_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let run = last_of_run(served, &ag_ui("r1", "call"));
        let mut resume = ag_ui("r2", "call");
        resume["resume"] = json!([{"interruptId": run["outcome"]["interrupts"][0]["id"],
            "status": "resolved", "payload": {"approved": true}}]);
        let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}]});
        let requests = [
            ("/v1/sessions/new/send", message("go")),
            ("/v1/sessions/failed/retry", json!({})),
            ("/v1/sessions/done/rerun", json!({"step": 1})),
            (
                &format!("/v1/signals/{signal}"),
                json!({"approval": "deny"}),
            ),
            ("/v1/chat/completions", chat),
            ("/v1/responses", json!({"model": "agent", "input": "go"})),
            (
                "/v1/responses",
                json!({"model": "agent", "input": "go", "store": false}),
            ),
            (
                "/v1/responses",
                json!({"model": "agent", "input": "go",
                "previous_response_id": waiting["id"]}),
            ),
            (
                "/v1/responses",
                json!({"model": "agent", "input": approval,
                "previous_response_id": waiting["id"]}),
            ),
        ];
        let requests = requests.map(|(path, body)| (path.to_owned(), body)).into();
        let mut other = ag_ui("r3", "go");
        other["threadId"] = json!("t2");
        Self {
            requests,
            runs: vec![resume, other],
        }
    }
}

/// Returns what the server has stored.
fn stored(served: &Served) -> String {
    let paths = ["/v1/sessions?limit=100", "/v1/signals"];
    paths.map(|path| served.get(path).text).concat()
}

#[test]
fn a_turn_above_the_limit_is_refused_before_anything_runs_or_is_stored() {
    let scene = Scene::new();
    let served = scene.serve(&["--max-turns", "1"]);
    let starts = Starts::prepare(&served);
    let mut held = hold(&served, "held", &[]);
    let (before, asked) = (stored(&served), scene.model.received().len());
    let refuse_all = || {
        for (path, body) in &starts.requests {
            let refused = served.post(path, body);
            assert_eq!(code_of(&refused), "turns_limited", "{path} {body}");
        }
        let chat = starts
            .requests
            .iter()
            .find(|(path, _)| path.contains("chat"));
        let (path, body) = chat.unwrap();
        let headers = [("x-logue-session", "new")];
        let refused = served.request("POST", path, &headers, &body.to_string());
        assert_eq!(code_of(&refused), "turns_limited");
        for input in &starts.runs {
            let error = last_of_run(&served, input);
            assert_eq!(error["type"], "RUN_ERROR", "{error}");
            assert_eq!(error["code"], "turns_limited", "{error}");
            let about = &error["metadata"]["logue"];
            assert_eq!(about["retry_after_seconds"], 1, "{error}");
        }
        assert_eq!(scene.model.received().len(), asked);
        assert_eq!(stored(&served), before);
    };
    refuse_all();
    // Other agents, and requests that begin no turn, have no limit.
    let other = json!({"message": "go", "agent": "small"});
    let other = served.post("/v1/sessions/other/send", &other);
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(
        served.post("/v1/sessions/done/fork", &json!({})).status,
        201
    );
    assert_eq!(served.get("/v1/sessions/held").status, 200);
    scene.gate.open();
    held.until("turn.completed");
    // The place is free when the client receives the end, and no decision was lost.
    let run = last_of_run(&served, &starts.runs[0]);
    assert_eq!(run["type"], "RUN_FINISHED", "{run}");
    for (path, body) in &starts.requests {
        let answer = served.post(path, body);
        let is_expected = match path.as_str() {
            // It fails again, as the model does.
            "/v1/sessions/failed/retry" => answer.status == 422,
            // The turn waited for the decision.
            "/v1/responses" => matches!(answer.status, 200 | 409),
            _ => answer.status == 200,
        };
        assert!(is_expected, "{path} {answer:?}");
    }
}

#[test]
fn a_turn_counts_until_it_ends_although_its_client_left() {
    let scene = Scene::new();
    let served = scene.serve(&["--max-turns", "1"]);
    drop(hold(&served, "held", &[]));
    let refused = send(&served, "new", "go");
    assert_eq!(code_of(&refused), "turns_limited");
    let cursor = Some("0-1");
    let mut events = served.events("GET", "/v1/sessions/held/events", cursor, "");
    scene.gate.open();
    events.until("turn.completed");
    assert_eq!(send(&served, "new", "go").status, 200);
}

#[test]
fn turns_one_after_another_are_never_refused() {
    let scene = Scene::new();
    let served = scene.serve(&["--max-turns", "1", "--max-turns-per-token", "1"]);
    let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}]});
    let mut streamed = chat.clone();
    streamed["stream"] = json!(true);
    let response = json!({"model": "agent", "input": "go", "store": false, "stream": true});
    for turn in 0..20 {
        let path = format!("/v1/sessions/s{turn}/send");
        let body = message("go").to_string();
        let mut events = served.events("POST", &path, None, &body);
        events.until("turn.completed");
        let cases = [
            (path.as_str(), &message("again")),
            ("/v1/chat/completions", &chat),
            ("/v1/chat/completions", &streamed),
            ("/v1/responses", &response),
            ("/v1/ag-ui/agent", &ag_ui(&format!("r{turn}"), "go")),
        ];
        for (path, body) in cases {
            let answer = served.post(path, body);
            assert_eq!(answer.status, 200, "{path} {answer:?}");
            assert!(!answer.text.contains("turns_limited"), "{answer:?}");
        }
    }
}

#[test]
fn a_message_that_runs_already_is_delivered_again_at_the_limit() {
    let scene = Scene::new();
    let served = scene.serve(&["--max-turns", "1"]);
    let key = [("idempotency-key", "k1")];
    drop(hold(&served, "held", &key));
    let mut again = hold(&served, "held", &key);
    let other = [("idempotency-key", "k2")];
    let body = message("hold").to_string();
    let refused = served.request("POST", "/v1/sessions/held/send", &other, &body);
    assert_eq!(code_of(&refused), "turns_limited");
    scene.gate.open();
    let events = again.until("turn.completed");
    let end = events.last().unwrap().data["messages"].to_string();
    assert!(end.contains("held"), "{end}");
}

#[test]
fn a_token_cannot_use_the_turns_of_another() {
    let scene = Scene::new();
    let (one, other) = (scene.token("one"), scene.token("other"));
    let served = scene.serve(&["--max-turns-per-token", "1"]);
    let _held = hold(&served, "held", &[("authorization", &one)]);
    let post = |token: &str, agent: &str| {
        let headers = [("authorization", token)];
        let body = json!({"message": "go", "agent": agent}).to_string();
        served.request(
            "POST",
            &format!("/v1/sessions/{agent}/send"),
            &headers,
            &body,
        )
    };
    for agent in ["agent", "small"] {
        assert_eq!(code_of(&post(&one, agent)), "turns_limited", "{agent}");
    }
    assert_eq!(post(&other, "agent").status, 200);
    scene.gate.open();
}

#[test]
fn recovered_turns_are_not_refused() {
    let scene = Scene::new();
    let served = scene.serve(&[]);
    let sessions = ["s1", "s2", "s3"];
    for session in sessions {
        drop(hold(&served, session, &[]));
    }
    // A message is accepted before the model is asked.
    wait_until(
        || "the model was not asked".to_owned(),
        || scene.model.received().len() == sessions.len(),
    );
    served.kill();
    let served = scene.serve(&["--max-turns", "1"]);
    wait_until(
        || "a turn was not continued".to_owned(),
        || scene.model.received().len() == 2 * sessions.len(),
    );
    // The requests of the killed server take permits, too.
    for _ in scene.model.received() {
        scene.gate.open();
    }
    for session in sessions {
        let path = format!("/v1/sessions/{session}/events");
        let mut events = served.events("GET", &path, Some("0-1"), "");
        events.until("turn.completed");
    }
}

/// Writes the user's settings and the project's.
fn settings(scene: &Scene, user: &str, project: &str) {
    let folder = scene.path().join(".config/logue");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), user).unwrap();
    std::fs::write(scene.path().join("logue.toml"), project).unwrap();
}

/// Returns the turns that run at once, up to four.
fn turns_at_once(served: &Served, agent: &str) -> usize {
    let body = json!({"message": "hold", "agent": agent}).to_string();
    let mut held = Vec::new();
    for number in 0..4 {
        let path = format!("/v1/sessions/{agent}{number}/send");
        let headers = [("accept", "text/event-stream")];
        let stream = served.connect("POST", &path, &headers, &body).unwrap();
        let status = crate::client::status_of(&stream);
        if status != 200 {
            assert_eq!(status, 429);
            break;
        }
        held.push(stream);
    }
    held.len()
}

#[test]
fn a_project_can_only_lower_the_limits_of_its_user() {
    let scene = Scene::new();
    let user = "[serve]\nmax_turns = 2\n[serve.agents.small]\nmax_turns = 3\n";
    let cases = [
        ("", [2, 3]),
        (
            "[serve]\nmax_turns = 3\n[serve.agents.small]\nmax_turns = 4\n",
            [2, 3],
        ),
        ("[serve]\nmax_turns = 1\n", [1, 1]),
        ("[serve.agents.small]\nmax_turns = 1\n", [2, 1]),
    ];
    for (project, expected) in cases {
        settings(&scene, user, project);
        let served = scene.serve(&[]);
        let found = ["agent", "small"].map(|agent| turns_at_once(&served, agent));
        assert_eq!(found, expected, "{project}");
        drop(served);
        std::fs::remove_file(scene.path().join("s.db")).unwrap();
    }
    settings(&scene, user, "[serve]\nmax_turns = 1\n");
    let served = scene.serve(&["--max-turns", "4"]);
    assert_eq!(turns_at_once(&served, "small"), 4);
}

#[test]
fn a_token_sends_its_requests_of_a_minute_and_no_more() {
    let scene = Scene::new();
    let (one, other) = (scene.token("one"), scene.token("other"));
    let served = scene.serve(&["--max-requests-per-minute", "3"]);
    let get =
        |token: &str, path: &str| served.request("GET", path, &[("authorization", token)], "");
    for _ in 0..3 {
        assert_eq!(get(&one, "/v1/sessions").status, 200);
    }
    for path in ["/v1/sessions", "/v1/models", "/v1/signals"] {
        assert_eq!(code_of(&get(&one, path)), "rate_limited", "{path}");
    }
    let body = message("go").to_string();
    let headers = [("authorization", one.as_str())];
    let refused = served.request("POST", "/v1/sessions/new/send", &headers, &body);
    assert_eq!(code_of(&refused), "rate_limited");
    assert_eq!(get(&other, "/v1/sessions").status, 200);
    assert_eq!(get(&other, "/v1/sessions/new").status, 404);
    assert_eq!(scene.model.received().len(), 0);
    for _ in 0..5 {
        assert_eq!(served.get("/healthz").status, 200);
    }
}

#[test]
fn a_machine_without_tokens_is_limited_where_it_is_told() {
    let scene = Scene::new();
    let served = scene.serve(&["--max-requests-per-minute", "2"]);
    assert_eq!(send(&served, "s1", "go").status, 200);
    assert_eq!(served.get("/v1/sessions").status, 200);
    assert_eq!(code_of(&served.get("/v1/sessions")), "rate_limited");
}
