//! Operations whose answer is lost after they were sent: they happen once, and say so.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, EnqueueResult, Lease, SharedStore, SignalResult, StoreError, Suspension,
    SuspensionFilter,
};
use serde_json::{Map, json};
use testkit::Relay;
use testkit::postgres::{Database, PostgresServer};
use tokio::task::JoinHandle;

use super::turns::{NOW, done, entry, lease, suspended};
use super::{open, said};

struct Cut {
    database: Database,
    relay: Relay,
    store: SharedStore,
}

impl Cut {
    fn new(server: &PostgresServer) -> Self {
        let database = server.database().unwrap();
        let relay = server.relay(None).unwrap();
        let store = Arc::new(open(&database.url_through(&relay), "logue"));
        Self {
            database,
            relay,
            store,
        }
    }

    /// The number of statements that wait for a lock.
    fn waiting(&self) -> u64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        self.database
            .query(waiting)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    fn wait_for(&self, waiting: u64) {
        while self.waiting() < waiting {
            std::thread::yield_now();
        }
    }

    /// Runs an operation whose connection is cut while it waits for a lock, so that its server still
    /// does it, before the operation that the store sends again.
    async fn lost<T: Send + 'static>(
        &self,
        operation: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut psql = self.database.psql(&self.database.url());
        psql.args(["-c", "BEGIN; SELECT 1 FROM logue.session FOR UPDATE"]);
        psql.args(["-c", "SELECT pg_sleep(60)"]);
        psql.stdout(std::process::Stdio::null());
        let mut holder = psql.spawn().unwrap();
        let held = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND
            query NOT LIKE '%stat%' AND datname = current_database()";
        while self.database.query(held).unwrap().trim() != "1" {
            std::thread::yield_now();
        }
        let operation: JoinHandle<T> = tokio::spawn(operation);
        tokio::task::block_in_place(|| {
            self.wait_for(1);
            self.relay.cut_connections();
            self.wait_for(2);
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE query LIKE '%pg_sleep(60)' AND query NOT LIKE '%stat%'";
            self.database.query(end).unwrap();
            holder.wait().unwrap();
        });
        operation.await.unwrap()
    }

    async fn lease(&self) -> Lease {
        lease(&*self.store, "s").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_happens_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let cut = Cut::new(&server);
    let store = Arc::clone(&cut.store);
    store.enqueue("s", entry("first", None)).await.unwrap();

    let own = Arc::clone(&store);
    let put = cut.lost(async move { own.enqueue("s", entry("x", Some("k"))).await });
    let put = put.await.unwrap();
    let expected = EnqueueResult::Entry {
        entry: 2,
        is_new: true,
        ahead: 1,
    };
    assert_eq!(put, expected);

    let held = cut.lease().await;
    let (own, lease) = (Arc::clone(&store), held.clone());
    let claimed = cut.lost(async move { own.claim_next(&lease, "i1", NOW).await });
    let claimed = claimed.await.unwrap().unwrap();
    assert_eq!((claimed.entry.entry, claimed.recovered), (1, false));

    for round in 1..=2 {
        let (own, lease) = (Arc::clone(&store), held.clone());
        // The same notes again are other notes.
        let notes = vec![json!("a"), json!("b")];
        let noted = cut.lost(async move { own.journal(&lease, "i1", notes).await });
        noted.await.unwrap();
        assert_eq!(store.notes("s", "i1").await.unwrap().len(), round * 2);
    }

    let (own, lease) = (Arc::clone(&store), held.clone());
    let mut append = done("i1", 0, vec![said("first")]);
    append.settle = None;
    let appended = cut.lost(async move { own.commit(&lease, append).await });
    appended.await.unwrap();
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 1);

    let (own, lease) = (Arc::clone(&store), held.clone());
    let commit = done("i1", 1, vec![said("answer")]);
    let committed = cut.lost(async move { own.commit(&lease, commit).await });
    committed.await.unwrap();
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 2);
    assert_eq!(store.outcomes_since("s", 0, 9).await.unwrap().len(), 1);

    let own = Arc::clone(&store);
    let audited = cut.lost(async move { own.audit("s", "i1", vec![json!(1)], NOW).await });
    audited.await.unwrap();
    assert_eq!(store.audited("s", 0, 9).await.unwrap().len(), 1);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_begun_and_ended_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let cut = Cut::new(&server);
    let store = Arc::clone(&cut.store);
    store.enqueue("s", entry("first", None)).await.unwrap();
    let own = Arc::clone(&store);
    let begun = cut.lost(async move { own.begin("s", "a#1", "i1", NOW, super::turns::TTL).await });
    let BeginResult::Turn(begun) = begun.await.unwrap() else {
        panic!("no turn");
    };
    assert!(!begun.claimed.recovered);
    let info = store.session("s").await.unwrap().unwrap();
    assert_eq!((info.epoch, begun.lease.epoch), (1, 1));

    let (own, lease) = (Arc::clone(&store), begun.lease.clone());
    let end = done("i1", 0, vec![said("first"), said("answer")]);
    let ended = cut.lost(async move { own.commit_and_release(&lease, end).await });
    ended.await.unwrap();
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 2);
    // It was given back.
    assert_eq!(cut.lease().await.epoch, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_and_its_signal_happen_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let cut = Cut::new(&server);
    let store = Arc::clone(&cut.store);
    store.enqueue("s", entry("first", None)).await.unwrap();
    let held = cut.lease().await;
    store.claim_next(&held, "i1", NOW).await.unwrap();
    let (own, lease) = (Arc::clone(&store), held.clone());
    let waits = cut.lost(async move { own.commit(&lease, suspended("i1", 0, "go")).await });
    waits.await.unwrap();
    let own = Arc::clone(&store);
    let payload = Map::from_iter([("approved".to_owned(), json!(true))]);
    let signalled = cut.lost(async move { own.signal("i1", None, payload, Timestamp(7)).await });
    let expected = SignalResult::Entry {
        session: "s".to_owned(),
        entry: 2,
        is_new: true,
    };
    assert_eq!(signalled.await.unwrap(), expected);
    let found: Vec<Suspension> = store
        .suspensions(SuspensionFilter::default())
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    let own = Arc::clone(&store);
    let taken = cut.lost(async move {
        own.take_over("s", "owner", ("x", NOW), NOW, super::turns::TTL)
            .await
    });
    taken.await.unwrap();
    assert_eq!(store.inbox("s").await.unwrap().len(), 1);
    let own = Arc::clone(&store);
    assert!(
        cut.lost(async move { own.delete("s").await })
            .await
            .unwrap()
    );
}

/// Nothing says whether a message without a key was accepted: its sender is told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_key_is_not_sent_again() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let cut = Cut::new(&server);
    let store = Arc::clone(&cut.store);
    store.enqueue("s", entry("first", None)).await.unwrap();
    let relay = &cut.relay;
    let mut psql = cut.database.psql(&cut.database.url());
    psql.args([
        "-c",
        "BEGIN; SELECT 1 FROM logue.session FOR UPDATE; SELECT pg_sleep(1)",
    ]);
    psql.stdout(std::process::Stdio::null());
    let mut holder = psql.spawn().unwrap();
    while cut
        .database
        .query("SELECT count(*) FROM pg_locks WHERE relation = 'logue.session'::regclass")
        .unwrap()
        .trim()
        == "0"
    {
        std::thread::yield_now();
    }
    let own = Arc::clone(&store);
    let put = tokio::spawn(async move { own.enqueue("s", entry("x", None)).await });
    tokio::task::block_in_place(|| {
        cut.wait_for(1);
        relay.cut_connections();
        holder.wait().unwrap();
    });
    let error = put.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("unknown"), "{error}");
    // The server did it, here.
    while store.inbox("s").await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.inbox("s").await.unwrap().len(), 2);
}

/// A statement that waits in a server process until the store has sent it again.
#[tokio::test(flavor = "multi_thread")]
async fn notes_that_arrive_late_are_added_once() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let cut = Cut::new(&server);
    let store = Arc::clone(&cut.store);
    store.enqueue("s", entry("first", None)).await.unwrap();
    let held = cut.lease().await;
    store.claim_next(&held, "i1", NOW).await.unwrap().unwrap();
    store.journal(&held, "i1", vec![json!("a")]).await.unwrap();
    let process = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'logue'";
    let process = cut.database.query(process).unwrap().trim().to_owned();
    signal("STOP", &process);
    let (own, lease) = (Arc::clone(&store), held.clone());
    let noted = tokio::spawn(async move { own.journal(&lease, "i1", vec![json!("a")]).await });
    tokio::task::block_in_place(|| {
        let sent = |traffic: Vec<(String, String)>| {
            let sent = traffic
                .iter()
                .map(|(sent, _)| sent.matches("logue.journal(").count());
            sent.sum::<usize>()
        };
        while sent(cut.relay.traffic()) < 2 {
            std::thread::yield_now();
        }
        cut.relay.cut_connections();
    });
    noted.await.unwrap().unwrap();
    assert_eq!(store.notes("s", "i1").await.unwrap().len(), 2);
    store.journal(&held, "i1", vec![json!("b")]).await.unwrap();
    signal("CONT", &process);
    let ended = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process}");
    while cut.database.query(&ended).unwrap().trim() != "0" {
        std::thread::yield_now();
    }
    let notes = store.notes("s", "i1").await.unwrap();
    let notes: Vec<_> = notes.into_iter().map(|note| note.note).collect();
    assert_eq!(notes, [json!("a"), json!("a"), json!("b")]);
    // The same note later is another one.
    store.journal(&held, "i1", vec![json!("b")]).await.unwrap();
    assert_eq!(store.notes("s", "i1").await.unwrap().len(), 4);
}

/// Sends a signal to a process of the server.
fn signal(kind: &str, process: &str) {
    let sent = std::process::Command::new("kill")
        .args(["-s", kind, process])
        .status();
    assert!(sent.unwrap().success(), "{kind} {process}");
}
