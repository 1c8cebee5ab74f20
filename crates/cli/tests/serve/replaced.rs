//! A session that is removed and created again while a request for it is on its way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::thread;

use serde_json::json;
use testkit::postgres::PostgresServer;

use crate::client::Served;
use crate::program::{folder, logue};
use crate::waiting::wait_until;

/// Removes `s1` and creates it again, with one message of another client.
const REPLACE: &str = "BEGIN;
    SELECT logue.delete('s1', false);
    SELECT status FROM logue.enqueue('s1', '{\"kind\":\"quarantined\"}', NULL, false, NULL, NULL, NULL,
        false, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, false);
    SELECT 'replaced';\n";

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
    for (path, body) in requests {
        let command = logue(folder.path());
        let served = Served::start_on(command, "127.0.0.1:0", &database.url(), &["agent.md"]);
        let first = served.post("/v1/sessions/s1/send", &json!({"message": "one"}));
        assert_eq!(first.status, 200, "{first:?}");
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
        let entries = "select entries from logue.session where id = 's1'";
        assert_eq!(database.query(entries).unwrap(), "1", "{path}");
        drop(served);
        database.query("select logue.delete('s1', false)").unwrap();
    }
}
