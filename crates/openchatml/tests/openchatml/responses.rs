//! The events for clients: their names, their order, and that nothing hidden is among them.

use openchatml::stream::{Audience, ResponseEvent, ResponseEventMapper, Stream, StreamOptions};
use openchatml::{harmony, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::strategies::broken_transcript;

fn events(text: &[u8], size: usize) -> Vec<Value> {
    let mut responses = ResponseEventMapper::default();
    let mut told = Vec::new();
    let mut stream = Stream::new(StreamOptions::default());
    let mut sink = |event: openchatml::stream::Event<'_>| {
        responses.openchatml(&event, &mut |event| told.push(told_as(event)));
    };
    for piece in text.chunks(size) {
        stream.push(piece, &mut sink);
    }
    stream.finish(&mut sink);
    merged(told)
}

fn told_as(event: ResponseEvent<'_>) -> Value {
    let mut value = serde_json::to_value(event).unwrap();
    if event.for_display().is_some() {
        value["shown"] = json!(true);
    }
    value
}

/// Adjacent deltas are one.
fn merged(events: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for event in events {
        if let Some(last) = out.last_mut()
            && last["type"] == event["type"]
            && last["message_id"] == event["message_id"]
            && let (Some(one), Some(two)) = (last["delta"].as_str(), event["delta"].as_str())
        {
            last["delta"] = json!(format!("{one}{two}"));
            continue;
        }
        out.push(event);
    }
    out
}

const TURN: &str = "version: 2.2
<|start|>user<|message|>Hi<|end|>
<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>
<|start|>assistant intent=preamble<|channel|>commentary<|message|>I look.<|end|>
<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{\"a\":1}<|call|>
<|start|>tool name=functions.f call_id=c1 to=assistant<|channel|>commentary<|message|>secret<|end|>
<|start|>assistant<|channel|>final<|message|>One.\n\n\nTwo.<|return|>
<|start|>assistant<|channel|>analysis<|message|>cut";

#[test]
fn a_turn_with_everything() {
    let expected = json!([
        {"type": "response.reasoning_text.delta", "message_id": "msg_2", "delta": "Hm."},
        {"type": "response.reasoning_text.done", "message_id": "msg_2"},
        {"type": "response.delta", "message_id": "msg_3", "delta": "I look.", "shown": true},
        {"type": "response.done", "message_id": "msg_3"},
        {"type": "response.tool_call.delta", "message_id": "msg_4", "call_id": "c1", "recipient": "functions.f", "delta": "{\"a\":1}"},
        {"type": "response.tool_call.done", "message_id": "msg_4", "call_id": "c1", "recipient": "functions.f"},
        {"type": "response.delta", "message_id": "msg_6", "delta": "One.\n\n", "shown": true},
        {"type": "response.delta.flush", "message_id": "msg_6", "shown": true},
        {"type": "response.delta", "message_id": "msg_6", "delta": "\nTwo.", "shown": true},
        {"type": "response.done", "message_id": "msg_6"},
        {"type": "response.reasoning_text.delta", "message_id": "msg_7", "delta": "cut"},
        {"type": "response.incomplete", "message_id": "msg_7", "code": "E-STREAM-TRUNCATED", "shown": true},
    ]);
    for size in 1..TURN.len() {
        assert_eq!(
            Value::Array(events(TURN.as_bytes(), size)),
            expected,
            "{size}"
        );
    }
}

#[test]
fn harmony_has_the_same_events() {
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";
    let mut responses = ResponseEventMapper::default();
    let mut names = Vec::new();
    let mut sink = |event: harmony::Event<'_>| {
        responses.harmony(&event, &mut |event| {
            names.push(serde_json::to_value(event).unwrap()["type"].clone());
        });
    };
    let mut stream = harmony::Stream::new(
        harmony::HarmonyReadOptions::default().with_start_role(openchatml::FrameRole::Assistant),
    );
    stream.push(text.as_bytes(), &mut sink);
    stream.finish(&mut sink);
    assert_eq!(
        names,
        [
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.tool_call.delta",
            "response.tool_call.done"
        ]
    );
}

#[test]
fn what_a_runtime_says_itself() {
    let mut responses = ResponseEventMapper::default();
    let cancel = responses.cancel(Some("stopped by the user"));
    assert_eq!(
        serde_json::to_value(cancel).unwrap(),
        json!({"type": "response.cancel", "message_id": "msg_1", "reason": "stopped by the user"})
    );
    let tool = ResponseEvent::ToolCancel {
        call_id: "c1",
        reason: "deadline",
    };
    assert_eq!(
        serde_json::to_value(tool).unwrap(),
        json!({"type": "tool.cancel", "call_id": "c1", "reason": "deadline"})
    );
    assert_eq!(tool.audience(), Audience::Internal);
}

/// The names of the events of one frame, with a header.
fn names(frame: &str) -> Vec<Value> {
    let text = format!("version: 2.2\n{frame}");
    let told = events(text.as_bytes(), 7).into_iter();
    told.map(|event| event["type"].clone()).collect()
}

#[test]
fn only_what_may_be_run_is_told_as_a_call() {
    let call =
        |header: &str, end: &str| names(&format!("<|start|>assistant{header}<|message|>{{}}{end}"));
    let told = ["response.tool_call.delta", "response.tool_call.done"];
    assert_eq!(
        call(" to=functions.f call_id=1<|channel|>commentary", "<|call|>"),
        told
    );
    assert_eq!(
        call(" to=python call_id=1<|channel|>analysis", "<|call|>"),
        told
    );
    assert_eq!(
        call(" to=functions.f call_id=1<|channel|>commentary", "<|end|>"),
        ["response.tool_call.delta", "response.incomplete"]
    );
    // Reasoning is for no function, and nobody knows what an unknown channel is for.
    assert_eq!(
        call(" to=functions.f call_id=1<|channel|>analysis", "<|call|>"),
        [
            "response.reasoning_text.delta",
            "response.reasoning_text.done"
        ]
    );
    assert_eq!(
        call(" to=functions.f call_id=1<|channel|>other", "<|call|>"),
        [""; 0]
    );
    assert_eq!(
        call(
            " to=functions.f call_id=1 what<|channel|>commentary",
            "<|call|>"
        ),
        [""; 0]
    );
}

#[test]
fn a_call_of_harmony_may_end_late() {
    let text = "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|end|><|call|>";
    let mut responses = ResponseEventMapper::default();
    let mut names = Vec::new();
    let mut sink = |event: harmony::Event<'_>| {
        responses.harmony(&event, &mut |event| {
            names.push(serde_json::to_value(event).unwrap()["type"].clone());
        });
    };
    let mut stream = harmony::Stream::new(harmony::HarmonyReadOptions::default());
    stream.push(text.as_bytes(), &mut sink);
    stream.finish(&mut sink);
    assert_eq!(
        names,
        [
            "response.tool_call.delta",
            "response.incomplete",
            "response.tool_call.done"
        ]
    );
}

#[test]
fn a_cancelled_turn_stays_silent() {
    let text = "version: 2.2
<|start|>assistant<|channel|>analysis<|message|>Hm<|end|>
<|start|>assistant<|channel|>final<|message|>unwanted<|return|>
<|start|>user<|message|>Again<|end|>
<|start|>assistant<|channel|>final<|message|>wanted<|return|>";
    let at = text.find("Hm").unwrap() + 1;
    let mut responses = ResponseEventMapper::default();
    let mut stream = Stream::new(StreamOptions::default());
    let mut shown = String::new();
    for (index, piece) in [&text[..at], &text[at..]].into_iter().enumerate() {
        if index == 1 {
            let told = responses.cancel(None);
            assert_eq!(told.audience(), Audience::Display);
        }
        stream.push(piece.as_bytes(), &mut |event| {
            responses.openchatml(&event, &mut |event| {
                if let ResponseEvent::Delta { delta, .. } = event {
                    shown += delta;
                }
            });
        });
    }
    assert_eq!(shown, "wanted");
}

/// Nothing of reasoning reaches a screen, wherever the text is cut: of OpenChatML and of Harmony,
/// well-formed and not.
#[test]
fn reasoning_is_never_for_display() {
    let secret = "7f3a";
    let ends = [
        "<|end|>",
        "<|call|>",
        "<|return|>",
        "",
        "<|start|>",
        "<|channel|>final<|message|>",
    ];
    let heads = [
        "<|channel|>analysis",
        " to=functions.f call_id=1<|channel|>analysis",
        " intent=preamble<|channel|>analysis",
        "<|channel|>final<|channel|>analysis",
        "<|channel|>analysis<|channel|>final",
        "<|channel|>",
        " analysis",
        " channel=analysis<|channel|>final",
    ];
    for (head, end) in heads.iter().flat_map(|head| ends.map(|end| (head, end))) {
        let text = format!(
            "version: 2.2\n<|start|>assistant{head}<|message|>{secret}<|literal|>{secret}<|end|>{end}{secret}"
        );
        for at in 0..=text.len() {
            let mut responses = ResponseEventMapper::default();
            let mut shown = String::new();
            let mut show = |event: ResponseEvent<'_>| {
                if let Some(event) = event.for_display() {
                    shown += &serde_json::to_string(&event).unwrap();
                }
            };
            let (one, two) = text.split_at(at);
            let mut stream = Stream::new(StreamOptions::default());
            let mut sink =
                |event: openchatml::stream::Event<'_>| responses.openchatml(&event, &mut show);
            stream.push(one.as_bytes(), &mut sink);
            stream.push(two.as_bytes(), &mut sink);
            stream.finish(&mut sink);
            assert!(!shown.contains(secret), "{text}: {shown}");
        }
    }
    for end in ["<|end|>", "<|call|>", "<|return|>", ""] {
        let text = format!("<|start|>assistant<|channel|>analysis<|message|>{secret}{end}");
        for at in 0..=text.len() {
            let mut responses = ResponseEventMapper::default();
            let mut shown = String::new();
            let mut sink = |event: harmony::Event<'_>| {
                responses.harmony(&event, &mut |event| {
                    if let Some(event) = event.for_display() {
                        shown += &serde_json::to_string(&event).unwrap();
                    }
                });
            };
            let (one, two) = text.split_at(at);
            let mut stream = harmony::Stream::new(harmony::HarmonyReadOptions::default());
            stream.push(one.as_bytes(), &mut sink);
            stream.push(two.as_bytes(), &mut sink);
            stream.finish(&mut sink);
            assert!(!shown.contains(secret), "{text}: {shown}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 20_000)))]

    /// What is sent for display is what the view shows of the assistant, however the text arrives.
    #[test]
    fn display_is_what_the_view_shows(source in broken_transcript(), size in 1..9_usize) {
        let document = parse(&source);
        let shown = document.frames().iter().filter(|frame| {
            frame.visibility().is_visible() && frame.role() == openchatml::FrameRole::Assistant
        });
        let shown: String = shown.map(|frame| document.body_text(frame)).collect();
        let events = events(&source, size);
        let deltas = events.iter().filter(|event| event["shown"] == json!(true));
        let sent: String = deltas.filter_map(|event| event["delta"].as_str()).collect();
        prop_assert_eq!(sent, shown);
        prop_assert_eq!(events, self::events(&source, source.len().max(1)));
    }
}
