//! The times of calls in a browser, after a reload.

use testkit::{Answer, Delivery, ModelServer, Reply};

use super::{serve, session_address};
use crate::browser::Browser;
use crate::program::folder;

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"sleep 0.3\"/>\n";

#[test]
fn a_call_has_its_time_after_a_reload() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    // The model names each call alike, as some servers do.
    let call = || Reply::Answer(Answer::text("").with_call("c1", "work", "{}"));
    let replies = vec![
        call(),
        Reply::Answer(Answer::text("first")),
        call(),
        Reply::Answer(Answer::text("second")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let arguments = ["--permission", "work=allow"];
    let served = serve(folder.path(), &model, &arguments);
    let body = serde_json::json!({"message": "go"});
    for _ in 0..2 {
        assert_eq!(served.post("/v1/sessions/s1/send", &body).status, 200);
    }
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
    let events = [
        stream.until("turn.completed"),
        stream.until("turn.completed"),
    ]
    .concat();
    let ended = events.iter().filter(|event| event.kind() == "tool.ended");
    let logged: Vec<u64> = ended
        .map(|event| event.data["milliseconds"].as_u64().unwrap())
        .collect();
    assert_eq!(logged.len(), 2);
    let page = served.get("/v1/sessions/s1/messages?form=nodes").json();
    let shown = page["messages"].as_array().unwrap().iter();
    let shown: Vec<u64> = shown
        .filter_map(|item| item["milliseconds"].as_u64())
        .collect();
    assert_eq!(shown, logged);
    let tab = browser.open(&session_address(&served, "s1"));
    let times = "[...document.querySelectorAll('.tool-time')].map((one) => one.textContent).join()";
    let expected: Vec<String> = logged.iter().map(|time| format!("{time} ms")).collect();
    browser.wait(&tab, &format!("{times} === '{}'", expected.join(",")));

    // Without the events no time is known, and none is shown.
    served.kill();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(
            folder.path().join(format!("s.db-events{suffix}")),
        ));
    }
    let served = serve(folder.path(), &model, &arguments);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.wait(&tab, &format!("{times} === 'done,done'"));
}
