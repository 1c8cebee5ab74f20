//! `logue serve harmony:MODEL`: requests that reach the upstream server, and answers of the gateway.

mod addresses;
mod answers;
mod failures;
mod keyed;
mod logprobs;
mod prompts;
mod reasks;
mod responses;
mod stops;

use logue_o200k::{SpecialSet, decode_lossy, encode_with_specials};
use serde_json::{Value, json};
use testkit::{Completion, ModelServer, Reply, Wire};

use crate::client::{Answered, Served};
use crate::program::logue;

pub(super) const PATH: &str = "/v1/chat/completions";
pub(super) const MODEL: &str = "gpt-oss-20b";

/// Starts a gateway in front of a server.
pub(super) fn gateway(folder: &std::path::Path, upstream: &str, arguments: &[&str]) -> Served {
    let first = ["harmony:gpt-oss-20b", "--upstream", upstream];
    let arguments: Vec<&str> = first.iter().chain(arguments).copied().collect();
    Served::start_with(logue(folder), &arguments)
}

/// The output of a model as vLLM sends it, one token per event.
pub(super) fn emitted(text: &str) -> Completion {
    let ids = encode_with_specials(text, &SpecialSet::HARMONY);
    let pieces = ids.iter().map(|id| (vec![*id], decode_lossy(&[*id])));
    Completion::new(Wire::VllmIds, pieces.collect())
}

pub(super) fn reply(text: &str) -> Reply {
    Reply::Completion(emitted(text))
}

/// The ids of the prompts that the upstream server received.
pub(super) fn prompts(model: &ModelServer) -> Vec<Vec<u32>> {
    let received = model.received();
    let ids = |body: &Value| serde_json::from_value(body["prompt"].clone()).unwrap();
    received.iter().map(|request| ids(&request.body)).collect()
}

pub(super) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(super) fn body(messages: &Value, more: &Value) -> Value {
    let mut body = json!({"model": MODEL, "messages": messages});
    let own = body.as_object_mut().unwrap();
    own.extend(more.as_object().unwrap().clone());
    body
}

pub(super) fn lamp(more: &Value) -> Value {
    let mut function = json!({"name": "lamp", "description": "Switches the lamp.", "parameters":
        {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}});
    let own = function.as_object_mut().unwrap();
    own.extend(more.as_object().unwrap().clone());
    json!({"type": "function", "function": function})
}

/// An answer, whole or put together from its stream.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// Names and arguments.
    pub(super) calls: Vec<(String, String)>,
    pub(super) finish: String,
    pub(super) usage: Value,
}

impl Read {
    pub(super) fn whole(answer: &Answered) -> Self {
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let choice = &body["choices"][0];
        let message = &choice["message"];
        let calls = message["tool_calls"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let call = |call: &Value| {
            assert!(call["id"].as_str().unwrap().starts_with("call_"));
            let field = |name: &str| call["function"][name].as_str().unwrap().to_owned();
            (field("name"), field("arguments"))
        };
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        Self {
            text: text("content"),
            reasoning: text("reasoning_content"),
            calls: calls.iter().map(call).collect(),
            finish: choice["finish_reason"].as_str().unwrap().to_owned(),
            usage: body["usage"].clone(),
        }
    }

    pub(super) fn stream(answer: &Answered) -> Self {
        assert_eq!(answer.status, 200, "{answer:?}");
        let data = answer.text.lines();
        let mut data: Vec<&str> = data
            .filter_map(|line| line.strip_prefix("data: "))
            .collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{answer:?}");
        let mut read = Self {
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            finish: String::new(),
            usage: Value::Null,
        };
        for chunk in data {
            let chunk: Value = serde_json::from_str(chunk).unwrap();
            assert!(chunk["error"].is_null(), "{chunk}");
            if chunk["choices"].as_array().unwrap().is_empty() {
                read.usage = chunk["usage"].clone();
                continue;
            }
            let choice = &chunk["choices"][0];
            let delta = &choice["delta"];
            let piece = |name: &str| delta[name].as_str().unwrap_or_default();
            read.text.push_str(piece("content"));
            read.reasoning.push_str(piece("reasoning_content"));
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                let index = call["index"].as_u64().unwrap();
                let index = usize::try_from(index).unwrap();
                if index == read.calls.len() {
                    let name = call["function"]["name"].as_str().unwrap().to_owned();
                    read.calls.push((name, String::new()));
                }
                let arguments = call["function"]["arguments"].as_str().unwrap();
                read.calls[index].1.push_str(arguments);
            }
            if let Some(finish) = choice["finish_reason"].as_str() {
                finish.clone_into(&mut read.finish);
            }
        }
        read
    }

    /// Asks twice, and requires the same answer whole and streamed.
    pub(super) fn both(served: &Served, body: &Value) -> Self {
        let whole = Self::whole(&served.post(PATH, body));
        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({"include_usage": true});
        let streamed = Self::stream(&served.post(PATH, &streamed));
        assert_eq!(whole, streamed);
        whole
    }
}
