//! Sessions whose rows are damaged when an owner takes them.

use std::time::Duration;

use logue_harness::store::{Store, StoreError};
use logue_store::SqliteStore;
use serde_json::json;

use super::damage::edit;
use super::{NOW, entry, lease, place};

/// A changed row that a turn would use is refused before anything runs, and is not sealed again.
#[tokio::test]
async fn a_damaged_session_is_not_taken() {
    let edits = [
        "UPDATE session SET schema_version = '9'",
        "UPDATE session SET created_at = created_at + 1",
        "UPDATE session SET epoch = 9223372036854775807",
        "UPDATE work SET body = replace(body, 'pending', 'forged')",
        "UPDATE note SET body = '{}'",
        "DELETE FROM note",
        "UPDATE label SET value = '[\"b\"]'",
        "DELETE FROM label",
        "UPDATE label SET name = 'other'",
        "UPDATE entry SET resumes = 1 WHERE kind IS NULL",
    ];
    for edit_sql in edits {
        let (_folder, path) = place();
        let store = SqliteStore::open(&path).unwrap();
        store.enqueue("s", entry("pending", None)).await.unwrap();
        store
            .set_label("s", "permissions", json!(["a=ask"]), NOW)
            .await
            .unwrap();
        let held = lease(&store, "s").await.unwrap();
        store.claim_next(&held, "running", NOW).await.unwrap();
        let notes = vec![json!({"started": "call"})];
        store.journal(&held, "running", notes).await.unwrap();
        store.release(&held).await.unwrap();
        drop(store);
        edit(&path, edit_sql);
        let store = SqliteStore::open(&path).unwrap();
        let taken = store
            .acquire("s", "next", NOW, Duration::from_secs(9))
            .await;
        assert!(
            matches!(&taken, Err(StoreError::Damaged(why)) if why.contains("sessions repair")),
            "{edit_sql}: {taken:?}"
        );
        let verified = store.verify(None).await.unwrap();
        assert!(!verified.faults.is_empty(), "{edit_sql}");
        store.repair(NOW).await.unwrap();
        let verified = store.verify(None).await.unwrap();
        assert_eq!(verified.faults, [], "{edit_sql}");
    }
}

/// Repair ends, whatever the numbers of a session are.
#[tokio::test]
async fn impossible_numbers_are_repaired() {
    for edit_sql in [
        "UPDATE session SET seq = 9223372036854775807",
        "UPDATE session SET entries = -5",
        "UPDATE session SET field_rows = NULL, label_sum = NULL",
    ] {
        let (_folder, path) = place();
        let store = SqliteStore::open(&path).unwrap();
        store.enqueue("s", entry("pending", None)).await.unwrap();
        drop(store);
        edit(&path, edit_sql);
        let store = SqliteStore::open(&path).unwrap();
        store.repair(NOW).await.unwrap();
        let verified = store.verify(None).await.unwrap();
        assert_eq!(verified.faults, [], "{edit_sql}");
    }
}
