//! Request bodies for each kind of server, as a server receives them.

mod bodies;
mod options;
mod rules;

use std::fmt::Write as _;
use std::time::Duration;

use crate::limits_with;
use logue_message::{
    CallKind, ChatMessage, ContentBlock, ImageDetail, ImageSource, ToolCall, ToolDefinition,
};
use logue_model::{
    EndpointOptions, HttpLimits, HttpProvider, ModelRequest, Provider, ProviderError,
    SamplingSettings, ServerKind, ServerProfile, WireFormat as Format,
};
use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

/// A response that is valid in every format.
const ANSWER: &str = r#"{"type":"message","object":"response","status":"completed",
    "choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],
    "output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}],
    "content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}"#;

fn provider(
    format: Format,
    profile: ServerProfile,
    base_url: String,
    stream: bool,
) -> Box<dyn Provider> {
    let options = EndpointOptions::new(base_url)
        .with_api_key("sk-secret")
        .with_limits(limits_with(HttpLimits::default(), |limits| {
            limits.first_byte = Duration::from_secs(20);
        }));
    let provider = HttpProvider::new(format, options).unwrap();
    Box::new(provider.with_profile(profile).with_stream(stream))
}

/// Returns the body that a server with a profile receives.
async fn sent(
    format: Format,
    profile: ServerProfile,
    request: &ModelRequest<'_>,
) -> Result<Value, ProviderError> {
    let reply = Reply::Body("application/json", ANSWER.as_bytes().to_vec());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let base_url = server.base_url();
    let provider = provider(format, profile, base_url, true);
    let response = provider.complete(request, &mut |_| {}).await?;
    assert_eq!(response.message.text(), "ok");
    Ok(server.received()[0].body.clone())
}

fn thinking(text: &str, signature: Option<&str>, id: Option<&str>) -> ContentBlock {
    ContentBlock::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
        id: id.map(str::to_owned),
    }
}

fn image() -> ContentBlock {
    ContentBlock::Image {
        source: ImageSource::Inline("aGk=".to_owned()),
        media_type: Some("image/png".to_owned()),
        detail: Some(ImageDetail::Low),
    }
}

/// A conversation with everything in it that servers differ in.
fn conversation() -> Vec<ChatMessage> {
    let custom = ToolCall::new("c3", "patch", "*** Begin").with_kind(CallKind::Custom);
    vec![
        ChatMessage::system("Be brief."),
        ChatMessage::developer("Use tools."),
        ChatMessage::user("Hello").with_name("Ada"),
        ChatMessage::assistant(vec![
            thinking("First.", Some("sig-1"), None),
            ContentBlock::text("Hi."),
        ]),
        ChatMessage::user("Look"),
        ChatMessage::user(vec![ContentBlock::text("here"), image()]),
        ChatMessage::system("It is night."),
        ChatMessage::assistant(vec![
            thinking("Two", None, Some("rs_1")),
            thinking("files.", Some("enc-1"), Some("rs_1")),
            thinking("Signed.", Some("sig-2"), None),
            ContentBlock::RedactedThinking {
                data: "hidden".to_owned(),
            },
            thinking("Plain.", None, None),
            ContentBlock::text("I look."),
        ])
        .with_tool_calls(vec![
            ToolCall::new("c1", "read", r#"{ "file": "a" }"#),
            ToolCall::new("c2", "read", r#"{"file": "#),
            custom,
            ToolCall::new("c4", "list", ""),
        ]),
        ChatMessage::tool("c1", "A").with_name("read"),
        ChatMessage::tool("c2", "broken").with_name("read"),
        ChatMessage::tool("c3", "patched").with_name("patch"),
        ChatMessage::tool("c4", "").with_name("list"),
    ]
}

fn tools() -> Vec<ToolDefinition> {
    let parameters = json!({"type": "object", "properties": {"file": {"type": "string"}},
        "required": ["file"], "additionalProperties": false});
    let mut read = ToolDefinition::new("read", "reads a file", parameters);
    read.strict = true;
    vec![
        read,
        ToolDefinition::new(
            "list",
            "lists files",
            json!({"type": "object", "properties": {}}),
        ),
    ]
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"answer": {"type": "integer"}},
        "required": ["answer"], "additionalProperties": false})
}

/// A body with each message or item on a line of its own.
fn lines(body: &Value) -> String {
    let mut text = String::new();
    for (key, value) in body.as_object().unwrap() {
        match value {
            Value::Array(list) if ["messages", "input", "tools"].contains(&key.as_str()) => {
                writeln!(text, "{key}:").unwrap();
                for item in list {
                    writeln!(text, "  {item}").unwrap();
                }
            }
            value => writeln!(text, "{key}: {value}").unwrap(),
        }
    }
    text
}

async fn whole(format: Format, profile: ServerProfile) -> String {
    let (messages, tools) = (conversation(), tools());
    let settings = SamplingSettings::default()
        .with_temperature((profile.name != "anthropic").then_some(0.5))
        .with_max_tokens(100);
    let request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
    lines(&sent(format, profile, &request).await.unwrap())
}

/// Every kind of server, with its format.
fn kinds() -> Vec<(Format, ServerProfile)> {
    let mut kinds: Vec<(Format, ServerProfile)> = ServerKind::ALL
        .iter()
        .map(|(_, kind)| (Format::Chat, *Format::Chat.profile(*kind)))
        .collect();
    kinds.extend([
        (Format::Responses, ServerProfile::RESPONSES),
        (Format::Responses, ServerProfile::RESPONSES_COMPATIBLE),
        (Format::Anthropic, ServerProfile::ANTHROPIC),
    ]);
    kinds
}

/// The messages that `rules` make of a conversation, as role and content.
async fn told(
    format: Format,
    profile: ServerProfile,
    messages: &[ChatMessage],
) -> Vec<(String, Value)> {
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", messages, &settings);
    let body = sent(format, profile, &request).await.unwrap();
    let key = if format == Format::Responses {
        "input"
    } else {
        "messages"
    };
    let list = body[key].as_array().unwrap().iter();
    list.map(|item| {
        (
            item["role"].as_str().unwrap_or("-").to_owned(),
            item["content"].clone(),
        )
    })
    .collect()
}

fn profile(change: impl FnOnce(&mut ServerProfile)) -> ServerProfile {
    let mut profile = ServerProfile::OPENAI;
    change(&mut profile);
    profile
}
