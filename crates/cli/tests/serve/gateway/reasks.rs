//! Arguments and answers that violate their schemas, and the one re-ask.

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer};

use super::{PATH, Read, body, gateway, lamp, prompts, reply, user};
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
