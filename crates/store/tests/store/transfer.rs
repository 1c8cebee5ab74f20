//! Transfers of sessions between stores, interrupted at each of their steps.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logue_harness::Timestamp;
use logue_harness::store::{
    Commit, EnqueueResult, EntryPayload, ImportResult, LeaseResult, MemoryStore, NewEntry,
    RecordArrival, RecordSource, SessionLocation, SharedStore, Store, StoreError, StoreLayer,
    StoreResult, record_hash,
};
use logue_store::{
    SessionComparison, SqliteStore, Transfer, TransferEnd, TransferError, TransferResult,
};
use serde_json::{Map, json};

const NOW: Timestamp = Timestamp(1_000);
const TTL: std::time::Duration = std::time::Duration::from_secs(30);

fn message(text: &str, key: Option<&str>) -> NewEntry {
    NewEntry {
        work: EntryPayload::Message {
            message: json!({ "role": "user", "content": text }),
        },
        key: key.map(str::to_owned),
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now: NOW,
    }
}

/// Creates a session with history, a running entry with notes, and one that waits.
async fn session(store: &dyn Store, id: &str, messages: usize) {
    let put = store.enqueue(id, message("first", Some("k"))).await;
    assert!(matches!(put, Ok(EnqueueResult::Entry { .. })));
    let LeaseResult::Lease(lease) = store.acquire(id, "o", NOW, TTL).await.unwrap() else {
        panic!("`{id}` is held");
    };
    let body = "x".repeat(1_000);
    let messages = (0..messages).map(|at| json!({ "role": "user", "content": body, "at": at }));
    let save = Commit {
        invocation_id: "none".to_owned(),
        expected_seq: 0,
        messages: messages.collect(),
        fields: Map::from_iter([("f".to_owned(), json!(0.1))]),
        schema_version: Some("1".to_owned()),
        settle: None,
        now: NOW,
    };
    store.commit(&lease, save).await.unwrap();
    store
        .claim_next(&lease, &format!("i-{id}"), NOW)
        .await
        .unwrap();
    let note = json!({ "tool": "began" });
    store
        .journal(&lease, &format!("i-{id}"), vec![note])
        .await
        .unwrap();
    store.release(&lease).await.unwrap();
    store.enqueue(id, message("second", None)).await.unwrap();
}

fn end(store: &SharedStore, name: &str) -> TransferEnd {
    TransferEnd {
        store: Arc::clone(store),
        address: format!("test:{name}"),
    }
}

fn transfer(from: &SharedStore, to: &SharedStore, folder: &Path) -> Transfer {
    Transfer::new(end(from, "from"), end(to, "to"), "mover", folder)
}

/// Fails every operation from one on, as if the program had been killed before it.
struct Killed {
    inner: SharedStore,
    left: Arc<AtomicU64>,
    /// Whether the operation that fails has an effect.
    is_late: bool,
}

impl StoreLayer for Killed {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        let killed = || StoreError::Unavailable {
            message: "killed".to_owned(),
            source: None,
        };
        match left {
            Ok(1) if self.is_late => Box::pin(async move {
                operation(&*self.inner).await?;
                Err(killed())
            }),
            Ok(1) | Err(_) => Box::pin(std::future::ready(Err(killed()))),
            Ok(_) => operation(&*self.inner),
        }
    }
}

fn is_usable(location: Option<SessionLocation>) -> bool {
    location.is_some_and(|location| matches!(location, SessionLocation::Here { .. }))
}

/// A transfer that is killed before or after any operation leaves one store that continues the
/// session, and the next one ends it.
async fn killed_anywhere(make: impl Fn(&str) -> (SharedStore, SharedStore)) {
    let folder = tempfile::tempdir().unwrap();
    for is_late in [false, true] {
        let mut steps = 0;
        loop {
            steps += 1;
            let name = format!("{is_late}-{steps}");
            let (from, to) = make(&name);
            session(&*from, "s", 3).await;
            let hash = record_hash(&*from, "s").await.unwrap();
            let left = Arc::new(AtomicU64::new(steps));
            let killed = |inner: &SharedStore| -> SharedStore {
                Arc::new(Killed {
                    inner: Arc::clone(inner),
                    left: Arc::clone(&left),
                    is_late,
                })
            };
            let moved = transfer(&killed(&from), &killed(&to), folder.path())
                .run("s")
                .await;
            let (here, there) = (
                from.location("s").await.unwrap(),
                to.location("s").await.unwrap(),
            );
            assert!(
                !(is_usable(here.clone()) && is_usable(there.clone())),
                "{name}: {here:?} {there:?}"
            );
            // The lease of the killed one is over.
            if let Some(SessionLocation::Here {
                lease: Some((owner, until)),
            }) = here
            {
                let gone = (owner.as_str(), until);
                let taken = from.take_over("s", "next", gone, NOW, TTL).await.unwrap();
                if let LeaseResult::Lease(lease) = taken {
                    from.release(&lease).await.unwrap();
                }
            }
            let again = transfer(&from, &to, folder.path()).run("s").await.unwrap();
            assert!(
                matches!(
                    again,
                    TransferResult::Transferred { .. } | TransferResult::AlreadyMoved
                ),
                "{name}: {again:?}"
            );
            assert!(is_usable(to.location("s").await.unwrap()), "{name}");
            assert!(!is_usable(from.location("s").await.unwrap()), "{name}");
            assert_eq!(record_hash(&*to, "s").await.unwrap(), hash, "{name}");
            assert_eq!(record_hash(&*from, "s").await.unwrap(), hash, "{name}");
            assert_eq!(to.verify(None).await.unwrap().faults, []);
            if moved.is_ok() && left.load(Ordering::SeqCst) > 0 {
                break;
            }
        }
        assert!(steps > 6, "only {steps} operations");
    }
}

#[tokio::test]
async fn a_transfer_that_is_killed_in_memory_continues() {
    killed_anywhere(|_| (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()))).await;
}

#[tokio::test]
async fn a_transfer_that_is_killed_in_files_continues() {
    let folder = tempfile::tempdir().unwrap();
    killed_anywhere(|name| {
        let open = |end: &str| -> SharedStore {
            let file = folder.path().join(format!("{name}-{end}.db"));
            Arc::new(SqliteStore::open(file).unwrap())
        };
        (open("from"), open("to"))
    })
    .await;
}

/// Adds an entry to another store whenever a record arrives.
struct Busy {
    inner: SharedStore,
    source: SharedStore,
    left: AtomicU64,
}

impl StoreLayer for Busy {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(&*self.inner)
    }

    fn import<'a>(
        &'a self,
        session: &'a str,
        arrival: RecordArrival,
        record: Box<dyn RecordSource>,
    ) -> StoreResult<'a, ImportResult> {
        Box::pin(async move {
            let result = self.inner.import(session, arrival, record).await?;
            let left = self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                });
            if left.is_ok() {
                self.source
                    .enqueue(session, message("meanwhile", None))
                    .await?;
            }
            Ok(result)
        })
    }
}

#[tokio::test]
async fn messages_that_come_during_a_transfer_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let from: SharedStore = Arc::new(MemoryStore::new());
    let inner: SharedStore = Arc::new(SqliteStore::open(folder.path().join("to.db")).unwrap());
    for (id, changes) in [("a", 2), ("b", u64::MAX)] {
        session(&*from, id, 1).await;
        let to: SharedStore = Arc::new(Busy {
            inner: Arc::clone(&inner),
            source: Arc::clone(&from),
            left: AtomicU64::new(changes),
        });
        let moved = transfer(&from, &to, folder.path()).run(id).await.unwrap();
        if changes == 2 {
            assert!(
                matches!(moved, TransferResult::Transferred { .. }),
                "{moved:?}"
            );
            assert_eq!(inner.inbox(id).await.unwrap().len(), 4);
        } else {
            // It never rested, so that it stays.
            assert_eq!(moved, TransferResult::InUse { owner: None });
            assert!(is_usable(from.location(id).await.unwrap()));
            assert!(!is_usable(inner.location(id).await.unwrap()));
            let moved = transfer(&from, &inner, folder.path())
                .run(id)
                .await
                .unwrap();
            assert!(
                matches!(moved, TransferResult::Transferred { .. }),
                "{moved:?}"
            );
            assert_eq!(inner.inbox(id).await.unwrap().len(), 7);
        }
    }
}

#[tokio::test]
async fn a_session_in_use_stays() {
    let folder = tempfile::tempdir().unwrap();
    let from: SharedStore = Arc::new(MemoryStore::new());
    let to: SharedStore = Arc::new(MemoryStore::new());
    session(&*from, "s", 1).await;
    // A lease by another clock does not end by itself.
    let held = from.acquire("s", "other@clock", NOW, TTL).await.unwrap();
    let LeaseResult::Lease(lease) = held else {
        panic!("no lease");
    };
    let moving = transfer(&from, &to, folder.path());
    let owner = Some("other@clock".to_owned());
    let in_use = TransferResult::InUse { owner };
    assert_eq!(moving.plan("s").await.unwrap(), Some(in_use.clone()));
    assert_eq!(moving.run("s").await.unwrap(), in_use);
    assert_eq!(to.location("s").await.unwrap(), None);
    from.renew(&lease, NOW, TTL).await.unwrap();
    from.release(&lease).await.unwrap();
    let moved = moving.run("s").await.unwrap();
    assert!(matches!(moved, TransferResult::Transferred { .. }));
}

#[tokio::test]
async fn one_store_under_two_addresses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store: SharedStore = Arc::new(MemoryStore::new());
    session(&*store, "s", 1).await;
    let refused = transfer(&store, &store, folder.path()).run("s").await;
    assert!(
        matches!(refused, Err(TransferError::SameStore)),
        "{refused:?}"
    );
    let location = store.location("s").await.unwrap();
    assert_eq!(location, Some(SessionLocation::Here { lease: None }));
}

#[tokio::test]
async fn a_copy_leaves_two_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [SharedStore; 3] =
        std::array::from_fn(|_| -> SharedStore { Arc::new(MemoryStore::new()) });
    let [from, to, third] = &stores;
    session(&**from, "s", 1).await;
    let copying = transfer(from, to, folder.path()).with_copies();
    for _ in 0..2 {
        let copied = copying.run("s").await.unwrap();
        assert!(
            matches!(copied, TransferResult::Transferred { .. }),
            "{copied:?}"
        );
        for store in [from, to] {
            let location = store.location("s").await.unwrap();
            assert_eq!(location, Some(SessionLocation::Here { lease: None }));
        }
    }
    to.enqueue("s", message("only there", None)).await.unwrap();
    let other = copying.run("s").await.unwrap();
    assert_eq!(other, TransferResult::Different);
    let found = copying.compare("s").await.unwrap();
    assert_ne!(found, SessionComparison::Missing);

    // A session that was moved can be copied once more, if the store that has it is lost.
    let moved = transfer(from, third, folder.path());
    let hash = record_hash(&**from, "s").await.unwrap();
    moved.run("s").await.unwrap();
    let fourth: SharedStore = Arc::new(MemoryStore::new());
    let rescued = Transfer::new(
        end(from, "from"),
        end(&fourth, "fourth"),
        "m",
        folder.path(),
    );
    let elsewhere = rescued.run("s").await.unwrap();
    let to = "test:to".to_owned();
    assert_eq!(elsewhere, TransferResult::MovedElsewhere { to });
    rescued.with_copies().run("s").await.unwrap();
    assert!(is_usable(fourth.location("s").await.unwrap()));
    assert_eq!(record_hash(&*fourth, "s").await.unwrap(), hash);
}

#[tokio::test]
async fn a_comparison_finds_what_continued_and_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let from: SharedStore = Arc::new(MemoryStore::new());
    let to: SharedStore = Arc::new(SqliteStore::open(folder.path().join("to.db")).unwrap());
    session(&*from, "s", 600).await;
    let moving = transfer(&from, &to, folder.path());
    assert_eq!(
        moving.compare("s").await.unwrap(),
        SessionComparison::Missing
    );
    let moved = moving.run("s").await.unwrap();
    let TransferResult::Transferred { size, hash } = moved else {
        panic!("{moved:?}");
    };
    assert_eq!((size.messages, size.entries), (600, 2));
    assert!(size.bytes > 600_000);
    assert_eq!(
        moving.compare("s").await.unwrap(),
        SessionComparison::Equal { hash }
    );
    assert_eq!(moving.run("s").await.unwrap(), TransferResult::AlreadyMoved);

    let later = NewEntry {
        now: NOW.after(TTL),
        ..message("more", None)
    };
    to.enqueue("s", later.clone()).await.unwrap();
    assert_eq!(
        moving.compare("s").await.unwrap(),
        SessionComparison::Continued
    );
    to.delete("s").await.unwrap();
    assert_eq!(
        moving.compare("s").await.unwrap(),
        SessionComparison::Missing
    );
    assert_eq!(moving.run("s").await.unwrap(), TransferResult::Lost);
    session(&*to, "s", 599).await;
    to.enqueue("s", later).await.unwrap();
    assert_eq!(
        moving.compare("s").await.unwrap(),
        SessionComparison::Different
    );
}

/// A large session is read and written in less memory than it has.
#[tokio::test]
async fn a_large_session_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| -> SharedStore {
        Arc::new(SqliteStore::open(folder.path().join(name)).unwrap())
    };
    let (from, to) = (open("from.db"), open("to.db"));
    session(&*from, "s", 20_000).await;
    let moved = transfer(&from, &to, folder.path()).run("s").await.unwrap();
    assert!(
        matches!(moved, TransferResult::Transferred { .. }),
        "{moved:?}"
    );
    let last = to.history("s", 19_999, 9).await.unwrap();
    assert_eq!(last[0]["at"], 19_999);
    assert_eq!(last.len(), 1);
}
