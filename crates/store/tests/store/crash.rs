//! Processes killed while they write: every confirmed step is present.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::time::Duration;

use logue_harness::store::Store;
use logue_store::SqliteStore;

use super::child;

/// The default number of kills; `STORE_TEST_CRASHES` overrides it.
const ROUNDS: u64 = 20;

#[tokio::test]
async fn what_was_confirmed_survives_a_kill() {
    let (_folder, path) = super::place();
    let rounds = env::var("STORE_TEST_CRASHES")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let random = RandomState::new();
    let mut confirmed = 0;
    for round in 0..rounds.unwrap_or(ROUNDS) {
        let mut child = child::command("write-on", &path).spawn().unwrap();
        let pause = 30 + random.hash_one(round) % 220;
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap();
        let mut output = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        // A process that exited would not test a kill.
        assert_eq!(child.wait().unwrap().code(), None, "{output}");
        let steps = child::told(&output);
        confirmed += steps.len();

        let store = SqliteStore::open(&path).unwrap();
        // The integrity of the file is a part of this.
        assert_eq!(store.verify(None).await.unwrap().faults, []);
        for step in &steps {
            check(&store, step).await;
        }
    }
    assert!(
        confirmed > 100,
        "the processes lived too short: {confirmed} steps"
    );
}

/// Looks for what a step left.
async fn check(store: &SqliteStore, step: &str) {
    let words: Vec<&str> = step.split(' ').collect();
    match words[..] {
        ["accepted", session, key] => {
            let known = super::entry("again", Some(key));
            let answer = format!("{:?}", store.enqueue(session, known).await.unwrap());
            assert!(answer.contains("is_new: false"), "{step}: {answer}");
        }
        ["noted", session, id] => {
            let info = store.session(session).await.unwrap().unwrap();
            let next = store.entry(session, info.cursor + 1).await.unwrap();
            // Either the turn ended, and its message has the id, or it is the one that broke off.
            let broken = next.is_some_and(|next| next.invocation_id.as_deref() == Some(id));
            let notes = store.notes(session, id).await.unwrap();
            let ended = || async {
                let last = store.history(session, 0, usize::MAX).await.unwrap();
                last.iter().any(|message| message["turn"] == id)
            };
            assert!(broken && !notes.is_empty() || ended().await, "{step}");
        }
        ["committed", session, seq, id] => {
            let at = store
                .history(session, seq.parse().unwrap(), 1)
                .await
                .unwrap();
            assert_eq!(at[0]["turn"], id, "{step}");
        }
        _ => panic!("{step}"),
    }
}
