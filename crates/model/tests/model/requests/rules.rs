//! One test for each rule about messages.

use logue_message::{CallKind, ChatMessage, ContentBlock, ToolCall};
use logue_model::{
    Category, ModelRequest, ReasoningEvidence, ReasoningReplay, SamplingSettings, ServerProfile,
    SystemPlacement,
};
use serde_json::{Value, json};

use super::{Format, profile, sent, thinking, told};

#[tokio::test]
async fn rule_developer() {
    let messages = [ChatMessage::developer("d"), ChatMessage::user("u")];
    for (knows, role) in [(true, "developer"), (false, "system")] {
        let told = told(
            Format::Chat,
            profile(|profile| profile.supports_developer_role = knows),
            &messages,
        )
        .await;
        assert_eq!(told[0], (role.to_owned(), json!("d")));
    }
}

#[tokio::test]
async fn rule_system() {
    let messages = [
        ChatMessage::system("a"),
        ChatMessage::user("u"),
        ChatMessage::system("b"),
        ChatMessage::user("v"),
    ];
    let first = profile(|profile| profile.system_placement = SystemPlacement::First);
    let roles = |told: Vec<(String, Value)>| {
        let roles: Vec<String> = told.into_iter().map(|(role, _)| role).collect();
        roles.join(" ")
    };
    let anywhere = told(Format::Chat, ServerProfile::OPENAI, &messages).await;
    assert_eq!(roles(anywhere), "system user system user");
    let first = told(Format::Chat, first, &messages).await;
    assert_eq!(first[0].1, json!("a\n\nb"));
    assert_eq!(roles(first), "system user user");
}

#[tokio::test]
async fn rule_merge() {
    let messages = [
        ChatMessage::user("a"),
        ChatMessage::user("b"),
        ChatMessage::assistant("c"),
        ChatMessage::assistant("d"),
        ChatMessage::user("e").with_name("Ada"),
        ChatMessage::user("f").with_name("Bob"),
    ];
    let contents = |told: Vec<(String, Value)>| -> Vec<Value> {
        told.into_iter().map(|(_, content)| content).collect()
    };
    let apart = told(Format::Chat, ServerProfile::OPENAI, &messages).await;
    assert_eq!(contents(apart).len(), 6);
    let merged = profile(|profile| profile.merge_adjacent = true);
    let merged = told(Format::Chat, merged, &messages).await;
    assert_eq!(
        contents(merged),
        [json!("a\n\nb"), json!("c\n\nd"), json!("e"), json!("f")]
    );
    // Without names there is nothing that keeps them apart: no two neighbours have one role.
    for format in [Format::Chat, Format::Anthropic] {
        let told = told(format, ServerProfile::ANTHROPIC, &messages).await;
        assert!(
            told.windows(2).all(|pair| pair[0].0 != pair[1].0),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn rule_begins_with_user() {
    let messages = [
        ChatMessage::system("s"),
        ChatMessage::assistant("Welcome."),
        ChatMessage::user("hi"),
    ];
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    assert!(
        sent(Format::Chat, ServerProfile::OPENAI, &request)
            .await
            .is_ok()
    );
    let strict = profile(|profile| profile.requires_user_first = true);
    let error = sent(Format::Chat, strict, &request).await.unwrap_err();
    assert_eq!(error.category, Category::InvalidRequest);
    let only_system = ModelRequest::new("m", &messages[..1], &settings);
    let error = sent(Format::Anthropic, ServerProfile::ANTHROPIC, &only_system).await;
    assert_eq!(error.unwrap_err().category, Category::InvalidRequest);
}

#[tokio::test]
async fn rule_blank_text() {
    let messages = [
        ChatMessage::user("hi"),
        ChatMessage::assistant(" \n"),
        ChatMessage::user(vec![ContentBlock::text("  "), ContentBlock::text("there")]),
    ];
    let kept = told(Format::Chat, ServerProfile::OPENAI, &messages).await;
    assert_eq!(kept.len(), 3);
    let dropped = profile(|profile| profile.accepts_blank_text = false);
    let dropped = told(Format::Chat, dropped, &messages).await;
    assert_eq!(
        dropped,
        [
            ("user".to_owned(), json!("hi")),
            (
                "user".to_owned(),
                json!([{"type": "text", "text": "there"}])
            ),
        ]
    );
}

#[tokio::test]
async fn rule_names() {
    let messages = [ChatMessage::user("hi").with_name("Ada")];
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    for (names, expected) in [(true, json!("Ada")), (false, Value::Null)] {
        let profile = profile(|profile| profile.supports_names = names);
        let body = sent(Format::Chat, profile, &request).await.unwrap();
        assert_eq!(body["messages"][0]["name"], expected);
    }
}

#[tokio::test]
async fn rule_replay_and_reasoning_field() {
    let call = |id: &str| vec![ToolCall::new(id, "f", "{}")];
    let thought = |text: &str| vec![thinking(text, None, None)];
    let open = vec![
        ChatMessage::user("1"),
        ChatMessage::assistant(thought("a")).with_tool_calls(call("c1")),
        ChatMessage::tool("c1", "r"),
        ChatMessage::user("2"),
        ChatMessage::assistant(thought("b")).with_tool_calls(call("c2")),
        ChatMessage::tool("c2", "r"),
    ];
    let mut asked = open.clone();
    asked.push(ChatMessage::assistant(vec![
        thinking("c", None, None),
        ContentBlock::text("x"),
    ]));
    asked.push(ChatMessage::user("3"));
    let cases = [
        (ReasoningReplay::Never, "", ""),
        (ReasoningReplay::SinceLastUser, "b", ""),
        (ReasoningReplay::Always, "ab", "abc"),
    ];
    for (replay, of_open, of_asked) in cases {
        for field in ["reasoning", "reasoning_content"] {
            let profile = profile(|profile| {
                profile.reasoning_replay = replay;
                profile.reasoning_field = Some(field);
            });
            for (messages, expected) in [(&open, of_open), (&asked, of_asked)] {
                let settings = SamplingSettings::default();
                let request = ModelRequest::new("m", messages, &settings);
                let body = sent(Format::Chat, profile, &request).await.unwrap();
                let thoughts = body["messages"].as_array().unwrap().iter();
                let thoughts: String = thoughts.filter_map(|m| m[field].as_str()).collect();
                assert_eq!(thoughts, expected, "{replay:?} {field}");
            }
        }
    }
}

#[tokio::test]
async fn rule_proof() {
    let blocks = vec![
        thinking("plain", None, None),
        thinking("signed", Some("s"), None),
        thinking("item", None, Some("rs_1")),
        thinking("part", None, Some("rs_2")),
        thinking("encrypted", Some("e"), Some("rs_2")),
        ContentBlock::RedactedThinking {
            data: "redacted".to_owned(),
        },
        ContentBlock::text("x"),
    ];
    let messages = [
        ChatMessage::user("hi"),
        ChatMessage::assistant(blocks),
        ChatMessage::user("again"),
    ];
    let cases = [
        (
            Format::Responses,
            ReasoningEvidence::Item,
            "item part encrypted",
        ),
        (
            Format::Responses,
            ReasoningEvidence::Encrypted,
            "part encrypted",
        ),
        (
            Format::Anthropic,
            ReasoningEvidence::Signature,
            "signed redacted",
        ),
    ];
    for (format, proof, expected) in cases {
        let profile = profile(|profile| {
            profile.reasoning_replay = ReasoningReplay::Always;
            profile.reasoning_evidence = proof;
        });
        let settings = SamplingSettings::default();
        let request = ModelRequest::new("m", &messages, &settings);
        let body = sent(format, profile, &request).await.unwrap().to_string();
        for word in ["plain", "signed", "item", "part", "encrypted", "redacted"] {
            let sent = body.contains(&format!("\"{word}\""));
            assert_eq!(
                sent,
                expected.split(' ').any(|known| known == word),
                "{proof:?} {word} {body}"
            );
        }
    }
    let chat = profile(|profile| {
        profile.reasoning_replay = ReasoningReplay::Always;
        profile.reasoning_field = Some("reasoning");
    });
    let settings = SamplingSettings::default();
    let body = sent(
        Format::Chat,
        chat,
        &ModelRequest::new("m", &messages, &settings),
    )
    .await;
    assert_eq!(
        body.unwrap()["messages"][1]["reasoning"],
        "plain\n\nsigned\n\nitem\n\npart\n\nencrypted"
    );
}

#[tokio::test]
async fn rules_of_arguments_and_custom_calls() {
    let custom = ToolCall::new("c2", "patch", "+a").with_kind(CallKind::Custom);
    let messages = [
        ChatMessage::user("hi"),
        ChatMessage::assistant("").with_tool_calls(vec![
            ToolCall::new("c1", "f", "{\"a\":"),
            custom,
            ToolCall::new("c3", "f", " "),
            ToolCall::new("c4", "f", "{ \"a\" : 1.0 }"),
        ]),
        ChatMessage::tool("c1", ""),
        ChatMessage::tool("c2", ""),
        ChatMessage::tool("c3", ""),
        ChatMessage::tool("c4", ""),
    ];
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    let calls = |body: Value| body["messages"][1]["tool_calls"].clone();
    let verbatim = calls(
        sent(Format::Chat, ServerProfile::OPENAI, &request)
            .await
            .unwrap(),
    );
    assert_eq!(verbatim[0]["function"]["arguments"], "{\"a\":");
    assert_eq!(verbatim[1]["custom"]["input"], "+a");
    assert_eq!(verbatim[2]["function"]["arguments"], " ");
    let objects = profile(|profile| {
        profile.wraps_plain_arguments = true;
        profile.supports_custom_calls = false;
    });
    let objects = calls(sent(Format::Chat, objects, &request).await.unwrap());
    let arguments: Vec<&Value> = (0..4)
        .map(|at| &objects[at]["function"]["arguments"])
        .collect();
    assert_eq!(
        arguments,
        [
            "{\"INVALID_JSON\":\"{\\\"a\\\":\"}",
            "{\"input\":\"+a\"}",
            "{}",
            "{ \"a\" : 1.0 }"
        ]
    );
}

#[tokio::test]
async fn rule_plain_ids() {
    let ids = ["functions.read:0", "functions.read.0", "toolu_01-a"];
    let calls = ids.map(|id| ToolCall::new(id, "read", "{}")).to_vec();
    let mut messages = vec![
        ChatMessage::user("hi"),
        ChatMessage::assistant("").with_tool_calls(calls),
    ];
    messages.extend(ids.map(|id| ChatMessage::tool(id, id)));
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    for (plain, expected) in [
        (false, ids),
        (
            true,
            ["functions_read_0", "functions_read_0_", "toolu_01-a"],
        ),
    ] {
        let profile = profile(|profile| profile.requires_plain_ids = plain);
        let body = sent(Format::Chat, profile, &request).await.unwrap();
        for (at, id) in expected.iter().enumerate() {
            assert_eq!(body["messages"][1]["tool_calls"][at]["id"], *id);
            assert_eq!(body["messages"][2 + at]["tool_call_id"], *id);
        }
    }
}
