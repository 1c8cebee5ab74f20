//! Requests that fail or are repeated half way, and what they leave.

use nix::libc;
use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::Served;
use crate::erased::files_with;
use crate::program::{folder, logue};
use crate::slow_log::writer_lock;
use crate::waiting::wait_until;

const WORKER: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";

#[test]
fn an_edit_of_a_step_is_stored_without_secrets() {
    let settings = "[[redact.rule]]\nname = \"key\"\npattern = \"sk-[a-z]+\"\n";
    let folder = folder(&[
        ("agent.md", "<config model=\"echo:\"/>\n"),
        (".config/logue/config.toml", settings),
    ]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let edit = json!({"step": 1, "edit": "use sk-abcdef now", "into": "s2"});
    let rerun = served.post("/v1/sessions/s1/rerun", &edit);
    assert_eq!(rerun.status, 200, "{rerun:?}");
    let shown = served.get("/v1/sessions/s2/messages").json();
    assert_eq!(
        shown["messages"][0]["content"], "use [redacted:key] now",
        "{shown}"
    );
    assert!(!files_with(folder.path(), "[redacted:key]").is_empty());
    assert_eq!(files_with(folder.path(), "sk-abcdef"), [""; 0]);
}

#[test]
fn a_repeated_message_has_its_outcome_while_its_turn_waits() {
    let replies = vec![
        Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", WORKER)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let send = |key: &str, text: &str| {
        let body = json!({"message": text, "while_paused": "reject"}).to_string();
        served.request(
            "POST",
            "/v1/sessions/s1/send",
            &[("idempotency-key", key)],
            &body,
        )
    };
    let first = send("k1", "go");
    assert_eq!(first.status, 202, "{first:?}");
    let again = send("k1", "go");
    assert_eq!(again.status, 202, "{again:?}");
    assert_eq!(again.json()["signal"], first.json()["signal"]);
    assert_eq!(send("k1", "stop").json()["code"], "idempotency_key_reused");
    assert_eq!(send("k2", "more").json()["code"], "session_awaiting_signal");
    assert_eq!(model.received().len(), 1);
    let id = first.json()["signal"]["signal_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let decided = served.post(
        &format!("/v1/signals/{id}"),
        &json!({"approval": "approve"}),
    );
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(
        send("k1", "go").json()["replies"],
        decided.json()["replies"]
    );
    assert_eq!(model.received().len(), 2);
}

#[test]
fn a_removal_that_is_cut_off_leaves_no_events() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "strawberry"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let lock = writer_lock(&folder.path().join("s.db-shm"));
    lock(libc::F_WRLCK);
    let removal = served
        .connect("DELETE", "/v1/sessions/s1", &[], "")
        .unwrap();
    let position = |served: &Served| {
        let shown = served.get("/v1/sessions/s1").json();
        shown["events_after"].as_str().unwrap().to_owned()
    };
    // The numbers of the events have begun anew.
    wait_until(
        || "the events were not removed".to_owned(),
        || position(&served).ends_with("-2"),
    );
    served.kill();
    drop(removal);
    lock(libc::F_UNLCK);
    let served = Served::start(folder.path(), &["agent.md"]);
    let mut events = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
    assert_eq!(events.next().unwrap().kind(), "reset");
    let shown = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(shown["messages"][0]["content"], "strawberry", "{shown}");
    let removed = served.request("DELETE", "/v1/sessions/s1", &[], "");
    assert_eq!(removed.status, 204, "{removed:?}");
    assert!(events.next().is_none(), "the stream ends with its session");
    assert_eq!(files_with(folder.path(), "strawberry"), [""; 0]);
}

#[test]
fn an_unknown_member_of_a_message_is_refused_by_name() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}});
    let mut odd = image.clone();
    odd["source"]["base64_data"] = json!("AA==");
    odd["source"]["size"] = json!(1);
    for (message, member) in [
        (
            json!({"role": "user", "content": "go", "contents": "x"}),
            "message.contents",
        ),
        (
            json!({"role": "user", "content": "go", "tool_calls": []}),
            "message.tool_calls",
        ),
        (
            json!({"role": "user", "content": [{"type": "text", "text": "go", "cache": true}]}),
            "message.content[0].cache",
        ),
        (
            json!({"role": "user", "content": [image, odd]}),
            "message.content[1].source.size",
        ),
    ] {
        let refused = served.post("/v1/sessions/s1/send", &json!({ "message": message }));
        assert_eq!(refused.status, 400, "{refused:?}");
        let problem = refused.json();
        assert_eq!(problem["code"], "chat_message_shape_invalid", "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(detail, format!("unknown member `{member}`"), "{problem}");
    }
    let message =
        json!({"role": "user", "name": "ann", "content": [{"type": "text", "text": "go"}, image]});
    let sent = served.post("/v1/sessions/s1/send", &json!({ "message": message }));
    assert_eq!(sent.status, 200, "{sent:?}");
}

/// Returns the number of sessions of a server.
fn sessions(served: &Served) -> usize {
    let listed = served.get("/v1/sessions").json();
    listed["sessions"].as_array().unwrap().len()
}

#[test]
fn an_image_is_inline_or_at_a_web_address() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let post = |path: &str, body: &Value| {
        let text = body.to_string();
        served.request("POST", path, &[], &text)
    };
    let requests = |url: &str, number: usize| {
        let text = json!({"type": "text", "text": "go"});
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let input = json!({"type": "input_image", "image_url": url});
        let message = |parts: Value| json!([{"role": "user", "id": "m1", "content": parts}]);
        let block = match url
            .strip_prefix("data:")
            .and_then(|url| url.split_once(";base64,"))
        {
            Some((kind, data)) => json!({"type": "image", "media_type": kind,
                "source": {"type": "inline", "base64_data": data}}),
            None => json!({"type": "image", "source": {"type": "url", "url": url}}),
        };
        let part = json!({"type": "image", "source": {"type": "url", "value": url}});
        let sent = json!({"role": "user", "content": [text, block]});
        [
            (
                format!("/v1/sessions/s{number}/send"),
                json!({"message": sent}),
            ),
            (
                "/v1/chat/completions".to_owned(),
                json!({"model": "agent", "messages": message(json!([text, image]))}),
            ),
            (
                "/v1/responses".to_owned(),
                json!({"model": "agent", "input": message(json!([
                    {"type": "input_text", "text": "go"}, input]))}),
            ),
            (
                "/v1/ag-ui/agent".to_owned(),
                json!({"threadId": format!("t{number}"), "runId": "r1",
                    "messages": message(json!([text, part])), "tools": [], "context": [],
                    "state": {}, "forwardedProps": {}}),
            ),
        ]
    };
    let refused = [
        "file:///etc/passwd",
        "data:text/html;base64,AAAA",
        "a.png",
        "https://",
    ];
    for (number, url) in refused.into_iter().enumerate() {
        for (path, body) in requests(url, number) {
            let answer = post(&path, &body);
            assert_eq!(answer.status, 400, "{path} {url}: {answer:?}");
            assert!(answer.text.contains("data:image/"), "{path}: {answer:?}");
        }
    }
    assert_eq!(sessions(&served), 0);
    let accepted = ["https://example.org/a.png", "data:image/png;base64,AAAA"];
    for (number, url) in accepted.into_iter().enumerate() {
        for (path, body) in requests(url, number) {
            let answer = post(&path, &body);
            assert_eq!(answer.status, 200, "{path} {url}: {answer:?}");
        }
    }
    assert_ne!(sessions(&served), 0);
}

#[test]
fn a_refused_role_is_named() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for role in ["system", "developer", "assistant"] {
        let message = json!({"role": role, "content": "go"});
        let refused = served.post("/v1/sessions/s1/send", &json!({ "message": message }));
        assert_eq!(refused.status, 400, "{refused:?}");
        let detail = format!("a client sends the role `user`, not `{role}`");
        assert_eq!(refused.json()["detail"], detail.as_str());
    }
}

#[test]
fn one_text_is_the_same_message_in_every_form() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let forms = [
        json!("go"),
        json!({"role": "user", "content": "go"}),
        json!({"role": "user", "content": [{"type": "text", "text": "go"}]}),
    ];
    let key = [("idempotency-key", "k")];
    for message in forms {
        let body = json!({ "message": message }).to_string();
        let sent = served.request("POST", "/v1/sessions/s1/send", &key, &body);
        assert_eq!(sent.status, 200, "{sent:?}");
    }
    let shown = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2, "{shown}");
}
