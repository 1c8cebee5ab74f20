//! A redaction of a library user: what it replaces is in no record that a chat makes.

use std::borrow::Cow;
use std::sync::Arc;

use logue_harness::chat::{ChatHarness, ChatTurnOutcome, Redact, SendOptions, SignalTarget};
use logue_harness::store::EntryPayload;
use logue_message::ChatMessage;

use super::stage::{Stage, category, texts};
use super::suspension::approval;

/// Replaces a number.
struct Pin;

impl Redact for Pin {
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        ["1234", "9876"]
            .into_iter()
            .fold(Cow::Borrowed(text), |text, pin| {
                if text.contains(pin) {
                    Cow::Owned(text.replace(pin, "[redacted:pin]"))
                } else {
                    text
                }
            })
    }
}

fn harness(stage: &Stage) -> ChatHarness<String> {
    let builder = stage.builder().with_redaction(Arc::new(Pin));
    builder.build().unwrap()
}

#[tokio::test]
async fn a_key_is_bound_to_the_redacted_message() {
    let stage = Stage::new();
    let chat = harness(&stage);
    let send = async |text: &str| {
        let options = SendOptions::new().with_idempotency_key("k");
        chat.send_with("s", ChatMessage::user(text), options).await
    };
    let first = send("my pin is 1234").await;
    let same = send("my pin is 9876").await;
    assert_eq!(texts(&first), texts(&same));
    let history = stage.history("s").await;
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(history[0], "user: my pin is [redacted:pin]");
    assert_eq!(
        category(&send("my pin is none").await),
        "idempotency_key_reused"
    );
}

#[tokio::test]
async fn the_process_of_a_signal_resumes_with_its_original_payload() {
    let stage = Stage::new();
    let chat = harness(&stage);
    let outcome = chat.send("s", ChatMessage::user("wait 1")).await;
    let ChatTurnOutcome::Suspended(turn) = &outcome else {
        panic!("{outcome:?}")
    };
    let target = SignalTarget::Invocation(&turn.invocation_id);
    let resumed = chat.signal(target, approval("yes 1234")).await.unwrap();
    assert_eq!(texts(&resumed), ["resumed: yes 1234"]);
    let entry = stage.store.entry("s", 2).await.unwrap().unwrap();
    let Some(EntryPayload::Resume { payload, .. }) = entry.work else {
        panic!("{entry:?}")
    };
    assert_eq!(payload, approval("yes [redacted:pin]"));
}

#[tokio::test]
async fn another_process_resumes_with_the_stored_payload() {
    let stage = Stage::new();
    let chat = harness(&stage);
    let outcome = chat.send("s", ChatMessage::user("wait 1")).await;
    let ChatTurnOutcome::Suspended(turn) = &outcome else {
        panic!("{outcome:?}")
    };
    let target = SignalTarget::Invocation(&turn.invocation_id);
    // The signal is stored, and its process ends before the turn resumes.
    drop(chat.signal_streaming(target, approval("yes 1234")).await);
    drop(chat);
    harness(&stage).process_pending("s").await.unwrap();
    let history = stage.history("s").await;
    assert_eq!(
        history.last().map(String::as_str),
        Some("assistant: resumed: yes [redacted:pin]")
    );
}
