//! Who is reported of turns that went on.

use std::sync::{Arc, Mutex};

use logue_harness::chat::SignalTarget;
use logue_message::ChatMessage;

use super::stage::{Stage, texts};
use crate::chat::suspension::approval;

#[tokio::test]
async fn a_listener_is_told_once_of_each_resumed_turn_and_of_nothing_else() {
    let stage = Stage::new();
    let chat = stage.harness();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let subscription = chat
        .subscribe("s", {
            let heard = Arc::clone(&heard);
            move |outcome| heard.lock().unwrap().extend(texts(outcome))
        })
        .await
        .unwrap();
    // One that panics harms nobody.
    let bad = chat
        .subscribe("s", |_| panic!("a bad listener"))
        .await
        .unwrap();
    drop(chat.send("s", ChatMessage::user("hello")).await);
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    assert!(heard.lock().unwrap().is_empty());
    for word in ["yes", "no"] {
        drop(
            chat.signal(SignalTarget::Signal("sig-wait 1"), approval(word))
                .await,
        );
    }
    drop(chat.send("s", ChatMessage::user("hello")).await);
    chat.deliver_outcomes("s").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["resumed: yes"]);
    drop(bad);

    // Whoever is gone is reported nothing, and may come back where it was.
    let cursor = subscription.cursor().await.unwrap();
    drop(subscription);
    drop(chat.send("s", ChatMessage::user("wait 2")).await);
    let elsewhere = stage.harness();
    drop(
        elsewhere
            .signal(SignalTarget::Signal("sig-wait 2"), approval("later"))
            .await,
    );
    let heard_later: Arc<Mutex<Vec<String>>> = Arc::default();
    let back = chat.subscribe_from("s", cursor, {
        let heard = Arc::clone(&heard_later);
        move |outcome| heard.lock().unwrap().extend(texts(outcome))
    });
    chat.deliver_outcomes("s").await.unwrap();
    chat.deliver_outcomes("s").await.unwrap();
    assert_eq!(*heard_later.lock().unwrap(), ["resumed: later"]);
    assert_eq!(*heard.lock().unwrap(), ["resumed: yes"]);
    drop(back);
}

#[tokio::test]
async fn outcomes_can_be_read_from_a_cursor() {
    let stage = Stage::new();
    let chat = stage.harness();
    for text in ["a", "fail", "wait 1", "nothing"] {
        drop(chat.send("s", ChatMessage::user(text)).await);
    }
    drop(
        chat.signal(SignalTarget::Signal("sig-wait 1"), approval("yes"))
            .await,
    );
    let all = chat.outcomes_since("s", 0, 100).await.unwrap();
    let reported: Vec<_> = all
        .iter()
        .map(|(cursor, o)| format!("{cursor} {} {}", o.as_str(), texts(o).join("|")))
        .collect();
    assert_eq!(
        reported,
        [
            "1 completed you said a",
            "2 errored ",
            "3 suspended waiting for wait 1",
            "4 completed ",
            "5 completed resumed: yes",
        ]
    );
    assert_eq!(
        chat.outcomes_since("s", 3, 1).await.unwrap(),
        [all[3].clone()]
    );
}
