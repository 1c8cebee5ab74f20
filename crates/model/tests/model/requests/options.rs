//! Tools, settings and schema in requests: one test per rule.

use std::fmt::Write as _;

use logue_message::ChatMessage;
use logue_model::{
    Category, EffortEncoding, ModelRequest, SamplingSettings, ServerProfile, StructuredOutputMode,
    ToolChoice, ToolChoiceSupport,
};
use serde_json::json;
use testkit::{Delivery, ModelServer, Reply};

use super::{ANSWER, Format, kinds, lines, profile, provider, schema, sent, tools};

#[tokio::test]
async fn rule_choices() {
    let (messages, tools, settings) = (
        [ChatMessage::user("hi")],
        tools(),
        SamplingSettings::default(),
    );
    let named = ToolChoice::Tool("list".to_owned());
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        named,
    ];
    let mut text = String::new();
    for (format, profile) in [
        (Format::Chat, ServerProfile::OPENAI),
        (
            Format::Chat,
            profile(|profile| profile.tool_choice = ToolChoiceSupport::Words),
        ),
        (
            Format::Chat,
            profile(|profile| profile.tool_choice = ToolChoiceSupport::Nothing),
        ),
        (Format::Responses, ServerProfile::RESPONSES),
        (Format::Anthropic, ServerProfile::ANTHROPIC),
    ] {
        writeln!(text, "{format:?} {:?}", profile.tool_choice).unwrap();
        for choice in &choices {
            let mut request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
            request.tool_choice = choice;
            let said = match sent(format, profile, &request).await {
                Ok(body) => {
                    let tools = body["tools"].as_array().map_or(0, Vec::len);
                    format!("{} of {tools} tools", body["tool_choice"])
                }
                Err(error) => format!("{}: {error}", error.category),
            };
            writeln!(text, "  {choice:?}: {said}").unwrap();
        }
    }
    insta::assert_snapshot!(text, @r##"
    Chat All
      Auto: null of 2 tools
      None: "none" of 2 tools
      Required: "required" of 2 tools
      Tool("list"): {"type":"function","function":{"name":"list"}} of 2 tools
    Chat Words
      Auto: null of 2 tools
      None: "none" of 2 tools
      Required: "required" of 2 tools
      Tool("list"): "required" of 1 tools
    Chat Nothing
      Auto: null of 2 tools
      None: null of 0 tools
      Required: provider_invalid_request: the provider openai cannot require a tool call
      Tool("list"): provider_invalid_request: the provider openai cannot require a tool call
    Responses All
      Auto: null of 2 tools
      None: "none" of 2 tools
      Required: "required" of 2 tools
      Tool("list"): {"type":"function","name":"list"} of 2 tools
    Anthropic All
      Auto: null of 2 tools
      None: {"type":"none"} of 2 tools
      Required: {"type":"any"} of 2 tools
      Tool("list"): {"type":"tool","name":"list"} of 2 tools
    "##);
    for (format, profile) in kinds() {
        let mut request = ModelRequest::new("m", &messages, &settings);
        for choice in &choices[2..] {
            request.tool_choice = choice;
            let error = sent(format, profile, &request).await.unwrap_err();
            assert_eq!(error.category, Category::InvalidRequest);
        }
        let unknown = ToolChoice::Tool("nobody".to_owned());
        let mut request = request.with_tools(&tools);
        request.tool_choice = &unknown;
        let error = sent(format, profile, &request).await.unwrap_err();
        assert_eq!(error.category, Category::InvalidRequest);
    }
}

#[tokio::test]
async fn rule_schema() {
    let (messages, tools, schema) = ([ChatMessage::user("hi")], tools(), schema());
    let open = json!({"type": "object", "properties": {"answer": {"type": "integer"}}});
    let settings = SamplingSettings::default();
    let thinks = SamplingSettings::default().with_reasoning_effort("low".to_owned());
    let object = profile(|profile| profile.structured_output = StructuredOutputMode::JsonObject);
    let cases = [
        (
            "chat",
            Format::Chat,
            ServerProfile::OPENAI,
            &schema,
            &settings,
            false,
        ),
        (
            "chat, open schema",
            Format::Chat,
            ServerProfile::OPENAI,
            &open,
            &settings,
            false,
        ),
        (
            "chat, object",
            Format::Chat,
            object,
            &schema,
            &settings,
            false,
        ),
        (
            "responses",
            Format::Responses,
            ServerProfile::RESPONSES,
            &schema,
            &settings,
            false,
        ),
        (
            "anthropic",
            Format::Anthropic,
            ServerProfile::ANTHROPIC,
            &schema,
            &settings,
            false,
        ),
        (
            "anthropic, tools",
            Format::Anthropic,
            ServerProfile::ANTHROPIC,
            &schema,
            &settings,
            true,
        ),
        (
            "anthropic, thinking",
            Format::Anthropic,
            ServerProfile::ANTHROPIC,
            &schema,
            &thinks,
            false,
        ),
    ];
    let mut text = String::new();
    for (name, format, profile, schema, settings, offers) in cases {
        let mut request = ModelRequest::new("m", &messages, settings);
        if offers {
            request = request.with_tools(&tools);
        }
        request.response_schema = Some(schema);
        let body = sent(format, profile, &request).await.unwrap();
        writeln!(text, "{name}\n{}", lines(&body)).unwrap();
    }
    insta::assert_snapshot!(text, @r##"
    chat
    model: "m"
    messages:
      {"role":"user","content":"hi"}
    response_format: {"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false},"strict":true}}
    stream: true
    stream_options: {"include_usage":true}

    chat, open schema
    model: "m"
    messages:
      {"role":"user","content":"hi"}
    response_format: {"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"answer":{"type":"integer"}}},"strict":false}}
    stream: true
    stream_options: {"include_usage":true}

    chat, object
    model: "m"
    messages:
      {"role":"system","content":"Answer with one JSON object that is valid against this JSON Schema, and with nothing else:\n{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"integer\"}},\"required\":[\"answer\"],\"additionalProperties\":false}"}
      {"role":"user","content":"hi"}
    response_format: {"type":"json_object"}
    stream: true
    stream_options: {"include_usage":true}

    responses
    model: "m"
    input:
      {"type":"message","role":"user","content":"hi"}
    text: {"format":{"type":"json_schema","name":"answer","schema":{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false},"strict":true}}
    store: false
    include: ["reasoning.encrypted_content"]
    stream: true

    anthropic
    model: "m"
    max_tokens: 16384
    messages:
      {"role":"user","content":[{"type":"text","text":"hi"}]}
    tools:
      {"name":"answer","input_schema":{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false},"description":"Gives the answer to the user. Call it when the answer is known."}
    tool_choice: {"type":"tool","name":"answer"}
    stream: true

    anthropic, tools
    model: "m"
    max_tokens: 16384
    messages:
      {"role":"user","content":[{"type":"text","text":"hi"}]}
    tools:
      {"name":"read","description":"reads a file","input_schema":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}
      {"name":"list","description":"lists files","input_schema":{"type":"object","properties":{}}}
      {"name":"answer","input_schema":{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false},"description":"Gives the answer to the user. Call it when the answer is known."}
    tool_choice: {"type":"any"}
    stream: true

    anthropic, thinking
    model: "m"
    max_tokens: 16384
    system: "Answer with one JSON object that is valid against this JSON Schema, and with nothing else:\n{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"integer\"}},\"required\":[\"answer\"],\"additionalProperties\":false}"
    messages:
      {"role":"user","content":[{"type":"text","text":"hi"}]}
    thinking: {"type":"adaptive"}
    output_config: {"effort":"low"}
    stream: true
    "##);
}

#[tokio::test]
async fn rules_of_settings() {
    let (messages, tools) = ([ChatMessage::user("hi")], tools());
    let settings = SamplingSettings::default()
        .with_max_tokens(7)
        .with_reasoning_effort("high".to_owned());
    let mut text = String::new();
    for (format, profile) in kinds() {
        let request = ModelRequest::new("m", &messages, &settings).with_tools(&tools[..1]);
        let mut body = sent(format, profile, &request).await.unwrap();
        let strict = [
            &body["tools"][0]["strict"],
            &body["tools"][0]["function"]["strict"],
        ]
        .contains(&&json!(true));
        let body = body.as_object_mut().unwrap();
        for key in ["model", "messages", "input", "tools"] {
            body.shift_remove(key);
        }
        writeln!(
            text,
            "{format:?} {} strict={strict} {}",
            profile.name,
            json!(body)
        )
        .unwrap();
    }
    insta::assert_snapshot!(text, @r##"
    Chat openai strict=true {"max_completion_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Chat vllm strict=true {"max_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Chat llama.cpp strict=false {"max_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Chat ollama strict=false {"max_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Chat deepseek strict=false {"max_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Chat openrouter strict=true {"max_tokens":7,"reasoning":{"effort":"high"},"stream":true,"stream_options":{"include_usage":true}}
    Chat openai_compatible strict=true {"max_tokens":7,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}}
    Responses openai strict=true {"max_output_tokens":7,"reasoning":{"effort":"high"},"store":false,"include":["reasoning.encrypted_content"],"stream":true}
    Responses openai_compatible strict=true {"max_output_tokens":7,"reasoning":{"effort":"high"},"store":false,"stream":true}
    Anthropic anthropic strict=true {"max_tokens":7,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"stream":true}
    "##);
    let none = SamplingSettings::default().with_reasoning_effort("none".to_owned());
    let body = sent(
        Format::Anthropic,
        ServerProfile::ANTHROPIC,
        &ModelRequest::new("m", &messages, &none),
    )
    .await;
    let body = body.unwrap();
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body["max_tokens"], 16_384);
    // While it thinks no tool can be forced.
    let mut request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
    request.tool_choice = &ToolChoice::Required;
    let error = sent(Format::Anthropic, ServerProfile::ANTHROPIC, &request)
        .await
        .unwrap_err();
    assert_eq!(error.category, Category::InvalidRequest);
    // Effort is one of three spellings.
    for (effort, key) in [
        (EffortEncoding::Field, "reasoning_effort"),
        (EffortEncoding::Object, "reasoning"),
    ] {
        let profile = profile(|profile| profile.effort_encoding = effort);
        let request = ModelRequest::new("m", &messages, &settings);
        let body = sent(Format::Chat, profile, &request).await.unwrap();
        assert!(body.get(key).is_some(), "{effort:?}");
    }
}

#[tokio::test]
async fn the_key_and_the_path_are_the_formats_own() {
    let (messages, settings) = ([ChatMessage::user("hi")], SamplingSettings::default());
    let cases = [
        (
            Format::Chat,
            ServerProfile::OPENAI,
            "/v1/chat/completions",
            "authorization",
            "Bearer sk-secret",
        ),
        (
            Format::Responses,
            ServerProfile::RESPONSES,
            "/v1/responses",
            "authorization",
            "Bearer sk-secret",
        ),
        (
            Format::Anthropic,
            ServerProfile::ANTHROPIC,
            "/v1/messages",
            "x-api-key",
            "sk-secret",
        ),
    ];
    for (format, profile, path, header, key) in cases {
        let reply = Reply::Body("application/json", ANSWER.as_bytes().to_vec());
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let bases = [server.base_url(), server.base_url() + "/"];
        for base_url in bases {
            for stream in [true, false] {
                let provider = provider(format, profile, base_url.clone(), stream);
                let request = ModelRequest::new("m", &messages, &settings);
                provider.complete(&request, &mut |_| {}).await.unwrap();
                let received = server.received().pop().unwrap();
                assert_eq!(received.line, format!("POST {path} HTTP/1.1"));
                assert_eq!(received.body["stream"], json!(stream));
                let options = received.body.get("stream_options").is_some();
                assert_eq!(options, stream && format == Format::Chat);
                assert!(
                    received
                        .headers
                        .contains(&(header.to_owned(), key.to_owned()))
                );
                let keys = ["authorization", "x-api-key"];
                let keys = received
                    .headers
                    .iter()
                    .filter(|(name, _)| keys.contains(&name.as_str()));
                assert_eq!(keys.count(), 1);
                let version = ("anthropic-version".to_owned(), "2023-06-01".to_owned());
                assert_eq!(
                    received.headers.contains(&version),
                    format == Format::Anthropic
                );
            }
        }
    }
}

#[tokio::test]
async fn rule_settings() {
    let one = |change: fn(&mut SamplingSettings)| {
        let mut settings = SamplingSettings::default();
        change(&mut settings);
        settings
    };
    let all = [
        ("temperature", one(|it| it.temperature = Some(0.5))),
        ("top_p", one(|it| it.top_p = Some(0.5))),
        ("seed", one(|it| it.seed = Some(7))),
        (
            "frequency_penalty",
            one(|it| it.frequency_penalty = Some(0.5)),
        ),
        (
            "presence_penalty",
            one(|it| it.presence_penalty = Some(0.5)),
        ),
        ("stop", one(|it| it.stop = vec!["END".to_owned()])),
    ];
    let messages = [ChatMessage::user("hi")];
    for (format, profile) in kinds() {
        for (name, settings) in &all {
            let result = sent(
                format,
                profile,
                &ModelRequest::new("m", &messages, settings),
            )
            .await;
            if let Some((_, key)) = profile.settings.iter().find(|(known, _)| known == name) {
                assert!(result.unwrap().get(key).is_some(), "{name}");
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.category, Category::InvalidRequest);
                assert!(error.message.contains(name), "{error}");
            }
        }
    }
}
