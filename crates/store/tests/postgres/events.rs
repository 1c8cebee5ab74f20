//! The log of events: as the one in memory, and with the events of all nodes.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::events::{EventBatch, EventLog, LogPosition, MemoryEventLog, SessionChanges};
use logue_harness::store::{Lease, LeaseResult, Store as _, StoreError};
use logue_store::{PostgresEventLog, PostgresOptions, PostgresStore};
use testkit::postgres::{PostgresServer, StopMode};

use super::turns::{NOW, TTL, done, entry, lease};
use super::{open, said};

fn batch(progress: Option<(LogPosition, LogPosition)>, events: &[(u64, &str)]) -> EventBatch {
    EventBatch {
        progress,
        lease: None,
        events: events
            .iter()
            .map(|(entry, text)| (*entry, Arc::from(*text)))
            .collect(),
        now: Timestamp(10 + events.len() as u64),
    }
}

/// Plays a conversation with a log and returns what was read, without generations.
async fn played(log: &dyn EventLog, session: &str) -> Vec<String> {
    let mut read = Vec::new();
    let mut note = |text: String| read.push(text);
    let fresh = LogPosition::default();
    let accepted = fresh.with_accepted(2);
    let settled = accepted.with_outcome(1, 1);
    let batches = [
        batch(None, &[(1, "{\"a\":0}")]),
        batch(Some((accepted, settled)), &[(1, "{\"a\":0}")]),
        batch(
            Some((fresh, accepted)),
            &[(1, "{\"a\":1}"), (1, "{\"a\":2}")],
        ),
        batch(Some((fresh, accepted)), &[(1, "{\"a\":3}")]),
        batch(
            None,
            &[(1, "{\"b\":4}"), (1, "{\"b\":5}"), (1, "{\"b\0\u{e9}\":6}")],
        ),
        batch(None, &[]),
        batch(Some((accepted, settled)), &[(1, "{\"a\":7}")]),
        batch(None, &[(2, "{\"b\":8}")]),
    ];
    for one in batches {
        let one = EventBatch {
            events: one
                .events
                .into_iter()
                .map(|(entry, text)| (entry, Arc::from(text.replace('\0', "\\u0000"))))
                .collect(),
            ..one
        };
        let mut appended = log.append(session, one).await.unwrap();
        if let Some(position) = &mut appended {
            assert!(position.has_begun());
            position.generation = 0;
        }
        note(format!("{appended:?}"));
    }
    for (after, limit) in [(0, 100), (1, 2), (2, 1), (4, 100), (8, 5), (0, usize::MAX)] {
        let page = log.since(session, after, limit).await.unwrap();
        note(format!("{:?} {}", page.events, page.removed));
    }
    for limit in [1, 9] {
        note(format!(
            "{:?}",
            log.latest(session, &["{\"b", "{\"c"], limit).await.unwrap()
        ));
    }
    for entry in [0, 1, 2] {
        note(format!("{:?}", log.first_after_entry(session, entry).await));
    }
    note(format!("{:?}", log.trim(Timestamp(13)).await));
    let page = log.since(session, 0, 100).await.unwrap();
    note(format!("{:?} {}", page.events, page.removed));
    note(format!("{:?}", log.sessions().await));
    read
}

#[tokio::test]
async fn it_is_as_the_one_in_memory() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let log = PostgresEventLog::new(Arc::new(open(&database.url(), "logue")));
    let found = played(&log, "s").await;
    assert_eq!(found, played(&MemoryEventLog::new(), "s").await);

    // Another node sees it, and a later log has other numbers.
    let other = PostgresEventLog::new(Arc::new(open(&database.url(), "logue")));
    let position = other.position("s").await.unwrap();
    assert_eq!(position, log.position("s").await.unwrap());
    other.delete("s").await.unwrap();
    assert_eq!(log.position("s").await.unwrap(), LogPosition::default());
    played(&log, "s").await;
    let later = log.position("s").await.unwrap();
    assert_ne!(later.generation, position.generation);
}

#[tokio::test]
async fn pages_are_bounded_in_bytes_and_logs_go_with_their_sessions() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = Arc::new(open(&database.url(), "logue"));
    let log = PostgresEventLog::new(Arc::clone(&store));
    let large = "x".repeat(40_000);
    let to = LogPosition::default().with_accepted(1);
    let events = [(1, &*large), (1, &*large), (1, &*large), (1, "last")];
    let begun = batch(Some((LogPosition::default(), to)), &events);
    log.append("s", begun).await.unwrap().unwrap();
    assert_eq!(log.since("s", 0, 100).await.unwrap().events.len(), 2);
    assert_eq!(log.since("s", 2, 100).await.unwrap().events.len(), 2);

    store
        .set_label("s", "a", true.into(), Timestamp(0))
        .await
        .unwrap();
    assert!(store.delete("s").await.unwrap());
    assert!(!log.position("s").await.unwrap().has_begun());
    assert_eq!(
        database
            .query("SELECT count(*) FROM logue.event")
            .unwrap()
            .trim(),
        "0"
    );
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_found_below_those_of_other_nodes() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let log = PostgresEventLog::new(Arc::new(open(&database.url(), "logue")));
    let to = LogPosition::default().with_accepted(1);
    let batches = [
        batch(Some((LogPosition::default(), to)), &[(1, "a")]),
        batch(None, &[(1, "b"), (1, "c")]),
        batch(None, &[(2, "d")]),
    ];
    for one in batches {
        log.append("s", one).await.unwrap().unwrap();
    }
    let again = "SELECT seq FROM logue.log_append('s', false, 0, 0, 0, 0, 0, '{1,1}', '{b,c}',
            NULL, NULL, 12, true)";
    assert_eq!(database.query(again).unwrap(), "3");
    assert_eq!(log.position("s").await.unwrap().seq, 4);
}

/// Events of a turn are refused unless its owner has the session, or was its last owner.
#[tokio::test]
async fn events_are_fenced_by_the_lease_of_their_turn() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = Arc::new(open(&database.url(), "logue"));
    let log = PostgresEventLog::new(Arc::clone(&store));
    let of = |lease: &Lease, entry| EventBatch {
        lease: Some(lease.clone()),
        ..batch(None, &[(entry, "{}")])
    };
    for text in ["one", "two"] {
        store.enqueue("s", entry(text, None)).await.unwrap();
    }
    let accepted = LogPosition::default().with_accepted(2);
    let begun = batch(Some((LogPosition::default(), accepted)), &[(1, "{}")]);
    log.append("s", begun).await.unwrap().unwrap();

    let first = lease(&*store, "s").await;
    store.claim_next(&first, "i1", NOW).await.unwrap();
    log.append("s", of(&first, 1)).await.unwrap().unwrap();
    let taken = store.acquire("s", "other", NOW.after(TTL * 2), TTL);
    let LeaseResult::Lease(second) = taken.await.unwrap() else {
        panic!("the lease was not taken");
    };
    let is_fenced = async |lease: &Lease, entry| {
        let appended = log.append("s", of(lease, entry)).await;
        matches!(appended, Err(StoreError::Fenced { .. }))
    };
    let mistaken = Lease {
        owner: "mistaken".to_owned(),
        ..second.clone()
    };
    assert!(is_fenced(&first, 1).await);
    assert!(is_fenced(&mistaken, 1).await);
    // An owner that has no event asks whether it still has the session.
    let asks = |lease: &Lease| EventBatch {
        lease: Some(lease.clone()),
        ..batch(None, &[])
    };
    let answer = log.append("s", asks(&second)).await.unwrap();
    assert_eq!(answer, Some(log.position("s").await.unwrap()));
    for lease in [&first, &mistaken] {
        let answer = log.append("s", asks(lease)).await;
        assert!(
            matches!(answer, Err(StoreError::Fenced { .. })),
            "{answer:?}"
        );
    }

    // The last events of a turn come after its commit and its lease.
    store.claim_next(&second, "i2", NOW).await.unwrap();
    let answered = done("i1", 0, vec![said("one"), said("answer")]);
    store.commit(&second, answered).await.unwrap();
    assert!(is_fenced(&first, 1).await);
    log.append("s", of(&second, 1)).await.unwrap().unwrap();
    store.release(&second).await.unwrap();
    log.append("s", of(&second, 1)).await.unwrap().unwrap();
    let third = lease(&*store, "s").await;
    log.append("s", of(&second, 1)).await.unwrap().unwrap();
    assert!(is_fenced(&second, 2).await);
    log.append("s", of(&third, 2)).await.unwrap().unwrap();

    // Nothing of a turn follows its outcome.
    let settled = accepted.with_outcome(1, 1);
    let outcome = batch(Some((accepted, settled)), &[(1, "{}")]);
    log.append("s", outcome).await.unwrap().unwrap();
    assert!(is_fenced(&second, 1).await);
    log.append("s", asks(&third)).await.unwrap().unwrap();
    let answer = log.append("s", asks(&second)).await;
    assert!(
        matches!(answer, Err(StoreError::Fenced { .. })),
        "{answer:?}"
    );
}

/// Waits until a log names a session.
async fn named(log: &PostgresEventLog, followed: &[String]) {
    let begun = std::time::Instant::now();
    loop {
        match log.changes(followed).unwrap().await.unwrap() {
            SessionChanges::Sessions(changed) if changed.is_empty() => {}
            _ => return,
        }
        assert!(begun.elapsed().as_secs() < 30, "no hint came");
    }
}

/// A node is told of what another node appends, after a restart of the database too.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_other_nodes_are_named() {
    let Some(mut server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let url = database.url();
    let node = |listen: Option<String>| {
        let options = PostgresOptions::default().listen(listen);
        PostgresEventLog::new(Arc::new(PostgresStore::open_with(&url, options).unwrap()))
    };
    let writer = node(None);
    let append = async |text: &str| {
        let position = writer.position("s").await.unwrap();
        let to = position.with_accepted(position.accepted + 1);
        let batch = batch(Some((position, to)), &[(1, text)]);
        writer.append("s", batch).await.unwrap().unwrap();
    };
    let followed = ["s".to_owned()];
    for listens in [true, false] {
        let reader = node(listens.then(|| url.clone()));
        // The first waits begin what follows; a node that follows nothing names its changes too.
        writer.changes(&[]).unwrap().await.unwrap();
        named(&reader, &followed).await;
        // A node that polls takes up to a second for each append.
        let heard = std::thread::scope(|threads| {
            let mut psql = database.psql(&url);
            psql.args(["-c", "LISTEN \"logue_logue\"", "-c", "SELECT pg_sleep(3)"]);
            let heard =
                threads.spawn(move || String::from_utf8(psql.output().unwrap().stdout).unwrap());
            while !heard.is_finished() {
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(async {
                        append("{}").await;
                        named(&reader, &followed).await;
                    });
                });
            }
            heard.join().unwrap()
        });
        assert!(heard.contains("notification"), "{heard}");
        assert!(heard.contains("\ns\""), "{heard}");
        let listening =
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = ''
            AND backend_type = 'client backend'";
        let listening = database.query(listening).unwrap();
        assert_eq!(listening.trim() != "0", listens, "{listening}");
        server.restart(StopMode::Immediate).unwrap();
        append("{}").await;
        named(&reader, &followed).await;
    }
}
