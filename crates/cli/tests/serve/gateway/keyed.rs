//! Requests of a gateway under one `Idempotency-Key`: one request to the upstream server.

use serde_json::{Value, json};
use testkit::{Delivery, Gate, ModelServer, Reply};

use super::{PATH, Read, body, emitted, gateway, lamp, reply, user};
use crate::client::{Answered, Served};
use crate::program::folder;
use crate::waiting::wait_until;

const KEY: (&str, &str) = ("idempotency-key", "k");
const RESPONSES: &str = "/v1/responses";
const DONE: &str = "<|channel|>final<|message|>done<|return|>";
const CALL: &str = "<|channel|>analysis<|message|>dark<|end|><|start|>assistant<|channel|>commentary \
    to=functions.lamp <|constrain|>json<|message|>{\"on\":true}<|call|>";

/// Headers and a body that a key refuses, and the difference that the refusal names.
type Case<'a> = (&'a [(&'a str, &'a str)], Value, &'a str);

fn request(more: &Value) -> Value {
    body(&json!([user("go")]), more)
}

fn send(served: &Served, path: &str, headers: &[(&str, &str)], body: &Value) -> Answered {
    let headers = [&[KEY], headers].concat();
    served.request("POST", path, &headers, &body.to_string())
}

fn start(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

/// The output of a model whose second half waits.
fn gated(text: &str, gate: &Gate) -> Reply {
    let bytes = emitted(text).stream();
    let middle = bytes.len() / 2;
    Reply::Gated(
        vec![bytes[..middle].to_vec(), bytes[middle..].to_vec()],
        gate.clone(),
    )
}

#[test]
fn a_key_has_one_answer_while_it_arrives_and_later() {
    for is_stream in [false, true] {
        let gate = Gate::new();
        let model = start(vec![gated(CALL, &gate), reply(DONE)]);
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let body = request(&json!({"tools": [lamp(&json!({}))], "stream": is_stream}));
        // The first client leaves before the answer.
        let left = served.connect("POST", PATH, &[KEY], &body.to_string());
        wait_until(
            || "the model is not asked".to_owned(),
            || model.received().len() == 1,
        );
        drop(left.unwrap());
        let answers = std::thread::scope(|scope| {
            let own = [(); 3].map(|()| scope.spawn(|| send(&served, PATH, &[], &body)));
            gate.open();
            own.map(|task| task.join().unwrap())
        });
        let later = send(&served, PATH, &[], &body);
        let read = |answer: &Answered| {
            if is_stream {
                Read::stream(answer)
            } else {
                Read::whole(answer)
            }
        };
        let own = read(&later);
        assert_eq!(own.reasoning, "dark");
        assert_eq!(own.calls, [("lamp".to_owned(), "{\"on\":true}".to_owned())]);
        for answer in &answers {
            // With the same ids.
            assert_eq!(answer.text.trim(), later.text.trim());
        }
        assert_eq!(model.received().len(), 1);
        // Another key is another request.
        let other = [("idempotency-key", "l")];
        let other = served.request("POST", PATH, &other, &body.to_string());
        assert_eq!(read(&other).text, "done");
    }
}

#[test]
fn another_request_under_a_key_is_refused() {
    let model = start(vec![reply(DONE)]);
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let own = request(&json!({}));
    assert_eq!(send(&served, PATH, &[], &own).status, 200);
    let none = [("x-logue-reasoning", "none")];
    let cases: [Case<'_>; 3] = [
        (&[], request(&json!({"seed": 1})), "another body"),
        (&[], request(&json!({"stream": true})), "another body"),
        (&none, own.clone(), "another `X-Logue-Reasoning`"),
    ];
    for (headers, body, difference) in cases {
        let refused = send(&served, PATH, headers, &body);
        assert_eq!(refused.status, 409, "{refused:?}");
        let error = &refused.json()["error"];
        assert_eq!(error["code"], "idempotency_key_reused", "{refused:?}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(difference), "{message}");
    }
    let invalid = served.request("POST", PATH, &[("idempotency-key", "")], &own.to_string());
    assert_eq!(invalid.status, 400, "{invalid:?}");
    assert_eq!(model.received().len(), 1);
    // Each API has its own keys.
    let input = json!({"model": super::MODEL, "input": "go"});
    let response = send(&served, RESPONSES, &[], &input);
    assert_eq!(response.status, 200, "{response:?}");
    let again = send(&served, RESPONSES, &[], &input);
    assert_eq!(again.json(), response.json());
    let streamed = json!({"model": super::MODEL, "input": "go", "stream": true});
    assert_eq!(send(&served, RESPONSES, &[], &streamed).status, 409);
    assert_eq!(model.received().len(), 2);
}

#[test]
fn a_request_that_failed_is_tried_again_under_its_key() {
    let failed = Reply::Status(503, Vec::new(), "{}".to_owned());
    let model = start(vec![failed, reply(DONE)]);
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let body = request(&json!({}));
    assert_eq!(send(&served, PATH, &[], &body).status, 503);
    let first = send(&served, PATH, &[], &body);
    assert_eq!(Read::whole(&first).text, "done");
    assert_eq!(send(&served, PATH, &[], &body).json(), first.json());
    assert_eq!(model.received().len(), 2);
}

#[test]
fn a_repeated_request_takes_no_place() {
    let gate = Gate::new();
    let model = start(vec![gated(DONE, &gate)]);
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &["--max-concurrent", "1"]);
    let body = request(&json!({}));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| send(&served, PATH, &[], &body));
        wait_until(
            || "the model is not asked".to_owned(),
            || model.received().len() == 1,
        );
        assert_eq!(served.post(PATH, &body).status, 429);
        let again = scope.spawn(|| send(&served, PATH, &[], &body));
        gate.open();
        for task in [first, again] {
            assert_eq!(Read::whole(&task.join().unwrap()).text, "done");
        }
    });
    assert_eq!(model.received().len(), 1);
}
