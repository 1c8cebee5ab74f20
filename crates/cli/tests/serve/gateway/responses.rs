//! `/v1/responses` of a gateway.

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

use super::{MODEL, gateway, prompts, reply};
use crate::program::folder;

const PATH: &str = "/v1/responses";
const CALLING: &str = "<|channel|> analysis<|message|>Light.<|end|>\
    <|start|>assistant<|channel|>commentary<|message|>I switch it on.<|end|>\
    <|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>\
    {\"on\": true}<|call|>";
const DONE: &str = "<|channel|>final<|message|>done<|return|>";

fn body(input: &Value, more: &Value) -> Value {
    let mut body = json!({"model": MODEL, "input": input});
    let own = body.as_object_mut().unwrap();
    own.extend(more.as_object().unwrap().clone());
    body
}

fn lamp() -> Value {
    json!([{"type": "function", "name": "lamp", "strict": true, "parameters":
        {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}}])
}

/// The events of a stream.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The items of a response without their ids.
fn items(response: &Value) -> Vec<Value> {
    let mut items = response["output"].as_array().unwrap().clone();
    for item in &mut items {
        let own = item.as_object_mut().unwrap();
        own.remove("id");
        own.remove("call_id");
    }
    items
}

#[test]
fn a_response_has_the_same_items_whole_and_streamed() {
    let model = ModelServer::start(vec![reply(CALLING)], Delivery::Random(3)).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let mut request = body(&json!("light"), &json!({"tools": lamp()}));
    let whole = served.post(PATH, &request).json();
    assert_eq!(whole["status"], "completed", "{whole}");
    assert_eq!(whole["usage"]["output_tokens"], 7);
    let text = json!({"type": "output_text", "text": "I switch it on.", "annotations": [],
        "logprobs": []});
    assert_eq!(
        items(&whole),
        [
            json!({"type": "reasoning", "summary": [], "status": "completed",
                "content": [{"type": "reasoning_text", "text": "Light."}]}),
            json!({"type": "message", "role": "assistant", "status": "completed",
                "content": [text]}),
            json!({"type": "function_call", "name": "lamp", "arguments": "{\"on\": true}",
                "status": "completed"}),
        ]
    );

    request["stream"] = json!(true);
    let events = events(&served.post(PATH, &request).text);
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at, "{event}");
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(items(&last["response"]), items(&whole));
    // Every item arrives piece by piece as the response has it.
    for (index, item) in last["response"]["output"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let own = events.iter().filter(|event| event["output_index"] == index);
        let deltas: String = own
            .clone()
            .filter_map(|event| event["delta"].as_str())
            .collect();
        let content = item["content"][0]["text"].as_str();
        let whole = content.or(item["arguments"].as_str()).unwrap();
        assert_eq!(deltas, whole);
        assert_eq!(own.clone().next_back().unwrap()["item"], *item);
        for event in own.filter(|event| event["item_id"].is_string()) {
            assert_eq!(event["item_id"], item["id"]);
        }
    }
    let metrics = served.get("/metrics").text;
    let count = "logue_gateway_repairs_total{code=\"header-repaired\"} 2\n";
    assert!(metrics.contains(count), "{metrics}");

    let headers = [("x-logue-reasoning", "none")];
    let hidden = served.request("POST", PATH, &headers, &request.to_string());
    assert!(!hidden.text.contains("Light."), "{hidden:?}");
    for (name, value) in [
        ("reasoning_format", json!("none")),
        ("include_reasoning", json!(false)),
    ] {
        request[name] = value;
        let hidden = served.post(PATH, &request);
        assert_eq!(hidden.status, 200, "{hidden:?}");
        assert!(!hidden.text.contains("Light."), "{hidden:?}");
        request.as_object_mut().unwrap().remove(name);
    }
}

#[test]
fn the_items_of_a_response_continue_it_as_a_chat_does() {
    let model = ModelServer::start(vec![reply(DONE)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let input = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "light"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Light."}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "I switch it on.", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "lamp",
            "arguments": "{\"on\": true}"},
        {"type": "function_call_output", "call_id": "c1", "output": "it is on"},
    ]);
    let more = json!({"instructions": "Be brief.", "tools": lamp(), "reasoning": {"effort": "high"},
        "max_output_tokens": 50});
    let answer = served.post(PATH, &body(&input, &more));
    assert_eq!(answer.status, 200, "{answer:?}");
    let chat = json!({"model": MODEL, "reasoning_effort": "high", "max_tokens": 50,
        "tools": [{"type": "function", "function": lamp()[0]}], "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "light"},
        {"role": "assistant", "content": "I switch it on.", "reasoning_content": "Light.",
            "tool_calls": [{"id": "c1", "type": "function",
                "function": {"name": "lamp", "arguments": "{\"on\": true}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "it is on"}]});
    let answer = served.post(super::PATH, &chat);
    assert_eq!(answer.status, 200, "{answer:?}");
    let prompts = prompts(&model);
    assert_eq!(prompts[0], prompts[1]);
    let prompt = logue_o200k::decode_lossy(&prompts[0]);
    assert!(prompt.contains("analysis<|message|>Light."), "{prompt}");
    let received = model.received();
    assert_eq!(received[0].body, received[1].body);
}

#[test]
fn what_a_gateway_cannot_do_is_refused() {
    let model = ModelServer::start(vec![reply(DONE)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let hello = json!("hello");
    let cases = [
        (json!({"previous_response_id": "resp_1"}), 400),
        (json!({"conversation": "conv_1"}), 400),
        (json!({"background": true}), 400),
        (json!({"n": 2}), 400),
        (json!({"reasoning_format": "all"}), 400),
        (json!({"tools": [{"type": "web_search"}]}), 400),
        (json!({"input": [{"type": "computer_call"}]}), 400),
        (json!({"input": 1}), 400),
        (json!({"model": "other"}), 404),
    ];
    for (more, status) in cases {
        let answer = served.post(PATH, &body(&hello, &more));
        assert_eq!(answer.status, status, "{more} {answer:?}");
        assert!(answer.json()["error"]["message"].is_string(), "{answer:?}");
    }
    let unknown = [("x-logue-reasoning", "all")];
    let request = body(&hello, &json!({})).to_string();
    let answer = served.request("POST", PATH, &unknown, &request);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(model.received().len(), 0);
}

#[test]
fn a_cut_or_failed_response_says_so() {
    let cut = super::emitted("<|channel|>final<|message|>It shi").cut();
    // The first text arrives before the connection breaks.
    let bytes = super::emitted("<|channel|>final<|message|>one two three four five six").stream();
    let broken = bytes.get(..bytes.len() * 3 / 4).unwrap().to_vec();
    let model = ModelServer::start_by(
        move |request| {
            let prompt = serde_json::from_value(request.body["prompt"].clone()).unwrap();
            let prompt: Vec<u32> = prompt;
            if logue_o200k::decode_lossy(&prompt).contains("break") {
                Reply::Cut(broken.clone())
            } else {
                Reply::Completion(cut.clone())
            }
        },
        Delivery::Whole,
    )
    .unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let whole = served.post(PATH, &body(&json!("go"), &json!({}))).json();
    assert_eq!(whole["status"], "incomplete", "{whole}");
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(whole["output"][0]["status"], "incomplete");
    let streamed = served.post(PATH, &body(&json!("break"), &json!({"stream": true})));
    let events = events(&streamed.text);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed", "{streamed:?}");
    assert_eq!(last["response"]["error"]["code"], "provider_unavailable");
}
