//! Servers start, restart, and leave nothing when they end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::postgres::{PostgresServer, StopMode};

use crate::waiting::wait_until;

/// The variable that makes the test of a killed process be the process that is killed.
const KILLED: &str = "TESTKIT_KILLED";

/// Returns the working directories of the processes below a directory.
pub(crate) fn working_directories(directory: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir("/proc").unwrap();
    let links = links.filter_map(|entry| fs::read_link(entry.unwrap().path().join("cwd")).ok());
    // The link of a removed directory has a suffix.
    links
        .filter(|link| {
            link.to_str()
                .unwrap_or_default()
                .starts_with(directory.to_str().unwrap())
        })
        .collect()
}

#[test]
fn each_database_is_empty_and_separate() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let (first, second) = (server.database().unwrap(), server.database().unwrap());
    let rows = first.query("create table t (n int); insert into t values (1) returning n");
    assert_eq!(rows.unwrap(), "1");
    let error = second.query("select n from t").unwrap_err().to_string();
    assert!(error.contains("relation \"t\" does not exist"), "{error}");
    let durable = "select current_setting('fsync'), current_setting('synchronous_commit')";
    assert_eq!(first.query(durable).unwrap(), "on|on");
}

#[test]
fn a_process_has_one_shared_server() {
    let Some(server) = PostgresServer::shared().unwrap() else {
        return;
    };
    let again = PostgresServer::shared().unwrap().unwrap();
    assert!(std::ptr::eq(server, again));
    let (first, second) = (server.database().unwrap(), again.database().unwrap());
    assert_ne!(first.name(), second.name());
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
        server.stop(mode).unwrap();
        assert!(database.query("select 1").is_err());
        server.start_again().unwrap();
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
    let directory = server.socket().to_owned();
    assert!(working_directories(&directory).len() > 3);
    drop(server);
    assert!(!directory.exists());
    assert_eq!(working_directories(&directory), [] as [PathBuf; 0]);
}

#[test]
fn nothing_remains_of_a_killed_process() {
    let is_killed = std::env::var_os(KILLED).is_some();
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    if is_killed {
        // Servers that are stopped must end as well.
        server.pause().unwrap();
        println!("\nserver {}", server.socket().display());
        loop {
            std::thread::park();
        }
    }
    let name = "lifetime::nothing_remains_of_a_killed_process";
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(KILLED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let directory = output
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("server ").map(PathBuf::from));
    let directory = directory.unwrap();
    assert!(working_directories(&directory).len() > 3);
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the directory remains", || !directory.exists());
    assert_eq!(working_directories(&directory), [] as [PathBuf; 0]);
}
