//! The servers that tests start.
#![cfg(unix)]

use testkit::postgres::{PostgresServer, StopMode};

#[test]
fn each_database_is_empty_and_separate() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let (first, second) = (server.database().unwrap(), server.database().unwrap());
    first
        .query("create table t (n int); insert into t values (1)")
        .unwrap();
    assert_eq!(first.query("select n from t").unwrap(), "1");
    let error = second.query("select n from t").unwrap_err().to_string();
    assert!(error.contains("relation \"t\" does not exist"), "{error}");
    let durable = "select current_setting('fsync'), current_setting('synchronous_commit')";
    assert_eq!(first.query(durable).unwrap(), "on|on");
}

#[test]
fn a_restart_keeps_committed_rows() {
    let Some(mut server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    database.query("create table t (n int)").unwrap();
    for (count, mode) in [(1, StopMode::Fast), (2, StopMode::Immediate)] {
        database.query("insert into t values (1)").unwrap();
        server.restart(mode).unwrap();
        let rows = database.query("select count(*) from t").unwrap();
        assert_eq!(rows, count.to_string(), "{mode:?}");
    }
    let log = server.log().unwrap();
    assert!(log.contains("automatic recovery in progress"), "{log}");
}

#[test]
fn nothing_remains_of_a_dropped_server() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let socket = server.socket().to_owned();
    server.database().unwrap();
    drop(server);
    assert!(!socket.exists());
    let processes = std::fs::read_dir("/proc").unwrap();
    for process in processes {
        let arguments = process.unwrap().path().join("cmdline");
        let arguments = std::fs::read(arguments).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let is_server = arguments.contains(socket.to_str().unwrap());
        assert!(!is_server, "{arguments:?}");
    }
}
