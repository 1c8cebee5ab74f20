//! Log probabilities: what the upstream server is asked for, and which tokens a client receives.

use serde_json::{Value, json};
use testkit::{Completion, Delivery, ModelServer, Reply, Wire};

use super::{MODEL, PATH, body, emitted, gateway, lamp, user};
use crate::program::folder;

const OUTPUT: &str = "<|channel|>analysis<|message|>Secret plan 👋🏽 here.<|end|>\
    <|start|>assistant<|channel|>final<|message|>It shines 👋🏽 brightly.<|return|>";
const TEXT: &str = "It shines 👋🏽 brightly.";
/// A preamble, a call, and a body with a channel, which is repaired.
const CALLING: &str = "<|channel|>analysis<|message|>Secret.<|end|>\
    <|start|>assistant<|channel|>commentary<|message|>I switch it on.<|end|>\
    <|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>\
    {\"on\": true}<|call|>";
const REPAIRED: &str =
    "<|channel|>analysis<|message|>Secret.<|channel|>final<|message|>It shines.<|return|>";

fn asked(more: &Value) -> Value {
    let mut own = json!({"logprobs": true, "top_logprobs": 2});
    let fields = own.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    body(&json!([user("light")]), &own)
}

/// Returns the text of tokens by their bytes, and checks values and alternatives.
fn text_of(tokens: &[Value]) -> String {
    let mut bytes = Vec::new();
    let mut last = 0.0;
    for token in tokens {
        let own = token["logprob"].as_f64().unwrap();
        assert!(own < last, "{token}");
        last = own;
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 2, "{token}");
        // An alternative is a whole token, also where the text has a part of it.
        assert_eq!(top[0]["logprob"], token["logprob"]);
        let whole = top[0]["token"].as_str().unwrap();
        assert!(whole.contains(token["token"].as_str().unwrap()), "{token}");
        assert_eq!(top[1]["token"], "?");
        let own: Vec<u8> = serde_json::from_value(token["bytes"].clone()).unwrap();
        bytes.extend(own);
    }
    String::from_utf8(bytes).unwrap()
}

fn chunks(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = data.filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// Returns the tokens of a request, which are the same whole and streamed.
fn tokens(served: &crate::client::Served, request: &Value) -> Vec<Value> {
    let whole = served.post(PATH, request);
    assert_eq!(whole.status, 200, "{whole:?}");
    let whole = whole.json()["choices"][0]["logprobs"]["content"].clone();
    let whole: Vec<Value> = whole.as_array().cloned().unwrap_or_default();
    let mut request = request.clone();
    request["stream"] = json!(true);
    let streamed = served.post(PATH, &request);
    let mut all = Vec::new();
    for chunk in chunks(&streamed.text) {
        let own = &chunk["choices"][0];
        let tokens = own["logprobs"]["content"].as_array();
        if !own["delta"]["content"].is_string() || own["delta"]["content"] == "" {
            assert!(tokens.is_none(), "{chunk}");
        }
        all.extend(tokens.into_iter().flatten().cloned());
    }
    assert_eq!(all, whole);
    all
}

#[test]
fn tokens_of_visible_text_have_their_log_probabilities() {
    for delivery in [Delivery::Whole, Delivery::Random(3)] {
        let reply = |_: &_| Reply::Completion(emitted(OUTPUT).with_logprobs());
        let model = ModelServer::start_by(reply, delivery).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        assert_eq!(text_of(&tokens(&served, &asked(&json!({})))), TEXT);
        let request = &model.received()[0].body;
        assert_eq!(request["logprobs"], 2);
        // Without alternatives, and without the request.
        let answer = served
            .post(PATH, &asked(&json!({"top_logprobs": 0})))
            .json();
        let first = &answer["choices"][0]["logprobs"]["content"][0];
        assert_eq!(first["top_logprobs"], json!([]));
        assert!(first["logprob"].is_number());
        let answer = served.post(PATH, &body(&json!([user("light")]), &json!({})));
        assert_eq!(answer.json()["choices"][0]["logprobs"], Value::Null);
        let last = &model.received().pop().unwrap().body;
        assert_eq!(last.get("logprobs"), None);
    }
}

#[test]
fn servers_of_each_kind_are_asked_in_their_form() {
    let cases = [
        (Wire::VllmIds, "vllm", "logprobs"),
        (Wire::Llama, "llama.cpp", "n_probs"),
        (Wire::Plain, "plain", "logprobs"),
    ];
    for (wire, name, field) in cases {
        let output = OUTPUT.replace("👋🏽 ", "");
        let ids = logue_o200k::encode_with_specials(&output, &logue_o200k::SpecialSet::HARMONY);
        let pieces = ids
            .iter()
            .map(|id| (vec![*id], logue_o200k::decode_lossy(&[*id])));
        let completion = Completion::new(wire, pieces.collect()).with_logprobs();
        let reply = move |_: &_| Reply::Completion(completion.clone());
        let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
        let settings = format!("[model.harmony]\nserver = \"{name}\"\n");
        let folder = folder(&[("logue.toml", &settings)]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let text = text_of(&tokens(&served, &asked(&json!({}))));
        assert_eq!(text, TEXT.replace("👋🏽 ", ""), "{name}");
        assert_eq!(model.received()[0].body[field], 2, "{name}");
    }
}

#[test]
fn hidden_and_repaired_tokens_are_left_out() {
    let cases = [(CALLING, "I switch it on."), (REPAIRED, "It shines.")];
    for (output, text) in cases {
        let reply = move |_: &_| Reply::Completion(emitted(output).with_logprobs());
        let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let more = json!({"tools": [lamp(&json!({}))], "include_reasoning": false});
        let request = asked(&more);
        assert_eq!(text_of(&tokens(&served, &request)), text);
        let answer = served.post(PATH, &request).text;
        assert!(!answer.contains("Secret"), "{answer}");
    }
}

/// Pieces of which some contain text and a control token, or a part of one.
const MIXED: [&[&str]; 5] = [
    &[
        "<|channel|>analysis<|message|>Se",
        "cret.<|end|><|start|>assistant<|channel|>final<|message|>It",
        " shines.<|return|>",
    ],
    &[
        "<|channel|>final<|mess",
        "age|>It",
        " shines.<|",
        "return|>",
    ],
    &[
        "<|channel|>final<|message|>",
        "It",
        " shi",
        "nes.<|return|>",
    ],
    &[
        "<|channel|>commentary<|message|>It",
        " shines.<|e",
        "nd|><|start|>assistant<|channel|>analysis<|message|>Secret.<|return|>",
    ],
    &["<|channel|>final<|message|>It shines.<|return|>"],
];

#[test]
fn a_token_with_a_marker_has_the_bytes_of_its_text() {
    for pieces in MIXED {
        for delivery in [Delivery::Whole, Delivery::Random(5)] {
            let own = pieces.iter().map(|piece| (Vec::new(), (*piece).to_owned()));
            let completion = Completion::new(Wire::Plain, own.collect()).with_logprobs();
            let reply = move |_: &_| Reply::Completion(completion.clone());
            let model = ModelServer::start_by(reply, delivery).unwrap();
            let settings = "[model.harmony]\nserver = \"plain\"\n";
            let folder = folder(&[("logue.toml", settings)]);
            let served = gateway(folder.path(), &model.base_url(), &[]);
            let request = asked(&json!({"include_reasoning": false}));
            let whole = served.post(PATH, &request).json();
            let choice = &whole["choices"][0];
            assert_eq!(choice["message"]["content"], "It shines.", "{pieces:?}");
            let mut streamed = request.clone();
            streamed["stream"] = json!(true);
            let chunks = chunks(&served.post(PATH, &streamed).text);
            let streamed = chunks
                .iter()
                .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
            let streamed: Vec<Value> = streamed.flatten().cloned().collect();
            let listed = choice["logprobs"]["content"].as_array();
            assert_eq!(Some(&streamed), listed, "{pieces:?}");
            let tokens: String = streamed
                .iter()
                .map(|own| own["token"].as_str().unwrap())
                .collect();
            let bytes = streamed
                .iter()
                .flat_map(|own| serde_json::from_value::<Vec<u8>>(own["bytes"].clone()).unwrap());
            let bytes: Vec<u8> = bytes.collect();
            assert_eq!(bytes, b"It shines.", "{pieces:?} {streamed:?}");
            assert_eq!(tokens, "It shines.", "{pieces:?}");
        }
    }
}

#[test]
fn a_first_answer_that_violates_its_schema_leaves_no_tokens() {
    let model = ModelServer::start_by(
        |request| {
            let is_second = request.body["prompt"].to_string().matches("200008").count() > 3;
            let json = if is_second {
                "```json\n{\"a\": 1}\n```"
            } else {
                "{\"a\": \"first\"}"
            };
            let output = format!("<|channel|>final<|message|>{json}<|return|>");
            Reply::Completion(emitted(&output).with_logprobs())
        },
        Delivery::Whole,
    )
    .unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let tokens = tokens(&served, &asked(&json!({ "response_format": format })));
    let text = text_of(&tokens);
    assert_eq!(text, "{\"a\": 1}");
}

#[test]
fn an_upstream_server_without_log_probabilities_gives_null() {
    let reply = |_: &_| Reply::Completion(emitted(OUTPUT));
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let answer = served.post(PATH, &asked(&json!({}))).json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], TEXT);
    assert_eq!(choice.get("logprobs"), Some(&Value::Null));
    for (more, param) in [
        (json!({"top_logprobs": 21}), "top_logprobs"),
        (json!({"logprobs": false}), "top_logprobs"),
    ] {
        let refused = served.post(PATH, &asked(&more));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.json()["error"]["param"], param);
    }
}

#[test]
fn a_response_includes_them_on_request() {
    let reply = |_: &_| Reply::Completion(emitted(OUTPUT).with_logprobs());
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let request = json!({"model": MODEL, "input": "light", "top_logprobs": 2,
        "include": ["message.output_text.logprobs"]});
    let message = |response: &Value| {
        let items = response["output"].as_array().unwrap().iter();
        let mut messages = items.filter(|item| item["type"] == "message");
        messages.next().unwrap()["content"][0].clone()
    };
    let whole = served.post("/v1/responses", &request).json();
    let part = message(&whole);
    assert_eq!(text_of(part["logprobs"].as_array().unwrap()), TEXT);
    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let events = chunks(&served.post("/v1/responses", &streamed).text);
    let of_kind = |kind: &str| {
        let own = events.iter().filter(move |event| event["type"] == kind);
        own.cloned().collect::<Vec<Value>>()
    };
    let deltas = of_kind("response.output_text.delta");
    let tokens = deltas
        .iter()
        .flat_map(|event| event["logprobs"].as_array().unwrap().clone());
    let tokens: Vec<Value> = tokens.collect();
    assert_eq!(text_of(&tokens), TEXT);
    let done = of_kind("response.output_text.done");
    assert_eq!(done[0]["logprobs"], json!(tokens));
    let end = of_kind("response.completed");
    assert_eq!(message(&end[0]["response"])["logprobs"], json!(tokens));
    // Not included.
    let mut without = request;
    without["include"] = json!([]);
    let without = served.post("/v1/responses", &without).json();
    assert_eq!(message(&without)["logprobs"], json!([]));
}
