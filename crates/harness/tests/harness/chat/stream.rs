//! A turn as it happens.

use logue_graph::RunEvent;
use logue_harness::chat::{ChatEvent, SignalTarget};
use logue_message::ChatMessage;

use super::stage::{Stage, texts};

#[tokio::test]
async fn events_come_in_order_and_the_outcome_is_the_last() {
    let stage = Stage::new();
    let chat = stage.harness();
    let mut stream = chat.send_streaming("s", ChatMessage::user("hi"));
    let mut reported = Vec::new();
    while let Some(event) = stream.next().await {
        reported.push(match event {
            ChatEvent::Accepted { entry } => format!("accepted {entry}"),
            ChatEvent::Run {
                node,
                event: RunEvent::NodeStarted,
            } => format!("{node} started"),
            ChatEvent::Run {
                node,
                event: RunEvent::NodeEnded(_),
            } => format!("{node} ended"),
            ChatEvent::Run {
                node,
                event: RunEvent::Emitted(text),
            } => format!("{node}: {text}"),
            ChatEvent::Outcome(outcome) => format!("{} {:?}", outcome.as_str(), texts(&outcome)),
            ChatEvent::Claimed {
                lease,
                is_recovered,
            } => format!("epoch {}, recovered: {is_recovered}", lease.epoch),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        reported,
        [
            "accepted 1",
            "epoch 1, recovered: false",
            "model started",
            "model: you said ",
            "model: hi",
            "model ended",
            "completed [\"you said hi\"]",
        ]
    );
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_refused_message_has_an_outcome_only() {
    let stage = Stage::new();
    let mut stream = stage.harness().send_streaming("s", ChatMessage::user(""));
    assert!(matches!(stream.next().await, Some(ChatEvent::Outcome(_))));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_signalled_turn_is_seen_as_it_goes_on() {
    let stage = Stage::new();
    let chat = stage.harness();
    drop(chat.send("s", ChatMessage::user("wait 1")).await);
    let word = crate::chat::suspension::approval("yes");
    let stream = chat.signal_streaming(SignalTarget::Signal("sig-wait 1"), word);
    let mut stream = stream.await.unwrap();
    let mut nodes = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            ChatEvent::Run {
                node,
                event: RunEvent::NodeStarted,
            } => nodes.push(node),
            ChatEvent::Outcome(outcome) => assert_eq!(texts(&outcome), ["resumed: yes"]),
            _ => {}
        }
    }
    assert_eq!(nodes, ["after"]);
}
