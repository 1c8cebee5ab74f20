//! Failures that tests cause.

use std::fs;
use std::process::{Child, Stdio};

use testkit::postgres::{Database, PostgresServer, PostgresSettings, StopMode};

use crate::lifetime::working_directories;
use crate::waiting::wait_until;

/// Starts a query that ends later.
fn start(database: &Database, sql: &str) -> Child {
    let mut psql = database.psql(&database.url());
    let psql = psql.args(["-c", sql]);
    psql.stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the states of the server's processes.
fn states(server: &PostgresServer) -> Vec<String> {
    let data = server.socket().join("data");
    let entries = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let own = entries.filter(|path| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == data));
    own.filter_map(|path| {
        let state = fs::read_to_string(path.join("stat")).ok()?;
        Some(state.rsplit_once(") ")?.1[..1].to_owned())
    })
    .collect()
}

#[test]
fn a_paused_server_is_silent_until_it_resumes() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    assert!(working_directories(server.socket()).len() > 3);
    server.pause().unwrap();
    wait_until("a process runs", || {
        states(&server).iter().all(|state| state == "T")
    });
    let mut query = start(&database, "select 'answered'");
    assert!(query.try_wait().unwrap().is_none());
    server.resume().unwrap();
    let output = query.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "answered\n");
}

#[test]
fn terminated_clients_lose_their_connections() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let query = start(&database, "select pg_sleep(600)");
    let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    wait_until("the query does not begin", || {
        database.query(sleeping).unwrap() == "1"
    });
    assert_eq!(server.terminate_backends().unwrap(), 1);
    let output = query.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("terminating connection"), "{errors}");
}

#[test]
fn a_full_disk_refuses_rows_until_it_is_freed() {
    let settings = PostgresSettings::default().with_limited_disk();
    let Some(mut server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let insert = "insert into t select repeat('x', 1000) from generate_series(1, 100)";
    database.query("create table t (text text)").unwrap();
    database.query(insert).unwrap();
    server.fill_disk().unwrap();
    let verbose = format!("\\set VERBOSITY verbose\n{insert}");
    let script = server.socket().join("script");
    fs::write(&script, verbose).unwrap();
    let mut psql = database.psql(&database.url());
    psql.stdin(fs::File::open(&script).unwrap());
    let output = psql.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("ERROR:  53100"), "{errors}");
    // What was there is still read.
    assert_eq!(database.query("select count(*) from t").unwrap(), "100");
    server.free_disk().unwrap();
    database.query(insert).unwrap();
    server.restart(StopMode::Immediate).unwrap();
    assert_eq!(database.query("select count(*) from t").unwrap(), "200");
}
