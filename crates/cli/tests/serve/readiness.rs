//! `/readyz` while the file of the store cannot be changed.

use std::fs;
use std::path::{Path, PathBuf};

use nix::libc;
use serde_json::json;

use crate::client::{Answered, Served};
use crate::program::{folder, logue};
use crate::slow_log::writer_lock;
use crate::waiting::wait_until;

const SEND: &str = "/v1/sessions/s1/send";

fn wait_for_status(served: &Served, status: u16) -> Answered {
    let mut answer = served.get("/readyz");
    wait_until(
        || format!("/readyz does not answer {status}: {}", served.said()),
        || {
            answer = served.get("/readyz");
            answer.status == status
        },
    );
    answer
}

fn send(served: &Served) -> Answered {
    served.post(SEND, &json!({"message": "hello"}))
}

fn rename(folder: &Path, from: &str, to: &str) {
    for end in ["", "-wal", "-shm"] {
        let (from, to) = (format!("{from}{end}"), format!("{to}{end}"));
        fs::rename(folder.join(from), folder.join(to)).unwrap();
    }
}

#[test]
fn a_server_whose_file_was_moved_is_not_ready() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(send(&served).status, 200);
    wait_for_status(&served, 200);
    rename(folder.path(), "s.db", "moved.db");
    let refused = wait_for_status(&served, 503);
    assert_eq!(refused.json()["code"], "store_unavailable", "{refused:?}");
    assert_eq!(send(&served).status, 503);
    rename(folder.path(), "moved.db", "s.db");
    wait_for_status(&served, 200);
    assert_eq!(send(&served).status, 200);
    // The checks have changed nothing.
    let shown = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(shown["to"], 4, "{shown}");
}

#[test]
fn a_server_whose_file_is_corrupt_is_not_ready() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(send(&served).status, 200);
    wait_for_status(&served, 200);
    for end in ["", "-wal"] {
        let file = folder.path().join(format!("s.db{end}"));
        let length = fs::metadata(&file).unwrap().len();
        let garbage = vec![0x5a; usize::try_from(length).unwrap()];
        fs::write(&file, garbage).unwrap();
    }
    let refused = wait_for_status(&served, 503);
    assert_eq!(refused.json()["code"], "store_corrupt", "{refused:?}");
}

/// The library that fails writes, built as a dependency of these tests.
fn fault_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let beside = program.ancestors().skip(1).take(2);
    let mut found = beside.map(|folder| folder.join("libfaultfs.so"));
    found.find(|library| library.exists()).unwrap()
}

#[test]
fn a_slow_store_is_not_ready_for_the_known_reason() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let full = folder.path().join("full");
    let mut command = logue(folder.path());
    command
        .env("LD_PRELOAD", fault_library())
        .env("FAULTFS_UNDER", folder.path())
        .env("FAULTFS_FULL", &full);
    let served = Served::start_with(command, &["agent.md"]);
    assert_eq!(send(&served).status, 200);
    fs::write(&full, "").unwrap();
    let large = json!({"message": "x".repeat(1_000_000)});
    let refused = served.post(SEND, &large);
    assert_eq!(refused.status, 503, "{refused:?}");
    // The store has refused a change, and does not answer any more.
    let lock = writer_lock(&folder.path().join("s.db-shm"));
    lock(libc::F_WRLCK);
    let refused = served.get("/readyz");
    assert_eq!(refused.status, 503, "{refused:?}");
    let detail = refused.json()["detail"].to_string();
    assert!(
        detail.contains("disk of the session store is full"),
        "{refused:?}"
    );
    lock(libc::F_UNLCK);
    fs::remove_file(&full).unwrap();
    assert_eq!(send(&served).status, 200);
    wait_for_status(&served, 200);
}

#[test]
fn a_server_on_a_full_disk_is_not_ready() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let full = folder.path().join("full");
    let mut command = logue(folder.path());
    command
        .env("LD_PRELOAD", fault_library())
        .env("FAULTFS_UNDER", folder.path())
        .env("FAULTFS_FULL", &full);
    let served = Served::start_with(command, &["agent.md"]);
    assert_eq!(send(&served).status, 200);
    wait_for_status(&served, 200);
    fs::write(&full, "").unwrap();
    let refused = wait_for_status(&served, 503);
    let detail = refused.json()["detail"].to_string();
    assert!(
        detail.contains("disk of the session store is full"),
        "{refused:?}"
    );
    // What the log of the file still has room for is accepted; a large message is not.
    let large = json!({"message": "x".repeat(1_000_000)});
    let refused = served.post("/v1/sessions/other/send", &large);
    assert_eq!(refused.status, 503, "{refused:?}");
    let listed = served.get("/v1/sessions").json();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!(served.get("/v1/sessions/s1/messages").status, 200);
    fs::remove_file(&full).unwrap();
    wait_for_status(&served, 200);
    assert_eq!(served.post("/v1/sessions/other/send", &large).status, 200);
    let said = served.said();
    assert!(said.contains("the disk is full"), "{said}");
    assert!(!said.contains("failed for 0 s"), "{said}");
}
