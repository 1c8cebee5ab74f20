//! A turn that waits, in every way in which it may go on.

use logue_harness::chat::{ChatTurnOutcome, PausedPolicy, SendOptions, SignalError, SignalTarget};
use logue_harness::store::SuspensionStatus;
use logue_message::ChatMessage;
use serde_json::{Map, Value, json};

use super::stage::{Stage, category, texts};

pub(crate) fn approval(word: &str) -> Map<String, Value> {
    Map::from_iter([("approval".to_owned(), json!(word))])
}

#[tokio::test]
async fn a_turn_goes_on_in_a_process_that_never_saw_it() {
    let stage = Stage::new();
    let outcome = stage.harness().send("s", ChatMessage::user("wait 1")).await;
    let ChatTurnOutcome::Suspended(turn) = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(turn.signal_descriptor.signal_id, "sig-wait 1");
    assert_eq!(
        turn.signal_descriptor.metadata,
        Some(json!({ "why": "approval" }))
    );
    assert_eq!(texts(&outcome), ["waiting for wait 1"]);
    assert_eq!(
        stage.history("s").await,
        ["user: wait 1", "assistant: waiting for wait 1"]
    );

    let resumed = stage
        .harness()
        .signal(
            SignalTarget::Invocation(&turn.invocation_id),
            approval("yes"),
        )
        .await
        .unwrap();
    assert_eq!(texts(&resumed), ["resumed: yes"]);
    let ChatTurnOutcome::Completed(completed) = &resumed else {
        panic!("{resumed:?}")
    };
    assert_eq!(completed.invocation_id, turn.invocation_id);
    assert_eq!(stage.history("s").await.len(), 3);
}

#[tokio::test]
async fn a_signal_counts_once() {
    let stage = Stage::new();
    let chats = [stage.harness(), stage.harness()];
    drop(chats[0].send("s", ChatMessage::user("wait 1")).await);
    let signals: Vec<_> = (0..5)
        .map(|n| {
            let chat = chats[n % 2].clone();
            let word = approval(&format!("yes {n}"));
            tokio::spawn(async move { chat.signal(SignalTarget::Signal("sig-wait 1"), word).await })
        })
        .collect();
    let mut reported = Vec::new();
    for signal in signals {
        reported.extend(texts(&signal.await.unwrap().unwrap()));
    }
    reported.dedup();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(stage.history("s").await.len(), 3);
}

#[tokio::test]
async fn a_payload_that_does_not_fit_consumes_nothing() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let target = SignalTarget::Either("sig-wait 1");
    for payload in [
        Map::from_iter([("approval".to_owned(), json!(7))]),
        Map::from_iter([("messages".to_owned(), json!([]))]),
    ] {
        let error = chat.signal(target, payload).await.unwrap_err();
        assert_eq!(error.category(), "suspension_resume_payload_invalid");
    }
    assert_eq!(
        texts(&chat.signal(target, approval("yes")).await.unwrap()),
        ["resumed: yes"]
    );
}

#[tokio::test]
async fn a_signal_for_nobody_or_for_several_is_refused() {
    let stage = Stage::new();
    let chat = stage.harness();
    let error = chat
        .signal(SignalTarget::Either("x"), Map::new())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "harness_signal_correlation_failed");
    drop(chat.send("a", ChatMessage::user("wait 1")).await);
    drop(chat.send("b", ChatMessage::user("wait 1")).await);
    let error = chat
        .signal(SignalTarget::Signal("sig-wait 1"), Map::new())
        .await
        .unwrap_err();
    let SignalError::Ambiguous { invocations, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(invocations.len(), 2);
    for invocation in invocations {
        let outcome = chat
            .signal(SignalTarget::Either(invocation), approval("y"))
            .await
            .unwrap();
        assert_eq!(texts(&outcome), ["resumed: y"]);
    }
}

#[tokio::test]
async fn turns_that_came_between_stay_where_they_are() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    assert_eq!(
        texts(&chat.send("s", ChatMessage::user("between")).await),
        ["you said between"]
    );
    let outcome = chat
        .signal(SignalTarget::Signal("sig-wait 1"), approval("yes"))
        .await
        .unwrap();
    assert_eq!(texts(&outcome), ["resumed: yes"]);
    assert_eq!(
        stage.history("s").await,
        [
            "user: wait 1",
            "assistant: waiting for wait 1",
            "user: between",
            "assistant: you said between",
            "assistant: resumed: yes",
        ]
    );
}

#[tokio::test]
async fn a_message_may_be_refused_while_a_turn_waits() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let options = SendOptions::new().with_while_paused(PausedPolicy::Reject);
    let outcome = chat
        .send_with("s", ChatMessage::user("x"), options.clone())
        .await;
    assert_eq!(category(&outcome), "session_awaiting_signal");
    let ChatTurnOutcome::Errored(turn) = outcome else {
        panic!()
    };
    assert!(
        turn.reply.text().contains("sig-wait 1"),
        "{}",
        turn.reply.text()
    );
    assert_eq!(stage.store.inbox("s").await.unwrap(), []);
    drop(
        chat.signal(SignalTarget::Signal("sig-wait 1"), approval("yes"))
            .await,
    );
    let outcome = chat.send_with("s", ChatMessage::user("x"), options).await;
    assert_eq!(texts(&outcome), ["you said x"]);
}

#[tokio::test]
async fn a_turn_may_wait_again() {
    let stage = Stage::new();
    let chat = stage.harness();
    let first = chat.send("s", ChatMessage::user("wait 1")).await;
    let ChatTurnOutcome::Suspended(first) = first else {
        panic!()
    };
    let target = SignalTarget::Invocation(&first.invocation_id);
    let again = chat.signal(target, approval("again")).await.unwrap();
    assert_eq!(
        (again.as_str(), texts(&again)),
        ("suspended", vec!["resumed: again".to_owned()])
    );
    let ended = stage
        .harness()
        .signal(target, approval("yes"))
        .await
        .unwrap();
    assert_eq!(
        (ended.as_str(), texts(&ended)),
        ("completed", vec!["resumed: yes".to_owned()])
    );
    let record = stage
        .store
        .suspension(&first.invocation_id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.status, SuspensionStatus::Resumed);
}

#[tokio::test]
async fn a_resumed_turn_that_fails_is_tried_again_with_its_first_decision() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let target = SignalTarget::Signal("sig-wait 1");
    let outcome = chat.signal(target, approval("crash")).await.unwrap();
    assert_eq!(category(&outcome), "provider_unavailable");
    assert_eq!(stage.history("s").await.len(), 2);
    // Given again, it is the same signal, and its turn runs again.
    let outcome = chat.signal(target, approval("yes")).await.unwrap();
    assert_eq!(category(&outcome), "provider_unavailable");
    let outcomes = stage.store.outcomes_since("s", 0, 9).await.unwrap();
    let resumed: Vec<bool> = outcomes.iter().map(|outcome| outcome.resumed).collect();
    assert_eq!(resumed, [false, true, true]);
}

#[tokio::test]
async fn a_checked_payload_is_completed_before_it_is_stored() {
    let stage = Stage::new();
    let builder = stage
        .builder()
        .with_payload_preparation(|descriptor, mut payload| {
            Box::pin(async move {
                let word = payload.get("approval").and_then(Value::as_str);
                if word != Some("yes") {
                    return Err(format!("{} is no {word:?}", descriptor.signal_id));
                }
                payload.insert("approval".to_owned(), "yes, at noon".into());
                Ok(payload)
            })
        });
    let chat = builder.build().unwrap();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let target = SignalTarget::Signal("sig-wait 1");
    let error = chat.signal(target, approval("perhaps")).await.unwrap_err();
    assert_eq!(error.category(), "suspension_resume_payload_invalid");
    let resumed = chat.signal(target, approval("yes")).await.unwrap();
    assert_eq!(texts(&resumed), ["resumed: yes, at noon"]);
}

#[tokio::test]
async fn a_chat_may_know_better_what_a_signal_must_carry() {
    let stage = Stage::new();
    let builder = stage.builder().with_payload_check(|descriptor, payload| {
        let word = payload.get("approval").and_then(Value::as_str);
        match word {
            Some("yes") => Ok(()),
            word => Err(format!("{} is no {word:?}", descriptor.signal_id)),
        }
    });
    let chat = builder.build().unwrap();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let target = SignalTarget::Signal("sig-wait 1");
    for payload in [approval("perhaps"), Map::new()] {
        let error = chat.signal(target, payload).await.unwrap_err();
        assert_eq!(error.category(), "suspension_resume_payload_invalid");
        assert!(error.to_string().starts_with("sig-wait 1 is no"), "{error}");
    }
    let resumed = chat.signal(target, approval("yes")).await.unwrap();
    assert_eq!(texts(&resumed), ["resumed: yes"]);
    // What was decided is not checked again.
    let again = chat.signal(target, approval("perhaps")).await.unwrap();
    assert_eq!(texts(&again), ["resumed: yes"]);
}
