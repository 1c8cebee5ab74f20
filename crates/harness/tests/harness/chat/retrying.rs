//! Turns that failed after a tool worked, and continue.

use std::sync::atomic::Ordering;

use logue_harness::chat::{BusyPolicy, ChatTurnOutcome, RetryError, SendOptions};
use logue_message::ChatMessage;

use super::stage::{Stage, category, texts};

const FAILED: [&str; 3] = ["user: tool x", "assistant: [call-0]", "tool: worked"];

fn keyed(key: &str) -> SendOptions {
    SendOptions::new().with_idempotency_key(key)
}

async fn failed(stage: &Stage, options: SendOptions) -> ChatTurnOutcome {
    let chat = stage.harness();
    let outcome = chat.send_with("s", ChatMessage::user("tool x"), options);
    let outcome = outcome.await;
    assert_eq!(category(&outcome), "provider_unavailable");
    outcome
}

#[tokio::test]
async fn a_call_that_ran_is_history_and_a_retry_goes_on_from_it() {
    let stage = Stage::new();
    stage.away.store(2, Ordering::SeqCst);
    let outcome = failed(&stage, SendOptions::new()).await;
    assert!(matches!(outcome, ChatTurnOutcome::Errored(turn) if turn.resumable));
    assert_eq!(stage.history("s").await, FAILED);

    // In another process, and it may fail again.
    let chat = stage.harness();
    let unfinished = chat.unfinished("s").await.unwrap().unwrap();
    assert!(unfinished.resumable);
    assert_eq!(unfinished.message, Some(ChatMessage::user("tool x")));
    let outcome = chat.retry("s").await.unwrap();
    assert_eq!(category(&outcome), "provider_unavailable");
    assert_eq!(stage.history("s").await, FAILED);
    let unfinished = chat.unfinished("s").await.unwrap().unwrap();
    assert_eq!(unfinished.message, Some(ChatMessage::user("tool x")));

    let outcome = chat.retry("s").await.unwrap();
    assert_eq!(texts(&outcome), ["you said tool x"]);
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    let whole: Vec<_> = FAILED
        .into_iter()
        .chain(["assistant: you said tool x"])
        .collect();
    assert_eq!(stage.history("s").await, whole);
    let nothing = chat.retry("s").await;
    assert!(matches!(nothing, Err(RetryError::NothingFailed { .. })));
}

#[tokio::test]
async fn a_key_tries_again_until_there_is_an_answer() {
    let stage = Stage::new();
    stage.away.store(2, Ordering::SeqCst);
    drop(failed(&stage, keyed("k")).await);
    drop(failed(&stage, keyed("k")).await);
    let chat = stage.harness();
    for _ in 0..2 {
        let again = chat.send_with("s", ChatMessage::user("tool x"), keyed("k"));
        assert_eq!(texts(&again.await), ["you said tool x"]);
    }
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    assert_eq!(stage.history("s").await.len(), 4);
    // A turn that failed before a tool worked begins again.
    for _ in 0..2 {
        let outcome = chat.send_with("s", ChatMessage::user("fail"), keyed("f"));
        assert_eq!(category(&outcome.await), "provider_unavailable");
    }
    assert_eq!(stage.store.session("s").await.unwrap().unwrap().cursor, 5);
}

#[tokio::test]
async fn a_key_is_bound_to_its_message() {
    let stage = Stage::new();
    let chat = stage.harness();
    let first = chat.send_with("s", ChatMessage::user("a"), keyed("k"));
    assert_eq!(texts(&first.await), ["you said a"]);
    let other = chat.send_with("s", ChatMessage::user("b"), keyed("k"));
    assert_eq!(category(&other.await), "idempotency_key_reused");
    assert_eq!(stage.history("s").await.len(), 2);
    let other = chat.send_with("t", ChatMessage::user("b"), keyed("k"));
    assert_eq!(texts(&other.await), ["you said b"]);
}

#[tokio::test]
async fn a_key_of_a_session_that_went_on_says_its_message_again() {
    let stage = Stage::new();
    stage.away.store(1, Ordering::SeqCst);
    drop(failed(&stage, keyed("k")).await);
    let chat = stage.harness();
    let other = chat.send("s", ChatMessage::user("b")).await;
    assert_eq!(texts(&other), ["you said b"]);
    let again = chat.send_with("s", ChatMessage::user("tool x"), keyed("k"));
    assert_eq!(texts(&again.await).last().unwrap(), "you said tool x");
    let history = stage.history("s").await;
    assert_eq!(history[5], "user: tool x", "{history:?}");
}

#[tokio::test]
async fn deliveries_that_try_again_at_once_are_one_turn() {
    let stage = Stage::new();
    stage.away.store(1, Ordering::SeqCst);
    drop(failed(&stage, keyed("k")).await);
    let deliveries: Vec<_> = (0..6)
        .map(|n| {
            let chat = stage.harness();
            tokio::spawn(async move {
                if n % 2 == 0 {
                    return chat.retry("s").await.ok();
                }
                let message = ChatMessage::user("tool x");
                Some(chat.send_with("s", message, keyed("k")).await)
            })
        })
        .collect();
    for delivery in deliveries {
        if let Some(outcome) = delivery.await.unwrap() {
            assert_eq!(texts(&outcome), ["you said tool x"]);
        }
    }
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    assert_eq!(stage.history("s").await.len(), 4);
}

#[tokio::test]
async fn a_cancelled_turn_settles_its_key() {
    let stage = Stage::new();
    let chat = stage.harness();
    let turn = chat.send_streaming_with("s", ChatMessage::user("block"), keyed("k"));
    let turn = tokio::spawn(async move {
        let mut turn = turn;
        let mut last = None;
        while let Some(event) = turn.next().await {
            last = Some(event);
        }
        last
    });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let options = SendOptions::new().with_busy(BusyPolicy::Rollback);
    let other = chat.send_with("s", ChatMessage::user("b"), options).await;
    assert_eq!(texts(&other), ["you said b"]);
    drop(turn.await);
    let again = chat.send_with("s", ChatMessage::user("block"), keyed("k"));
    assert_eq!(category(&again.await), "turn_cancelled");
}

/// The calls of a failed turn are guarded until a turn has answered, and later for its own message.
#[tokio::test]
async fn a_new_turn_has_the_calls_of_failed_turns_guarded() {
    for is_same_process in [true, false] {
        let stage = Stage::new();
        let one = stage.harness();
        let say = async |text: &str, key: Option<&str>| {
            let chat = if is_same_process {
                one.clone()
            } else {
                stage.harness()
            };
            let options = key.map_or_else(SendOptions::new, keyed);
            let outcome = chat.send_with("s", ChatMessage::user(text), options);
            outcome.await
        };
        stage.away.store(1, Ordering::SeqCst);
        let failed = say("once x", Some("k")).await;
        assert_eq!(category(&failed), "provider_unavailable");
        // A failed turn in between changes nothing, nor does one that failed after a call of its own.
        let failed = say("fail", None).await;
        assert_eq!(category(&failed), "provider_unavailable");
        stage.away.store(1, Ordering::SeqCst);
        let failed = say("tool y", None).await;
        assert_eq!(category(&failed), "provider_unavailable");
        // Their calls are equal, and count once.
        assert_eq!(texts(&say("guarded", None).await), ["1 guarded"]);
        assert_eq!(texts(&say("guarded", None).await), ["0 guarded"]);
        // The same message under another key, and without one after an answer.
        assert_eq!(texts(&say("once x", Some("l")).await), ["1 guarded"]);
        // That was its answer.
        let again = say("once x", None).await;
        assert_eq!(texts(&again).last().unwrap(), "0 guarded");
        assert_eq!(stage.effects.load(Ordering::SeqCst), 3);
        // A turn that continued to its answer leaves nothing guarded.
        stage.away.store(1, Ordering::SeqCst);
        drop(say("tool z", Some("z")).await);
        assert_eq!(texts(&say("tool z", Some("z")).await), ["you said tool z"]);
        assert_eq!(texts(&say("guarded", None).await), ["0 guarded"]);
        assert_eq!(stage.effects.load(Ordering::SeqCst), 4);
    }
}
