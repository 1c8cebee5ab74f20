//! The events of several sessions in one stream.

use serde_json::{Value, json};

use crate::client::{Events, Served};
use crate::program::{folder, logue};

/// Returns the next event, with its session and the number of its id.
fn next(stream: &mut Events) -> (String, u64, String) {
    let event = stream.next().unwrap().data;
    let id = event["id"].as_str().unwrap_or("0-0");
    let seq = id.split_once('-').unwrap().0.parse().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&event["session"]), seq, text(&event["event"]["type"]))
}

fn send(served: &Served, session: &str) {
    let body = json!({"message": "hi"});
    let sent = served.post(&format!("/v1/sessions/{session}/send"), &body);
    assert_eq!(sent.status, 200, "{sent:?}");
}

#[test]
fn several_sessions_are_followed_by_one_stream() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for session in ["s1", "s2", "a%3Ab%2C%20c"] {
        send(&served, session);
    }
    let last = |session: &str| {
        let shown = served.get(&format!("/v1/sessions/{session}")).json();
        shown["events_after"].as_str().unwrap().to_owned()
    };
    let of_first = last("s1");
    let count: u64 = of_first.split_once('-').unwrap().0.parse().unwrap();
    // Each session continues after its own event; unknown ones are reported.
    let path = format!(
        "/v1/events?session=s1%3A{}&session=s2%3A{}&session=a%3Ab%2C+c%3A&session=unknown%3A",
        of_first.replace(&count.to_string(), "1"),
        last("s2")
    );
    let mut stream = served.events("GET", &path, None, "");
    assert_eq!(
        next(&mut stream),
        ("unknown".to_owned(), 0, "session.gone".to_owned())
    );
    for seq in 2..=count {
        let (session, found, _) = next(&mut stream);
        assert_eq!((session.as_str(), found), ("s1", seq));
    }
    for session in ["s2", "a%3Ab%2C%20c", "s1"] {
        send(&served, session);
        let name = session.replace("%3A", ":").replace("%2C%20", ", ");
        for seq in count + 1..=2 * count {
            let (session, found, _) = next(&mut stream);
            assert_eq!((session, found), (name.clone(), seq));
        }
    }
    // A removed session ends, and the others continue.
    let removed = served.request("DELETE", "/v1/sessions/s2", &[], "");
    assert_eq!(removed.status, 204, "{removed:?}");
    assert_eq!(
        next(&mut stream),
        ("s2".to_owned(), 0, "session.gone".to_owned())
    );
    send(&served, "s1");
    assert_eq!(
        next(&mut stream),
        ("s1".to_owned(), 2 * count + 1, "turn.accepted".to_owned())
    );
    let metrics = served.get("/metrics").text;
    assert!(
        metrics.contains("\nlogue_event_streams_open 1\n"),
        "{metrics}"
    );

    // The log was lost, so that its clients read the session again.
    drop(stream);
    served.kill();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(
            folder.path().join(format!("s.db-events{suffix}")),
        ));
    }
    let served = Served::start_with(logue(folder.path()), &["agent.md"]);
    let path = format!("/v1/events?session=s1%3A{of_first}");
    let mut stream = served.events("GET", &path, None, "");
    let (session, _, kind) = next(&mut stream);
    assert_eq!((session.as_str(), kind.as_str()), ("s1", "reset"));
    for refused in [
        "",
        "?session=s1",
        "?session=s1%3A&session=s1%3A",
        "?session=s1%3Ax",
        "?sessions=s1%3A",
    ] {
        let refused = served.get(&format!("/v1/events{refused}"));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.json()["code"], "request_invalid");
    }
}

#[test]
fn a_name_that_no_session_has_is_refused() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for name in [":", "%3A", ":1-1", "a", "a:x", "a%00:", "a%0Ab:1-1"] {
        let refused = served.get(&format!("/v1/events?session={name}"));
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
        assert_eq!(refused.json()["code"], "request_invalid", "{name}");
    }
}
