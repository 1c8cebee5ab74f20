//! Files that a repair has to finish with.

use std::time::Duration;

use logue_harness::chat::check_records;
use logue_harness::store::{IntegrityFault, RepairReport, Store, StoreError};
use logue_store::{SqliteStore, mend_schema};
use rusqlite::Connection;
use serde_json::json;

use super::damage::{edit, fill};
use super::{NOW, entry, place, said, turn};

/// Repairs a file after a change; checks that the faults are found and the repair is whole.
async fn repaired(sql: &str) -> (SqliteStore, RepairReport, tempfile::TempDir) {
    let (folder, path) = place();
    fill(&path).await;
    edit(&path, sql);
    let store = SqliteStore::open(&path).unwrap();
    let faults = store.verify(None).await.unwrap().faults;
    assert!(!faults.is_empty(), "{sql}: nothing was found");
    let report = store.repair(NOW).await.unwrap();
    assert_eq!(report.remaining, [], "{sql}: {report:#?}");
    assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
    let mut invalid = check_records(&store, None).await.unwrap();
    // The suspended turn of the file is not one of a graph.
    invalid.retain(|fault| fault.record != "suspension");
    assert_eq!(invalid, [], "{sql}");
    turn(&store, "session-three", "and on").await.unwrap();
    store
        .enqueue("session-one", entry("and on", None))
        .await
        .unwrap();
    (store, report, folder)
}

#[tokio::test]
async fn missing_tables_are_created_again() {
    for table in [
        "note",
        "label",
        "field",
        "audit",
        "quarantine",
        "meta",
        "work",
        "suspension",
    ] {
        let sql = format!("PRAGMA foreign_keys = OFF; DROP TABLE {table}");
        let (store, report, _folder) = repaired(&sql).await;
        assert!(
            report.rebuilt.iter().any(|name| name == table),
            "{report:?}"
        );
        assert_eq!(store.history("session-one", 0, 99).await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn records_of_a_missing_session_are_kept_under_another_name() {
    let sql = "PRAGMA foreign_keys = OFF; DELETE FROM session WHERE id = 'session-one'";
    let (store, report, _folder) = repaired(sql).await;
    let lost = report.lost.iter().find(|fault| fault.record == "session");
    let name = lost.unwrap().problem.rsplit('`').nth(1).unwrap();
    let history = store.history(name, 0, 99).await.unwrap();
    assert_eq!(history.len(), 6, "{report:#?}");
    assert_eq!(history[0], said("first-message"));
}

#[tokio::test]
async fn a_key_of_two_entries_stays_with_the_first() {
    let sql = "DROP INDEX entry_key;
        UPDATE entry SET (key, sum) = ('key-of-first-message', NULL) WHERE pos & 0xffffffff = 2";
    let (store, report, folder) = repaired(sql).await;
    assert_eq!(report.rebuilt, ["entry_key"]);
    let again = entry("first-message", Some("key-of-first-message"));
    let put = store.enqueue("session-one", again).await.unwrap();
    assert!(
        format!("{put:?}").contains("entry: 1, is_new: false"),
        "{put:?}"
    );
    drop((store, folder));
}

#[tokio::test]
async fn a_missing_settled_entry_gets_a_failure_as_its_outcome() {
    let (store, _, _folder) = repaired("DELETE FROM entry WHERE pos & 0xffffffff = 2").await;
    let outcome = store.outcome_of("session-one", 2).await.unwrap().unwrap();
    assert_eq!(outcome.body["category"], "session_load_failed");
    assert_eq!(
        store.session("session-one").await.unwrap().unwrap().cursor,
        3
    );
}

#[tokio::test]
async fn a_placeholder_of_the_first_message_is_of_the_user() {
    let (store, _, _folder) = repaired("DELETE FROM message WHERE pos & 0xffffffff = 0").await;
    let history = store.history("session-one", 0, 99).await.unwrap();
    assert_eq!(history.len(), 6);
    assert_eq!(history[0]["role"], "user", "{history:#?}");
}

#[tokio::test]
async fn a_placeholder_answers_the_call_before_it() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "s", "x").await.unwrap();
    let call = json!({"role": "assistant", "content": "", "tool_calls":
        [{"id": "c1", "name": "f", "arguments": {}, "arguments_text": "{}"}]});
    let held = super::lease(&store, "s").await.unwrap();
    let mut commit = super::done("x", 2, vec![call, said("result"), said("more")]);
    commit.settle = None;
    store.commit(&held, commit).await.unwrap();
    edit(&path, "DELETE FROM message WHERE pos & 0xffffffff = 3");
    store.repair(NOW).await.unwrap();
    let history = store.history("s", 3, 1).await.unwrap();
    assert_eq!(history[0]["role"], "tool");
    assert_eq!(history[0]["tool_call_id"], "c1");
}

#[tokio::test]
async fn left_over_work_does_not_stop_the_next_message() {
    for sql in [
        "PRAGMA foreign_keys = OFF; DELETE FROM entry WHERE pos & 0xffffffff = 3",
        "PRAGMA foreign_keys = OFF;
         INSERT INTO work SELECT max(pos) + 1, '{}', NULL FROM entry",
    ] {
        let (store, _, _folder) = repaired(sql).await;
        store
            .enqueue("session-two", entry("next", None))
            .await
            .unwrap();
    }
    // A message that was accepted and had not begun still runs.
    let sql =
        "PRAGMA foreign_keys = OFF; DELETE FROM entry WHERE pos = (SELECT max(pos) FROM entry)";
    let (store, _, _folder) = repaired(sql).await;
    let waits = store.entry("session-two", 3).await.unwrap().unwrap();
    assert!(
        format!("{:?}", waits.work).contains("pending-work"),
        "{waits:?}"
    );
}

#[tokio::test]
async fn a_session_with_an_impossible_number_goes_to_quarantine() {
    let sql = "INSERT INTO session (sid, id, epoch, created_at, updated_at)
        VALUES (9223372036854775807, 'far', 0, 0, 0)";
    let (store, report, _folder) = repaired(sql).await;
    assert!(store.session("far").await.unwrap().is_none());
    assert!(
        report
            .quarantined
            .iter()
            .any(|fault| fault.record == "session")
    );
}

#[tokio::test]
async fn a_forged_session_row_is_not_taken_for_that_session() {
    for (sql, name) in [
        (
            "UPDATE session SET id = 'forged' WHERE id = 'session-one'",
            "forged",
        ),
        (
            "UPDATE session SET schema_version = 'forged' WHERE id = 'session-one'",
            "session-one",
        ),
    ] {
        let (folder, path) = place();
        fill(&path).await;
        edit(&path, sql);
        let store = SqliteStore::open(&path).unwrap();
        let report = store.repair(NOW).await.unwrap();
        assert_eq!(report.remaining, []);
        assert!(store.session(name).await.unwrap().is_none(), "{sql}");
        let problem = &report.quarantined[0].problem;
        let kept = problem.rsplit('`').nth(1).unwrap();
        assert_eq!(
            store.history(kept, 0, 9).await.unwrap().len(),
            6,
            "{problem}"
        );
        drop((store, folder));
    }
}

#[tokio::test]
async fn one_changed_bit_of_a_session_row_is_restored() {
    let sql = "UPDATE session SET id = 'sessiol-one' WHERE id = 'session-one'";
    // `l` and `n` differ in one bit.
    let (store, report, _folder) = repaired(sql).await;
    assert!(
        report.quarantined[0].problem.contains("restored"),
        "{report:#?}"
    );
    assert_eq!(store.history("session-one", 0, 9).await.unwrap().len(), 6);
    let (store, _, _folder) = repaired("UPDATE session SET cursor = cursor + 8").await;
    assert_eq!(
        store.session("session-one").await.unwrap().unwrap().cursor,
        3
    );
}

#[tokio::test]
async fn invalid_leases_are_given_back() {
    for sql in [
        "UPDATE session SET epoch = -1",
        "UPDATE session SET epoch = 9223372036854775807",
        "UPDATE session SET owner = '', until = 5",
        "UPDATE session SET owner = NULL, until = 5",
        "UPDATE session SET until = -5",
    ] {
        let (store, _, _folder) = repaired(sql).await;
        super::lease(&store, "session-two").await.unwrap();
    }
}

#[tokio::test]
async fn added_triggers_views_and_indexes_are_removed() {
    for sql in [
        "CREATE TRIGGER t AFTER INSERT ON message BEGIN DELETE FROM label; END",
        "CREATE VIEW v AS SELECT * FROM message",
        "CREATE UNIQUE INDEX i ON message (body)",
    ] {
        let (store, report, folder) = repaired(sql).await;
        assert_eq!(report.quarantined.len(), 1, "{report:#?}");
        let conn = Connection::open(folder.path().join("sessions.db")).unwrap();
        let kept: String = conn
            .query_row("SELECT content FROM quarantine", [], |row| row.get(0))
            .unwrap();
        assert!(kept.contains("CREATE"), "{kept}");
        drop(store);
    }
}

#[tokio::test]
async fn records_that_are_invalid_for_a_chat_go_to_quarantine() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    turn(&store, "s", "x").await.unwrap();
    let held = super::lease(&store, "s").await.unwrap();
    let robot = json!({"role": "robot", "content": "x"});
    let mut commit = super::done("x", 2, vec![robot, said("more")]);
    commit.settle = None;
    store.commit(&held, commit).await.unwrap();
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    let faults = check_records(&store, None).await.unwrap();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    let report = store.quarantine(faults, NOW).await.unwrap();
    assert_eq!((report.quarantined.len(), report.remaining.len()), (1, 0));
    assert_eq!(check_records(&store, None).await.unwrap(), []);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    assert_eq!(store.history("s", 3, 1).await.unwrap(), [said("more")]);
    let unknown = vec![IntegrityFault::new("file", "is odd")];
    let report = store.quarantine(unknown.clone(), NOW).await.unwrap();
    assert_eq!(report.remaining, unknown);
}

#[tokio::test]
async fn rows_with_far_places_and_gaps_are_repaired() {
    for sql in [
        "UPDATE entry SET pos = pos + 1000000 WHERE pos & 0xffffffff = 2",
        "UPDATE entry SET pos = pos + 4000000000 WHERE pos & 0xffffffff = 1",
        "UPDATE session SET entries = 9; UPDATE entry SET pos = pos + 1000000 WHERE pos & 0xffffffff = 2",
        "UPDATE entry SET pos = pos + 7 WHERE pos & 0xffffffff = 1",
        "UPDATE message SET pos = pos + 1000000 WHERE pos & 0xffffffff = 1",
        "UPDATE note SET seq = seq + 1",
        "UPDATE note SET seq = seq + 1000000",
        "UPDATE note SET seq = 9223372036854775807",
        "UPDATE note SET seq = -5",
        "UPDATE note SET invocation = 'other'",
        "UPDATE audit SET pos = pos + 1000000",
        "UPDATE work SET pos = pos + 1000000",
    ] {
        let sql = format!("PRAGMA foreign_keys = OFF; {sql}");
        let (store, _report, _folder) = repaired(&sql).await;
        let again = store.repair(NOW).await.unwrap();
        assert_eq!(again, RepairReport::default(), "{sql}: {again:#?}");
    }
}

#[tokio::test]
async fn a_damaged_schema_is_mended() {
    let write =
        |sql: &str| format!("PRAGMA writable_schema = ON; {sql}; PRAGMA writable_schema = OFF");
    let edits = [
        "UPDATE migration SET checksum = 'x' WHERE version = 3".to_owned(),
        "DELETE FROM migration WHERE version = 2".to_owned(),
        "DELETE FROM migration".to_owned(),
        "UPDATE migration SET version = 99 WHERE version = 6".to_owned(),
        "DROP TABLE migration".to_owned(),
        write(
            "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', 'STRXCT') WHERE name = 'note'",
        ),
        write(
            "UPDATE sqlite_schema SET sql = replace(sql, 'CREATE', 'CRE@TE') WHERE type = 'table'",
        ),
        write("UPDATE sqlite_schema SET sql = replace(sql, 'body', 'bodz') WHERE name = 'message'"),
        write("UPDATE sqlite_schema SET name = 'messagf' WHERE name = 'message'"),
        write("UPDATE sqlite_schema SET sql = replace(sql, 'ON', 'OM') WHERE name = 'entry_key'"),
        write("UPDATE sqlite_schema SET sql = 'CREATE' WHERE name = 'migration'"),
    ];
    for sql in edits {
        let (_folder, path) = place();
        fill(&path).await;
        edit(&path, &sql);
        let mended = mend_schema(&path, Duration::from_secs(5));
        assert!(mended.is_ok_and(|names| !names.is_empty()), "{sql}");
        let store = SqliteStore::open(&path).unwrap();
        store.repair(NOW).await.unwrap();
        assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
        assert_eq!(
            store.history("session-one", 0, 99).await.unwrap().len(),
            6,
            "{sql}"
        );
        let again = mend_schema(&path, Duration::from_secs(5)).unwrap();
        assert_eq!(again, [""; 0], "{sql}");
    }
}

/// A file of which a table is gone as well is left alone.
#[tokio::test]
async fn a_schema_that_cannot_be_mended_stays() {
    let (_folder, path) = place();
    fill(&path).await;
    let sql = "PRAGMA foreign_keys = OFF; DROP TABLE note; UPDATE migration SET checksum = 'x'";
    edit(&path, sql);
    let before = std::fs::read(&path).unwrap();
    let mended = mend_schema(&path, Duration::from_secs(5));
    assert!(
        matches!(&mended, Err(StoreError::Damaged(why)) if why.contains("`note`")),
        "{mended:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
