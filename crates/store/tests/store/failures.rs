//! Full disks and damaged, moved or locked files: the error names the file, and stored content
//! survives.

use std::fs;
use std::time::Duration;

use logue_harness::store::{SessionFork, Store, StoreError};
use logue_store::{SqliteOptions, SqliteStore};
use rusqlite::Connection;

use super::{NOW, child, entry, place, turn};

/// Returns the message of an error of the medium.
fn unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unavailable { message, .. }) => message,
        other => panic!("it did not fail so: {other:?}"),
    }
}

fn damaged<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Damaged(message)) => message,
        other => panic!("it did not fail so: {other:?}"),
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let (_folder, path) = place();
    let options = SqliteOptions::default().max_bytes(200 << 10);
    let store = SqliteStore::open_with(&path, options).unwrap();
    turn(&store, "s", "small").await.unwrap();
    let huge = "x".repeat(300 << 10);
    let message = unavailable(store.enqueue("s", entry(&huge, None)).await);
    assert!(
        message.contains("sessions.db: the disk is full"),
        "{message}"
    );

    turn(&store, "s", "small again").await.unwrap();
    for number in 0.. {
        let text = format!("{number}{}", "x".repeat(5000));
        if let Err(error) = turn(&store, &number.to_string(), &text).await {
            unavailable::<()>(Err(error));
            break;
        }
    }
    assert_eq!(store.history("s", 0, 9).await.unwrap().len(), 4);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    assert!(store.delete("1").await.unwrap());
    turn(&store, "s", "There is room again.").await.unwrap();
}

#[tokio::test]
async fn a_request_that_fails_does_not_spoil_those_beside_it() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.set_label("s", "a", 1.into(), NOW).await.unwrap();
    // They are put into the queue together, so most of them share a transaction.
    let (one, two, three, four, five) = tokio::join!(
        store.enqueue("s", entry("one", None)),
        store.enqueue("", entry("refused", None)),
        store.fork("s", SessionFork::new(9, "half-made", NOW)),
        store.set_label("s", "b", 2.into(), NOW),
        store.enqueue("s", entry("two", None)),
    );
    assert!(one.is_ok() && four.is_ok() && five.is_ok());
    assert!(matches!(two, Err(StoreError::NotFound { .. })));
    assert!(matches!(three, Err(StoreError::Conflict { .. })));
    assert_eq!(store.session("half-made").await.unwrap(), None);
    assert_eq!(store.inbox("s").await.unwrap().len(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_system_that_refuses_is_told_of() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let output = child::confined("write-on", &path, 600).output().unwrap();
    let told = child::told(&String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{told:?}");
    let error = told.iter().find_map(|step| step.strip_prefix("error "));
    let error = error.expect("it ended without an error");
    assert!(error.contains("sessions.db: "), "{error}");

    let store = SqliteStore::open(&path).unwrap();
    let verified = store.verify(None).await.unwrap();
    assert_eq!(verified.faults, []);
    let committed = told.iter().filter(|step| step.starts_with("committed"));
    assert!(verified.messages >= u64::try_from(committed.count()).unwrap());
    turn(&store, "s", "And on.").await.unwrap();
}

#[tokio::test]
async fn a_file_that_somebody_writes_to_is_waited_for_under_a_bound() {
    let (_folder, path) = place();
    let options = SqliteOptions::default().busy_timeout(Duration::from_millis(50));
    let store = SqliteStore::open_with(&path, options).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let message = unavailable(store.enqueue("s", entry("x", None)).await);
    assert!(
        message.contains("sessions.db: locked by another process"),
        "{message}"
    );
    // Reads do not wait.
    assert_eq!(store.session("s").await.unwrap(), None);
    let message = unavailable(SqliteStore::open_with(&path, options));
    assert!(message.contains("locked by another process"), "{message}");
    other.execute_batch("COMMIT").unwrap();
    store.enqueue("s", entry("x", None)).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_confirmed_into_a_file_that_is_gone() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "s", "x").await.unwrap();
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    let message = unavailable(store.enqueue("s", entry("y", None)).await);
    assert!(
        message.contains("sessions.db: the file was moved or removed"),
        "{message}"
    );
    fs::write(&path, "another").unwrap();
    unavailable(store.enqueue("s", entry("y", None)).await);
    fs::rename(folder.path().join("elsewhere"), &path).unwrap();
    store.enqueue("s", entry("y", None)).await.unwrap();
    assert_eq!(store.inbox("s").await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_something_else_is_refused_and_left_alone() {
    let (folder, path) = place();
    let other = folder.path().join("other.db");
    let conn = Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE things (name TEXT)")
        .unwrap();
    drop(conn);
    let foreign = fs::read(&other).unwrap();
    let contents: [&[u8]; 5] = [
        b"x",
        b"SQLite format 3\0",
        &[0; 8192],
        "# A chat\n".as_bytes(),
        &foreign,
    ];
    for content in contents {
        fs::write(&path, content).unwrap();
        let message = match SqliteStore::open(&path) {
            Err(StoreError::NotAStore(message)) if !content.starts_with(b"SQLite") => message,
            other => damaged(other),
        };
        assert!(
            message.contains("sessions.db: not a session store"),
            "{message}"
        );
        assert!(fs::read(&path).unwrap() == content, "{content:.20?}");
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
    let message = unavailable(SqliteStore::open(folder.path()));
    assert!(
        message.contains(&folder.path().display().to_string()),
        "{message}"
    );
}

#[tokio::test]
async fn a_damaged_file_gives_errors_and_no_panic() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..40 {
        turn(&store, "s", &format!("{number}{}", "x".repeat(900)))
            .await
            .unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut faulty = 0;
    let pages = whole.len() / 2048;
    for page in 0..pages {
        let mut broken = whole.clone();
        // The header stays, so that it is still taken for ours.
        let start = if page == 0 { 100 } else { page * 2048 };
        broken[start..(page + 1) * 2048].fill(0xa5);
        fs::write(&path, &broken).unwrap();
        let told = use_it(&path).await;
        faulty += u32::from(told.is_err());
        if let Err(message) = told {
            assert!(message.contains("sessions.db"), "{message}");
        }
    }
    // Most pages hold what a session needs; a few are spare.
    assert!(faulty as usize > pages / 2, "{faulty} of {pages}");
    for length in [whole.len() - 2048, whole.len() / 2, 2048, 120] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(use_it(&path).await.is_err(), "{length} of {}", whole.len());
    }
}

/// Opens a file, reads and writes: what goes wrong, or what its check finds.
async fn use_it(path: &std::path::Path) -> Result<(), String> {
    let told = |error: StoreError| error.to_string();
    let store = SqliteStore::open(path).map_err(told)?;
    store.history("s", 0, usize::MAX).await.map_err(told)?;
    turn(&store, "s", "x").await.map_err(told)?;
    let verified = store.verify(None).await.map_err(told)?;
    if verified.faults.is_empty() {
        return Ok(());
    }
    Err(format!("sessions.db: {:?}", verified.faults))
}
