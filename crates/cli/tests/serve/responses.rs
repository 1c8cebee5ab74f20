//! The Responses API of a server: sessions, branches, streams and decisions.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";
const PATH: &str = "/v1/responses";

fn serve(folder: &Path, model: &ModelServer, rule: &str) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let rule = format!("work={rule}");
    Served::start_with(command, &["agent.md", "--permission", &rule])
}

fn model(texts: &[&str]) -> ModelServer {
    let replies = texts.iter().map(|text| Reply::Answer(Answer::text(*text)));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

/// Sends a request with the agent's name added.
fn create(served: &Served, mut body: Value) -> Answered {
    body["model"] = json!("agent");
    served.post(PATH, &body)
}

fn created(served: &Served, body: Value) -> Value {
    let answer = create(served, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Returns the texts of a response's output.
fn output_text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let texts = items.filter_map(|item| item["content"][0]["text"].as_str());
    texts.collect()
}

/// Returns the contents of the messages that the model received, without those of the prompt.
fn sent(model: &ModelServer, at: usize) -> Vec<Value> {
    let body = model.received()[at].body.clone();
    let messages = body["messages"].as_array().unwrap().iter();
    let own = messages.filter(|message| message["role"] != "system");
    own.map(|message| message["content"].clone()).collect()
}

/// Returns the events of a stream.
fn events(answer: &Answered) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.collect()
}

#[test]
fn a_response_continues_the_last_one_and_branches_from_an_earlier_one() {
    let model = model(&["one", "two", "three", "four"]);
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, "allow");
    let first = created(&served, json!({"input": "a", "metadata": {"k": "v"}}));
    assert_eq!(output_text(&first), "one");
    assert_eq!(first["status"], "completed");
    assert_eq!(first["usage"]["input_tokens"], 11);
    let second = created(
        &served,
        json!({"input": "b", "previous_response_id": first["id"]}),
    );
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(sent(&model, 1), ["a", "one", "b"]);
    // The first one is not the last one any more.
    let branch = created(
        &served,
        json!({"input": "c", "previous_response_id": first["id"]}),
    );
    assert_eq!(sent(&model, 2), ["a", "one", "c"]);
    created(
        &served,
        json!({"input": "d", "previous_response_id": branch["id"]}),
    );
    assert_eq!(sent(&model, 3), ["a", "one", "c", "three", "d"]);
    let sessions = served.get("/v1/sessions").json();
    let mut lengths: Vec<u64> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["messages"].as_u64().unwrap())
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [4, 6]);
    // The stored response is the one that was returned.
    let id = first["id"].as_str().unwrap();
    let again = served.get(&format!("{PATH}/{id}")).json();
    assert_eq!(again, first);
    let items = served.get(&format!("{PATH}/{id}/input_items")).json();
    assert_eq!(
        items["data"][0]["content"],
        json!([{"type": "input_text", "text": "a"}])
    );
}

#[test]
fn instructions_and_images_of_a_client_have_the_rank_of_a_user() {
    let model = model(&["one"]);
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, "allow");
    let image = "data:image/png;base64,iVBORw0KGgo=";
    let response = created(
        &served,
        json!({"instructions": "be brief", "input": [
            {"role": "user", "content": "a"},
            {"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": "b", "annotations": []}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "developer", "content": "c"},
            {"role": "user", "content": [
                {"type": "input_text", "text": "d"},
                {"type": "input_image", "image_url": image, "detail": "low"}]},
        ]}),
    );
    let messages = model.received()[0].body["messages"].clone();
    let roles: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    let parts = messages[3]["content"].as_array().unwrap();
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(texts, ["be brief", "c", "d"]);
    assert_eq!(parts[3]["image_url"]["url"], image);
    assert_eq!(parts[3]["image_url"]["detail"], "low");
    assert_eq!(response["instructions"], "be brief");
    let id = response["id"].as_str().unwrap();
    let items = served.get(&format!("{PATH}/{id}/input_items")).text;
    assert!(!items.contains("be brief"), "{items}");
    assert!(!items.contains("hidden instructions"), "{items}");
}

#[test]
fn a_stream_has_the_published_events_and_resumes_after_any_number() {
    let replies = vec![
        Reply::Answer(
            Answer::text("first")
                .with_reasoning("secret thought")
                .with_call("c1", "work", "{}"),
        ),
        Reply::Answer(Answer::text("second").with_reasoning("secret thought")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, "allow");
    let answer = create(&served, json!({"input": "go", "stream": true}));
    assert!(!answer.text.contains("secret thought"), "{}", answer.text);
    assert!(!answer.text.contains("hidden instructions"));
    let all = events(&answer);
    let mut names = kinds(&all);
    names.dedup();
    let text = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    let mut expected = vec!["response.created", "response.in_progress"];
    expected.extend(text);
    expected.extend([
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]);
    expected.extend(text);
    expected.push("response.completed");
    assert_eq!(names, expected);
    let numbers = all
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap());
    assert!(numbers.eq(0..all.len() as u64), "{all:?}");
    let done = all.last().unwrap()["response"].clone();
    let items: Vec<&Value> = all
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    assert_eq!(
        items,
        done["output"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    );
    let id = done["id"].as_str().unwrap().to_owned();
    assert_eq!(served.get(&format!("{PATH}/{id}")).json(), done);
    let check = |served: &Served| {
        for at in 0..all.len() {
            let path = format!("{PATH}/{id}?stream=true&starting_after={at}");
            assert_eq!(events(&served.get(&path)), all[at + 1..], "after {at}");
        }
    };
    check(&served);
    served.kill();
    let served = serve(folder.path(), &model, "allow");
    check(&served);
    let path = format!("{PATH}/{id}?stream=true");
    assert_eq!(events(&served.get(&path)), all);
}

#[test]
fn a_background_response_survives_the_server() {
    let gate = Gate::new();
    let pieces = vec![text_delta("half "), text_delta("never"), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(Answer::text("whole")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, "allow");
    let begun = created(&served, json!({"input": "go", "background": true}));
    let status = begun["status"].as_str().unwrap();
    assert!(["queued", "in_progress"].contains(&status), "{begun}");
    assert_eq!(begun["background"], true);
    let id = begun["id"].as_str().unwrap();
    let path = format!("{PATH}/{id}?stream=true");
    let begun = served.events("GET", &path, None, "");
    let begun = { begun }.until("response.output_text.delta");
    assert_eq!(begun.last().unwrap().data["delta"], "half ");
    served.kill();

    let served = serve(folder.path(), &model, "allow");
    // The text of the first server was withdrawn.
    let ended = events(&served.get(&path));
    let items = ended
        .iter()
        .filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<(&Value, &Value)> = items
        .map(|event| {
            let item = &event["item"];
            (&item["status"], &item["content"][0]["text"])
        })
        .collect();
    assert_eq!(items[0], (&json!("incomplete"), &json!("half ")));
    assert_eq!(items.last().unwrap().0, "completed");
    assert_eq!(*kinds(&ended).last().unwrap(), "response.completed");
    let polled = served.get(&format!("{PATH}/{id}")).json();
    assert_eq!(polled["status"], "completed", "{polled}");
    assert_eq!(output_text(&polled), "whole");
    assert_eq!(polled["background"], true);
    let streamed = &ended.last().unwrap()["response"];
    assert_eq!(*streamed, polled);
}

#[test]
fn a_token_that_approves_decides_about_the_response_of_another() {
    let call = Answer::text("").with_call("c1", "work", "{}");
    let replies = vec![
        Reply::Answer(call.clone()),
        Reply::Answer(Answer::text("worked")),
        Reply::Answer(call),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("other.md", AGENT)]);
    let token = |name: &str, scopes: &str, more: &[&str]| {
        let create = ["serve", "token", "create", name, "--scope", scopes];
        let ran = crate::program::run(folder.path(), [&create[..], more].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        format!("Bearer {}", ran.stdout.trim())
    };
    let sender = token("sender", "read,send", &[]);
    let other = token("other", "read,send", &[]);
    let approver = token("approver", "read,approve", &[]);
    let only = token("only", "approve", &[]);
    let elsewhere = token("elsewhere", "read,approve", &["--agent", "other"]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let rules = ["agent.md", "other.md", "--permission", "work=ask"];
    let served = Served::start_with(command, &rules);
    let ask = |method: &str, token: &str, path: &str, body: &Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        served.request(method, path, &[("authorization", token)], &body)
    };
    let first = ask(
        "POST",
        &sender,
        PATH,
        &json!({"model": "agent", "input": "go"}),
    );
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    let request = &first["output"].as_array().unwrap().last().unwrap()["id"];
    let item = json!({"type": "mcp_approval_response", "approve": true,
        "approval_request_id": request});
    let decision = |items: Value| json!({"model": "agent", "previous_response_id": first["id"], "input": items});
    let alone = decision(json!([item]));
    let code = |answer: &Answered| answer.json()["error"]["code"].as_str().unwrap().to_owned();
    let refused = ask("POST", &sender, PATH, &alone);
    assert_eq!(
        (refused.status, code(&refused)),
        (403, "scope_missing".to_owned())
    );
    assert!(refused.text.contains("`approve`"), "{refused:?}");
    for token in [&other, &elsewhere] {
        let hidden = ask("POST", token, PATH, &alone);
        assert_eq!(hidden.status, 404, "{hidden:?}");
    }
    let message = json!({"role": "user", "content": "and more"});
    for token in [&sender, &approver] {
        let mixed = ask("POST", token, PATH, &decision(json!([item, message])));
        assert_eq!(
            (mixed.status, code(&mixed)),
            (400, "request_invalid".to_owned())
        );
        assert!(mixed.text.contains("send the decision alone"), "{mixed:?}");
        let sent = ask("POST", &approver, PATH, &decision(json!([message])));
        assert_eq!(
            (sent.status, code(&sent)),
            (403, "scope_missing".to_owned())
        );
    }
    let decided = ask("POST", &approver, PATH, &alone);
    assert_eq!(decided.status, 200, "{decided:?}");
    let decided = decided.json();
    assert_eq!(output_text(&decided), "worked");
    // The response is the sender's, and the approver may read it.
    let path = format!("{PATH}/{}", decided["id"].as_str().unwrap());
    for token in [&sender, &approver] {
        let read = ask("GET", token, &path, &Value::Null);
        assert_eq!(read.json()["output"], decided["output"], "{read:?}");
        let items = ask("GET", token, &format!("{path}/input_items"), &Value::Null);
        assert_eq!(items.status, 200, "{items:?}");
    }
    for token in [&other, &elsewhere] {
        assert_eq!(ask("GET", token, &path, &Value::Null).status, 404);
    }
    assert_eq!(ask("DELETE", &approver, &path, &Value::Null).status, 403);
    // A scope alone suffices, also for a stream.
    let next = json!({"model": "agent", "input": "again", "previous_response_id": decided["id"]});
    let next = ask("POST", &sender, PATH, &next).json();
    let request = &next["output"].as_array().unwrap().last().unwrap()["id"];
    let denial = json!({"model": "agent", "stream": true, "input": [{"approve": false,
        "type": "mcp_approval_response", "approval_request_id": request}]});
    let denied = ask("POST", &only, PATH, &denial);
    let denied = events(&denied);
    assert!(
        kinds(&denied).contains(&"response.output_item.done"),
        "{denied:?}"
    );
}
