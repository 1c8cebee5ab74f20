//! Several processes drain the inbox of one session.

use std::process::Child;

use logue_harness::store::{EntryState, Store};
use logue_store::SqliteStore;
use serde_json::Value;

use super::child;

const PROCESSES: usize = 8;
const TURNS: u64 = 400;

#[tokio::test]
async fn processes_that_share_a_session_lose_nothing() {
    let (_folder, path) = super::place();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|_| child::command("take-turns", &path).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    let store = SqliteStore::open(&path).unwrap();
    let history = store.history("s", 0, usize::MAX).await.unwrap();
    let number = |message: &Value, name: &str| message[name].as_u64().unwrap();
    let entries: Vec<u64> = history
        .iter()
        .map(|message| number(message, "entry"))
        .collect();
    assert_eq!(entries, (1..=TURNS).collect::<Vec<_>>());
    let epochs: Vec<u64> = history
        .iter()
        .map(|message| number(message, "epoch"))
        .collect();
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");

    let mut keys = Vec::new();
    for number in 1..=TURNS {
        let entry = store.entry("s", number).await.unwrap().unwrap();
        assert_eq!(entry.state, EntryState::Settled);
        keys.extend(entry.key);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 400);
    let outcomes = store.outcomes_since("s", 0, usize::MAX).await.unwrap();
    assert_eq!(outcomes.len(), 400);
    assert_eq!(store.verify(None).await.unwrap().faults, []);
}
