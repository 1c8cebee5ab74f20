//! Messages: rules of roles, JSON, repaired histories.

use logue_message::{
    ChatMessage, Content, ContentBlock, HistoryRepair, ImageSource, Role, ToolCall, repair_history,
};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn illegal_shapes_name_the_field() {
    let image = ContentBlock::Image {
        source: ImageSource::Inline("AA==".into()),
        media_type: None,
        detail: None,
    };
    let call = || ToolCall::new("c", "f", "{}");
    let cases: Vec<(ChatMessage, &str)> = vec![
        (ChatMessage::system(""), "content"),
        (
            ChatMessage::system(vec![ContentBlock::text("x")]),
            "content",
        ),
        (ChatMessage::user(""), "content"),
        (
            ChatMessage::user(vec![ContentBlock::thinking("x")]),
            "content[0]",
        ),
        (
            ChatMessage::user(vec![ContentBlock::text("")]),
            "content[0].text",
        ),
        (
            ChatMessage::user(vec![ContentBlock::text("a"), image]),
            "content[1].media_type",
        ),
        (
            ChatMessage::user("x").with_tool_calls(vec![call()]),
            "tool_calls",
        ),
        (ChatMessage::assistant(""), "content"),
        (
            ChatMessage::assistant("x").with_tool_calls(vec![call(), call()]),
            "tool_calls[1].id",
        ),
        (
            ChatMessage {
                tool_call_id: None,
                ..ChatMessage::tool("", "x")
            },
            "tool_call_id",
        ),
        (
            ChatMessage {
                content: Content::Absent,
                ..ChatMessage::tool("c", "x")
            },
            "content",
        ),
        (
            ChatMessage {
                developer: true,
                ..ChatMessage::user("x")
            },
            "role",
        ),
    ];
    for (message, field) in cases {
        assert_eq!(message.validate().unwrap_err().field, field, "{message:?}");
    }
}

#[test]
fn legal_shapes_pass() {
    for message in [
        ChatMessage::system("x"),
        ChatMessage::developer("x"),
        ChatMessage::user("x"),
        ChatMessage::assistant("").with_tool_calls(vec![ToolCall::new("c", "f", "{")]),
        ChatMessage::tool("c", ""),
    ] {
        assert_eq!(message.validate(), Ok(()), "{message:?}");
    }
}

#[test]
fn a_history_is_put_in_order_and_holes_are_named() {
    let calls = vec![ToolCall::new("a", "f", "{}"), ToolCall::new("b", "g", "{}")];
    let (history, repairs) = repair_history(vec![
        ChatMessage::user("go"),
        ChatMessage::assistant("").with_tool_calls(calls),
        ChatMessage::tool("x", "orphan"),
        ChatMessage::user("meanwhile"),
        ChatMessage::tool("b", "2"),
    ]);
    let shape: Vec<(Role, String)> = history.iter().map(|m| (m.role, m.text())).collect();
    assert_eq!(shape.len(), 5);
    assert_eq!(shape[2].0, Role::Tool);
    assert!(shape[2].1.starts_with("E-TOOL-CANCELLED"), "{}", shape[2].1);
    assert_eq!(shape[3], (Role::Tool, "2".into()));
    assert_eq!(shape[4], (Role::User, "meanwhile".into()));
    assert_eq!(
        repairs,
        [
            HistoryRepair::Orphan {
                call_id: "x".into()
            },
            HistoryRepair::Cancelled {
                call_id: "a".into(),
                name: "f".into()
            },
        ]
    );
}

#[test]
fn ids_that_repeat_across_turns_pair_with_the_nearest_call() {
    let turn = |text: &str| {
        [
            ChatMessage::assistant("").with_tool_calls(vec![ToolCall::new("call_1", "f", "{}")]),
            ChatMessage::tool("call_1", text),
        ]
    };
    let messages: Vec<ChatMessage> = turn("one").into_iter().chain(turn("two")).collect();
    let (history, repairs) = repair_history(messages.clone());
    assert_eq!(history, messages);
    assert!(repairs.is_empty());
}

#[test]
fn arguments_are_an_object_in_json_and_keep_their_text() {
    let value = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "c", "name": "f", "arguments": {"a": 1}}]});
    assert_eq!(ChatMessage::from_json(&value).unwrap().to_json(), value);
}

proptest! {
    #[test]
    fn json_round_trips(
        text in any::<String>(),
        id in "[a-z]{1,4}",
        arguments in any::<String>(),
        thinking in any::<String>(),
    ) {
        for arguments in [arguments.as_str(), "", "{}", "{ \"a\": 1 }", "null", "[1]"] {
            let message = ChatMessage::assistant(vec![
                ContentBlock::thinking(thinking.clone()),
                ContentBlock::text(text.clone()),
            ])
            .with_tool_calls(vec![ToolCall::new(id.clone(), "f", arguments)]);
            let back = ChatMessage::from_json(&message.to_json()).unwrap();
            prop_assert_eq!(back, message);
        }
    }

    #[test]
    fn a_repaired_history_needs_no_repair(
        shape in proptest::collection::vec((0u8..4, 0u8..3, 0u8..3), 0..12),
    ) {
        let messages: Vec<ChatMessage> = shape
            .into_iter()
            .map(|(kind, a, b)| match kind {
                0 => ChatMessage::user("u"),
                1 => ChatMessage::tool(format!("c{a}"), "r"),
                2 => ChatMessage::assistant("a"),
                _ => {
                    let mut calls = vec![ToolCall::new(format!("c{a}"), "f", "{}")];
                    if a != b {
                        calls.push(ToolCall::new(format!("c{b}"), "f", "{}"));
                    }
                    ChatMessage::assistant("").with_tool_calls(calls)
                }
            })
            .collect();
        let (once, _) = repair_history(messages);
        let (twice, repairs) = repair_history(once.clone());
        prop_assert_eq!(once, twice);
        prop_assert!(repairs.is_empty(), "{:?}", repairs);
    }
}
