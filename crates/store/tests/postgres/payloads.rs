//! Large bodies, which sessions share and the last one removes.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::Arc;

use logue_harness::store::{Commit, SharedStore};
use serde_json::{Map, Value, json};
use testkit::postgres::{Database, PostgresServer};

use super::turns::{NOW, done, entry, lease, turn};
use super::{open, said};

fn count(database: &Database, what: &str) -> u64 {
    let found = database.query(&format!("SELECT {what}")).unwrap();
    found.trim().parse().unwrap()
}

fn payloads(database: &Database) -> u64 {
    count(database, "count(*) FROM logue.payload")
}

/// A turn that sets a field.
async fn turn_with_field(store: &SharedStore, session: &str, invocation: &str, value: &Value) {
    store.enqueue(session, entry("go", None)).await.unwrap();
    let lease = lease(&**store, session).await;
    store.claim_next(&lease, invocation, NOW).await.unwrap();
    let commit = Commit {
        fields: Map::from_iter([("plan".to_owned(), value.clone())]),
        ..done(invocation, 0, vec![said("go"), said("done")])
    };
    store.commit(&lease, commit).await.unwrap();
    store.release(&lease).await.unwrap();
}

#[tokio::test]
async fn a_large_field_stays_as_long_as_a_session_has_it() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store: SharedStore = Arc::new(open(&database.url(), "logue"));
    let plan = json!({"plan": "large ".repeat(10_000)});
    turn_with_field(&store, "a", "i1", &plan).await;
    turn_with_field(&store, "b", "i2", &plan).await;
    assert_eq!(payloads(&database), 1);
    // A repair removes the payloads to which nothing refers.
    store.repair(NOW).await.unwrap();
    store.delete("a").await.unwrap();
    let info = store.session("b").await.unwrap().unwrap();
    assert_eq!(info.fields.get("plan"), Some(&plan));
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    store.delete("b").await.unwrap();
    assert_eq!(payloads(&database), 0);
}

/// Holds the lock on which the trigger waits until the input ends.
fn hold(database: &Database) -> Child {
    let mut psql = database.psql(&database.url());
    let psql = psql.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = psql.stderr(Stdio::null()).spawn().unwrap();
    let input = child.stdin.as_mut().unwrap();
    writeln!(input, "select pg_advisory_lock(42);").unwrap();
    child
}

async fn wait_for(database: &Database, what: &str, expected: u64) {
    for _ in 0..1_000 {
        if count(database, what) == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("not {expected}: {what}");
}

/// A writer takes a payload up while the last session that had it is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_taken_up_is_not_removed() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store: SharedStore = Arc::new(open(&database.url(), "logue"));
    let large = "large ".repeat(10_000);
    turn(&*store, "a", "i1", &large).await;
    turn(&*store, "b", "i2", "small").await;
    database
        .query(
            "create function public.waits() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock(42); return new; end $$;
             create trigger waits before insert on logue.message
             for each row execute function public.waits()",
        )
        .unwrap();
    let mut holder = hold(&database);
    let locks = "count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    wait_for(&database, locks, 1).await;
    // The writer has counted its use, and its message is not there yet.
    let writing = tokio::spawn({
        let (store, large) = (store.clone(), large.clone());
        async move { turn(&*store, "b", "i3", &large).await }
    });
    let waiting = "count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait_for(&database, waiting, 1).await;
    let removing = tokio::spawn({
        let store = store.clone();
        async move { store.delete("a").await.unwrap() }
    });
    wait_for(&database, waiting, 2).await;
    drop(holder.stdin.take());
    holder.wait().unwrap();
    writing.await.unwrap();
    removing.await.unwrap();
    assert_eq!(store.history("b", 2, 9).await.unwrap()[0], said(&large));
    assert_eq!(payloads(&database), 1);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}
