//! What becomes of a message while another turn runs.

use logue_harness::chat::{BusyPolicy, ChatHarness, SendOptions};
use logue_harness::store::EntryState;
use logue_message::ChatMessage;

use super::stage::{Stage, category, texts};

fn policy(busy: BusyPolicy) -> SendOptions {
    SendOptions::new().with_busy(busy)
}

/// A turn that runs and does not end by itself.
async fn running(
    stage: &Stage,
    chat: &ChatHarness<String>,
    text: &'static str,
) -> tokio::task::JoinHandle<logue_harness::chat::ChatTurnOutcome> {
    let chat = chat.clone();
    let turn = tokio::spawn(async move { chat.send("s", ChatMessage::user(text)).await });
    loop {
        tokio::task::yield_now().await;
        let inbox = stage.store.inbox("s").await.unwrap();
        let first = inbox.first();
        let Some(id) = first
            .filter(|first| first.state == EntryState::Running)
            .and_then(|first| first.invocation_id.clone())
        else {
            continue;
        };
        let notes = stage.store.notes("s", &id).await.unwrap();
        if text == "block" || notes.len() == 2 {
            return turn;
        }
    }
}

#[tokio::test]
async fn a_message_waits_is_refused_or_ends_the_running_turn() {
    // In the same process, and in another one.
    for same in [true, false] {
        for (busy, text, first, history) in [
            (
                BusyPolicy::Enqueue,
                "block",
                "completed",
                vec![
                    "user: block",
                    "assistant: unblocked",
                    "user: x",
                    "assistant: you said x",
                ],
            ),
            (
                BusyPolicy::Reject,
                "block",
                "completed",
                vec!["user: block", "assistant: unblocked"],
            ),
            (
                BusyPolicy::Interrupt,
                "block",
                "turn_cancelled",
                vec!["user: block", "user: x", "assistant: you said x"],
            ),
            (
                BusyPolicy::Rollback,
                "block",
                "turn_cancelled",
                vec!["user: x", "assistant: you said x"],
            ),
            (
                BusyPolicy::Interrupt,
                "toolblock",
                "turn_cancelled",
                vec![
                    "user: toolblock",
                    "assistant: [call-0]",
                    "tool: worked",
                    "user: x",
                    "assistant: you said x",
                ],
            ),
            (
                // A call that ran is history.
                BusyPolicy::Rollback,
                "toolblock",
                "turn_cancelled",
                vec![
                    "user: toolblock",
                    "assistant: [call-0]",
                    "tool: worked",
                    "user: x",
                    "assistant: you said x",
                ],
            ),
        ] {
            let stage = Stage::new();
            let chat = stage.harness();
            let turn = running(&stage, &chat, text).await;
            let other = if same { chat.clone() } else { stage.harness() };
            let second = tokio::spawn(async move {
                other
                    .send_with("s", ChatMessage::user("x"), policy(busy))
                    .await
            });
            if matches!(busy, BusyPolicy::Enqueue | BusyPolicy::Reject) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                stage.gate.add_permits(1);
            }
            let (turn, second) = (turn.await.unwrap(), second.await.unwrap());
            assert_eq!(category(&turn), first, "{busy:?} {text} {same}");
            if busy == BusyPolicy::Reject {
                assert_eq!(category(&second), "session_busy");
            } else {
                assert_eq!(texts(&second), ["you said x"], "{busy:?} {text} {same}");
            }
            assert_eq!(stage.history("s").await, history, "{busy:?} {text} {same}");
            assert_eq!(stage.store.inbox("s").await.unwrap(), []);
        }
    }
}

/// The key of a failed turn tries it again, and not while another turn runs.
#[tokio::test]
async fn a_key_of_a_failed_turn_is_refused_while_another_turn_runs() {
    let stage = Stage::new();
    let chat = stage.harness();
    let send = |chat: ChatHarness<String>| async move {
        let options = policy(BusyPolicy::Reject).with_idempotency_key("k");
        chat.send_with("s", ChatMessage::user("fail"), options)
            .await
    };
    assert_eq!(category(&send(chat.clone()).await), "provider_unavailable");
    let turn = running(&stage, &chat, "block").await;
    assert_eq!(category(&send(stage.harness()).await), "session_busy");
    stage.gate.add_permits(1);
    assert_eq!(turn.await.unwrap().as_str(), "completed");
}
