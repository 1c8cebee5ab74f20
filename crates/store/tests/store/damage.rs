//! Damage by the medium: every flipped bit is found, and a repair keeps everything else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use logue_harness::store::{
    Commit, Disposition, EntryPayload, IntegrityFault, NewEntry, NewOutcome, NewSuspension,
    OutcomeKind, Store,
};
use logue_store::SqliteStore;
use rusqlite::Connection;
use serde_json::{Map, json};

use super::{NOW, done, entry, lease, place, said, turn};

/// The number of bits that are flipped; `LOGUE_ROUNDS` overrides it.
fn bits() -> usize {
    let told = std::env::var("LOGUE_ROUNDS").ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(2_000)
}

/// Fills a file with every kind of record, each with a text that occurs once in the file.
pub(crate) async fn fill(path: &Path) -> Vec<&'static str> {
    let store = SqliteStore::open(path).unwrap();
    for text in ["first-message", "second-message", "third-message"] {
        let keyed = NewEntry {
            digest: Some(format!("digest-of-{text}")),
            ..entry(text, Some(&format!("key-of-{text}")))
        };
        store.enqueue("session-one", keyed).await.unwrap();
        let lease = lease(&store, "session-one").await.unwrap();
        let invocation = format!("invocation-of-{text}");
        store.claim_next(&lease, &invocation, NOW).await.unwrap();
        let seq = store.session("session-one").await.unwrap().unwrap().seq;
        let mut commit = done(
            &invocation,
            seq,
            vec![said(text), said(&format!("{text}-again"))],
        );
        let field = format!("value-of-{text}");
        commit.fields = Map::from_iter([(format!("field-{text}"), json!(field))]);
        store.commit(&lease, commit).await.unwrap();
        store.release(&lease).await.unwrap();
    }
    store
        .set_label("session-one", "label-name", json!("label-value"), NOW)
        .await
        .unwrap();
    store
        .set_label("session-one", "other-label", json!(1), NOW)
        .await
        .unwrap();
    let decision = vec![json!({ "decision": "audited-decision" })];
    store
        .audit("session-one", "audited-invocation", decision, NOW)
        .await
        .unwrap();

    // One turn waits for a signal, one runs, one has not begun.
    store
        .enqueue("session-two", entry("waiting", None))
        .await
        .unwrap();
    let held = lease(&store, "session-two").await.unwrap();
    store
        .claim_next(&held, "suspended-invocation", NOW)
        .await
        .unwrap();
    let commit = Commit {
        settle: Some(Disposition::Suspended {
            suspension: NewSuspension {
                signal_id: "signal-of-two".to_owned(),
                metadata: Some(json!({ "why": "metadata-of-two" })),
                record: json!({ "state": "record-of-two" }),
            },
            outcome: NewOutcome {
                kind: OutcomeKind::Suspended,
                replies_from: 1,
                body: json!({ "signal_id": "outcome-of-two" }),
            },
        }),
        ..done("suspended-invocation", 0, vec![said("said-before")])
    };
    store.commit(&held, commit).await.unwrap();
    store
        .enqueue("session-two", entry("running-work", None))
        .await
        .unwrap();
    store
        .claim_next(&held, "running-invocation", NOW)
        .await
        .unwrap();
    let notes = vec![json!({ "note": "journalled-note" })];
    store
        .journal(&held, "running-invocation", notes)
        .await
        .unwrap();
    store
        .enqueue("session-two", entry("pending-work", None))
        .await
        .unwrap();
    drop(store);
    vec![
        "ufirst-message-again",
        "second-message-again",
        "third-message-again",
        "digest-of-second-message",
        "value-of-first-message",
        "field-third-message",
        "label-value",
        "other-label",
        "key-of-third-message",
        "session-one",
        "audited-decision",
        "record-of-two",
        "said-before",
        "running-work",
        "journalled-note",
        "pending-work",
    ]
}

/// The places of a text; removed rows may have left copies.
fn found(content: &[u8], text: &str) -> Vec<usize> {
    let places = content.windows(text.len()).enumerate();
    let places = places.filter(|(_, part)| *part == text.as_bytes());
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{text} is not in the file");
    places
}

/// The places of the faults of checksums.
fn damaged(
    faults: &[IntegrityFault],
) -> BTreeSet<(Option<String>, &'static str, Option<u64>, String)> {
    let damaged = faults
        .iter()
        .filter(|fault| fault.problem.contains("checksum"));
    damaged
        .map(|fault| {
            (
                fault.session.clone(),
                fault.record,
                fault.position,
                fault.problem.clone(),
            )
        })
        .collect()
}

#[tokio::test]
async fn every_flipped_bit_is_found() {
    let (_folder, path) = place();
    let texts = fill(&path).await;
    let whole = fs::read(&path).unwrap();
    let places: Vec<_> = texts
        .iter()
        .map(|text| (found(&whole, text), text.len()))
        .collect();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 8).unwrap_or_default() % below
    };
    let mut flipped = 0;
    while flipped < bits() {
        let mut broken = whole.clone();
        for (starts, length) in &places {
            let (offset, bit) = (next(*length), next(8));
            for start in starts {
                broken[start + offset] ^= 1 << bit;
            }
        }
        flipped += places.len();
        fs::write(&path, &broken).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        let report = store.verify(None).await.unwrap();
        let rows = damaged(&report.faults);
        assert_eq!(rows.len(), places.len(), "{rows:#?}");
    }
}

/// Changes rows as an editor of the file does.
pub(crate) fn edit(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn an_edited_record_is_found_at_its_place() {
    let edits = [
        (
            "UPDATE message SET body = '42' WHERE pos & 0xffffffff = 1",
            "message",
            Some(1),
        ),
        (
            r#"UPDATE message SET body = '{"role":"robot","content":"x"}' WHERE pos & 0xffffffff = 0"#,
            "message",
            Some(0),
        ),
        (
            "UPDATE entry SET kind = 9 WHERE pos & 0xffffffff = 2",
            "entry",
            Some(2),
        ),
        (
            "UPDATE entry SET key = 'other' WHERE pos & 0xffffffff = 3",
            "entry",
            Some(3),
        ),
        ("UPDATE label SET value = '7'", "label", None),
        (
            "DELETE FROM message WHERE pos & 0xffffffff = 2",
            "session",
            None,
        ),
        (
            "UPDATE session SET id = 'x' WHERE id = 'session-one'",
            "session",
            None,
        ),
        ("DROP INDEX entry_key", "index", None),
        ("UPDATE suspension SET record = '{}'", "suspension", None),
        ("UPDATE note SET body = '{}'", "note", Some(0)),
    ];
    for (sql, record, position) in edits {
        let (_folder, path) = place();
        fill(&path).await;
        edit(&path, sql);
        let store = SqliteStore::open(&path).unwrap();
        let faults = store.verify(None).await.unwrap().faults;
        assert!(
            faults
                .iter()
                .any(|fault| fault.record == record && fault.position == position),
            "{sql}: {faults:#?}"
        );
        let report = store.repair(NOW).await.unwrap();
        assert_eq!(report.remaining, [], "{sql}: {report:#?}");
        assert_eq!(store.verify(None).await.unwrap().faults, [], "{sql}");
        assert!(store.verify(None).await.unwrap().sessions >= 2, "{sql}");
        // What was repaired can be used.
        turn(&store, "session-three", "and on").await.unwrap();
    }
}

#[tokio::test]
async fn a_repair_loses_nothing_else() {
    let (_folder, path) = place();
    fill(&path).await;
    let before = {
        let store = SqliteStore::open(&path).unwrap();
        store.history("session-one", 0, 99).await.unwrap()
    };
    edit(
        &path,
        "UPDATE message SET body = '{\"role\":\"user\",\"content\":\"forged\"}'
             WHERE pos & 0xffffffff = 3 AND body LIKE '%second%';
         DELETE FROM field WHERE name = 'nothing';
         DROP INDEX entry_key",
    );
    let store = SqliteStore::open(&path).unwrap();
    let report = store.repair(NOW).await.unwrap();
    assert_eq!(report.quarantined.len(), 1, "{report:?}");
    assert_eq!(report.rebuilt, ["entry_key"]);
    let after = store.history("session-one", 0, 99).await.unwrap();
    assert_eq!(after.len(), before.len());
    for (seq, (after, before)) in after.iter().zip(&before).enumerate() {
        if seq == 3 {
            let text = after["content"].as_str().unwrap();
            assert!(text.contains("quarantine"), "{text}");
        } else {
            assert_eq!(after, before);
        }
    }
    // The same key is still the same message.
    let again = NewEntry {
        digest: Some("digest-of-first-message".to_owned()),
        ..entry("first-message", Some("key-of-first-message"))
    };
    assert!(matches!(again.work, EntryPayload::Message { .. }));
    let put = store.enqueue("session-one", again).await.unwrap();
    assert!(format!("{put:?}").contains("is_new: false"), "{put:?}");
    let waiting = store.suspension("suspended-invocation").await.unwrap();
    assert_eq!(waiting.unwrap().record, json!({ "state": "record-of-two" }));
    drop(store);
    let kept: String = Connection::open(&path)
        .unwrap()
        .query_row("SELECT content FROM quarantine", [], |row| row.get(0))
        .unwrap();
    assert!(kept.contains("forged"), "{kept}");
}

#[tokio::test]
async fn a_file_with_unreadable_pages_is_not_repaired() {
    let (_folder, path) = place();
    fill(&path).await;
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..40 {
        let text = format!("{number}{}", "x".repeat(900));
        turn(&store, "session-three", &text).await.unwrap();
    }
    drop(store);
    let mut broken = fs::read(&path).unwrap();
    // A page of messages near the end.
    let page = broken.len() - 4 * 2048;
    broken[page..page + 2048].fill(0);
    fs::write(&path, &broken).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let refused = store.repair(NOW).await;
    assert!(refused.is_err(), "{refused:?}");
    drop(store);
    assert!(fs::read(&path).unwrap() == broken, "the file was changed");
}
