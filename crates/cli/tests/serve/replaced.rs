//! A session that is removed and created again while a request for it is on its way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};
use testkit::postgres::{Database, PostgresServer};
use testkit::{Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

/// Removes `s1` and creates it again, with one message of another client.
const REPLACE: &str = "BEGIN;
    SELECT logue.delete('s1', false);
    SELECT status FROM logue.enqueue('s1', '{\"kind\":\"quarantined\"}', NULL, false, NULL, NULL, NULL,
        false, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, false);
    SELECT 'replaced';\n";

/// Replaces `s1` by a session of another client while a request is on its way, and returns the answer.
fn answer_in_replaced(
    database: &Database,
    served: &Served,
    (path, body): (&str, &Value),
) -> Answered {
    let mut other = database
        .psql(&database.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut statements = other.stdin.take().unwrap();
    statements.write_all(REPLACE.as_bytes()).unwrap();
    let said = BufReader::new(other.stdout.take().unwrap()).lines();
    let said: Vec<String> = said
        .map(Result::unwrap)
        .take_while(|line| line != "replaced")
        .collect();
    assert_eq!(said, ["t", "entry"]);
    let answer = thread::scope(|scope| {
        let request = || {
            let in_session = [("x-logue-session", "s1")];
            served.request("POST", path, &in_session, &body.to_string())
        };
        let sent = scope.spawn(request);
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        wait_until(
            || format!("{path}: no request waits: {}", served.said()),
            || database.query(waiting).unwrap() != "0",
        );
        statements.write_all(b"COMMIT;\n").unwrap();
        drop(statements);
        sent.join().unwrap()
    });
    assert!(other.wait().unwrap().success());
    assert!(answer.text.contains("session_write_conflict"), "{answer:?}");
    assert!([200, 409].contains(&answer.status), "{answer:?}");
    let kept = "select entries || ' ' || (select count(*) from logue.label l where l.sid = s.sid)
        from logue.session s where id = 's1'";
    assert_eq!(database.query(kept).unwrap(), "1 0", "{path}");
    answer
}

fn remove(database: &Database) {
    database.query("select logue.delete('s1', false)").unwrap();
}

#[test]
fn a_message_reaches_only_the_session_that_its_request_was_checked_for() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let requests = [
        ("/v1/sessions/s1/send", json!({"message": "two"})),
        (
            "/v1/chat/completions",
            json!({"model": "agent", "messages": [{"role": "user", "content": "two"}]}),
        ),
        (
            "/v1/ag-ui/agent",
            json!({"threadId": "s1", "runId": "r2", "tools": [], "context": [], "state": {},
                "forwardedProps": {},
                "messages": [{"id": "m2", "role": "user", "content": "two"}]}),
        ),
    ];
    for (path, body) in &requests {
        let command = logue(folder.path());
        let served = Served::start_on(command, "127.0.0.1:0", &database.url(), &["agent.md"]);
        let first = served.post("/v1/sessions/s1/send", &json!({"message": "one"}));
        assert_eq!(first.status, 200, "{first:?}");
        answer_in_replaced(&database, &served, (path, body));
        drop(served);
        remove(&database);
    }
}

#[test]
fn labels_are_set_only_on_the_session_that_a_request_was_checked_for() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let serve = || {
        let command = logue(folder.path());
        Served::start_on(command, "127.0.0.1:0", &database.url(), &["agent.md"])
    };
    let served = serve();
    let first = served.post("/v1/sessions/s1/send", &json!({"message": "one"}));
    assert_eq!(first.status, 200, "{first:?}");
    served.kill();
    // The next message of the session gives it a time to live.
    let settings = "[store]\nttl = \"1h\"\n";
    std::fs::create_dir_all(folder.path().join(".config/logue")).unwrap();
    std::fs::write(folder.path().join(".config/logue/config.toml"), settings).unwrap();
    let body = json!({"message": "two"});
    answer_in_replaced(&database, &serve(), ("/v1/sessions/s1/send", &body));
}

#[test]
fn a_retry_reaches_only_the_session_that_its_request_was_checked_for() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let error = json!({"error": {"message": "scripted"}}).to_string();
    let replies = vec![Reply::Status(400, Vec::new(), error)];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_on(command, "127.0.0.1:0", &database.url(), &["agent.md"]);
    let first = served.post("/v1/sessions/s1/send", &json!({"message": "one"}));
    assert_eq!(first.status, 422, "{first:?}");
    let asked = model.received().len();
    let retry = ("/v1/sessions/s1/retry", &json!({}));
    let refused = answer_in_replaced(&database, &served, retry);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(model.received().len(), asked);
}
