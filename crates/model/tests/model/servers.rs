//! Providers against a server over a real socket: streams of each format, and the errors that real
//! servers answer.

use std::path::Path;
use std::time::Duration;

use crate::limits_with;
use logue_message::{ChatMessage, Content, ContentBlock, ToolDefinition};
use logue_model::{
    Category, EndpointOptions, FinishReason, HttpLimits, HttpProvider, ModelEvent, ModelRequest,
    ModelResponse, Provider, ProviderError, ResponseReader, SamplingSettings, WireFormat,
};
use serde_json::json;
use testkit::{Delivery, ModelServer, Reply};

fn shape(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/wire")
            .join(name),
    )
    .unwrap()
}

fn provider(wire: WireFormat, server: &ModelServer) -> Box<dyn Provider> {
    let options = EndpointOptions::new(server.base_url())
        .with_api_key("sk-secret")
        .with_limits(limits_with(HttpLimits::default(), |limits| {
            limits.idle = Duration::from_secs(20);
        }));
    Box::new(HttpProvider::new(wire, options).unwrap())
}

async fn ask(
    wire: WireFormat,
    reply: Reply,
    delivery: Delivery,
) -> Result<ModelResponse, ProviderError> {
    let server = ModelServer::start(vec![reply], delivery).unwrap();
    let (messages, settings) = ([ChatMessage::user("hi")], SamplingSettings::default());
    let request = ModelRequest::new("m", &messages, &settings);
    provider(wire, &server)
        .complete(&request, &mut |_| {})
        .await
}

#[tokio::test]
async fn an_answer_is_the_same_however_the_socket_gives_it() {
    let shapes = [
        (WireFormat::Chat, "chat/openai-tools.sse"),
        (WireFormat::Chat, "chat/openai-whole.json"),
        (WireFormat::Responses, "responses/tools.sse"),
        (WireFormat::Responses, "responses/whole.json"),
        (WireFormat::Anthropic, "anthropic/tools.sse"),
        (WireFormat::Anthropic, "anthropic/whole.json"),
    ];
    for (wire, name) in shapes {
        let bytes = shape(name);
        let mut reader = ResponseReader::new(wire, 1 << 20);
        reader.push(&bytes, &mut |_| {}).unwrap();
        let expected = reader.finish(&mut |_| {}).unwrap();
        let deliveries = [
            Delivery::Whole,
            Delivery::ByteByByte,
            Delivery::Random(1),
            Delivery::Random(2),
        ];
        for delivery in deliveries {
            // A stream that calls itself JSON, or the other way round, is read all the same.
            for kind in ["text/event-stream", "application/json", "text/plain"] {
                let reply = Reply::Body(kind, bytes.clone());
                let response = ask(wire, reply, delivery).await.unwrap();
                assert_eq!(response, expected, "{name} {delivery:?} {kind}");
            }
        }
    }
}

#[tokio::test]
async fn each_error_body_has_its_category() {
    use WireFormat::{Anthropic as A, Chat as C, Responses as R};
    let anthropic = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            .to_string()
    };
    let openai = |kind: &str, code: Option<&str>, message: &str| {
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            .to_string()
    };
    let cases = [
        (A, 529, anthropic("overloaded_error", "Overloaded"), Category::Unavailable),
        (A, 429, anthropic("rate_limit_error", "Slow down"), Category::RateLimit),
        (A, 401, anthropic("authentication_error", "invalid x-api-key"), Category::Authentication),
        (A, 403, anthropic("permission_error", "not yours"), Category::Authentication),
        (A, 404, anthropic("not_found_error", "model: claude-9"), Category::InvalidModel),
        (A, 404, anthropic("not_found_error", "Not Found"), Category::InvalidRequest),
        (A, 400, anthropic("invalid_request_error", "messages: at least one"), Category::InvalidRequest),
        (A, 413, anthropic("request_too_large", "too large"), Category::InvalidRequest),
        (A, 500, anthropic("api_error", "Internal server error"), Category::Unavailable),
        (A, 504, anthropic("timeout_error", "timed out"), Category::Unavailable),
        (A, 402, anthropic("billing_error", "pay first"), Category::RateLimit),
        (C, 404, openai("invalid_request_error", Some("model_not_found"), "The model `x` does not exist"), Category::InvalidModel),
        (C, 400, openai("invalid_request_error", Some("model_not_found"), "no such"), Category::InvalidModel),
        (C, 400, openai("invalid_request_error", Some("context_length_exceeded"), "This model's maximum context length is 8192 tokens."), Category::InvalidRequest),
        (C, 429, openai("insufficient_quota", Some("insufficient_quota"), "You exceeded your quota"), Category::RateLimit),
        (C, 401, openai("invalid_request_error", Some("invalid_api_key"), "Incorrect API key"), Category::Authentication),
        (R, 429, openai("requests", Some("rate_limit_exceeded"), "Rate limit reached"), Category::RateLimit),
        (R, 500, openai("server_error", None, "Sorry"), Category::Unavailable),
        (R, 400, openai("invalid_request_error", None, "Unknown parameter: 'x'."), Category::InvalidRequest),
        // Ollama, llama.cpp, vLLM, DeepSeek, OpenRouter, FastAPI.
        (C, 404, openai("api_error", None, "model \"x\" not found, try pulling it first"), Category::InvalidModel),
        (C, 503, json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}).to_string(), Category::ModelNotLoaded),
        (C, 400, json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}).to_string(), Category::InvalidRequest),
        (C, 404, json!({"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "param": null, "code": 404}).to_string(), Category::InvalidModel),
        (C, 404, json!({"error": {"message": "The model `x` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}}).to_string(), Category::InvalidModel),
        (C, 402, openai("unknown_error", Some("invalid_request_error"), "Insufficient Balance"), Category::RateLimit),
        (C, 400, openai("invalid_request_error", Some("invalid_request_error"), "Model Not Exist"), Category::InvalidModel),
        (C, 400, json!({"error": {"message": "x is not a valid model ID", "code": 400}}).to_string(), Category::InvalidModel),
        (C, 404, json!({"detail": "Not Found"}).to_string(), Category::InvalidRequest),
        (C, 422, json!({"detail": [{"loc": ["body", "x"], "msg": "extra fields"}]}).to_string(), Category::InvalidRequest),
    ];
    for (wire, status, body, category) in cases {
        let reply = Reply::Status(status, Vec::new(), body.clone());
        let error = ask(wire, reply, Delivery::Whole).await.unwrap_err();
        assert_eq!(error.category, category, "{status} {body}\n{error}");
        let help = error.help.unwrap();
        if category == Category::Authentication {
            let variable = if wire == A {
                "ANTHROPIC_API_KEY"
            } else {
                "OPENAI_API_KEY"
            };
            assert!(help.contains(variable), "{help}");
        }
    }
    // The same inside an answer that began well.
    let inside = [
        (A, anthropic("overloaded_error", "Overloaded"), Category::Unavailable),
        (A, anthropic("rate_limit_error", "Slow down"), Category::RateLimit),
        (A, anthropic("invalid_request_error", "no"), Category::InvalidRequest),
        (R, json!({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": null}).to_string(), Category::RateLimit),
        (R, json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "m"}}}).to_string(), Category::Unavailable),
        (R, json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "invalid_prompt", "message": "m"}}}).to_string(), Category::InvalidRequest),
        (C, openai("rate_limit_error", None, "Slow down"), Category::RateLimit),
        (C, json!({"error": {"code": 500, "message": "failed to parse", "type": "server_error"}}).to_string(), Category::Unavailable),
    ];
    for (wire, event, category) in inside {
        let body = format!("data: {event}\n\n").into_bytes();
        let reply = Reply::Body("text/event-stream", body);
        let error = ask(wire, reply, Delivery::Whole).await.unwrap_err();
        assert_eq!(error.category, category, "{event}\n{error}");
    }
}

#[tokio::test]
async fn the_answer_tool_of_anthropic_is_read_as_words() {
    let block = |index: u8, name: &str, pieces: [&str; 2]| {
        let start = json!({"type": "content_block_start", "index": index, "content_block":
            {"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}}});
        let deltas = pieces.map(|piece| {
            json!({"type": "content_block_delta", "index": index,
                "delta": {"type": "input_json_delta", "partial_json": piece}})
        });
        let stop = json!({"type": "content_block_stop", "index": index});
        let events = [vec![start], deltas.to_vec(), vec![stop]].concat();
        let lines: Vec<String> = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        lines.concat()
    };
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 3}});
    let end = format!("data: {stop}\n\ndata: {{\"type\":\"message_stop\"}}\n\n");
    let streams = [
        block(0, "answer", ["{\"n\":", "4}"]) + &end,
        block(0, "f", ["{\"x\":", "1}"]) + &end,
    ];
    let replies = streams.map(|body| Reply::Body("text/event-stream", body.into_bytes()));
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let provider = provider(WireFormat::Anthropic, &server);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tools = [ToolDefinition::new(
        "f",
        "does f",
        json!({"type": "object"}),
    )];
    let (messages, settings) = ([ChatMessage::user("hi")], SamplingSettings::default());
    let mut request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
    request.response_schema = Some(&schema);
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let answered = provider.complete(&request, &mut sink).await.unwrap();
    assert_eq!(answered.message, ChatMessage::assistant("{\"n\":4}"));
    assert_eq!(answered.finish_reason, FinishReason::Stop);
    let words = |text: &str| ModelEvent::Text(text.to_owned());
    assert_eq!(events, [words("{\"n\":"), words("4}")]);
    // A tool of the caller is still a tool.
    let called = provider.complete(&request, &mut |_| {}).await.unwrap();
    assert_eq!(called.message.tool_calls[0].name, "f");
    assert_eq!(called.finish_reason, FinishReason::ToolCalls);
    // A caller's tool of that name is not mistaken for it.
    let tools = [ToolDefinition::new(
        "answer",
        "answers",
        json!({"type": "object"}),
    )];
    let server = ModelServer::start(
        vec![Reply::Body(
            "text/event-stream",
            (block(0, "answer", ["{\"n\":", "4}"]) + &end).into_bytes(),
        )],
        Delivery::Whole,
    )
    .unwrap();
    let request = request.with_tools(&tools);
    let called = self::provider(WireFormat::Anthropic, &server)
        .complete(&request, &mut |_| {})
        .await
        .unwrap();
    assert_eq!(called.message.tool_calls[0].name, "answer");
    assert_eq!(server.received()[0].body["tools"][1]["name"], "answer_");
}

#[tokio::test]
async fn what_was_reasoned_is_sent_back_as_it_came() {
    let cases = [
        (WireFormat::Anthropic, "anthropic/tools.sse"),
        (WireFormat::Anthropic, "anthropic/hidden-thinking.sse"),
        (WireFormat::Chat, "chat/llama-cpp-tools.sse"),
    ];
    for (wire, name) in cases {
        let reply = Reply::Body("text/event-stream", shape(name));
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let provider = provider(wire, &server);
        let settings = SamplingSettings::default();
        let mut messages = vec![ChatMessage::user("hi")];
        let request = ModelRequest::new("m", &messages, &settings);
        let answer = provider
            .complete(&request, &mut |_| {})
            .await
            .unwrap()
            .message;
        answer.validate().unwrap();
        // Through JSON, as sessions keep it.
        messages.push(ChatMessage::from_json(&answer.to_json()).unwrap());
        if answer.tool_calls.is_empty() {
            messages.push(ChatMessage::user("go on"));
        }
        let calls = answer.tool_calls.iter();
        messages.extend(calls.map(|call| ChatMessage::tool(call.id.clone(), "done")));
        let request = ModelRequest::new("m", &messages, &settings);
        provider.complete(&request, &mut |_| {}).await.unwrap();
        let body = server.received()[1].body.to_string();
        let Content::Blocks(blocks) = &answer.content else {
            panic!("{name} holds no reasoning");
        };
        for block in blocks {
            let expected = match block {
                ContentBlock::Thinking {
                    text,
                    signature: Some(signature),
                    ..
                } => json!({"type": "thinking", "thinking": text, "signature": signature})
                    .to_string(),
                ContentBlock::RedactedThinking { data } => {
                    json!({"type": "redacted_thinking", "data": data}).to_string()
                }
                ContentBlock::Thinking { text, .. } => json!(text).to_string(),
                _ => continue,
            };
            assert!(body.contains(&expected), "{name}: {expected}\n{body}");
        }
    }
}
