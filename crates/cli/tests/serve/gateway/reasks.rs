//! Arguments and answers that violate their schemas, and the one re-ask.

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

use super::{MODEL, PATH, Read, body, emitted, gateway, lamp, prompts, reply, user};
use crate::program::folder;

fn call(arguments: &str) -> String {
    format!(
        "<|channel|>analysis<|message|>Light.<|end|><|start|>assistant<|channel|>commentary \
         to=functions.lamp <|constrain|>json<|message|>{arguments}<|call|>"
    )
}

/// Starts a model that answers a prompt with an error result by the second output.
fn model(first: &str, second: &str) -> ModelServer {
    let (first, second) = (first.to_owned(), second.to_owned());
    ModelServer::start_by(
        move |request| {
            let ids: Vec<u32> = serde_json::from_value(request.body["prompt"].clone()).unwrap();
            let text = logue_o200k::decode_lossy(&ids);
            let is_second = text.contains("tool_arguments_invalid")
                || text.contains("does not meet the JSON Schema");
            reply(if is_second { &second } else { &first })
        },
        Delivery::Whole,
    )
    .unwrap()
}

fn light(more: &Value) -> Value {
    body(&json!([user("light")]), &json!({"tools": [lamp(more)]}))
}

#[test]
fn invalid_arguments_are_asked_for_again_and_never_leave() {
    for first in [r#"{"on": "yes"}"#, "{}", r#"{"on": tru"#] {
        let model = model(&call(first), &call(r#"{"on":false}"#));
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let read = Read::both(&served, &light(&json!({})));
        assert_eq!(
            read.calls,
            [("lamp".to_owned(), r#"{"on":false}"#.to_owned())]
        );
        assert_eq!(read.reasoning, "Light.\n\nLight.");
        assert_eq!(read.finish, "tool_calls");
        assert_eq!(read.usage["completion_tokens"], 14);
        let prompts = prompts(&model);
        assert_eq!(prompts.len(), 4);
        let second = logue_o200k::decode_lossy(&prompts[1]);
        assert!(second.contains(first), "{second}");
        assert!(second.contains("\"violations\":["), "{second}");
        let metrics = served.get("/metrics").text;
        let count = "logue_gateway_reasks_total{cause=\"tool_arguments\"} 2\n";
        assert!(metrics.contains(count), "{metrics}");
    }
}

#[test]
fn arguments_that_are_invalid_twice_end_a_strict_request_with_an_error() {
    let model = model(&call("{}"), &call(r#"{"on": 1}"#));
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let strict = light(&json!({"strict": true}));
    let answer = served.post(PATH, &strict);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "tool_arguments_invalid");
    let mut streamed = strict;
    streamed["stream"] = json!(true);
    let answer = served.post(PATH, &streamed).text;
    assert!(answer.contains("tool_arguments_invalid"), "{answer}");
    assert!(!answer.contains("tool_calls"), "{answer}");
    assert_eq!(model.received().len(), 4);

    // Without `strict` the client receives the second answer as it is.
    let read = Read::both(&served, &light(&json!({})));
    assert_eq!(read.calls, [("lamp".to_owned(), r#"{"on": 1}"#.to_owned())]);
    assert_eq!(model.received().len(), 8);
}

#[test]
fn a_function_without_parameters_accepts_all_arguments() {
    let model = model(&call("anything"), "");
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let read = Read::both(&served, &light(&json!({"parameters": null})));
    assert_eq!(read.calls, [("lamp".to_owned(), "anything".to_owned())]);
    assert_eq!(model.received().len(), 2);
}

#[test]
fn an_answer_meets_its_schema_after_at_most_one_re_ask() {
    let answer = |text: &str| format!("<|channel|>final<|message|>{text}<|return|>");
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"]});
    let format = json!({"response_format": {"type": "json_schema",
        "json_schema": {"name": "number", "schema": schema}}});
    let request = body(&json!([user("a number")]), &format);
    let folder = folder(&[]);

    let upstream = model(
        &answer(r#"{"n": "one"}"#),
        &answer("```json\n{\"n\": 1}\n```"),
    );
    let served = gateway(folder.path(), &upstream.base_url(), &[]);
    assert_eq!(Read::both(&served, &request).text, r#"{"n": 1}"#);
    assert_eq!(upstream.received().len(), 4);
    let metrics = served.get("/metrics").text;
    let count = "logue_gateway_reasks_total{cause=\"response_schema\"} 2\n";
    assert!(metrics.contains(count), "{metrics}");

    let upstream = model(&answer("one"), &answer("two"));
    let served = gateway(folder.path(), &upstream.base_url(), &[]);
    let refused = served.post(PATH, &request);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "structured_output_invalid");
}

/// A request in each API for an object with a number.
fn numbers() -> [(&'static str, Value); 2] {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"]});
    let format = json!({"response_format": {"type": "json_schema",
        "json_schema": {"name": "number", "schema": schema}}});
    let chat = body(&json!([user("a number")]), &format);
    let response = json!({"model": MODEL, "input": "a number",
        "text": {"format": {"type": "json_schema", "name": "number", "schema": schema}}});
    [(PATH, chat), ("/v1/responses", response)]
}

#[test]
fn an_empty_answer_is_asked_for_again() {
    let empty = [
        "<|return|>",
        "<|channel|>final<|message|><|return|>",
        "<|channel|>analysis<|message|>A number.<|return|>",
    ];
    let folder = folder(&[]);
    let valid = r#"<|channel|>final<|message|>{"n": 1}<|return|>"#;
    for first in empty {
        let upstream = model(first, valid);
        let served = gateway(folder.path(), &upstream.base_url(), &[]);
        let [(_, chat), (path, response)] = numbers();
        assert_eq!(Read::both(&served, &chat).text, r#"{"n": 1}"#);
        let answer = served.post(path, &response);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.text.contains(r#"{\"n\": 1}"#), "{answer:?}");
        assert_eq!(upstream.received().len(), 6);

        let upstream = model(first, first);
        let served = gateway(folder.path(), &upstream.base_url(), &[]);
        for (path, request) in numbers() {
            let refused = served.post(path, &request);
            assert_eq!(refused.status, 422, "{refused:?}");
            let code = &refused.json()["error"]["code"];
            assert_eq!(code, "structured_output_invalid", "{refused:?}");
            let mut streamed = request;
            streamed["stream"] = json!(true);
            let streamed = served.post(path, &streamed).text;
            assert!(streamed.contains("structured_output_invalid"), "{streamed}");
        }
        assert_eq!(upstream.received().len(), 8);
    }
}

#[test]
fn a_preamble_does_not_invalidate_an_answer() {
    let output = "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant\
        <|channel|>commentary<|message|>Here: {\"n\": 1}<|end|><|start|>assistant\
        <|channel|>final<|message|>{\"n\": 1}<|return|>";
    let reply = Reply::Completion(emitted(output).with_logprobs());
    let upstream = ModelServer::start(vec![reply], Delivery::Random(3)).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &upstream.base_url(), &[]);
    let [(_, mut chat), (path, response)] = numbers();
    chat["logprobs"] = json!(true);
    let read = Read::both(&served, &chat);
    assert_eq!(read.text, r#"{"n": 1}"#);
    assert_eq!(read.reasoning, "Think.\n\nHere: {\"n\": 1}");
    let answer = served.post(PATH, &chat).json();
    let tokens = answer["choices"][0]["logprobs"]["content"].clone();
    let tokens = tokens.as_array().unwrap().iter();
    // The tokens are those of the answer, which come last.
    let last = tokens.clone().next_back().unwrap()["logprob"].as_f64();
    let ids = logue_o200k::encode_with_specials(output, &logue_o200k::SpecialSet::HARMONY);
    assert_eq!(last, Some(testkit::Completion::logprob(ids.len() - 2)));
    let bytes = tokens.flat_map(|token| token["bytes"].as_array().unwrap().clone());
    let bytes = bytes.map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap());
    assert_eq!(bytes.collect::<Vec<u8>>(), read.text.as_bytes());

    let answer = served.post(path, &response).json();
    let items = answer["output"].as_array().unwrap().iter();
    let messages: Vec<&Value> = items.filter(|item| item["type"] == "message").collect();
    assert_eq!(messages.len(), 1, "{answer}");
    assert_eq!(messages[0]["content"][0]["text"], r#"{"n": 1}"#);
    assert_eq!(upstream.received().len(), 4);
}
