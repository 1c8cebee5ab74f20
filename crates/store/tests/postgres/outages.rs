//! A database that refuses what a store asks: a stated error that a retry may mend, nothing is lost, and
//! the same store works again when the cause is gone.

use std::process::{Child, Stdio};

use logue_harness::store::{EnqueueResult, Lease, SharedStore, StoreError};
use logue_store::open_store;
use serde_json::json;
use testkit::postgres::{Database, PostgresServer, PostgresSettings, StopMode};

use super::turns::{NOW, TTL, done, entry, lease};
use super::{said, with};

/// A turn that an outage interrupts.
struct Interrupted {
    store: SharedStore,
    lease: Lease,
}

impl Interrupted {
    /// Begins a turn.
    async fn begin(url: &str) -> Self {
        let store = open_store(url).unwrap();
        store.enqueue("s", entry("one", Some("one"))).await.unwrap();
        let lease = lease(&*store, "s").await;
        let claimed = store.claim_next(&lease, "i", NOW).await.unwrap();
        assert!(claimed.is_some());
        store.journal(&lease, "i", vec![json!(1)]).await.unwrap();
        Self { store, lease }
    }

    /// Returns the error of a message with a key.
    async fn refuses(&self, key: &str) -> StoreError {
        let put = self.store.enqueue("s", entry(key, Some(key))).await;
        put.unwrap_err()
    }

    /// Ends the turn, and puts the messages that were refused.
    async fn ends(self, refused: &[&str]) {
        let Self { store, lease } = self;
        store.renew(&lease, NOW, TTL).await.unwrap();
        assert_eq!(store.notes("s", "i").await.unwrap().len(), 1);
        let messages = vec![said("one"), said("answer")];
        store.commit(&lease, done("i", 0, messages)).await.unwrap();
        store.release(&lease).await.unwrap();
        for (number, key) in (2..).zip(refused) {
            let put = store.enqueue("s", entry(key, Some(key))).await.unwrap();
            let EnqueueResult::Entry { entry, .. } = put else {
                panic!("{put:?}");
            };
            assert_eq!(
                entry, number,
                "{key} was put twice, or another one was lost"
            );
        }
        let info = store.session("s").await.unwrap().unwrap();
        assert_eq!((info.seq, info.cursor), (2, 1));
        assert_eq!(info.pending, refused.len() as u64);
        assert_eq!(store.verify(None).await.unwrap().faults, []);
    }
}

/// Checks that a retry may mend an error, and that it names its cause.
fn is_stated(error: &StoreError, cause: &str) {
    assert!(error.is_transient(), "{error:?}");
    assert!(!error.is_conflict(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(cause), "{text}");
}

/// Starts a statement of another program.
fn other(database: &Database, url: &str, sql: &str) -> Child {
    let mut psql = database.psql(url);
    psql.args(["-c", sql]).stderr(Stdio::null());
    psql.stdout(Stdio::null()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection() {
    let settings = PostgresSettings::default()
        .with_password()
        .with("max_connections", "12")
        .with("superuser_reserved_connections", "4");
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let turn = Interrupted::begin(&database.url()).await;
    server.terminate_backends().unwrap();
    // Each waits for a lock of the first one, so that none ends by itself.
    let hold = "select pg_advisory_lock(1), pg_sleep(3600)";
    let count = || {
        let sql = "select count(*) from pg_stat_activity where backend_type = 'client backend' \
                   and pid <> pg_backend_pid()";
        server.maintenance().query(sql).unwrap()
    };
    let mut others: Vec<Child> = Vec::new();
    while count() != "8" {
        others.push(other(&database, &database.url(), hold));
        tokio::task::yield_now().await;
    }
    let error = turn.refuses("two").await;
    is_stated(&error, "connection");
    is_stated(
        &open_store(&database.url()).map(drop).unwrap_err(),
        "connect",
    );
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    server.terminate_backends().unwrap();
    turn.ends(&["two"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full() {
    let settings = PostgresSettings::default().with_limited_disk();
    let Some(mut server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let turn = Interrupted::begin(&database.url()).await;
    server.fill_disk().unwrap();
    // Pages that are there have room for some messages.
    let mut put = 0;
    let error = loop {
        let key = format!("large-{put}");
        let parts: Vec<String> = (0..400_u32)
            .map(|part| format!("{part} of {put}: {}", part.wrapping_mul(2_654_435_761)))
            .collect();
        let text = parts.concat();
        match turn.store.enqueue("s", entry(&text, Some(&key))).await {
            Ok(_) => put += 1,
            Err(error) => break error,
        }
        assert!(put < 10_000, "the disk is not full");
    };
    assert!(error.is_transient(), "{error:?}");
    println!("{put} messages, then: {error}");
    server.free_disk().unwrap();
    // A log without a new segment ends the server, which its operator starts again.
    if server.maintenance().query("select 1").is_err() {
        println!("the full disk ended the database");
        server.restart(StopMode::Immediate).unwrap();
    }
    let inbox = turn.store.inbox("s").await.unwrap();
    assert_eq!(inbox.len(), put + 1, "an accepted message was lost");
    let Interrupted { store, lease } = turn;
    let messages = vec![said("one"), said("answer")];
    store.commit(&lease, done("i", 0, messages)).await.unwrap();
    store.enqueue("s", entry("more", None)).await.unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let limited = with(
        &database.url(),
        "options=-c%20statement_timeout%3D300&application_name=limited",
    );
    let turn = Interrupted::begin(&limited).await;
    let lock = "begin; lock table logue.session in access exclusive mode; select pg_sleep(3600)";
    let mut holder = other(&database, &database.url(), lock);
    let waits = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted \
                 and relation = 'logue.session'::regclass";
    while database.query(waits).unwrap() == "0" {
        tokio::task::yield_now().await;
    }
    let error = turn.refuses("two").await;
    is_stated(&error, "statement_timeout");
    let read = turn.store.session("s").await.unwrap_err();
    is_stated(&read, "statement_timeout");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
               where pid <> pg_backend_pid() and application_name <> 'limited' \
               and backend_type = 'client backend'";
    server.maintenance().query(end).unwrap();
    turn.ends(&["two"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_becomes_read_only() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let turn = Interrupted::begin(&database.url()).await;
    let administration = server.maintenance();
    let name = database.name();
    let set = |what: &str| {
        let statement = format!("alter database {name} {what}");
        administration.query(&statement).unwrap();
        server.terminate_backends().unwrap();
    };
    set("set default_transaction_read_only = on");
    let error = turn.refuses("two").await;
    is_stated(&error, "read-only");
    // A commit is refused alike, and the turn is not lost by it.
    let messages = vec![said("one"), said("answer")];
    let refused = turn.store.commit(&turn.lease, done("i", 0, messages)).await;
    is_stated(&refused.unwrap_err(), "read-only");
    let info = turn.store.session("s").await.unwrap().unwrap();
    assert_eq!((info.seq, info.pending), (0, 1), "it is still read");
    let opened = open_store(&database.url()).map(drop).unwrap_err();
    assert!(matches!(opened, StoreError::ReadOnly(_)), "{opened}");
    set("reset default_transaction_read_only");
    turn.ends(&["two"]).await;
}
