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
    let mut without_id = ChatMessage::tool("", "x");
    without_id.tool_call_id = None;
    let mut without_content = ChatMessage::tool("c", "x");
    without_content.content = Content::Absent;
    let mut developer = ChatMessage::user("x");
    developer.developer = true;
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
        (without_id, "tool_call_id"),
        (without_content, "content"),
        (developer, "role"),
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

#[test]
fn invalid_json_names_the_path_and_the_expected_value() {
    let call = |field: &str, value: serde_json::Value| {
        let mut call = json!({"id": "c", "name": "f"});
        call[field] = value;
        json!({"role": "assistant", "tool_calls": [call]})
    };
    let block = |block: serde_json::Value| json!({"role": "user", "content": [block]});
    let cases = [
        (json!([]), "expected an object, found a list"),
        (
            json!({}),
            "role: missing; expected system, developer, user, assistant or tool",
        ),
        (
            json!({"role": "bot\u{1b}"}),
            "role: expected system, developer, user, assistant or tool, found `bot\\u{1b}`",
        ),
        (
            json!({"role": "system", "authority": "root"}),
            "authority: expected developer, found `root`",
        ),
        (
            json!({"role": "user", "content": 1}),
            "content: expected a string or a list of blocks, found a number",
        ),
        (
            json!({"role": "user", "content": ["x"]}),
            "content[0]: expected an object, found a string",
        ),
        (
            block(json!({"type": "text", "text": "x", "preamble": "yes"})),
            "content[0].preamble: expected a boolean, found a string",
        ),
        (
            block(json!({"type": "audio"})),
            "content[0].type: expected text, thinking, redacted_thinking or image, found `audio`",
        ),
        (
            block(json!({"type": "image", "source": "x"})),
            "content[0].source: expected an object, found a string",
        ),
        (
            block(json!({"type": "image", "source": {"type": "url"}})),
            "content[0].source.url: missing; expected a string",
        ),
        (
            block(json!({"type": "image", "detail": "huge"})),
            "content[0].detail: expected auto, low or high, found `huge`",
        ),
        (
            json!({"role": "assistant", "tool_calls": {}}),
            "tool_calls: expected a list, found an object",
        ),
        (
            call("kind", json!("remote")),
            "tool_calls[0].kind: expected function or custom, found `remote`",
        ),
        (
            call("arguments", json!([1])),
            "tool_calls[0].arguments: expected an object, a string or null, found a list",
        ),
        (
            call("signature", json!(7)),
            "tool_calls[0].signature: expected a string, found a number",
        ),
    ];
    for (value, expected) in cases {
        let error = ChatMessage::from_json(&value).unwrap_err();
        assert_eq!(error.to_string(), expected, "{value}");
        let read = serde_json::from_value::<ChatMessage>(value).unwrap_err();
        assert_eq!(read.to_string(), expected);
    }
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
