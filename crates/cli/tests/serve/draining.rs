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
