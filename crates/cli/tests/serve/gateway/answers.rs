//! Answers of the model, whole and streamed.

use serde_json::json;
use testkit::{Delivery, ModelServer, Reply};

use super::{PATH, Read, body, emitted, gateway, lamp, reply, user};
use crate::program::folder;

const ANSWERING: &str = "<|channel|>analysis<|message|>Easy.<|end|>\
    <|start|>assistant<|channel|>final<|message|>It shines.<|return|>";
const CALLING: &str = "<|channel|>analysis<|message|>Light.<|end|>\
    <|start|>assistant<|channel|>commentary<|message|>I switch it on.<|end|>\
    <|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>\
    {\"on\": true}<|call|>";

#[test]
fn text_reasoning_and_calls_are_the_same_whole_and_streamed() {
    let tools = json!({"tools": [lamp(&json!({}))]});
    for delivery in [Delivery::Whole, Delivery::ByteByByte, Delivery::Random(7)] {
        let model = ModelServer::start_by(
            |request| {
                let prompt = request.body["prompt"].to_string();
                // The prompts differ in the number of their messages only.
                reply(if prompt.matches("200008").count() > 3 {
                    ANSWERING
                } else {
                    CALLING
                })
            },
            delivery,
        )
        .unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let call = Read::both(&served, &body(&json!([user("light")]), &tools));
        assert_eq!(call.reasoning, "Light.");
        assert_eq!(call.text, "I switch it on.");
        assert_eq!(
            call.calls,
            [("lamp".to_owned(), "{\"on\": true}".to_owned())]
        );
        assert_eq!(call.finish, "tool_calls");
        assert_eq!(call.usage["prompt_tokens"], 11);
        assert_eq!(call.usage["completion_tokens"], 7);

        let messages = json!([user("a"), {"role": "assistant", "content": "b"}, user("c")]);
        let answer = Read::both(&served, &body(&messages, &tools));
        assert_eq!(
            (answer.text.as_str(), answer.reasoning.as_str()),
            ("It shines.", "Easy.")
        );
        assert_eq!((answer.calls.len(), answer.finish.as_str()), (0, "stop"));
    }
}

#[test]
fn malformed_output_is_repaired_and_counted() {
    // A space after the channel, a missing end, a doubled stop, and a channel in a body.
    let cases = [
        (
            "header-repaired",
            "<|channel|> analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>\
            It shines.<|return|>",
        ),
        (
            "E-PARSE-HEADER",
            "<|channel|>analysis<|message|>Easy.<|start|>assistant<|channel|>final<|message|>\
            It shines.<|return|>",
        ),
        (
            "E-PARSE-TERMINATOR",
            "<|channel|>analysis<|message|>Easy.<|end|><|end|>\n<|start|>assistant<|channel|>final\
            <|message|>It shines.<|return|>",
        ),
        (
            "E-PARSE-HEADER",
            "<|channel|>analysis<|message|>Easy.<|channel|>final<|message|>It shines.<|return|>",
        ),
    ];
    for (code, case) in cases {
        let model = ModelServer::start(vec![reply(case)], Delivery::Whole).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let read = Read::both(&served, &body(&json!([user("light")]), &json!({})));
        assert_eq!(
            (read.text.as_str(), read.reasoning.as_str()),
            ("It shines.", "Easy."),
            "{case}"
        );
        let metrics = served.get("/metrics").text;
        assert!(
            metrics.contains(&format!(
                "logue_gateway_repairs_total{{code=\"{code}\"}} 2\n"
            )),
            "{case}: {metrics}"
        );
        assert!(
            metrics.contains("logue_gateway_requests_total{outcome=\"ok\"} 2\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("logue_gateway_tokens_total{kind=\"output\"} 14\n"),
            "{metrics}"
        );
    }
}

#[test]
fn an_answer_that_reaches_its_length_is_returned_with_that_reason() {
    let cases = [
        // Within the reasoning, the text, and the arguments of a call, which then does not run.
        ("<|channel|>analysis<|message|>Easy", "", "Easy"),
        (
            "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final\
                <|message|>It sh",
            "It sh",
            "Easy.",
        ),
        (
            "<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{\"on\":",
            "",
            "{\"on\":",
        ),
    ];
    for (case, text, reasoning) in cases {
        let cut = Reply::Completion(emitted(case).cut());
        let model = ModelServer::start(vec![cut], Delivery::Whole).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let tools = json!({"tools": [lamp(&json!({}))], "max_tokens": 5});
        let read = Read::both(&served, &body(&json!([user("light")]), &tools));
        assert_eq!(
            (read.text.as_str(), read.reasoning.as_str()),
            (text, reasoning)
        );
        assert_eq!((read.calls.len(), read.finish.as_str()), (0, "length"));
    }
}

#[test]
fn the_client_selects_the_field_of_the_reasoning() {
    let model = ModelServer::start(vec![reply(ANSWERING)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let cases = [
        (None, json!({}), Some("reasoning_content")),
        (Some("reasoning"), json!({}), Some("reasoning")),
        (
            None,
            json!({"reasoning_format": "reasoning"}),
            Some("reasoning"),
        ),
        (
            None,
            json!({"reasoning_format": "deepseek"}),
            Some("reasoning_content"),
        ),
        (None, json!({"reasoning_format": "none"}), None),
        (None, json!({"include_reasoning": false}), None),
        (Some("none"), json!({"reasoning_format": "reasoning"}), None),
    ];
    for (header, more, field) in cases {
        for is_stream in [false, true] {
            let mut body = body(&json!([user("light")]), &more);
            body["stream"] = json!(is_stream);
            let headers: Vec<(&str, &str)> = header
                .iter()
                .map(|word| ("x-logue-reasoning", *word))
                .collect();
            let text = served
                .request("POST", PATH, &headers, &body.to_string())
                .text;
            assert!(text.contains("shines"), "{text}");
            assert_eq!(text.contains("Easy"), field.is_some(), "{text}");
            if let Some(field) = field {
                assert!(text.contains(&format!("\"{field}\":\"")), "{text}");
            }
        }
    }
    let wrong = body(&json!([user("light")]), &json!({"reasoning_format": "all"}));
    assert_eq!(served.post(PATH, &wrong).status, 400);
}

#[test]
fn a_key_is_accepted_where_no_token_is_required() {
    let model = ModelServer::start(vec![reply(ANSWERING)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let headers = [("authorization", "Bearer sk-none")];
    let models = served.request("GET", "/v1/models", &headers, "").json();
    assert_eq!(models["data"][0]["id"], "gpt-oss-20b");
    assert_eq!(
        served.get("/v1/models/gpt-oss-20b").json()["id"],
        "gpt-oss-20b"
    );
    assert_eq!(served.get("/v1/models/other").status, 404);
    assert_eq!(served.get("/healthz").text, "ok\n");
    assert_eq!(served.get("/readyz").text, "ready\n");
}

/// The output of a model as a server sends it that returns text alone.
fn text_reply(text: &str) -> Reply {
    let pieces = text
        .split_inclusive('>')
        .map(|piece| (Vec::new(), piece.to_owned()));
    Reply::Completion(testkit::Completion::new(
        testkit::Wire::Plain,
        pieces.collect(),
    ))
}

#[test]
fn text_with_a_control_token_is_read_as_the_library_reads_it() {
    // Without a channel the text is reasoning, which clients never take for an answer.
    for (output, text, reasoning) in [
        ("<|message|>bare", "", "bare"),
        (
            "<|start|>assistant<|message|>hi there<|end|>",
            "",
            "hi there",
        ),
        ("<|channel|>final", "", ""),
        ("<|constrain|>json<|message|>{\"a\": 1}", "", "{\"a\": 1}"),
        ("<|channel|>final<|message|>It shines.", "It shines.", ""),
    ] {
        let ids = ModelServer::start(vec![reply(output)], Delivery::Whole).unwrap();
        let texts = ModelServer::start(vec![text_reply(output)], Delivery::Whole).unwrap();
        let folder = folder(&[]);
        for model in [&ids, &texts] {
            let served = gateway(folder.path(), &model.base_url(), &[]);
            let read = Read::both(&served, &body(&json!([user("light")]), &json!({})));
            assert_eq!(
                (read.text.as_str(), read.reasoning.as_str()),
                (text, reasoning),
                "{output}"
            );
        }
    }
    let model = ModelServer::start(vec![text_reply("It shines.")], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let served = gateway(folder.path(), &model.base_url(), &[]);
    let refused = served.post(PATH, &body(&json!([user("light")]), &json!({})));
    assert_eq!(refused.status, 502, "{refused:?}");
}

#[test]
fn a_preamble_and_an_answer_are_separated() {
    let output = "<|channel|>commentary<|message|>I look.<|end|>\
        <|start|>assistant<|channel|>final<|message|>It shines.<|return|>";
    for reply in [reply(output), text_reply(output)] {
        let model = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let folder = folder(&[]);
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let read = Read::both(&served, &body(&json!([user("light")]), &json!({})));
        assert_eq!(read.text, "I look.\n\nIt shines.");
        let request = json!({"model": super::MODEL, "input": "light"});
        let response = served.post("/v1/responses", &request).json();
        let items = response["output"].as_array().unwrap().iter();
        let texts: Vec<&str> = items
            .filter_map(|item| item["content"][0]["text"].as_str())
            .collect();
        assert_eq!(texts, ["I look.", "It shines."], "{response}");
    }
}
