//! The files on the disk: permissions, size and format.

use std::fs;

use logue_harness::store::{EntryPayload, NewEntry, Store, StoreError};
use logue_store::{SqliteStore, open_store};
use rusqlite::Connection;
use serde_json::json;

use super::{NOW, done, entry, lease, place, said, turn};

#[cfg(unix)]
#[tokio::test]
async fn new_files_and_folders_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, _) = place();
    let inner = folder.path().join("a/b");
    let path = inner.join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "s", "x").await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [&inner, &folder.path().join("a")] {
        assert_eq!(mode(folder), 0o700);
    }
    let mut files = 0;
    for file in fs::read_dir(&inner).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert_eq!(files, 3);
    drop(store);
    // The log is emptied into the file when the last one closes it.
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
}

#[tokio::test]
async fn a_long_session_takes_little_more_than_its_text() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let message = said(&"A sentence of forty characters, it says. ".repeat(5)[..200]);
    let mut seq = 0;
    for number in 0..400 {
        let work = EntryPayload::Message {
            message: message.clone(),
        };
        let put = NewEntry {
            work,
            ..entry("", None)
        };
        store.enqueue("s", put).await.unwrap();
        let lease = lease(&store, "s").await.unwrap();
        let id = format!("0f8fad5b-d9cb-469f-a165-{number:012x}");
        store.claim_next(&lease, &id, NOW).await.unwrap();
        let notes = vec![message.clone()];
        store.journal(&lease, &id, notes).await.unwrap();
        let messages = vec![message.clone(), message.clone()];
        store
            .commit(&lease, done(&id, seq, messages))
            .await
            .unwrap();
        store.release(&lease).await.unwrap();
        seq += 2;
    }
    drop(store);
    let size = fs::metadata(&path).unwrap().len();
    let text = 800 * u64::try_from(message.to_string().len()).unwrap();
    assert!(size * 2 <= text * 3, "{size} bytes for {text}");
}

#[tokio::test]
async fn deleted_sessions_give_their_room_back() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..8 {
        turn(&store, &number.to_string(), &"x".repeat(1 << 20))
            .await
            .unwrap();
    }
    for number in 0..8 {
        store.delete(&number.to_string()).await.unwrap();
    }
    for _ in 0..8 {
        store.set_label("s", "a", json!(1), NOW).await.unwrap();
    }
    drop(store);
    let size = fs::metadata(&path).unwrap().len();
    assert!(size < 1 << 20, "{size} bytes");
}

#[test]
fn a_later_format_is_refused() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.execute("INSERT INTO migration VALUES (99, 'x')", [])
        .unwrap();
    drop(conn);
    let before = fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path);
    assert!(
        matches!(
            refused,
            Err(StoreError::Newer {
                found: 99,
                known: 6
            })
        ),
        "{refused:?}"
    );
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[tokio::test]
async fn a_file_of_the_first_format_is_brought_up_to_date() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let current = Connection::open(&path).unwrap();
    let checksum: String = current
        .query_row(
            "SELECT checksum FROM migration WHERE version = 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(current);
    fs::remove_file(&path).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "application_id", 0x4c6f_6775)
        .unwrap();
    conn.execute_batch(
        "CREATE TABLE migration (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT",
    )
    .unwrap();
    conn.execute_batch(include_str!("../../src/sqlite/0001.sql"))
        .unwrap();
    conn.execute("INSERT INTO migration VALUES (1, ?1)", [checksum])
        .unwrap();
    conn.execute_batch(
        r#"INSERT INTO session (sid, id, seq, epoch, created_at, updated_at) VALUES (1, 's', 1, 0, 5, 5);
         INSERT INTO label VALUES (1, 'a', '1');
         INSERT INTO message VALUES (1 << 32, '"said"')"#,
    )
    .unwrap();
    drop(conn);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    assert_eq!(store.history("s", 0, 9).await.unwrap(), [json!("said")]);
    let records = vec![json!("decided")];
    store.audit("s", "i", records, NOW).await.unwrap();
    assert_eq!(store.audited("s", 0, 9).await.unwrap().len(), 1);
    let info = store.session("s").await.unwrap().unwrap();
    assert_eq!(info.labels["a"], json!(1));
}

#[test]
fn another_format_of_the_same_number_is_refused() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE migration SET checksum = 'x'", [])
        .unwrap();
    drop(conn);
    let refused = SqliteStore::open(&path);
    assert!(
        matches!(refused, Err(StoreError::Damaged(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn faults_are_found() {
    let faults = [
        "DELETE FROM message WHERE pos & 0xff = 1",
        "UPDATE message SET body = '{' WHERE pos & 0xff = 2",
        "DELETE FROM entry WHERE pos & 0xff = 1",
        "UPDATE entry SET kind = NULL WHERE pos & 0xff = 1",
        "UPDATE entry SET replies_to = 99 WHERE pos & 0xff = 2",
        "DELETE FROM work",
        "UPDATE session SET cursor = cursor - 1",
        "UPDATE session SET seq = seq + 1",
        "PRAGMA foreign_keys = 0; DELETE FROM session",
        "INSERT INTO suspension (invocation, sid, signal_id, status, since)
             SELECT 'i', sid, 'x', 1, 0 FROM session",
        "INSERT INTO note (sid, invocation, seq, body) SELECT sid, 'i', 1, '1' FROM session",
    ];
    for fault in faults {
        let (_folder, path) = place();
        let store = SqliteStore::open(&path).unwrap();
        turn(&store, "s", "one").await.unwrap();
        turn(&store, "s", "two").await.unwrap();
        store.enqueue("s", entry("three", None)).await.unwrap();
        assert!(store.verify(None).await.unwrap().faults.is_empty());
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(fault).unwrap();
        let found = store.verify(None).await.unwrap().faults;
        assert!(!found.is_empty(), "{fault}");
    }
}

#[tokio::test]
async fn stores_are_opened_by_address() {
    let (_folder, path) = place();
    let url = format!("sqlite:{}", path.display());
    let store = open_store(&url).unwrap();
    store.enqueue("s", entry("x", None)).await.unwrap();
    drop(store);
    let store = open_store(&url).unwrap();
    assert_eq!(store.inbox("s").await.unwrap().len(), 1);
    let memory = open_store("memory:").unwrap();
    assert_eq!(memory.inbox("s").await.unwrap().len(), 0);
    for unknown in [
        "",
        "sqlite:",
        "mysql://me:secret@host/db",
        "sessions.db",
        "memory:x",
    ] {
        let refused = open_store(unknown).map(drop).unwrap_err();
        assert!(
            matches!(refused, StoreError::InvalidAddress(_)),
            "{unknown}"
        );
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
