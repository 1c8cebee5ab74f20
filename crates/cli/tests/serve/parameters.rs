//! Parameters of OpenAI clients: honoured, refused with their name, or ignored.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\" max_tokens=\"500\"/>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn schema() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
}

fn serve(folder: &std::path::Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md", "--permission", "work=allow"])
}

/// A model that says a text and calls a tool, answers wrongly, and then rightly.
fn structured() -> ModelServer {
    let answer = |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let has_result = messages.iter().any(|message| message["role"] == "tool");
        let has_wrong = messages
            .iter()
            .any(|message| message["content"] == "{\"a\": \"b\"}");
        Reply::Answer(match (has_result, has_wrong) {
            (false, _) => Answer::text("I look.").with_call("c1", "work", "{}"),
            (true, false) => Answer::text("{\"a\": \"b\"}"),
            (true, true) => Answer::text("{\"a\": 1}"),
        })
    };
    ModelServer::start_by(answer, Delivery::Whole).unwrap()
}

fn data(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = data.filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[test]
fn an_answer_of_chat_completions_has_the_form_of_its_schema() {
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema()}});
    for headers in [&[][..], &[("x-logue-session", "s1")][..]] {
        for is_stream in [false, true] {
            let model = structured();
            let folder = folder(&[("agent.md", AGENT)]);
            let served = serve(folder.path(), &model);
            let body = json!({"model": "agent", "response_format": format, "stream": is_stream,
                "messages": [{"role": "user", "content": "go"}]});
            let answer = served.request("POST", CHAT, headers, &body.to_string());
            assert_eq!(answer.status, 200, "{answer:?}");
            let text = if is_stream {
                let chunks = data(&answer.text);
                let pieces = chunks.iter();
                let pieces =
                    pieces.filter_map(|own| own["choices"][0]["delta"]["content"].as_str());
                pieces.collect()
            } else {
                let body = answer.json();
                body["choices"][0]["message"]["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            assert_eq!(text, "{\"a\": 1}");
            assert_eq!(model.received().len(), 3);
        }
    }
}

#[test]
fn a_response_has_the_form_of_its_schema_also_after_a_restart() {
    let format = json!({"type": "json_schema", "name": "a", "schema": schema()});
    for is_stored in [true, false] {
        let model = structured();
        let folder = folder(&[("agent.md", AGENT)]);
        let served = serve(folder.path(), &model);
        let mut body = json!({"model": "agent", "input": "go", "store": is_stored,
            "text": {"format": format}});
        let whole = served.post(RESPONSES, &body).json();
        assert_eq!(whole["status"], "completed", "{whole}");
        assert_eq!(whole["text"]["format"], format);
        let texts = |response: &Value| {
            let items = response["output"].as_array().unwrap().iter();
            let items = items.filter(|item| item["type"] == "message");
            items
                .map(|item| item["content"][0]["text"].clone())
                .collect::<Vec<Value>>()
        };
        assert_eq!(texts(&whole), ["{\"a\": 1}"]);
        body["stream"] = json!(true);
        let events = data(&served.post(RESPONSES, &body).text);
        let done = events
            .iter()
            .filter(|own| own["type"] == "response.output_text.done");
        let done: Vec<&Value> = done.map(|own| &own["text"]).collect();
        assert_eq!(done, ["{\"a\": 1}"]);
        if is_stored {
            served.kill();
            let served = serve(folder.path(), &model);
            let path = format!("{RESPONSES}/{}", whole["id"].as_str().unwrap());
            assert_eq!(served.get(&path).json(), whole);
        }
    }
}

#[test]
fn an_answer_that_stays_wrong_is_an_error() {
    let answer = |_: &Received| Reply::Answer(Answer::text("no JSON"));
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let format = json!({"type": "json_object"});
    let body = json!({"model": "agent", "response_format": format,
        "messages": [{"role": "user", "content": "go"}]});
    let answer = served.post(CHAT, &body);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "structured_output_invalid");
    let body = json!({"model": "agent", "input": "go", "text": {"format": format}});
    let answer = served.post(RESPONSES, &body);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "structured_output_invalid");
}

#[test]
fn stop_texts_and_a_lower_limit_of_tokens_reach_the_model() {
    let answer = |_: &Received| Reply::Answer(Answer::text("yes"));
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let user = json!([{"role": "user", "content": "go"}]);
    let cases = [
        (
            CHAT,
            json!({"stop": "END", "max_tokens": 7}),
            json!(["END"]),
            7,
        ),
        (
            CHAT,
            json!({"stop": ["A", "B"], "max_completion_tokens": 8}),
            json!(["A", "B"]),
            8,
        ),
        (CHAT, json!({"max_tokens": 9_000}), Value::Null, 500),
        (RESPONSES, json!({"max_output_tokens": 9}), Value::Null, 9),
        (
            RESPONSES,
            json!({"max_output_tokens": 9, "store": false}),
            Value::Null,
            9,
        ),
        (CHAT, json!({}), Value::Null, 500),
    ];
    for (number, (path, more, stop, most)) in cases.into_iter().enumerate() {
        let mut body = json!({"model": "agent", "messages": user, "input": "go"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = served.post(path, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let sent = &model.received()[number].body;
        assert_eq!(sent["stop"], stop, "{more}");
        let limit = sent.get("max_completion_tokens").or(sent.get("max_tokens"));
        assert_eq!(limit, Some(&json!(most)), "{more}");
    }
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    let model = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let tool = json!([{"type": "function", "name": "f", "function": {"name": "f"}}]);
    let list = json!({"type": "json_schema", "name": "a", "schema": {"type": "array"},
        "json_schema": {"schema": {"type": "array"}}});
    let cases = [
        (CHAT, json!({"n": 2}), "n"),
        (CHAT, json!({"tools": tool}), "tools"),
        (CHAT, json!({"tool_choice": "required"}), "tool_choice"),
        (
            CHAT,
            json!({"tool_choice": {"type": "function"}}),
            "tool_choice",
        ),
        (CHAT, json!({"functions": tool}), "functions"),
        (CHAT, json!({"response_format": list}), "response_format"),
        (
            CHAT,
            json!({"response_format": {"type": "grammar"}}),
            "response_format",
        ),
        (CHAT, json!({"stop": [1]}), "stop"),
        (CHAT, json!({"max_tokens": 0}), "max_tokens"),
        (CHAT, json!({"modalities": ["text", "audio"]}), "modalities"),
        (CHAT, json!({"audio": {"voice": "a"}}), "audio"),
        (CHAT, json!({"logit_bias": {"1": -100}}), "logit_bias"),
        (
            CHAT,
            json!({"web_search_options": {}}),
            "web_search_options",
        ),
        (RESPONSES, json!({"tools": tool}), "tools"),
        (RESPONSES, json!({"tool_choice": "required"}), "tool_choice"),
        (RESPONSES, json!({"text": {"format": list}}), "text.format"),
        (
            RESPONSES,
            json!({"max_output_tokens": 0}),
            "max_output_tokens",
        ),
        (RESPONSES, json!({"max_tool_calls": 1}), "max_tool_calls"),
        (RESPONSES, json!({"prompt": {"id": "p"}}), "prompt"),
    ];
    for (path, more, param) in cases {
        let user = json!([{"role": "user", "content": "go"}]);
        let mut body = json!({"model": "agent", "messages": user, "input": "go"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = served.post(path, &body);
        assert_eq!(answer.status, 400, "{more}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(
            (&error["param"], &error["type"]),
            (&json!(param), &json!("invalid_request_error")),
            "{more}"
        );
    }
    assert!(model.received().is_empty());
}

#[test]
fn what_is_harmless_is_ignored() {
    let answer = |_: &Received| Reply::Answer(Answer::text("yes"));
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}],
        "n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"},
        "temperature": 0.3, "top_p": 0.5, "seed": 1, "logprobs": true, "top_logprobs": 2,
        "frequency_penalty": 1, "presence_penalty": 1, "parallel_tool_calls": false,
        "reasoning_effort": "low", "modalities": ["text"], "user": "u", "metadata": {"a": "b"},
        "store": true, "service_tier": "auto", "logit_bias": {}, "stop": null});
    let answer = served.post(CHAT, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let choice = &answer.json()["choices"][0];
    assert_eq!(choice["message"]["content"], "yes");
    assert_eq!(choice["logprobs"], Value::Null);
    let body = json!({"model": "agent", "input": "go", "tools": [], "tool_choice": "auto",
        "temperature": 0.3, "top_p": 0.5, "top_logprobs": 2, "truncation": "auto",
        "include": ["message.output_text.logprobs"], "reasoning": {"effort": "low"},
        "parallel_tool_calls": false, "text": {"format": {"type": "text"}, "verbosity": "low"},
        "user": "u", "service_tier": "auto"});
    let answer = served.post(RESPONSES, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    for request in model.received() {
        assert_eq!(request.body.get("temperature"), None);
    }
}
