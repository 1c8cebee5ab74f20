//! A database that accepts some changes and refuses others, as a full disk does.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::postgres::{Database, PostgresServer};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Event, Served};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
const DEPLOY: &str = "echo $1 >> runs\necho deployed\n";
const SEND: &str = "/v1/sessions/s1/send";

fn model(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn text(words: &str) -> Reply {
    Reply::Answer(Answer::text(words))
}

fn call() -> Reply {
    Reply::Answer(Answer::text("I try.").with_call("c1", "deploy", r#"{"arguments":["it"]}"#))
}

fn prepared(settings: &str) -> tempfile::TempDir {
    folder(&[
        ("agent.md", AGENT),
        ("deploy.sh", DEPLOY),
        ("logue.toml", settings),
    ])
}

fn serve(folder: &Path, database: &Database, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments = [&["agent.md"], arguments].concat();
    Served::start_on(command, "127.0.0.1:0", &database.url(), &arguments)
}

/// Refuses new rows of a table for which a condition holds, and counts the attempts.
fn refuse(database: &Database, table: &str, condition: &str) {
    database
        .query(&format!(
            "create sequence if not exists public.attempts;
             create function public.refused() returns trigger language plpgsql as $$
             begin
                 perform nextval('public.attempts');
                 raise exception 'no space' using errcode = '53100';
             end $$;
             create trigger refused before insert on logue.{table}
             for each row when ({condition}) execute function public.refused()"
        ))
        .unwrap();
}

fn permit(database: &Database, table: &str) {
    database
        .query(&format!("drop trigger refused on logue.{table}"))
        .unwrap();
}

/// The number of attempts that were refused.
fn attempts(database: &Database) -> u64 {
    let count = "select case when is_called then last_value else 0 end from public.attempts";
    database.query(count).unwrap().parse().unwrap()
}

fn notes(database: &Database) -> u64 {
    let count = database.query("select count(*) from logue.note").unwrap();
    count.parse().unwrap()
}

fn send(served: &Served) -> Answered {
    let body = json!({"message": "go"}).to_string();
    served.request("POST", SEND, &[("idempotency-key", "k")], &body)
}

fn history(served: &Served) -> Value {
    served.get("/v1/sessions/s1/messages").json()["messages"].clone()
}

fn runs(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default()
}

#[test]
fn a_decision_stays_until_its_record_can_be_stored() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let decisions = [
        (json!({"approval": "approve"}), "it\n"),
        (json!({"approval": "deny", "note": "not today"}), ""),
        (
            json!({"approval": "approve", "edits": {"c1": {"arguments": ["other"]}}}),
            "other\n",
        ),
    ];
    for (decision, expected) in decisions {
        let database = server.database().unwrap();
        let model = model(vec![call(), text("fine")]);
        let folder = prepared("");
        let rules = ["--permission", "*=ask"];
        let served = serve(folder.path(), &database, &model, &rules);
        let waits = send(&served);
        assert_eq!(waits.status, 202, "{waits:?}");
        let id = waits.json()["signal"]["signal_id"].clone();
        let path = format!("/v1/signals/{}", id.as_str().unwrap());
        refuse(&database, "audit", "true");
        let refused = served.post(&path, &decision);
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["code"], "audit_write_failed", "{refused:?}");
        // The decision is known, and another one does not replace it.
        assert_eq!(served.get(&path).json()["status"], "decided");
        let other = if decision["approval"] == "deny" {
            json!({"approval": "approve"})
        } else {
            json!({"approval": "deny"})
        };
        let contradicts = served.post(&path, &other);
        assert_eq!(contradicts.status, 409, "{contradicts:?}");
        wait_until(
            || format!("not tried again: {}", served.said()),
            || attempts(&database) > 2,
        );
        assert_eq!(runs(folder.path()), "");
        assert_eq!(model.received().len(), 1);
        // No result of the call is history.
        assert_eq!(history(&served).as_array().unwrap().len(), 3);
        permit(&database, "audit");
        wait_until(
            || format!("not answered: {}", served.said()),
            || history(&served).to_string().contains("fine"),
        );
        assert_eq!(runs(folder.path()), expected);
        assert_eq!(model.received().len(), 2);
        let result = &model.received()[1].body["messages"].to_string();
        assert!(!result.contains("audit_write_failed"), "{result}");
        let records = database
            .query("select count(*), min(body) from logue.audit")
            .unwrap();
        assert!(records.starts_with('1'), "{records}");
        assert_eq!(served.get(&path).json()["status"], "ended");
    }
}

#[test]
fn the_journal_of_a_turn_that_cannot_end_stays_short() {
    const ATTEMPTS: usize = 24;
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let model = model(vec![call(), text("whole")]);
    // The turn was not interrupted, so it is not one that is to end.
    let folder = prepared("[run]\non_crash = \"stop\"\n");
    let rules = ["--permission", "*=allow"];
    let served = serve(folder.path(), &database, &model, &rules);
    refuse(&database, "message", "true");
    for attempt in 0..ATTEMPTS {
        let refused = send(&served);
        assert_eq!(refused.status, 503, "{attempt}: {refused:?}");
    }
    // The call, its start and its result, the answer, and eight takeovers with their ends.
    let count = notes(&database);
    assert!((4..=4 + 2 * 9).contains(&count), "{count} notes");
    permit(&database, "message");
    let answer = send(&served);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(history(&served).to_string().contains("whole"));
    assert_eq!(model.received().len(), 2);
    // The log of events could be written all the time, and has nothing of attempts without effect.
    let shown = served.get("/v1/sessions/s1").json();
    let last = shown["events_after"].as_str().unwrap();
    let (_, generation) = last.split_once('-').unwrap();
    let first = format!("0-{generation}");
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some(&first), "");
    let events = stream.until("turn.completed");
    let kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    let recovered = kinds.iter().filter(|kind| **kind == "turn.recovered");
    assert_eq!(recovered.count(), 1, "{kinds:?}");
    assert_eq!(runs(folder.path()), "it\n");
}

#[test]
fn an_answer_whose_note_is_refused_is_not_requested_again() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let long = "a long answer ".repeat(20);
    let replies = vec![text(&long), text("another answer")];
    let model = model(replies);
    let folder = prepared("");
    let served = serve(folder.path(), &database, &model, &[]);
    refuse(&database, "note", "length(new.body) > 200");
    for attempt in 1..=5 {
        let refused = send(&served);
        assert_eq!(refused.status, 503, "{attempt}: {refused:?}");
        assert_eq!(model.received().len(), 1, "{attempt}");
    }
    permit(&database, "note");
    let answer = send(&served);
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": long}
    ]);
    assert_eq!(history(&served), expected);
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_turn_that_cannot_end_is_tried_less_and_less_often() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let model = model(vec![text("whole")]);
    let folder = prepared("");
    let served = serve(folder.path(), &database, &model, &[]);
    refuse(&database, "message", "true");
    assert_eq!(send(&served).status, 503);
    let ready = || served.get("/readyz").status;
    wait_until(|| format!("ready: {}", served.said()), || ready() == 503);
    let mut seen = Vec::new();
    wait_until(
        || format!("{} attempts", attempts(&database)),
        || {
            if attempts(&database) > seen.len() as u64 {
                seen.push(Instant::now());
            }
            seen.len() == 5
        },
    );
    // Those after the first one are of the server: 2, 4 and 8 s apart.
    let waits: Vec<Duration> = seen.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(waits[2] > Duration::from_secs(3), "{waits:?}");
    assert!(waits[3] > Duration::from_secs(6), "{waits:?}");
    // Other operations succeed all the time.
    assert_eq!(ready(), 503);
    let said = served.said();
    assert!(!said.contains("works again"), "{said}");
    permit(&database, "message");
    wait_until(
        || format!("not answered: {}", served.said()),
        || history(&served).to_string().contains("whole"),
    );
    assert_eq!(model.received().len(), 1);
    wait_until(
        || format!("not ready: {}", served.said()),
        || ready() == 200,
    );
}
