//! Answers that have to meet a schema: kept, mended once, or refused.

use logue_message::{ChatMessage, ToolDefinition};
use logue_model::{
    Category, ModelEvent, ModelRequest, ModelResponse, Provider as _, ProviderError,
    SamplingSettings, StructuredProvider, Usage,
};
use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use super::client;

fn person() -> Value {
    json!({
        "type": "object",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    })
}

struct Asked {
    result: Result<ModelResponse, ProviderError>,
    events: Vec<ModelEvent>,
    requests: Vec<Received>,
}

impl Asked {
    fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn reason(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            ModelEvent::SchemaRetry { reason } => Some(reason.as_str()),
            _ => None,
        })
    }
}

async fn ask(replies: Vec<Reply>, schema: Option<Value>) -> Asked {
    let server = ModelServer::start(replies, Delivery::ByteByByte).unwrap();
    let provider = StructuredProvider::new(client(server.base_url()));
    let (messages, settings) = ([ChatMessage::user("who?")], SamplingSettings::default());
    let tools = [ToolDefinition::new(
        "f",
        "does f",
        json!({"type": "object"}),
    )];
    let mut request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
    request.response_schema = schema.as_ref();
    let mut events = Vec::new();
    let result = provider
        .complete(&request, &mut |event| events.push(event))
        .await;
    Asked {
        result,
        events,
        requests: server.received(),
    }
}

fn says(texts: &[&str]) -> Vec<Reply> {
    texts
        .iter()
        .map(|text| Reply::Answer(Answer::text(*text)))
        .collect()
}

#[tokio::test]
async fn an_answer_that_meets_the_schema_is_given_as_a_value() {
    for (text, kept) in [
        (r#"{"name": "Ada"}"#, r#"{"name": "Ada"}"#),
        ("\n {\"name\":\n\"Ada\"} ", "{\"name\":\n\"Ada\"}"),
        ("```json\n{\"name\": \"Ada\"}\n```", r#"{"name": "Ada"}"#),
        ("```\n{\"name\": \"Ada\"}\n```\n", r#"{"name": "Ada"}"#),
    ] {
        let asked = ask(says(&[text]), Some(person())).await;
        assert_eq!(asked.text(), kept);
        let response = asked.result.unwrap();
        assert_eq!(response.parsed, Some(json!({"name": "Ada"})));
        assert_eq!(response.message.text(), kept);
        assert_eq!(asked.requests.len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_is_mended_once() {
    for (text, reason) in [
        (
            r#"{"title": "Ada"}"#,
            "Additional properties are not allowed ('title' was unexpected), and one more violation",
        ),
        (
            r#"{"name": "Ada", "age": "3"}"#,
            r#"/age: the value is not of type "integer""#,
        ),
        ("[]", r#"the value is not of type "object""#),
        (
            "It is Ada.",
            "it is not a single JSON value (expected value at line 1 column 1)",
        ),
        (
            r#"{"name": "Ada"} I hope this helps"#,
            "it is not a single JSON value (trailing characters at line 1 column 17)",
        ),
    ] {
        let asked = ask(says(&[text, r#"{"name": "Ada"}"#]), Some(person())).await;
        assert_eq!(asked.reason(), Some(reason));
        // The invalid response was not reported.
        assert_eq!(asked.text(), r#"{"name": "Ada"}"#);
        assert_eq!(asked.result.unwrap().parsed, Some(json!({"name": "Ada"})));
        assert_eq!(asked.requests.len(), 2);
        let messages = asked.requests[1].body["messages"].as_array().unwrap();
        assert_eq!(messages[0], asked.requests[0].body["messages"][0]);
        assert_eq!(messages[1], json!({"role": "assistant", "content": text}));
        assert_eq!(messages[2]["role"], "user");
        let correction = messages[2]["content"].as_str().unwrap();
        let fault = reason.split(", and").next().unwrap();
        assert!(correction.contains(&format!("- {fault}\n")), "{correction}");
        assert!(correction.contains(&person().to_string()), "{correction}");
    }
}

#[tokio::test]
async fn a_second_one_that_does_not_is_an_error() {
    let asked = ask(
        says(&["no", r#"{"name": 3}"#, r#"{"name": "Ada"}"#]),
        Some(person()),
    )
    .await;
    let error = asked.result.as_ref().unwrap_err();
    assert_eq!(error.category, Category::StructuredOutputInvalid);
    assert!(!error.transient);
    assert_eq!(
        error.message,
        r#"the answer does not meet the schema: /name: the value is not of type "string""#
    );
    assert!(error.help.is_some());
    assert_eq!(error.answer.as_ref().unwrap().text(), r#"{"name": 3}"#);
    assert_eq!(asked.requests.len(), 2);
    assert_eq!(asked.text(), "");
}

#[tokio::test]
async fn a_cut_answer_is_not_asked_for_again() {
    let chunk =
        r#"data: {"choices":[{"delta":{"content":"{\"name\": \"A"},"finish_reason":"length"}]}"#;
    let body = format!("{chunk}\n\ndata: [DONE]\n\n");
    let asked = ask(vec![Reply::Status(200, vec![], body)], Some(person())).await;
    let error = asked.result.unwrap_err();
    assert_eq!(error.category, Category::StructuredOutputInvalid);
    assert!(error.message.contains("length limit"), "{error}");
    assert!(error.help.unwrap().contains("max_tokens"));
    assert_eq!(asked.requests.len(), 1);
}

#[tokio::test]
async fn a_model_may_call_tools_first() {
    let calls = Answer::text("let me see").with_call("call_a", "f", "{}");
    let asked = ask(vec![Reply::Answer(calls)], Some(person())).await;
    assert_eq!(asked.text(), "let me see");
    let response = asked.result.unwrap();
    assert_eq!(response.parsed, None);
    assert_eq!(response.message.tool_calls.len(), 1);
}

#[tokio::test]
async fn both_requests_are_counted() {
    let chunk = |text: &str, input: u64| {
        let delta = json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": input, "completion_tokens": 2}});
        Reply::Status(200, vec![], format!("data: {delta}\n\ndata: [DONE]\n\n"))
    };
    let asked = ask(
        vec![chunk("no", 10), chunk(r#"{"name":"A"}"#, 30)],
        Some(person()),
    )
    .await;
    let Usage {
        input_tokens,
        output_tokens,
        ..
    } = asked.result.unwrap().usage.unwrap();
    assert_eq!((input_tokens, output_tokens), (40, 4));
}

#[tokio::test]
async fn without_a_schema_nothing_is_held_back() {
    let asked = ask(says(&["not JSON at all"]), None).await;
    assert!(asked.events.len() > 1);
    assert_eq!(asked.text(), "not JSON at all");
    assert_eq!(asked.result.unwrap().parsed, None);
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_and_not_sent() {
    for schema in [
        json!({"type": "object", "properties": {"a": {"type": "objekt"}}}),
        json!({"type": "object", "$ref": "https://example.com/s.json"}),
    ] {
        let asked = ask(says(&["{}"]), Some(schema)).await;
        assert_eq!(asked.result.unwrap_err().category, Category::InvalidRequest);
        assert_eq!(asked.requests.len(), 0);
    }
}
