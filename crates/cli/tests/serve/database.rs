//! A server whose database is gone, silent, or differs from the one that it began with.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::postgres::{Database, PostgresServer, PostgresSettings, StopMode};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const ECHO: &str = "<config model=\"echo:\"/>\n";
const SEND: &str = "/v1/sessions/s1/send";

fn serve(folder: &Path, store: &str, arguments: &[&str]) -> Served {
    let arguments = [&["agent.md"], arguments].concat();
    Served::start_on(logue(folder), "127.0.0.1:0", store, &arguments)
}

fn ready(served: &Served) -> Answered {
    served.get("/readyz")
}

fn wait_for_status(served: &Served, status: u16) -> Answered {
    let mut answer = ready(served);
    wait_until(
        || format!("/readyz does not answer {status}: {}", served.said()),
        || {
            answer = ready(served);
            answer.status == status
        },
    );
    answer
}

fn wait_for_line(served: &Served, text: &str) {
    wait_until(
        || format!("no line `{text}` in: {}", served.said()),
        || served.said().contains(text),
    );
}

fn lines_with(served: &Served, text: &str) -> usize {
    served.said().matches(text).count()
}

/// Checks the answer of a server whose store is away.
fn names_the_store(answer: &Answered) {
    assert!(
        answer.head.contains("application/problem+json"),
        "{answer:?}"
    );
    let body = answer.json();
    assert_eq!(body["code"], "store_unavailable", "{body}");
    assert!(body["detail"].as_str().unwrap().contains("store"), "{body}");
}

fn says(served: &Served, text: &str) {
    let answer = served.post(SEND, &json!({ "message": text }));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_database_that_is_gone_is_named_until_it_is_back() {
    let settings = PostgresSettings::default().with_password();
    let Some(mut server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let url = server.database().unwrap().url();
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &url, &[]);
    says(&served, "one");
    assert_eq!(ready(&served).text, "ready\n");
    server.stop(StopMode::Immediate).unwrap();
    names_the_store(&wait_for_status(&served, 503));
    wait_for_line(&served, "store failed: store_unavailable: postgresql://");
    wait_for_line(&served, "cannot connect");
    // Many requests fail, and few lines say so.
    for _ in 0..20 {
        assert_eq!(ready(&served).status, 503);
    }
    assert!(lines_with(&served, "\n") < 10, "{}", served.said());
    server.start_again().unwrap();
    wait_for_status(&served, 200);
    wait_for_line(&served, "store works again");
    says(&served, "two");
    let (_, credentials) = url.split_once("://").unwrap();
    let (credentials, _) = credentials.split_once('@').unwrap();
    let (_, password) = credentials.split_once(':').unwrap();
    assert!(!served.said().contains(password), "{}", served.said());
}

#[test]
fn a_silent_database_is_not_ready() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let relay = server.relay(None).unwrap();
    let url = server.database().unwrap().url_through(&relay);
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &url, &[]);
    wait_for_status(&served, 200);
    relay.silence();
    names_the_store(&wait_for_status(&served, 503));
    wait_for_line(&served, "store failed: store_unavailable: postgresql://");
    relay.restore();
    wait_for_status(&served, 200);
}

#[test]
fn a_setting_that_loses_messages_is_refused_while_the_server_runs() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &database.url(), &[]);
    says(&served, "one");
    let administration = server.maintenance();
    let change = |statement: &str| {
        administration.query(statement).unwrap();
    };
    change("alter role postgres set synchronous_commit = off");
    server.terminate_backends().unwrap();
    wait_for_status(&served, 503);
    let refused = served.post(SEND, &json!({"message": "two"}));
    assert_eq!(refused.status, 503, "{refused:?}");
    names_the_store(&refused);
    wait_for_line(&served, "`synchronous_commit = off`");
    change("alter role postgres reset synchronous_commit");
    wait_for_status(&served, 200);
    // The open connections get this one too.
    change("alter system set synchronous_commit = off");
    change("select pg_reload_conf()");
    wait_for_status(&served, 503);
    change("alter system reset synchronous_commit");
    change("select pg_reload_conf()");
    wait_for_status(&served, 200);
    says(&served, "two");
    let history = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(history["messages"].as_array().unwrap().len(), 4);
}

fn has_reason(served: &Served, reason: &str) {
    let answer = wait_for_status(served, 503);
    names_the_store(&answer);
    let mut detail = String::new();
    wait_until(
        || format!("not the reason `{reason}`: {}", served.said()),
        || {
            detail = ready(served).json()["detail"].to_string();
            detail.contains(reason)
        },
    );
    assert!(!detail.contains("postgresql://"), "{detail}");
}

#[test]
fn a_database_that_is_only_read_is_not_ready() {
    let Some(mut server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &database.url(), &[]);
    says(&served, "one");
    assert_eq!(ready(&served).text, "ready\n");
    // The first server of this address is gone.
    let url = database.url().replacen('@', "@%2Fnowhere,", 1);
    let listed = serve(folder.path(), &url, &[]);
    says(&listed, "one");
    let change = |server: &PostgresServer, statement: &str| {
        server.maintenance().query(statement).unwrap();
    };
    let refuses = |served: &Served| {
        let begun = Instant::now();
        let refused = served.post(SEND, &json!({"message": "refused"}));
        assert_eq!(refused.status, 503, "{refused:?}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(6), "{took:?}");
    };
    change(
        &server,
        "alter system set default_transaction_read_only = on",
    );
    change(&server, "select pg_reload_conf()");
    has_reason(&served, "transaction_read_only");
    refuses(&served);
    // The refusal hides no reason.
    has_reason(&served, "transaction_read_only");
    // Its connections are those of before the change.
    server.terminate_backends().unwrap();
    has_reason(&listed, "no server of the address accepts changes");
    refuses(&listed);
    has_reason(&listed, "no server of the address accepts changes");
    change(&server, "alter system reset default_transaction_read_only");
    change(&server, "select pg_reload_conf()");
    wait_for_status(&served, 200);
    says(&served, "two");
    wait_for_status(&listed, 200);
    drop(listed);

    server.demote().unwrap();
    // Nothing waits for a promotion that may not come.
    has_reason(&served, "standby");
    let begun = Instant::now();
    let refused = served.post(SEND, &json!({"message": "refused"}));
    let read = served.get("/v1/sessions/s1/messages");
    for answer in [&refused, &read] {
        assert_eq!(answer.status, 503, "{answer:?}");
        names_the_store(answer);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    has_reason(&served, "standby");
    server.promote().unwrap();
    wait_for_status(&served, 200);
    says(&served, "three");
}

fn listen_up(served: &Served) -> Option<bool> {
    let metrics = served.get("/metrics").text;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("logue_store_listen_up "));
    line.map(|value| value == "1")
}

fn wait_for_listening(served: &Served, is_up: bool) {
    wait_until(
        || format!("notifications: {:?}, {}", listen_up(served), served.said()),
        || listen_up(served) == Some(is_up),
    );
}

const POLLING: &str = "no notifications: changes of other nodes are found by polling";

#[test]
fn an_address_without_notifications_is_named_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let relay = server.relay(None).unwrap();
    let listen = database.url_through(&relay);
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &database.url(), &["--store-listen", &listen]);
    wait_for_listening(&served, true);
    wait_for_line(&served, "listening for notifications");
    assert_eq!(ready(&served).text, "ready\n");
    relay.cut();
    wait_for_listening(&served, false);
    wait_for_line(&served, "listen failed: postgresql://");
    let answer = ready(&served);
    assert_eq!(answer.status, 200);
    assert!(answer.text.contains(POLLING), "{answer:?}");
    says(&served, "one");
    relay.restore();
    wait_for_listening(&served, true);
    wait_until(
        || served.said(),
        || lines_with(&served, "listening for notifications") == 2,
    );
    assert_eq!(lines_with(&served, "listen failed"), 1, "{}", served.said());
}

#[test]
fn another_database_passes_no_notifications_on() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let (database, other) = (server.database().unwrap(), server.database().unwrap());
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(
        folder.path(),
        &database.url(),
        &["--store-listen", &other.url()],
    );
    wait_for_listening(&served, false);
    wait_for_line(&served, "no notification arrives");
    says(&served, "one");
}

/// Makes a function of the store fail with a state; returns its definition.
fn fail(database: &Database, function: &str, state: &str) -> String {
    let definition = format!(
        "select pg_get_functiondef(oid) from pg_proc
         where pronamespace = 'logue'::regnamespace and proname = '{function}'"
    );
    let whole = database.query(&definition).unwrap();
    let failing =
        format!("\nBEGIN\n    RAISE EXCEPTION 'no {function}' USING ERRCODE = '{state}';");
    let changed = whole.replacen("\nBEGIN", &failing, 1);
    assert_ne!(changed, whole);
    database.query(&changed).unwrap();
    whole
}

/// The store fails at the beginning of a turn, after the message was accepted.
#[test]
fn a_store_that_fails_within_a_turn_is_named_as_the_store() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &database.url(), &[]);
    says(&served, "one");
    let whole = fail(&database, "begin", "53100");
    let body = json!({"message": "two"}).to_string();
    let send = || served.request("POST", SEND, &[("idempotency-key", "k")], &body);
    let refused = send();
    assert_eq!(refused.status, 503, "{refused:?}");
    names_the_store(&refused);
    assert!(refused.head.contains("retry-after"), "{refused:?}");
    wait_for_line(&served, "store failed: store_unavailable");
    wait_for_line(&served, "no begin");
    database.query(&whole).unwrap();
    let answer = send();
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// A turn that the database does not let end continues afterwards, however often it was tried.
#[test]
fn a_turn_whose_commit_fails_is_answered_once() {
    const ATTEMPTS: usize = 6;
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let replies = vec![Reply::Answer(Answer::text("whole")); ATTEMPTS + 2];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_on(command, "127.0.0.1:0", &database.url(), &["agent.md"]);
    refuse_messages(&database);
    let body = json!({"message": "go"}).to_string();
    let send = || served.request("POST", SEND, &[("idempotency-key", "k")], &body);
    for attempt in 0..ATTEMPTS {
        let refused = send();
        assert_eq!(refused.status, 503, "{attempt}: {refused:?}");
    }
    database
        .query("drop trigger refused on logue.message")
        .unwrap();

    let answer = send();
    assert_eq!(answer.status, 200, "{answer:?}");
    let whole = json!({"role": "assistant", "content": "whole"});
    assert_eq!(answer.json()["replies"], json!([whole]));
    let history = served.get("/v1/sessions/s1/messages").json();
    let expected = json!([{"role": "user", "content": "go"}, whole]);
    assert_eq!(history["messages"], expected);
    // The answer was in the journal after the first attempt.
    assert_eq!(model.received().len(), 1);
}

/// A message that was accepted on a stream is answered when the database accepts it.
#[test]
fn an_accepted_message_is_answered_after_its_commit_failed() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let folder = folder(&[("agent.md", ECHO)]);
    let served = serve(folder.path(), &database.url(), &[]);
    says(&served, "one");
    refuse_messages(&database);
    let body = json!({"message": "two"}).to_string();
    let mut stream = served.try_events("POST", SEND, &[], &body).unwrap();
    stream.until("answer.completed");
    wait_for_line(&served, "store failed: store_unavailable");
    database
        .query("drop trigger refused on logue.message")
        .unwrap();
    let mut history = json!(null);
    wait_until(
        || format!("not answered: {}", served.said()),
        || {
            history = served.get("/v1/sessions/s1/messages").json()["messages"].clone();
            history
                .as_array()
                .is_some_and(|messages| messages.len() > 2)
        },
    );
    let expected = ["one", "one", "two", "two"];
    let texts = history.as_array().unwrap().iter();
    let texts: Vec<_> = texts.map(|message| message["content"].as_str()).collect();
    assert_eq!(texts, expected.map(Some));
}

/// Refuses to store messages as a full disk would.
fn refuse_messages(database: &Database) {
    database
        .query(
            "create function public.refused() returns trigger language plpgsql as $$
             begin raise exception 'no space' using errcode = '53100'; end $$;
             create trigger refused before insert on logue.message
             for each row execute function public.refused()",
        )
        .unwrap();
}
