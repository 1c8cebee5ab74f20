//! Tools whose names no JSON server takes, spoken of to one over a real socket.

use std::sync::Arc;

use logue_message::{ChatMessage, ToolCall, ToolDefinition};
use logue_model::{
    EndpointOptions, HttpProvider, ModelEvent, ModelRequest, ModelResponse, Provider as _,
    SamplingSettings, SanitizedNames, ToolChoice, WireFormat,
};
use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

/// Returns the request, events and response of a model that calls the named tools.
async fn asked(
    tools: &[&str],
    history: &[&str],
    calls: &[&str],
) -> (Value, Vec<ModelEvent>, ModelResponse) {
    let define = |name: &&str| ToolDefinition::new(*name, "", json!({"type": "object"}));
    let tools: Vec<ToolDefinition> = tools.iter().map(define).collect();
    let mut messages = vec![ChatMessage::user("hello")];
    for (number, name) in history.iter().enumerate() {
        let id = format!("c{number}");
        let call = ToolCall::new(id.clone(), *name, "{}");
        messages.push(ChatMessage::assistant("").with_tool_calls(vec![call]));
        messages.push(ChatMessage::tool(id, "done"));
    }
    let answer = calls
        .iter()
        .enumerate()
        .fold(Answer::text(""), |answer, (at, name)| {
            answer.with_call(format!("n{at}"), *name, "{}")
        });
    let server = ModelServer::start(vec![Reply::Answer(answer)], Delivery::Whole).unwrap();
    let provider = HttpProvider::new(WireFormat::Chat, EndpointOptions::new(server.base_url()));
    let provider = SanitizedNames::new(Arc::new(provider.unwrap()));
    let settings = SamplingSettings::default();
    let choice = ToolChoice::Auto;
    let request = ModelRequest::new("m", &messages, &settings)
        .with_tools(&tools)
        .with_tool_choice(&choice);
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let response = provider.complete(&request, &mut sink).await.unwrap();
    (server.received().remove(0).body, events, response)
}

fn told(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn servers_are_told_plain_names_and_everybody_else_the_tools_own() {
    let long = "x".repeat(80);
    let cut = "x".repeat(64);
    let cut_again = format!("{}_2", "x".repeat(62));
    let table: [(&[&str], &[&str]); 6] = [
        (&["read_file", "a-b"], &["read_file", "a-b"]),
        (
            &["browser.open", "browser.find"],
            &["browser_open", "browser_find"],
        ),
        (
            &["browser.open", "browser_open"],
            &["browser_open_2", "browser_open"],
        ),
        (&["a.b", "a:b", "a b"], &["a_b", "a_b_2", "a_b_3"]),
        (&["wetter für"], &["wetter_f_r"]),
        (&[&long, &cut], &[&cut_again, &cut]),
    ];
    for (own, plain) in table {
        let (body, events, response) = asked(own, &[], plain).await;
        assert_eq!(told(&body), plain);
        // The server begins the calls in any order; their ids say which is which.
        let mut calls = response.message.tool_calls;
        let called: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
        calls.sort_by(|one, other| one.id.cmp(&other.id));
        assert!(calls.iter().map(|call| &call.name).eq(own), "{calls:?}");
        let heard = events.iter().filter_map(|event| match event {
            ModelEvent::ToolCall { index, name } => Some((*index, name)),
            _ => None,
        });
        let heard: Vec<_> = heard.collect();
        assert_eq!(heard.len(), called.len());
        for (index, name) in heard {
            assert_eq!(*name, called[index]);
        }
    }
}

#[tokio::test]
async fn what_was_called_before_has_the_name_that_it_is_offered_by() {
    let (body, _, response) = asked(
        &["browser.open"],
        &["browser.open", "browser.gone", "read_file"],
        &["browser_gone", "never_heard_of"],
    )
    .await;
    let name = |at: usize| &body["messages"][at]["tool_calls"][0]["function"]["name"];
    assert_eq!(
        [name(1), name(3), name(5)],
        ["browser_open", "browser_gone", "read_file"]
    );
    // A name that is not offered has no original.
    let called = response.message.tool_calls.iter();
    let mut called: Vec<&str> = called.map(|call| call.name.as_str()).collect();
    called.sort_unstable();
    assert_eq!(called, ["browser_gone", "never_heard_of"]);
}
