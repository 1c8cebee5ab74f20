//! Backups while others write, and what is restored from them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logue_harness::Timestamp;
use logue_harness::store::{EnqueueResult, Store, StoreError};
use logue_store::{SqliteStore, back_up, restore, vacuum};

use super::damage::{edit, fill};
use super::{NOW, done, entry, lease, place, said, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_while_others_write_is_whole() {
    let (folder, path) = place();
    fill(&path).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (wrote, mut first_turns) = tokio::sync::mpsc::unbounded_channel();
    let writers: Vec<_> = (0..2)
        .map(|number| {
            let (path, stop, wrote) = (path.clone(), Arc::clone(&stop), wrote.clone());
            tokio::spawn(async move {
                let store = SqliteStore::open(&path).unwrap();
                let mut turns = 0;
                while !stop.load(Ordering::Relaxed) {
                    turn(&store, &format!("writer-{number}"), "text")
                        .await
                        .unwrap();
                    turns += 1;
                    if turns == 1 {
                        wrote.send(()).unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in &writers {
        first_turns.recv().await.unwrap();
    }
    let mut messages = 0;
    for number in 0..5 {
        let target = folder.path().join(format!("backup-{number}.db"));
        let report = tokio::task::spawn_blocking({
            let (path, target) = (path.clone(), target.clone());
            move || back_up(&path, &target).unwrap()
        });
        let report = report.await.unwrap();
        assert_eq!(report.faults, []);
        assert!(report.messages >= messages);
        messages = report.messages;
        assert!(
            !folder
                .path()
                .join(format!("backup-{number}.db-wal"))
                .exists()
        );
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(messages > 7, "{messages}");

    // A new store of the last backup gives the same answers to the same keys.
    let restored = folder.path().join("restored").join("sessions.db");
    let backup = folder.path().join("backup-4.db");
    let report = restore(&backup, &restored, false, Timestamp(9_000_000_000)).unwrap();
    let report = report.integrity;
    assert_eq!((report.faults.len(), report.messages), (0, messages));
    let store = SqliteStore::open(&restored).unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    let known = entry("first-message", Some("key-of-first-message"));
    let put = store.enqueue("session-one", known).await.unwrap();
    assert!(
        matches!(
            put,
            EnqueueResult::Entry {
                entry: 1,
                is_new: false,
                ..
            }
        ),
        "{put:?}"
    );
    let origin = SqliteStore::open(&path).unwrap();
    assert_eq!(
        store.outcome_of("session-one", 1).await.unwrap(),
        origin.outcome_of("session-one", 1).await.unwrap()
    );
    // It can be used.
    turn(&store, "session-one", "and on").await.unwrap();
}

#[tokio::test]
async fn a_restore_replaces_the_store_under_its_users_and_fences_them() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "s", "before").await.unwrap();
    let backup = folder.path().join("backup.db");
    back_up(&path, &backup).unwrap();
    let again = back_up(&path, &backup);
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");

    turn(&store, "s", "after").await.unwrap();
    store.enqueue("s", entry("runs", None)).await.unwrap();
    let held = lease(&store, "s").await.unwrap();
    store.claim_next(&held, "i", NOW).await.unwrap();
    let refused = restore(&backup, &path, false, NOW);
    assert!(
        matches!(refused, Err(StoreError::Exists { .. })),
        "{refused:?}"
    );
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 4);
    restore(&backup, &path, true, Timestamp(9_000_000_000)).unwrap();
    let history = store.history("s", 0, 9).await.unwrap();
    assert_eq!(history, [said("before"), said("before")]);
    // The epochs of later owners differ from those before the restore.
    for _ in 0..2 {
        lease(&store, "s").await.unwrap();
    }
    let late = store.commit(&held, done("i", 4, vec![said("late")])).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    // The backup and the directory are as they were.
    let names = fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains(".part")),
        "{names:?}"
    );
    turn(&store, "s", "and on").await.unwrap();
}

#[tokio::test]
async fn damage_is_neither_backed_up_nor_restored() {
    let (folder, path) = place();
    fill(&path).await;
    let good = folder.path().join("good.db");
    back_up(&path, &good).unwrap();
    edit(&path, "DELETE FROM label");
    let target = folder.path().join("bad.db");
    let report = back_up(&path, &target).unwrap();
    assert!(!report.faults.is_empty());
    assert!(!target.exists());
    let (other, _) = place();
    let other = other.path().join("other.db");
    turn(&SqliteStore::open(&other).unwrap(), "s", "own")
        .await
        .unwrap();
    let report = restore(&path, &other, true, NOW).unwrap();
    assert!(!report.integrity.faults.is_empty());
    let store = SqliteStore::open(&other).unwrap();
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn sessions_in_use_are_not_pruned() {
    let (_folder, path) = place();
    fill(&path).await;
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "session-three", &"x".repeat(1 << 20))
        .await
        .unwrap();
    let prune = |session, at, force| store.prune(session, Timestamp(at), force);
    assert!(!prune("session-one", NOW.0 - 1, false).await.unwrap());
    assert!(!prune("session-two", NOW.0, false).await.unwrap());
    assert!(!prune("nothing", NOW.0, true).await.unwrap());
    assert!(prune("session-one", NOW.0, false).await.unwrap());
    assert!(prune("session-three", NOW.0, false).await.unwrap());
    assert!(store.session("session-two").await.unwrap().is_some());
    assert!(prune("session-two", NOW.0, true).await.unwrap());
    drop(store);
    let before = fs::metadata(&path).unwrap().len();
    let freed = vacuum(&path).unwrap();
    let after = fs::metadata(&path).unwrap().len();
    assert!(
        freed > 1 << 19 || before < 1 << 19,
        "{freed} {before} {after}"
    );
    assert!(after < 1 << 19, "{after}");
}
