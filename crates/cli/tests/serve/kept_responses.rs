//! Responses as they are read later: usage, ids, keys, and several servers on one store.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply, end_of_stream, text_delta};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";
const PATH: &str = "/v1/responses";

fn serve(folder: &Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

/// A model whose answers are numbered.
fn numbered() -> ModelServer {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let answer = move |_: &Received| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Reply::Answer(Answer::text(format!("answer {number}")))
    };
    ModelServer::start_by(answer, Delivery::Whole).unwrap()
}

fn create(served: &Served, mut body: Value, headers: &[(&str, &str)]) -> Answered {
    body["model"] = json!("agent");
    served.request("POST", PATH, headers, &body.to_string())
}

fn created(served: &Served, body: Value) -> Value {
    let answer = create(served, body, &[]);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn read(served: &Served, response: &Value) -> Value {
    let id = response["id"].as_str().unwrap();
    served.get(&format!("{PATH}/{id}")).json()
}

fn text(response: &Value) -> &str {
    let items = response["output"].as_array().unwrap().iter();
    let mut texts = items.filter_map(|item| item["content"][0]["text"].as_str());
    texts.next().unwrap_or_default()
}

fn events(answer: &Answered) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let data = answer.text.lines();
    let data = data.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[test]
fn each_response_keeps_its_usage_and_its_end() {
    let mut body = text_delta("cut");
    body.extend_from_slice(
        b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],\
          \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    );
    let cut = Reply::Body("text/event-stream", body);
    let replies = vec![
        cut,
        Reply::Answer(Answer::text("two")),
        Reply::Answer(Answer::text("three")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let mut responses = Vec::new();
    let mut previous = Value::Null;
    for input in ["a", "b", "c"] {
        let response = created(
            &served,
            json!({"input": input, "previous_response_id": previous}),
        );
        previous = response["id"].clone();
        responses.push(response);
    }
    assert_eq!(responses[0]["status"], "incomplete");
    assert_eq!(
        responses[0]["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(responses[0]["usage"]["total_tokens"], 5);
    assert!(responses[1]["usage"]["total_tokens"].as_u64().unwrap() > 5);
    let check = |served: &Served| {
        for response in &responses {
            assert_eq!(&read(served, response), response);
        }
    };
    check(&served);
    served.kill();
    check(&serve(folder.path(), &model, &[]));
}

#[test]
fn a_decided_response_has_the_usage_of_its_own_part() {
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("end")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let first = created(&served, json!({"input": "go"}));
    let item = first["output"][0]["id"].clone();
    let second = created(
        &served,
        json!({"previous_response_id": first["id"], "input": [
        {"type": "mcp_approval_response", "approval_request_id": item, "approve": true}]}),
    );
    assert_eq!(text(&second), "end");
    assert!(
        first["usage"]["input_tokens"].as_u64().unwrap() > 0,
        "{first}"
    );
    assert_eq!(second["usage"], first["usage"], "each part is one request");
    assert_eq!(read(&served, &first)["usage"], first["usage"]);
}

#[test]
fn items_keep_the_ids_of_the_stream_after_a_broken_answer() {
    let replies = vec![
        Reply::Cut(text_delta("half ")),
        Reply::Answer(Answer::text("whole")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--retries", "1"]);
    let streamed = events(&create(
        &served,
        json!({"input": "go", "stream": true}),
        &[],
    ));
    let done = streamed
        .iter()
        .filter(|own| own["type"] == "response.output_item.done");
    let done: Vec<&Value> = done.map(|own| &own["item"]).collect();
    assert_eq!(done[0]["status"], "incomplete", "{streamed:?}");
    let last = &streamed.last().unwrap()["response"];
    assert_eq!(done.len(), 1, "{streamed:?}");
    assert_eq!(last["output"][0], *done[0]);
    assert_eq!(read(&served, last), *last);
    served.kill();
    // The log of events is lost.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("events") {
            std::fs::remove_file(&path).unwrap();
        }
    }
    let served = serve(folder.path(), &model, &[]);
    assert_eq!(read(&served, last), *last);
}

#[test]
fn a_repeated_key_returns_the_first_response_also_after_a_restart() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let key = [("idempotency-key", "k1")];
    let body = json!({"input": "a", "metadata": {"k": "v"}});
    let first = create(&served, body.clone(), &key);
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    assert_eq!(create(&served, body.clone(), &key).json(), first);
    // As the second response of the session, whose predecessor is not the last one any more.
    let next = json!({"input": "b", "previous_response_id": first["id"]});
    let other = [("idempotency-key", "k2")];
    let second = create(&served, next.clone(), &other).json();
    assert_eq!(create(&served, next.clone(), &other).json(), second);
    served.kill();
    let served = serve(folder.path(), &model, &[]);
    assert_eq!(create(&served, body.clone(), &key).json(), first);
    assert_eq!(create(&served, next, &other).json(), second);
    let mut streamed = body.clone();
    streamed["metadata"] = json!({"k": "w"});
    let refused = create(&served, streamed, &key);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "idempotency_key_reused");
    assert_eq!(model.received().len(), 2);
    // Without a key, the same body is another response.
    assert_ne!(create(&served, body, &[]).json()["id"], first["id"]);
}

#[test]
fn two_requests_with_one_key_at_once_are_one_response_on_two_servers() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let servers = [
        serve(folder.path(), &model, &[]),
        serve(folder.path(), &model, &[]),
    ];
    for round in 0..20 {
        let key = format!("k{round}");
        let ids: Vec<Value> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let (served, key) = (&servers[number % 2], key.as_str());
                    scope.spawn(move || {
                        let headers = [("idempotency-key", key)];
                        create(served, json!({"input": "a"}), &headers).json()["id"].clone()
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert!(
            ids[0].is_string() && ids.iter().all(|id| *id == ids[0]),
            "{ids:?}"
        );
        assert_eq!(model.received().len(), round + 1);
    }
}

#[test]
fn a_stateless_response_leaves_waiting_calls_out() {
    let replies = vec![
        Reply::Answer(Answer::text("I look.").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("free")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let waiting = created(&served, json!({"input": "a"}));
    assert!(
        waiting["output"]
            .to_string()
            .contains("mcp_approval_request"),
        "{waiting}"
    );
    let free = created(
        &served,
        json!({"input": "b", "store": false,
        "previous_response_id": waiting["id"]}),
    );
    assert_eq!(text(&free), "free");
    let sent = model.received()[1].body["messages"].clone();
    assert!(!sent.to_string().contains("tool_calls"), "{sent}");
    let texts = sent
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].clone());
    assert_eq!(texts.collect::<Vec<_>>(), ["a", "I look.", "b"]);
    // The call still waits.
    let signals = served.get("/v1/signals").json();
    assert_eq!(signals["signals"].as_array().unwrap().len(), 1, "{signals}");
}

#[test]
fn a_stateless_response_has_no_key() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let body = json!({"input": "a", "store": false}).to_string();
    let headers = [("idempotency-key", "k")];
    let refused = served.request("POST", "/v1/responses", &headers, &body);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.text.contains("Idempotency-Key"), "{refused:?}");
    assert!(model.received().is_empty());
    assert_eq!(
        text(&created(&served, json!({"input": "a", "store": false}))),
        "answer 0"
    );
}

#[test]
fn one_of_two_servers_continues_a_response_and_the_other_branches() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let servers = [
        serve(folder.path(), &model, &[]),
        serve(folder.path(), &model, &[]),
    ];
    for round in 0..testkit::soak::rounds(15, 200) {
        let first = created(&servers[0], json!({"input": format!("first {round}")}));
        let after = first["id"].clone();
        let barrier = std::sync::Barrier::new(2);
        let answers: Vec<Answered> = std::thread::scope(|scope| {
            let tasks: Vec<_> = servers
                .iter()
                .enumerate()
                .map(|(number, served)| {
                    let (after, barrier) = (after.clone(), &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let input = format!("next {number} {round}");
                        let body = json!({"input": input, "previous_response_id": after});
                        create(served, body, &[])
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        // The one that branches needs the end of the earlier response only.
        assert!(answers.iter().all(|own| own.status == 200), "{answers:?}");
        let requests = model.received();
        for number in 0..2 {
            let own = format!("next {number} {round}");
            let other = format!("next {} {round}", 1 - number);
            let mut with = requests
                .iter()
                .filter(|request| request.body.to_string().contains(&own));
            assert!(
                with.all(|request| !request.body.to_string().contains(&other)),
                "round {round}"
            );
        }
    }
}

#[test]
fn two_requests_for_one_conversation_are_answered_one_after_the_other() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let servers = [
        serve(folder.path(), &model, &[]),
        serve(folder.path(), &model, &[]),
    ];
    let conversation = servers[0].post("/v1/conversations", &json!({})).json()["id"].clone();
    created(
        &servers[0],
        json!({"input": "first", "conversation": conversation}),
    );
    std::thread::scope(|scope| {
        for served in &servers {
            let conversation = conversation.clone();
            scope.spawn(move || {
                created(
                    served,
                    json!({"input": "next", "conversation": conversation}),
                )
            });
        }
    });
    let path = format!(
        "/v1/conversations/{}/items?order=asc",
        conversation.as_str().unwrap()
    );
    let items = servers[1].get(&path).json();
    let roles = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["role"].clone());
    let expected = ["user", "assistant"].repeat(3);
    assert_eq!(roles.collect::<Vec<_>>(), expected, "{items}");
}

#[test]
fn a_response_of_another_token_is_unknown_and_a_removed_one_too() {
    let model = numbered();
    let folder = folder(&[("agent.md", AGENT)]);
    let token = |name: &str| {
        let arguments = ["serve", "token", "create", name, "--scope", "read,send"];
        let ran = crate::program::run(folder.path(), arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        format!("Bearer {}", ran.stdout.trim())
    };
    let (own, other) = (token("own"), token("other"));
    let served = serve(folder.path(), &model, &[]);
    let body = json!({"model": "agent", "input": "a"}).to_string();
    let own = [("authorization", own.as_str())];
    let other = [("authorization", other.as_str())];
    let response = served.request("POST", PATH, &own, &body).json();
    let id = response["id"].as_str().unwrap();
    let path = format!("{PATH}/{id}");
    let all = [
        ("GET", path.clone()),
        ("GET", format!("{path}?stream=true")),
        ("GET", format!("{path}/input_items")),
        ("POST", format!("{path}/cancel")),
        ("DELETE", path.clone()),
    ];
    for (method, path) in &all {
        let answer = served.request(method, path, &other, "");
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], "response_not_found");
    }
    let next = json!({"model": "agent", "input": "b", "previous_response_id": id}).to_string();
    assert_eq!(served.request("POST", PATH, &other, &next).status, 404);
    // The key of one token is not that of another.
    let key = ("idempotency-key", "k");
    let mine = served.request("POST", PATH, &[own[0], key], &body).json();
    let theirs = served.request("POST", PATH, &[other[0], key], &body).json();
    assert_ne!(mine["id"], theirs["id"]);
    let removed = served.request("DELETE", &path, &own, "");
    assert_eq!(removed.json()["deleted"], true, "{removed:?}");
    for (method, path) in &all {
        let answer = served.request(method, path, &own, "");
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
    }
}

#[test]
fn a_cancelled_response_ends_and_keeps_its_status() {
    let gate = testkit::Gate::new();
    let pieces = vec![text_delta("half "), end_of_stream()];
    let model = ModelServer::start(vec![Reply::Gated(pieces, gate)], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let begun = created(&served, json!({"input": "go", "background": true}));
    let path = format!("{PATH}/{}", begun["id"].as_str().unwrap());
    let mut stream = served.events("GET", &format!("{path}?stream=true"), None, "");
    stream.until("response.output_text.delta");
    let busy = served.request("DELETE", &path, &[], "");
    assert_eq!(busy.status, 409, "{busy:?}");
    let cancelled = served
        .request("POST", &format!("{path}/cancel"), &[], "")
        .json();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert_eq!(served.get(&path).json(), cancelled);
}
