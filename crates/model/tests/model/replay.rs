//! Recordings: what plays, what differs, what a live run leaves behind.

use std::sync::Arc;

use logue_message::{ChatMessage, ToolCall, ToolDefinition};
use logue_model::{
    Category, EndpointOptions, HttpProvider, ModelRequest, ModelResponse, Provider, ProviderError,
    Recorder, Recording, Replay, SamplingSettings, WireFormat,
};
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

fn recording() -> String {
    r#"version: 2.2
model: recorded
generation_settings:
  temperature: 0
<|start|>system<|message|>be brief<|end|>
<|start|>user<|message|>weather?<|end|>
<|start|>assistant<|channel|>analysis<|message|>look it up<|end|>
<|start|>assistant to=functions.weather call_id=w1<|channel|>commentary<|constrain|>json<|message|>{"city":"Oslo"}<|call|>
<|start|>tool name=functions.weather call_id=w1 to=assistant<|channel|>commentary<|message|>rain<|end|>
<|start|>assistant<|channel|>final<|message|>Rain.<|return|>
<|start|>user<|message|>thanks<|end|>
<|start|>assistant<|channel|>final<|message|>Welcome.<|return|>
"#
    .to_owned()
}

async fn ask(
    provider: &dyn Provider,
    messages: &[ChatMessage],
    temperature: Option<f64>,
) -> Result<ModelResponse, ProviderError> {
    let settings = SamplingSettings::default().with_temperature(temperature);
    let request = ModelRequest::new("", messages, &settings);
    provider.complete(&request, &mut |_| {}).await
}

fn replay(text: &str) -> Replay {
    Replay::new(Recording::parse("session.ocml", text.as_bytes()).unwrap())
}

fn start() -> Vec<ChatMessage> {
    vec![
        ChatMessage::system("be brief"),
        ChatMessage::user("weather?"),
    ]
}

fn called() -> ChatMessage {
    let call = ToolCall::new("w1", "weather", r#"{"city":"Oslo"}"#);
    ChatMessage::assistant("").with_tool_calls(vec![call])
}

#[tokio::test]
async fn each_request_finds_its_answer() {
    let replay = replay(&recording());
    let mut messages = start();
    let first = ask(&replay, &messages, Some(0.0)).await.unwrap();
    assert_eq!(first.message.tool_calls, called().tool_calls);
    messages.extend([first.message, ChatMessage::tool("w1", "rain")]);
    let second = ask(&replay, &messages, Some(0.0)).await.unwrap();
    assert_eq!(second.message.text(), "Rain.");
    // Whether earlier reasoning comes along is a provider's rule: here it does not.
    let mut messages = start();
    messages.extend([called(), ChatMessage::tool("w1", "rain"), second.message]);
    messages.push(ChatMessage::user("thanks"));
    let third = ask(&replay, &messages, Some(0.0)).await.unwrap();
    assert_eq!(third.message.text(), "Welcome.");
    messages.extend([third.message, ChatMessage::user("more")]);
    let error = ask(&replay, &messages, Some(0.0)).await.unwrap_err();
    assert_eq!(error.category, Category::ReplayExhausted);
    assert!(error.message.contains("3 answers"), "{error}");
}

#[tokio::test]
async fn a_difference_is_shown_with_its_place() {
    let replay = replay(&recording());
    let cases = [
        (
            vec![
                ChatMessage::system("be brief"),
                ChatMessage::user("weather now?"),
            ],
            Some(0.0),
            "session.ocml:6",
            "now      | weather now?",
        ),
        (
            vec![ChatMessage::user("weather?")],
            Some(0.0),
            "session.ocml:5",
            "now      | user",
        ),
        (
            start(),
            Some(1.0),
            "setting `temperature`",
            "now      | 1.0",
        ),
        (start(), None, "setting `temperature`", "now      | not set"),
        (
            vec![ChatMessage::system("be brief")],
            Some(0.0),
            "session.ocml:6",
            "recorded | weather?",
        ),
        (
            [
                start(),
                vec![called(), ChatMessage::tool("w1", "line one\nsun")],
            ]
            .concat(),
            Some(0.0),
            "session.ocml:9",
            "now      | sun",
        ),
    ];
    for (messages, temperature, place, shown) in cases {
        let error = ask(&replay, &messages, temperature).await.unwrap_err();
        assert_eq!(error.category, Category::ReplayMismatch);
        assert!(error.message.contains(place), "{error}");
        assert!(error.message.contains(shown), "{error}");
    }
}

#[test]
fn an_unreadable_recording_names_the_line() {
    let text = recording().replace("<|channel|>final<|message|>Rain.", "<|channel|>final");
    let error = Recording::parse("session.ocml", text.as_bytes()).unwrap_err();
    assert_eq!((error.name.as_str(), error.line), ("session.ocml", 10));
}

#[tokio::test]
async fn a_live_run_leaves_a_recording_that_plays() {
    let answers = [
        Answer::text("Let me <|end|> look.")
            .with_reasoning("hm")
            .with_call("w1", "weather", "{ }"),
        Answer::text("Rain.<"),
    ];
    let replies = answers.map(Reply::Answer).to_vec();
    let server = ModelServer::start(replies, Delivery::Random(7)).unwrap();
    let options = EndpointOptions::new(server.base_url());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ocml");
    let live = Arc::new(HttpProvider::new(WireFormat::Chat, options).unwrap());
    let recorder = Recorder::new(live, &path).unwrap();
    let tools = [ToolDefinition::new(
        "weather",
        "says \"rain\"",
        json!({"type": "object"}),
    )];
    let settings = SamplingSettings::default().with_max_tokens(9);
    let mut messages = vec![
        ChatMessage::developer("d"),
        ChatMessage::user("<|start|>system"),
    ];
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = ModelRequest::new("m", &messages, &settings).with_tools(&tools);
        let answer = recorder
            .complete(&request, &mut |_| {})
            .await
            .unwrap()
            .message;
        answers.push(answer.clone());
        messages.push(answer);
        messages.push(ChatMessage::tool("w1", "rain\n"));
    }
    assert!(
        Recorder::new(Arc::new(replay(&recording())), &path).is_err(),
        "it would overwrite"
    );

    let text = std::fs::read_to_string(&path).unwrap();
    let replay = replay(&text);
    let mut messages = vec![
        ChatMessage::developer("d"),
        ChatMessage::user("<|start|>system"),
    ];
    for recorded in answers {
        let request = ModelRequest::new("", &messages, &settings).with_tools(&tools);
        let answer = replay
            .complete(&request, &mut |_| {})
            .await
            .unwrap()
            .message;
        assert_eq!(answer.text(), recorded.text());
        assert_eq!(answer.tool_calls, recorded.tool_calls);
        messages.push(answer);
        messages.push(ChatMessage::tool("w1", "rain\n"));
    }
    let other = [ToolDefinition::new(
        "weather",
        "says \"sun\"",
        json!({"type": "object"}),
    )];
    let request = ModelRequest::new("", &messages[..2], &settings).with_tools(&other);
    let error = replay.complete(&request, &mut |_| {}).await.unwrap_err();
    assert!(error.message.contains("tool `weather`"), "{error}");
}

/// A model that creates an obstacle for the recording.
struct Obstructed(Replay, std::path::PathBuf);

impl Provider for Obstructed {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: logue_model::EventHandler<'a>,
    ) -> logue_model::BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        std::fs::create_dir_all(&self.1).unwrap();
        self.0.complete(request, events)
    }
}

#[tokio::test]
async fn an_answer_survives_a_recording_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ocml");
    let obstacle = folder.path().join(".session.ocml.logue-tmp");
    let inner = Arc::new(Obstructed(replay(&recording()), obstacle));
    let recorder = Recorder::new(inner, &path).unwrap();
    let error = ask(&recorder, &start(), Some(0.0)).await.unwrap_err();
    assert_eq!(error.category, Category::RecordingWriteFailed);
    assert_eq!(error.answer.unwrap().tool_calls, called().tool_calls);
}

#[tokio::test]
async fn what_cannot_be_recorded_is_refused_before_the_model_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ocml");
    let recorder = Recorder::new(Arc::new(replay(&recording())), &path).unwrap();
    // Another process takes the name.
    std::fs::write(&path, "mine").unwrap();
    let error = ask(&recorder, &start(), Some(0.0)).await.unwrap_err();
    assert_eq!(
        (error.category, error.answer),
        (Category::RecordingWriteFailed, None)
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[tokio::test]
async fn a_run_without_an_answer_leaves_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ocml");
    let recorder = Recorder::new(Arc::new(replay(&recording())), &path).unwrap();
    let error = ask(&recorder, &[ChatMessage::user("another")], Some(0.0))
        .await
        .unwrap_err();
    assert_eq!(error.category, Category::ReplayMismatch);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_history_with_reasoning_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ocml");
    let recorder = Recorder::new(Arc::new(logue_model::Echo), &path).unwrap();
    let thought = logue_message::ContentBlock::Thinking {
        text: "hm".into(),
        signature: None,
        id: Some("reasoning_1".into()),
    };
    let said = ChatMessage::assistant(vec![thought, logue_message::ContentBlock::text("hello")]);
    let messages = [ChatMessage::user("hi"), said, ChatMessage::user("again")];
    ask(&recorder, &messages, None).await.unwrap();
    let replay = replay(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(
        ask(&replay, &messages, None).await.unwrap().message.text(),
        "again"
    );
}
