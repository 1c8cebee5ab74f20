//! The operations that are on the disk before they are confirmed, and those that are not.

use std::fs::{OpenOptions, read_to_string};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use logue_harness::store::{BeginResult, Store as _};
use logue_store::SqliteStore;
use serde_json::json;

use super::child::command;
use super::{NOW, TTL, done, entry, lease, place, said};

const LOG: &str = "FAULTFS_LOG";

/// The library that records file operations, built as a dependency of these tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let mut folders = own.ancestors().skip(1).take(2);
    let mut found = folders.find_map(|folder| {
        let library = folder.join("libfaultfs.so");
        library.exists().then_some(library)
    });
    found.take().unwrap()
}

/// Writes the name of each confirmed operation between the file operations.
pub(crate) async fn operate(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let log = std::env::var_os(LOG).unwrap();
    let confirmed = |name: &str| {
        let mut log = OpenOptions::new().append(true).open(&log).unwrap();
        log.write_all(format!("confirmed {name}\n").as_bytes())
            .unwrap();
    };
    confirmed("open");
    store
        .enqueue("s", entry("text", Some("key")))
        .await
        .unwrap();
    confirmed("enqueue");
    let lease = lease(&store, "s").await.unwrap();
    confirmed("acquire");
    store.claim_next(&lease, "i", NOW).await.unwrap();
    confirmed("claim_next");
    store.renew(&lease, NOW, TTL).await.unwrap();
    confirmed("renew");
    let note = json!({ "kind": "note" });
    store.journal(&lease, "i", vec![note]).await.unwrap();
    confirmed("journal");
    let messages = vec![said("text"), said("answer")];
    store.commit(&lease, done("i", 0, messages)).await.unwrap();
    confirmed("commit");
    store.release(&lease).await.unwrap();
    confirmed("release");
    store
        .enqueue("s", entry("next", Some("later")))
        .await
        .unwrap();
    confirmed("enqueue");
    let begun = store.begin("s", "owner", "j", NOW, TTL).await.unwrap();
    let BeginResult::Turn(begun) = begun else {
        panic!("{begun:?}");
    };
    confirmed("begin");
    let messages = vec![said("next"), said("answer")];
    let commit = done("j", 2, messages);
    store
        .commit_and_release(&begun.lease, commit)
        .await
        .unwrap();
    confirmed("commit_and_release");
    store
        .set_label("s", "name", json!("value"), NOW)
        .await
        .unwrap();
    confirmed("set_label");
}

#[test]
fn what_is_acknowledged_is_flushed_and_a_lease_is_not() {
    let (folder, path) = place();
    // Elsewhere, so that its own changes are not recorded.
    let (elsewhere, _) = place();
    let log = elsewhere.path().join("operations");
    let output = command("operate", &path)
        .env("LD_PRELOAD", library())
        .env("FAULTFS_UNDER", folder.path())
        .env(LOG, &log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let operations = read_to_string(&log).unwrap();
    let mut flushed = Vec::new();
    let mut flushes = 0;
    for line in operations.lines() {
        if let Some(name) = line.strip_prefix("confirmed ") {
            flushed.push((name, flushes > 0));
            flushes = 0;
        } else if line.contains("sync ") && line.ends_with("-wal") {
            flushes += 1;
        }
    }
    let expected = [
        ("enqueue", true),
        ("acquire", false),
        ("claim_next", false),
        ("renew", false),
        ("journal", true),
        ("commit", true),
        ("release", false),
        ("enqueue", true),
        ("begin", false),
        ("commit_and_release", true),
        ("set_label", true),
    ];
    assert_eq!(flushed.get(1..), Some(&expected[..]), "{operations}");
}
