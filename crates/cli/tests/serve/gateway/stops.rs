//! Stop strings of clients: the text before them, and calls that they cut.

use serde_json::{Value, json};
use testkit::{Completion, Delivery, ModelServer, Reply, Wire};

use super::{PATH, Read, body, emitted, gateway, lamp, user};
use crate::client::Served;
use crate::program::{folder, logue};

/// The output of a model, the stop strings, and the visible text.
const CASES: [(&str, &[&str], &str); 9] = [
    // The ids of the stop string are part of the output.
    ("<|channel|>final<|message|>Hello END", &["END"], "Hello "),
    (
        "<|channel|>analysis<|message|>The END.<|end|><|start|>assistant<|channel|>final<|message|>Hello END",
        &["END"],
        "Hello ",
    ),
    // The stop string begins and ends within tokens, and the server does not stop.
    (
        "<|channel|>final<|message|>Hello world and more<|return|>",
        &["xyz", "lo w"],
        "Hel",
    ),
    (
        "<|channel|>final<|message|>sch\u{f6}n<|return|>",
        &["\u{f6}"],
        "sch",
    ),
    // The one that is complete first counts.
    (
        "<|channel|>final<|message|>one two three<|return|>",
        &["two three", "wo"],
        "one t",
    ),
    // A beginning of a stop string is text.
    (
        "<|channel|>final<|message|>An EN is no E, nor EN<|return|>",
        &["END"],
        "An EN is no E, nor EN",
    ),
    (
        "<|channel|>final<|message|>aab aaab<|return|>",
        &["aaab"],
        "aab ",
    ),
    (
        "<|channel|>commentary<|message|>I look END up.<|end|><|start|>assistant<|channel|>final<|message|>Never.<|return|>",
        &["END"],
        "I look ",
    ),
    (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>It END",
        &["END"],
        "I look.\n\nIt ",
    ),
];

fn text_of(tokens: &Value) -> String {
    let tokens = tokens.as_array().into_iter().flatten();
    let bytes = tokens.flat_map(|token| {
        let own: Vec<u8> = serde_json::from_value(token["bytes"].clone()).unwrap();
        own
    });
    String::from_utf8(bytes.collect()).unwrap()
}

#[test]
fn the_text_ends_before_the_first_stop_string() {
    let folder = folder(&[]);
    for (output, stops, text) in CASES {
        for delivery in [Delivery::Whole, Delivery::ByteByByte, Delivery::Random(5)] {
            let reply = Reply::Completion(emitted(output).with_logprobs());
            let model = ModelServer::start(vec![reply], delivery).unwrap();
            let served = gateway(folder.path(), &model.base_url(), &[]);
            let request = body(
                &json!([user("go")]),
                &json!({"stop": stops, "logprobs": true}),
            );
            let read = Read::both(&served, &request);
            assert_eq!((read.text.as_str(), read.finish.as_str()), (text, "stop"));
            // The tokens have the bytes of the text; the blank line between two messages has none.
            let answer = served.post(PATH, &request).json();
            let tokens = text_of(&answer["choices"][0]["logprobs"]["content"]);
            assert_eq!(tokens, text.replace("\n\n", ""), "{output}");
            assert_eq!(model.received()[0].body["stop"], json!(stops));
        }
    }
}

#[test]
fn the_text_of_a_server_without_ids_ends_there_as_well() {
    let folder = folder(&[]);
    for (output, stops, text) in CASES {
        let pieces = output.split_inclusive(['>', 'E', 'l', ' ']);
        let pieces = pieces.map(|piece| (Vec::new(), piece.to_owned()));
        let output = Completion::new(Wire::Plain, pieces.collect());
        let model = ModelServer::start(vec![Reply::Completion(output)], Delivery::Whole).unwrap();
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let request = body(&json!([user("go")]), &json!({ "stop": stops }));
        let read = Read::both(&served, &request);
        assert_eq!((read.text.as_str(), read.finish.as_str()), (text, "stop"));
    }
}

/// Serves an agent on a gpt-oss model.
fn agent(folder: &std::path::Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md"])
}

#[test]
fn the_text_of_an_agent_ends_before_the_stop_string() {
    let output = emitted("<|channel|>final<|message|>Hello END");
    let model = ModelServer::start(vec![Reply::Completion(output)], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"harmony:m\"/>\n")]);
    let served = agent(folder.path(), &model);
    let request = json!({"model": "agent", "messages": [user("go")], "stop": ["END"]});
    let answer = served.post(PATH, &request);
    assert_eq!(answer.status, 200, "{answer:?}");
    let choice = &answer.json()["choices"][0];
    assert_eq!(choice["message"]["content"], "Hello ");
    assert_eq!(choice["finish_reason"], "stop");
    let mut streamed = request;
    streamed["stream"] = json!(true);
    let read = Read::stream(&served.post(PATH, &streamed));
    assert_eq!(
        (read.text.as_str(), read.finish.as_str()),
        ("Hello ", "stop")
    );
}

#[test]
fn a_call_that_a_stop_string_cuts_is_not_returned() {
    let call = |arguments: &str| {
        format!("<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{arguments}")
    };
    let folder = folder(&[]);
    // The server may name the stop string, which the arguments may seem to complete.
    let cases = [
        (r#"{"on": trEND"#, "END", None, false),
        (r#"{"on": trEND"#, "END", Some("END"), false),
        (r#"{"on": true}"#, "}", Some("}"), false),
        (r#"{"on": true}"#, "}}", None, true),
        (r#"{"on": true}<|call|>"#, "true", None, true),
    ];
    for (arguments, stop, reported, is_whole) in cases {
        let mut output = emitted(&call(arguments));
        if let Some(word) = reported {
            output = output.stopped_by(word);
        }
        let model = ModelServer::start(vec![Reply::Completion(output)], Delivery::Whole).unwrap();
        let served = gateway(folder.path(), &model.base_url(), &[]);
        let more = json!({"tools": [lamp(&json!({}))], "stop": stop});
        let read = Read::both(&served, &body(&json!([user("light")]), &more));
        if is_whole {
            let own = ("lamp".to_owned(), r#"{"on": true}"#.to_owned());
            assert_eq!(
                (read.calls, read.finish.as_str()),
                (vec![own], "tool_calls")
            );
        } else {
            assert_eq!((read.calls.len(), read.finish.as_str()), (0, "stop"));
            assert_eq!(read.reasoning, arguments);
        }
        // Nothing is asked for again.
        assert_eq!(model.received().len(), 2, "{arguments}");
    }
}
