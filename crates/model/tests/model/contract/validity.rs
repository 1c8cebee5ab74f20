//! Invalid requests, which every provider rejects before sending.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall, ToolDefinition};
use logue_model::{
    Category, Echo, ModelRequest, Provider, ProviderError, RetryBudget, RetryProvider,
    SamplingSettings, StructuredProvider, ToolChoice,
};
use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use super::client;

fn call(ids: &[&str]) -> ChatMessage {
    let calls = ids.iter().map(|id| ToolCall::new(*id, "f", "{}"));
    ChatMessage::assistant("").with_tool_calls(calls.collect())
}

fn result(id: &str) -> ChatMessage {
    ChatMessage::tool(id, "done")
}

fn user() -> ChatMessage {
    ChatMessage::user("hello")
}

/// Conversations with the expected error text, or `None` for valid ones.
fn conversations() -> Vec<(Vec<ChatMessage>, Option<&'static str>)> {
    let system = || ChatMessage::system("be brief");
    let said = || ChatMessage::assistant("hi");
    let blocks = |blocks| ChatMessage::user(Content::Blocks(blocks));
    vec![
        (vec![user()], None),
        (
            vec![system()],
            Some("messages[0] (system): a request must end with"),
        ),
        (vec![system(), user()], None),
        (vec![system(), user(), said(), user()], None),
        (
            vec![user(), call(&["a", "b"]), result("b"), result("a")],
            None,
        ),
        (
            vec![user(), call(&["a"]), result("a"), call(&["a"]), result("a")],
            None,
        ),
        (
            vec![user(), call(&["a"]), result("a"), said(), user()],
            None,
        ),
        (vec![], Some("the conversation is empty")),
        (vec![said(), user()], None),
        (vec![system(), said(), user()], None),
        (
            vec![result("a"), user()],
            Some("messages[0] (tool): it has no preceding call `a`"),
        ),
        (
            vec![user(), said()],
            Some("messages[1] (assistant): a request must end with"),
        ),
        (
            vec![user(), call(&["a"])],
            Some("messages[1] (assistant): the call `a` is not followed by its result"),
        ),
        (
            vec![user(), call(&["a"]), user()],
            Some("messages[1] (assistant): the call `a`"),
        ),
        (
            vec![user(), call(&["a", "b"]), result("a"), user()],
            Some("the call `b` is not followed by its result"),
        ),
        (
            vec![user(), call(&["a"]), result("b")],
            Some("messages[2] (tool): it has no preceding call `b`"),
        ),
        (
            vec![user(), call(&["a"]), result("a"), result("a")],
            Some("messages[3] (tool)"),
        ),
        (
            vec![user(), call(&["a"]), result("a"), user(), result("a")],
            Some("messages[4] (tool)"),
        ),
        (
            vec![user(), call(&["a", "a"]), result("a")],
            Some("messages[1] (assistant): "),
        ),
        (vec![ChatMessage::user("")], Some("messages[0] (user): ")),
        (
            vec![ChatMessage::system(""), user()],
            Some("messages[0] (system): "),
        ),
        (
            vec![user(), ChatMessage::assistant(""), user()],
            Some("messages[1] (assistant): "),
        ),
        (vec![blocks(vec![])], Some("messages[0] (user): ")),
        (
            vec![blocks(vec![ContentBlock::text("")])],
            Some("messages[0] (user): "),
        ),
        (
            vec![blocks(vec![ContentBlock::thinking("hm")])],
            Some("messages[0] (user): "),
        ),
        (
            vec![user(), call(&[""]), result("")],
            Some("messages[1] (assistant): "),
        ),
    ]
}

async fn ask(provider: &dyn Provider, request: &ModelRequest<'_>) -> Option<ProviderError> {
    provider.complete(request, &mut |_| {}).await.err()
}

#[tokio::test]
async fn an_invalid_conversation_is_refused_and_not_sent() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("hi"))], Delivery::Whole).unwrap();
    let providers: [Box<dyn Provider>; 4] = [
        Box::new(client(server.base_url())),
        Box::new(Echo),
        Box::new(RetryProvider::new(
            client(server.base_url()),
            RetryBudget::default(),
        )),
        Box::new(StructuredProvider::new(client(server.base_url()))),
    ];
    let settings = SamplingSettings::default();
    for (number, provider) in providers.iter().enumerate() {
        for (messages, words) in conversations() {
            let before = server.received().len();
            let request = ModelRequest::new("m", &messages, &settings);
            let error = ask(provider.as_ref(), &request).await;
            let sent = server.received().len() - before;
            let shown = format!("{number} {messages:?}: {error:?}");
            match words {
                None => assert!(error.is_none(), "{shown}"),
                Some(words) => {
                    let error = error.expect(&shown);
                    assert_eq!(error.category, Category::InvalidRequest, "{shown}");
                    assert!(error.message.contains(words), "{shown} has no {words}");
                    assert!(error.help.is_some(), "{shown}");
                    assert_eq!(sent, 0, "{shown}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_choice_needs_its_tools() {
    let tools = [ToolDefinition::new(
        "f",
        "does f",
        json!({"type": "object"}),
    )];
    let named = |name: &str| ToolChoice::Tool(name.to_owned());
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("hi"))], Delivery::Whole).unwrap();
    let provider = client(server.base_url());
    let (messages, settings) = ([user()], SamplingSettings::default());
    for (choice, offered, words) in [
        (ToolChoice::Auto, false, None),
        (ToolChoice::None, false, None),
        (ToolChoice::Auto, true, None),
        (ToolChoice::None, true, None),
        (ToolChoice::Required, true, None),
        (named("f"), true, None),
        (ToolChoice::Required, false, Some("no tool is offered")),
        (
            named("f"),
            false,
            Some("requires the tool `f`, which is not offered"),
        ),
        (
            named("g"),
            true,
            Some("requires the tool `g`, which is not offered"),
        ),
    ] {
        let before = server.received().len();
        let mut request = ModelRequest::new("m", &messages, &settings);
        request.tools = if offered { &tools } else { &[] };
        request.tool_choice = &choice;
        let error = ask(&provider, &request).await;
        assert_eq!(
            error.as_ref().map(|error| error.category),
            words.map(|_| Category::InvalidRequest)
        );
        if let Some(words) = words {
            assert!(error.unwrap().message.contains(words));
        }
        let sent = server.received().len() - before;
        assert_eq!(sent, usize::from(words.is_none()), "{choice:?} {offered}");
    }
}

#[tokio::test]
async fn a_schema_describes_an_object() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("{}"))], Delivery::Whole).unwrap();
    let provider = client(server.base_url());
    let (messages, settings) = ([user()], SamplingSettings::default());
    let schemas: [(Value, bool); 4] = [
        (json!({"type": "object"}), true),
        (json!({"type": "array"}), false),
        (json!({}), false),
        (json!("object"), false),
    ];
    for (schema, valid) in schemas {
        let mut request = ModelRequest::new("m", &messages, &settings);
        request.response_schema = Some(&schema);
        let error = ask(&provider, &request).await;
        assert_eq!(error.is_none(), valid, "{schema}: {error:?}");
    }
    assert_eq!(server.received().len(), 1);
}
