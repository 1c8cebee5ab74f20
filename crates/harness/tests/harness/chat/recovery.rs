//! What becomes of a turn whose process died.

use std::sync::atomic::Ordering;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::chat::{ChatConfig, OnCrash, SendOptions, SignalTarget, TurnNote};
use logue_harness::store::{EntryPayload, LeaseResult, NewEntry, SuspensionFilter};
use logue_message::{ChatMessage, ToolCall};

use super::stage::{Stage, category, texts};
use crate::chat::suspension::approval;

#[expect(clippy::disallowed_methods, reason = "a stopped process polls nothing")]
fn stop_the_thread(duration: Duration) {
    std::thread::sleep(duration);
}

/// Runs a turn and drops it in the middle, as the death of its process does.
async fn die_in(stage: &Stage, text: &str, notes: usize) {
    let chat = stage.harness();
    let options = SendOptions::new().with_idempotency_key("k");
    let turn = chat.send_with("s", ChatMessage::user(text), options);
    let dead = async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let inbox = stage.store.inbox("s").await.unwrap();
            let Some(id) = inbox.first().and_then(|first| first.invocation_id.clone()) else {
                continue;
            };
            if stage.store.notes("s", &id).await.unwrap().len() >= notes {
                return;
            }
        }
    };
    tokio::select! {
        outcome = turn => panic!("it ended: {outcome:?}"),
        () = dead => {}
    }
}

#[tokio::test]
async fn a_turn_that_had_done_nothing_is_run() {
    let stage = Stage::new();
    die_in(&stage, "block", 0).await;
    assert_eq!(stage.history("s").await, [""; 0]);
    stage.gate.add_permits(1);
    // Delivered again, it is the same message.
    let options = SendOptions::new().with_idempotency_key("k");
    let outcome = stage
        .harness()
        .send_with("s", ChatMessage::user("block"), options)
        .await;
    assert_eq!(texts(&outcome), ["unblocked"]);
    assert_eq!(
        stage.history("s").await,
        ["user: block", "assistant: unblocked"]
    );
}

#[tokio::test]
async fn a_turn_that_had_effects_goes_on_and_its_tool_does_not_run_again() {
    let stage = Stage::new();
    die_in(&stage, "toolblock", 2).await;
    stage.gate.add_permits(1);
    let options = SendOptions::new().with_idempotency_key("k");
    let outcome = stage
        .harness()
        .send_with("s", ChatMessage::user("toolblock"), options)
        .await;
    assert_eq!(texts(&outcome), ["", "worked", "unblocked"]);
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    let history = [
        "user: toolblock",
        "assistant: [call-0]",
        "tool: worked",
        "assistant: unblocked",
    ];
    assert_eq!(stage.history("s").await, history);
}

#[tokio::test]
async fn a_turn_is_taken_over_three_times_at_most() {
    let stage = Stage::new();
    for notes in 2..6 {
        die_in(&stage, "toolblock", notes).await;
    }
    let options = SendOptions::new().with_idempotency_key("k");
    let chat = stage.harness();
    let message = || ChatMessage::user("toolblock");
    let outcome = chat.send_with("s", message(), options.clone()).await;
    assert_eq!(category(&outcome), "turn_interrupted");
    let history = ["user: toolblock", "assistant: [call-0]", "tool: worked"];
    assert_eq!(stage.history("s").await, history);
    // Whoever asks for it again gets the answer.
    stage.gate.add_permits(1);
    let outcome = chat.send_with("s", message(), options).await;
    assert_eq!(texts(&outcome), ["unblocked"]);
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    assert_eq!(stage.history("s").await.len(), 4);
}

#[tokio::test]
async fn a_turn_that_had_effects_may_end_with_its_process() {
    let stage = Stage::new();
    die_in(&stage, "toolblock", 2).await;
    let options = SendOptions::new().with_idempotency_key("k");
    let chat = stage.builder().with_on_crash(OnCrash::Stop).build();
    let outcome = chat
        .unwrap()
        .send_with("s", ChatMessage::user("toolblock"), options)
        .await;
    assert_eq!(category(&outcome), "turn_interrupted");
    assert_eq!(stage.effects.load(Ordering::SeqCst), 1);
    let history = ["user: toolblock", "assistant: [call-0]", "tool: worked"];
    assert_eq!(stage.history("s").await, history);
    // The next message goes on from there.
    let outcome = stage.harness().send("s", ChatMessage::user("b")).await;
    assert_eq!(texts(&outcome), ["you said b"]);
}

#[tokio::test]
async fn messages_that_wait_are_worked_off_by_whoever_comes() {
    let stage = Stage::new();
    die_in(&stage, "block", 0).await;
    stage.gate.add_permits(9);
    tokio::time::sleep(Duration::from_millis(160)).await;
    let chat = stage.harness();
    assert_eq!(chat.process_pending("s").await.unwrap(), 1);
    assert_eq!(chat.process_pending("s").await.unwrap(), 0);
    assert!(chat.process_pending("never heard of").await.is_err());
    assert_eq!(
        stage.history("s").await,
        ["user: block", "assistant: unblocked"]
    );
}

#[tokio::test]
async fn an_owner_keeps_its_lease_over_many_short_turns() {
    let stage = Stage::new();
    let config = ChatConfig::default().with_lease(Duration::from_millis(600));
    let process = || stage.builder().with_config(config.clone()).build().unwrap();
    let (chat, other, session) = (process(), process(), "s");
    for number in 0..8 {
        let entry = NewEntry {
            work: EntryPayload::Message {
                message: ChatMessage::user("nap").to_json(),
            },
            key: Some(format!("k{number}")),
            digest: None,
            retries: None,
            only_if_idle: false,
            only_after: None,
            only_created_at: None,
            cancel: None,
            now: Timestamp(1_000),
        };
        stage.store.enqueue(session, entry).await.unwrap();
    }
    let work = chat.process_pending(session);
    tokio::pin!(work);
    // Each turn takes less than a third of the lease, all of them two leases and more.
    let settled = loop {
        tokio::select! {
            settled = &mut work => break settled.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(5)) => {
                assert_eq!(other.process_pending(session).await.unwrap(), 0);
            }
        }
    };
    assert_eq!(settled, 8);
    assert_eq!(stage.history(session).await.len(), 16);
}

#[tokio::test]
async fn an_owner_that_was_stopped_can_commit_nothing() {
    let stage = Stage::new();
    let slow = stage.harness();
    let turn = slow.send("s", ChatMessage::user("block"));
    tokio::pin!(turn);
    // It is stopped: nobody polls it while its lease ends.
    tokio::select! {
        _ = &mut turn => panic!("it ended"),
        () = tokio::time::sleep(Duration::from_millis(20)) => {}
    }
    stop_the_thread(Duration::from_millis(200));
    // One for each of the two runs of its message.
    stage.gate.add_permits(2);
    let quick = stage.harness();
    let outcome = quick.send("s", ChatMessage::user("b")).await;
    assert_eq!(texts(&outcome), ["you said b"]);
    // It comes back, and is reported how its message ended with the other one.
    assert_eq!(texts(&turn.await), ["unblocked"]);
    let history = [
        "user: block",
        "assistant: unblocked",
        "user: b",
        "assistant: you said b",
    ];
    assert_eq!(stage.history("s").await, history);
}

#[tokio::test]
async fn a_signal_that_was_accepted_is_not_lost() {
    let stage = Stage::new();
    drop(stage.harness().send("s", ChatMessage::user("wait 1")).await);
    // The process dies right behind the acceptance.
    let suspended = stage
        .store
        .suspensions(SuspensionFilter::default())
        .await
        .unwrap();
    let now = Timestamp(5);
    drop(
        stage
            .store
            .signal(&suspended[0].invocation_id, None, approval("yes"), now)
            .await
            .unwrap(),
    );
    let outcome = stage.harness().send("s", ChatMessage::user("b")).await;
    assert_eq!(texts(&outcome), ["you said b"]);
    assert_eq!(stage.history("s").await[2], "assistant: resumed: yes");
    let again = stage
        .harness()
        .signal(SignalTarget::Signal("sig-wait 1"), approval("no"))
        .await;
    assert_eq!(texts(&again.unwrap()), ["resumed: yes"]);
}

#[tokio::test]
async fn calls_that_a_turn_went_on_with_get_their_results_and_are_not_said_again() {
    let stage = Stage::new();
    drop(stage.harness().send("s", ChatMessage::user("wait 1")).await);
    let suspended = stage
        .store
        .suspensions(SuspensionFilter::default())
        .await
        .unwrap();
    let id = suspended[0].invocation_id.as_str();
    let now = Timestamp(0);
    let signalled = stage.store.signal(id, None, approval("yes"), now).await;
    drop(signalled.unwrap());
    // A process took the session, began its calls, heard of one of them, and died.
    let acquired = stage.store.acquire("s", "dead", now, Duration::ZERO).await;
    let LeaseResult::Lease(lease) = acquired.unwrap() else {
        panic!("somebody has it");
    };
    drop(stage.store.claim_next(&lease, id, now).await.unwrap());
    let calls = ["c1", "c2"].map(|id| ToolCall::new(id, "work", "{}"));
    let calls = ChatMessage::assistant("").with_tool_calls(calls.to_vec());
    let notes = vec![
        TurnNote::continuation(&calls),
        ChatMessage::tool("c1", "worked").to_json(),
    ];
    stage.store.journal(&lease, id, notes).await.unwrap();

    let chat = stage.builder().with_on_crash(OnCrash::Stop).build();
    let outcome = chat.unwrap().send("s", ChatMessage::user("b")).await;
    assert_eq!(texts(&outcome), ["you said b"]);
    let history = stage.history("s").await;
    assert_eq!(history.len(), 6, "{history:?}");
    assert_eq!(history[2], "tool: worked");
    assert!(
        history[3].starts_with("tool: E-TOOL-CANCELLED"),
        "{history:?}"
    );
    assert_eq!(history[4..], ["user: b", "assistant: you said b"]);
}

#[tokio::test]
async fn an_answered_turn_that_was_given_up_is_asked_again_and_not_after_its_answer() {
    let stage = Stage::new();
    let now = Timestamp(0);
    let said = ChatMessage::user("guarded");
    let entry = NewEntry {
        work: EntryPayload::Message {
            message: said.to_json(),
        },
        key: Some("k".to_owned()),
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now,
    };
    stage.store.enqueue("s", entry).await.unwrap();
    // A process ran a call, heard the answer, and died before its commit.
    let acquired = stage.store.acquire("s", "dead", now, Duration::ZERO).await;
    let LeaseResult::Lease(lease) = acquired.unwrap() else {
        panic!("somebody has it");
    };
    drop(stage.store.claim_next(&lease, "i", now).await.unwrap());
    let call = ToolCall::new("c1", "work", "{}");
    let notes = vec![
        ChatMessage::assistant("")
            .with_tool_calls(vec![call])
            .to_json(),
        ChatMessage::tool("c1", "worked").to_json(),
        ChatMessage::assistant("done").to_json(),
    ];
    stage.store.journal(&lease, "i", notes).await.unwrap();

    let chat = stage.builder().with_on_crash(OnCrash::Stop).build();
    let chat = chat.unwrap();
    let options = || SendOptions::new().with_idempotency_key("k");
    let outcome = chat.send_with("s", said.clone(), options()).await;
    assert_eq!(category(&outcome), "turn_interrupted");
    // The turn says its message again, and its call is one that it may not repeat by itself.
    let outcome = chat.send_with("s", said, options()).await;
    assert_eq!(texts(&outcome), ["1 guarded"]);
    let history = stage.history("s").await;
    assert_eq!(
        history,
        [
            "user: guarded",
            "assistant: [c1]",
            "tool: worked",
            "assistant: done",
            "user: guarded",
            "assistant: 1 guarded",
        ]
    );
}
