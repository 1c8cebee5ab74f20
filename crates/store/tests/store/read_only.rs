//! Stores that cannot be written.

use std::fs;
use std::path::Path;

use logue_harness::store::{SessionFilter, Store, StoreError};
use logue_store::SqliteStore;

use super::damage::fill;
use super::{entry, place};

fn set_read_only(path: &Path, is_read_only: bool) {
    let mut permissions = fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(is_read_only);
    fs::set_permissions(path, permissions).unwrap();
}

/// Reads everything, and fails to write.
async fn is_readable(path: &Path) {
    let folder = path.parent().unwrap();
    let (before, content) = (
        fs::read_dir(folder).unwrap().count(),
        fs::read(path).unwrap(),
    );
    let store = SqliteStore::open(path).unwrap();
    assert_eq!(store.history("session-one", 0, 99).await.unwrap().len(), 6);
    assert_eq!(store.list(SessionFilter::default()).await.unwrap().len(), 2);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
    let refused = store.enqueue("session-one", entry("x", None)).await;
    assert!(
        matches!(&refused, Err(StoreError::ReadOnly(message)) if message.contains("read-only")),
        "{refused:?}"
    );
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        before,
        "files were created"
    );
    drop(store);
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        before,
        "files were created"
    );
    assert!(fs::read(path).unwrap() == content, "the file was changed");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_read() {
    let (_folder, path) = place();
    fill(&path).await;
    set_read_only(&path, true);
    is_readable(&path).await;
    set_read_only(&path, false);
}

#[tokio::test]
async fn a_file_in_a_directory_that_cannot_be_written_is_read() {
    let (folder, path) = place();
    fill(&path).await;
    set_read_only(folder.path(), true);
    is_readable(&path).await;
    set_read_only(folder.path(), false);
}

#[tokio::test]
async fn odd_names_of_files_are_read_too() {
    let (folder, path) = place();
    fill(&path).await;
    let odd = folder.path().join("a%25 ?b#c.db");
    fs::rename(&path, &odd).unwrap();
    set_read_only(&odd, true);
    is_readable(&odd).await;
}

#[test]
fn a_read_only_file_that_is_not_a_store_is_refused() {
    let (_folder, path) = place();
    fs::write(
        &path,
        "not a database, but long enough to be looked at ".repeat(9),
    )
    .unwrap();
    set_read_only(&path, true);
    let refused = SqliteStore::open(&path);
    assert!(
        matches!(refused, Err(StoreError::NotAStore(_))),
        "{refused:?}"
    );
}
