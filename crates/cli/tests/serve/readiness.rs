//! `/readyz` while the file of the store cannot be changed.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::client::{Answered, Served};
use crate::program::folder;
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
