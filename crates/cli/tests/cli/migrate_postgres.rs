//! `logue sessions migrate` between files and PostgreSQL databases.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::postgres::{Database, PostgresServer};
use testkit::soak;

use crate::migrate::comes_back;
use crate::migrate_scene::{Scene, json_of, on, seed};
use crate::program::{Ran, folder, logue};
use crate::waiting::wait_until;

const FILE: &str = "sqlite:file.db";
/// Sessions of a connection cannot write.
const READ_ONLY: &str = "options=-c%20default_transaction_read_only%3Don";

/// Copies a database that is not in use.
fn copy(server: &PostgresServer, source: &Database) -> String {
    let copy = server.database().unwrap();
    let administration = server.maintenance();
    let name = copy.name();
    for statement in [
        format!("drop database {name}"),
        format!("create database {name} template {}", source.name()),
    ] {
        administration.query(&statement).unwrap();
    }
    copy.url()
}

fn backup(scene: &Scene, round: u32) -> String {
    let file = format!("from-{round}.db");
    let copied = on(scene.place(), FILE, &["sessions", "backup", &file]);
    assert_eq!(copied.status, 0, "{}", copied.stderr);
    format!("sqlite:{file}")
}

#[test]
fn sessions_of_a_file_continue_in_a_database() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let scene = Scene::new(FILE, 11);
    scene.moves_and_continues(&database.url());
    let payloads = database
        .query("SELECT count(*) FROM logue.payload")
        .unwrap();
    assert_ne!(payloads, "0", "no body was above the limit of a row");
}

#[test]
fn sessions_of_a_database_continue_in_a_file() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let scene = Scene::new(&server.database().unwrap().url(), 12);
    scene.moves_and_continues(FILE);
}

#[test]
fn sessions_of_a_database_continue_in_another_one() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let scene = Scene::new(&server.database().unwrap().url(), 13);
    scene.moves_and_continues(&server.database().unwrap().url());
}

#[test]
fn a_killed_migration_to_a_database_continues() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let seed = seed(21);
    let scene = Scene::new(FILE, seed);
    let source = |round| backup(&scene, round);
    let target = |_| server.database().unwrap().url();
    scene.survives_kills(seed, soak::rounds(10, 200), &source, &target);
}

#[test]
fn a_killed_migration_of_a_database_continues() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let seed = seed(22);
    let database = server.database().unwrap();
    let scene = Scene::new(&database.url(), seed);
    let source = |_| copy(&server, &database);
    let target = |round| format!("sqlite:to-{round}.db");
    scene.survives_kills(seed, soak::rounds(10, 200), &source, &target);
}

#[test]
fn a_killed_migration_between_databases_continues() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let seed = seed(23);
    let database = server.database().unwrap();
    let scene = Scene::new(&database.url(), seed);
    let source = |_| copy(&server, &database);
    let target = |_| server.database().unwrap().url();
    scene.survives_kills(seed, soak::rounds(10, 200), &source, &target);
}

fn migrate(place: &Path, from: &str, to: &str, further: &[&str]) -> Ran {
    let mut command = logue(place);
    command.args(["sessions", "migrate", "--from", from, "--to", to]);
    command.args(further).output().unwrap().into()
}

fn with(url: &str, parameter: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{parameter}")
}

fn set_read_only(place: &Path, is_read_only: bool) {
    let mode = if is_read_only { 0o400 } else { 0o600 };
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.join("file.db"), mode).unwrap();
}

#[test]
fn stores_that_cannot_be_written_move_nothing() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let (database, other) = (server.database().unwrap(), server.database().unwrap());
    for (store, id) in [
        (FILE.to_owned(), "a"),
        (database.url(), "b"),
        (other.url(), "c"),
    ] {
        let sent = on(place, &store, &["send", "--agent", "p.md", id, "Hello."]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let read_only = with(&database.url(), READ_ONLY);
    let (url, other) = (database.url(), other.url());
    let refused = |from: &str, to: &str, further: &[&str]| {
        let ran = migrate(place, from, to, further);
        let case = format!("{from} {to} {further:?}: {}", ran.stderr);
        assert_eq!((ran.status, &*ran.stdout), (3, ""), "{case}");
        assert!(ran.stderr.contains("error[store_read_only]"), "{case}");
    };
    for further in [&[][..], &["--copy"]] {
        refused(&read_only, FILE, further);
        refused(&read_only, &other, further);
        refused(FILE, &read_only, further);
        refused(&other, &read_only, further);
        set_read_only(place, true);
        refused(FILE, &url, further);
        refused(&url, FILE, further);
        set_read_only(place, false);
    }
    // Everything is where it was, and usable.
    for (store, id) in [(FILE, "a"), (&*url, "b"), (&*other, "c")] {
        let listed = on(place, store, &["sessions", "list", "--json"]);
        assert_eq!(json_of(&listed)["session_id"], id, "{}", listed.stdout);
        let more = on(place, store, &["send", id, "More."]);
        assert_eq!(more.status, 0, "{}", more.stderr);
    }
}

#[test]
fn other_sessions_of_a_database_are_kept() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let urls = [
        FILE.to_owned(),
        server.database().unwrap().url(),
        server.database().unwrap().url(),
    ];
    for url in &urls {
        let sent = on(place, url, &["send", "--agent", "p.md", "a", url]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    for (from, to) in [(0, 1), (1, 0), (1, 2)] {
        let ran = migrate(place, &urls[from], &urls[to], &[]);
        assert_eq!((ran.status, &*ran.stdout), (3, ""), "{}", ran.stderr);
        let said = "error[session_exists]: `a`";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    for url in &urls {
        let kept = on(place, url, &["sessions", "show", "a", "--json"]);
        let kept = json_of(&kept);
        assert_eq!(kept["messages"][0]["content"], **url);
        assert_eq!(kept["moved_to"], serde_json::Value::Null);
        let more = on(place, url, &["send", "a", "More."]);
        assert_eq!(more.status, 0, "{}", more.stderr);
    }
}

#[test]
fn a_session_comes_back_to_a_database_over_others() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let (first, third) = (server.database().unwrap(), server.database().unwrap());
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let sent = on(
        place,
        &first.url(),
        &["send", "--agent", "p.md", "s", "Hello."],
    );
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    comes_back(place, [&first.url(), FILE, &third.url()]);
}

/// Runs a command while a transaction with a lock is open, and another change before it ends.
fn while_held(
    (held, lock): (&Database, &str),
    command: impl FnOnce() -> Ran + Send,
    change: impl FnOnce(),
) -> Ran {
    let mut holder = held
        .psql(&held.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut statements = holder.stdin.take().unwrap();
    let begin = format!("BEGIN; {lock}; SELECT 'held';\n");
    statements.write_all(begin.as_bytes()).unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "held"));
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(command);
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        wait_until(
            || "the command does not wait".to_owned(),
            || held.query(waiting).unwrap() != "0",
        );
        change();
        statements.write_all(b"COMMIT;\n").unwrap();
        drop(statements);
        running.join().unwrap()
    });
    assert!(holder.wait().unwrap().success());
    ran
}

/// Servers create sessions for a moment and remove them, also while their store is moved.
#[test]
fn a_session_that_is_removed_during_a_run_is_left_out() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let (from, to) = (server.database().unwrap(), server.database().unwrap());
    let send = |id: &str| {
        let sent = on(place, &from.url(), &["send", "--agent", "p.md", id, "x"]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    };
    let moves = || migrate(place, &from.url(), &to.url(), &["--json"]);
    let remove = |id: &str| {
        let removed = from.query(&format!("SELECT logue.delete('{id}', false)"));
        assert_eq!(removed.unwrap(), "t");
    };
    send("a");
    send("b");
    // `b` is listed, and removed before its turn.
    let lock = "SELECT id FROM logue.session WHERE id = 'a' FOR UPDATE";
    let ran = while_held((&from, lock), moves, || remove("b"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let report = json_of(&ran);
    assert_eq!(report["moved"][0]["session_id"], "a", "{report}");
    assert_eq!(report["removed_meanwhile"], json!(["b"]), "{report}");
    let named = migrate(place, &from.url(), &to.url(), &["b"]);
    assert_eq!(named.status, 3, "{}", named.stderr);
    assert!(named.stderr.contains("error[session_not_found]: `b`"));
    // `c` is removed after it was read; without an end, its copy would be arriving.
    send("c");
    let lock = "LOCK TABLE logue.session IN EXCLUSIVE MODE";
    let ran = while_held((&to, lock), moves, || remove("c"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let report = json_of(&ran);
    assert_eq!(report["removed_meanwhile"], json!(["c"]), "{report}");
    let listed = on(place, &to.url(), &["sessions", "list", "--json", "--all"]);
    let ids: Vec<Value> = listed
        .stdout
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["session_id"].clone()
        })
        .collect();
    assert_eq!(ids, ["a"], "{}", listed.stdout);
}
