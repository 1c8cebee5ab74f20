//! The real client against a scripted server over a real socket.

use std::time::Duration;

use crate::limits_with;
use logue_message::{ChatMessage, Content, ContentBlock, ToolCall, ToolDefinition};
use logue_model::{
    Category, EndpointOptions, FinishReason, HttpLimits, HttpProvider, ModelEvent, ModelRequest,
    ModelResponse, Provider as _, ProviderError, SamplingSettings, WireFormat,
};
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

fn limits() -> HttpLimits {
    limits_with(HttpLimits::default(), |limits| {
        limits.connect = Duration::from_secs(1);
        limits.first_byte = Duration::from_secs(2);
        limits.idle = Duration::from_secs(2);
        limits.response_bytes = 2_000_000;
        limits.event_bytes = 200_000;
    })
}

async fn ask(server: &ModelServer) -> (Result<ModelResponse, ProviderError>, Vec<ModelEvent>) {
    let options = EndpointOptions::new(server.base_url())
        .with_api_key("sk-secret")
        .with_limits(limits());
    let provider = HttpProvider::new(WireFormat::Chat, options).unwrap();
    let messages = [ChatMessage::system("be brief"), ChatMessage::user("hello")];
    let tools = [ToolDefinition::new(
        "f",
        "does f",
        json!({"type": "object", "properties": {}}),
    )];
    let settings = SamplingSettings::default().with_temperature(0.5);
    let request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
    let mut events = Vec::new();
    let result = provider
        .complete(&request, &mut |event| events.push(event))
        .await;
    (result, events)
}

async fn ask_once(reply: Reply) -> Result<ModelResponse, ProviderError> {
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    ask(&server).await.0
}

fn answer() -> Answer {
    Answer::text("Grüße, 世界! 🦀 \"quoted\"\n")
        .with_reasoning("héhé")
        .with_call("call_a", "read_file", r#"{"file":"größe.txt"}"#)
        .with_call("call_b", "grep", r#"{"arguments":["-n","🦀"]}"#)
}

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_arrive() {
    let mut deliveries = vec![Delivery::Whole, Delivery::ByteByByte];
    deliveries.extend((0..40).map(Delivery::Random));
    for delivery in deliveries {
        let server = ModelServer::start(vec![Reply::Answer(answer())], delivery).unwrap();
        let (result, events) = ask(&server).await;
        let response = result.expect("an answer");
        let calls = vec![
            ToolCall::new("call_a", "read_file", r#"{"file":"größe.txt"}"#),
            ToolCall::new("call_b", "grep", r#"{"arguments":["-n","🦀"]}"#),
        ];
        let content = Content::Blocks(vec![
            ContentBlock::thinking("héhé"),
            ContentBlock::text("Grüße, 世界! 🦀 \"quoted\"\n"),
        ]);
        assert_eq!(
            response.message,
            ChatMessage::assistant(content).with_tool_calls(calls)
        );
        assert_eq!(response.finish_reason, FinishReason::ToolCalls);
        assert_eq!(response.usage.unwrap().output_tokens, 7);
        let told = |index: usize| -> String {
            let piece = |event: &ModelEvent| match event {
                ModelEvent::Arguments { index: at, text } if *at == index => Some(text.clone()),
                _ => None,
            };
            events.iter().filter_map(piece).collect()
        };
        assert_eq!(told(0), r#"{"file":"größe.txt"}"#, "{delivery:?}");
        assert_eq!(told(1), r#"{"arguments":["-n","🦀"]}"#, "{delivery:?}");
    }
}

#[tokio::test]
async fn the_request_is_what_the_format_says() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("x"))], Delivery::Whole).unwrap();
    ask(&server).await.0.unwrap();
    let received = server.received();
    assert_eq!(received[0].line, "POST /v1/chat/completions HTTP/1.1");
    let key = ("authorization".to_owned(), "Bearer sk-secret".to_owned());
    assert!(received[0].headers.contains(&key));
    assert_eq!(
        received[0].body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "hello"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "does f",
                "parameters": {"type": "object", "properties": {}}}}],
            "temperature": 0.5,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn each_failure_has_its_category() {
    let status = |status: u16, body: &str| Reply::Status(status, Vec::new(), body.to_owned());
    let endless = |first: &str, again: &str| Reply::Endless(first.into(), again.into());
    let chunk = r#"data: {"choices":[{"delta":{"content":"word "}}]}"#;
    let cases = vec![
        (
            status(401, r#"{"error":{"message":"bad key sk-secret"}}"#),
            Category::Authentication,
        ),
        (status(403, ""), Category::Authentication),
        (
            status(
                200,
                "data: {\"error\":{\"message\":\"Bearer sk-secret\"}}\n\n",
            ),
            Category::Unavailable,
        ),
        (
            status(200, "authorization: Bearer sk-secret"),
            Category::InvalidResponse,
        ),
        (
            status(
                200,
                "data: {\"choices\":[{\"delta\":{\"content\":\" \\n\"},\"finish_reason\":\"stop\"}]}\n\n",
            ),
            Category::InvalidResponse,
        ),
        (
            status(404, r#"{"error":{"message":"no such model `m`"}}"#),
            Category::InvalidModel,
        ),
        (status(404, "not found"), Category::InvalidRequest),
        (
            status(400, r#"{"error":{"message":"context length"}}"#),
            Category::InvalidRequest,
        ),
        (status(429, "{}"), Category::RateLimit),
        (status(500, "<html>oops</html>"), Category::Unavailable),
        (status(502, ""), Category::Unavailable),
        (
            status(503, r#"{"error":"Loading model"}"#),
            Category::ModelNotLoaded,
        ),
        (status(302, ""), Category::InvalidRequest),
        (status(200, "<html>hello</html>"), Category::InvalidResponse),
        (status(200, "data: not json\n\n"), Category::InvalidResponse),
        (
            status(200, "data: {\"x\":1}\n\n"),
            Category::InvalidResponse,
        ),
        (status(200, ""), Category::Unavailable),
        (status(200, &format!("{chunk}\n\n")), Category::Unavailable),
        (
            status(
                200,
                "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n",
            ),
            Category::RateLimit,
        ),
        (
            status(
                200,
                "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            ),
            Category::InvalidResponse,
        ),
        (
            Reply::Cut(chunk.as_bytes()[..30].to_vec()),
            Category::Unavailable,
        ),
        (
            Reply::Cut(format!("{chunk}\n\n{chunk}").into_bytes()),
            Category::Unavailable,
        ),
        (
            endless("", &format!("{chunk}\n\n")),
            Category::InvalidResponse,
        ),
        (endless("", ": still here\n\n"), Category::InvalidResponse),
        (
            endless("data: ", "aaaaaaaaaaaaaaaa"),
            Category::InvalidResponse,
        ),
        (Reply::Silent, Category::Unavailable),
    ];
    for (reply, category) in cases {
        let shown = format!("{reply:?}");
        let error = ask_once(reply).await.expect_err(&shown);
        assert_eq!(error.category, category, "{shown}: {error}");
        assert!(
            error.help.is_some(),
            "{shown}: {error} says nothing of what to do"
        );
        assert!(!error.to_string().contains("sk-secret"), "{error}");
    }
}

#[tokio::test]
async fn retry_after_is_told() {
    let headers = vec![("retry-after".to_owned(), "17".to_owned())];
    let error = ask_once(Reply::Status(429, headers, "{}".into()))
        .await
        .unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(17)));
    assert!(error.help.unwrap().contains("17 s"));
}

#[tokio::test]
async fn a_complete_answer_is_not_lost_to_what_comes_behind_it() {
    let whole =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let reply = Reply::Endless(whole.to_vec(), b": ping\n\n".to_vec());
    let response = ask_once(reply).await.unwrap();
    assert_eq!(response.message, ChatMessage::assistant("hi"));
}

#[tokio::test]
async fn what_an_incomplete_answer_held_goes_along_with_the_error() {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": delta, "finish_reason": reason}]})
        )
    };
    let body = [
        chunk(json!({"content": "Let me see."}), None),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c", "function":
            {"name": "rm", "arguments": "{\"path\": \"/tmp"}}]}),
            None,
        ),
        chunk(json!({}), Some("length")),
    ]
    .concat();
    let error = ask_once(Reply::Status(200, Vec::new(), body))
        .await
        .unwrap_err();
    assert_eq!(error.category, Category::InvalidResponse);
    // The truncated call is excluded, because it must not run.
    assert_eq!(
        *error.answer.unwrap(),
        ChatMessage::assistant("Let me see.")
    );
    let body = chunk(json!({"reasoning_content": "hm"}), Some("stop"));
    let error = ask_once(Reply::Status(200, Vec::new(), body))
        .await
        .unwrap_err();
    assert_eq!(
        *error.answer.unwrap(),
        ChatMessage::assistant(Content::Blocks(vec![ContentBlock::thinking("hm")]))
    );
}

#[tokio::test]
async fn ids_of_the_conversation_are_not_used_again() {
    let answer = Answer::text("").with_call("call_0", "f", "{}");
    let server = ModelServer::start(vec![Reply::Answer(answer)], Delivery::Whole).unwrap();
    let options = EndpointOptions::new(server.base_url()).with_limits(limits());
    let provider = HttpProvider::new(WireFormat::Chat, options).unwrap();
    let earlier =
        ChatMessage::assistant("").with_tool_calls(vec![ToolCall::new("call_0", "f", "{}")]);
    let messages = [
        ChatMessage::user("x"),
        earlier,
        ChatMessage::tool("call_0", "y"),
    ];
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    let response = provider.complete(&request, &mut |_| {}).await.unwrap();
    assert_ne!(response.message.tool_calls[0].id, "call_0");
}

#[test]
fn a_base_url_is_an_address() {
    let new = |base_url: &str| {
        let options = EndpointOptions::new(base_url.to_owned()).with_limits(limits());
        HttpProvider::new(WireFormat::Chat, options)
    };
    for wrong in ["localhost:8000/v1", "", "ftp://host/v1", "http://"] {
        let error = new(wrong).unwrap_err();
        assert_eq!(error.category, Category::InvalidRequest, "{wrong}");
        assert!(error.help.unwrap().contains("http://"), "{wrong}");
    }
    assert!(new("http://host/v1/?api-version=1").is_ok());
}

#[tokio::test]
async fn nobody_listening_is_unavailable() {
    let server = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let base_url = server.base_url();
    drop(server);
    let options = EndpointOptions::new(base_url).with_limits(limits());
    let provider = HttpProvider::new(WireFormat::Chat, options).unwrap();
    let (messages, settings) = ([ChatMessage::user("x")], SamplingSettings::default());
    let request = ModelRequest::new("m", &messages, &settings);
    let error = provider.complete(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.category, Category::Unavailable);
}

#[tokio::test]
async fn servers_may_deviate_in_harmless_ways() {
    let ok = |body: String| Reply::Status(200, Vec::new(), body);
    let data = |value: serde_json::Value| format!("data: {value}\n\n");
    let call =
        |function: serde_json::Value| json!({"choices": [{"delta": {"tool_calls": [function]}}]});
    // No index, the id and name repeated, the arguments as an object, "stop" for the reason, no [DONE].
    let body = [
        data(call(
            json!({"id": "call_a", "function": {"name": "read", "arguments": ""}}),
        )),
        data(call(
            json!({"id": "call_a", "function": {"name": "read", "arguments": {"x": 1}}}),
        )),
        data(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
    ]
    .concat();
    let response = ask_once(ok(body)).await.unwrap();
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    assert_eq!(
        response.message.tool_calls[0],
        ToolCall::new("call_a", "read", r#"{"x":1}"#)
    );
    // Ids that are empty or used twice become unique.
    let body = [
        data(call(
            json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "{}"}}),
        )),
        data(call(
            json!({"index": 1, "id": "x", "function": {"name": "f", "arguments": "{}"}}),
        )),
        data(call(
            json!({"index": 2, "id": "x", "function": {"name": "f", "arguments": "{}"}}),
        )),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let response = ask_once(ok(body)).await.unwrap();
    response.message.validate().unwrap();
    assert_eq!(response.message.tool_calls.len(), 3);
    // Every call has the index 0, and what is not meant is null.
    let whole = |id: &str, x: u8| {
        data(call(json!({"index": 0, "id": id, "custom": null,
            "function": {"name": "read", "arguments": format!("{{\"x\":{x}}}")}})))
    };
    let body = [
        whole("call_a", 1),
        whole("call_b", 2),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let response = ask_once(ok(body)).await.unwrap();
    let calls = [(1, "call_a"), (2, "call_b")]
        .map(|(x, id)| ToolCall::new(id, "read", format!("{{\"x\":{x}}}")));
    assert_eq!(response.message.tool_calls, calls);
    // A whole answer although a stream was asked for.
    let json = json!({"object": "chat.completion", "choices": [{"message":
        {"role": "assistant", "content": "hi"}, "finish_reason": "length"}]});
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let response = ask_once(Reply::Status(200, headers, json.to_string()))
        .await
        .unwrap();
    assert_eq!(response.message, ChatMessage::assistant("hi"));
    assert_eq!(response.finish_reason, FinishReason::Length);
}
