//! Chat Completions of a server: stateless requests, and conversations in sessions.

use std::sync::Barrier;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";
const PATH: &str = "/v1/chat/completions";

fn serve(folder: &std::path::Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

fn texts(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let own = messages.filter(|message| message["role"] != "system");
    own.map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn header<'a>(answer: &'a Answered, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_stateless_request_sends_its_messages_and_keeps_nothing() {
    let replies = vec![
        Reply::Answer(
            Answer::text("first")
                .with_reasoning("secret thought")
                .with_call("c1", "work", "{}"),
        ),
        Reply::Answer(Answer::text("second")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=allow"]);
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c"}]},
    ]);
    let answer = served.post(PATH, &json!({"model": "agent", "messages": messages}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["content"], "first\n\nsecond");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(header(&answer, "x-logue-conversation"), Some("stateless"));
    assert!(!answer.text.contains("secret thought"), "{}", answer.text);
    assert_eq!(texts(&model.received()[0].body), ["a", "b", "c"]);
    let sessions = served.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"], json!([]));
}

#[test]
fn a_streamed_answer_has_the_text_of_the_whole_one() {
    let replies = vec![
        Reply::Answer(Answer::text("first").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("second part")),
    ];
    for headers in [&[][..], &[("x-logue-session", "s1")][..]] {
        let model = ModelServer::start(replies.clone(), Delivery::ByteByByte).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let served = serve(folder.path(), &model, &["--permission", "work=allow"]);
        let body = json!({"model": "agent", "stream": true,
            "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "go"}]});
        let answer = served.request("POST", PATH, headers, &body.to_string());
        let data = answer.text.lines();
        let data: Vec<&str> = data
            .filter_map(|line| line.strip_prefix("data: "))
            .collect();
        let (done, chunks) = data.split_last().unwrap();
        assert_eq!(*done, "[DONE]");
        let chunks = chunks
            .iter()
            .map(|chunk| serde_json::from_str(chunk).unwrap());
        let chunks: Vec<Value> = chunks.collect();
        let text: String = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(text, "first\n\nsecond part");
        let usage = chunks.last().unwrap();
        assert_eq!(usage["choices"], json!([]));
        let finish = &chunks[chunks.len() - 2]["choices"][0]["finish_reason"];
        assert_eq!(finish, "stop");
    }
}

#[test]
fn a_conversation_continues_or_forks_by_its_earlier_messages() {
    let replies: Vec<Reply> = ["one", "two", "three", "four", "five"]
        .map(|text| Reply::Answer(Answer::text(text)))
        .into();
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let ask = |session: &str, messages: Value| {
        let body = json!({"model": "agent", "messages": messages}).to_string();
        let answer = served.request("POST", PATH, &[("x-logue-session", session)], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let how = header(&answer, "x-logue-conversation").unwrap().to_owned();
        let session = header(&answer, "x-logue-session").unwrap().to_owned();
        (how, session)
    };
    let user = |text: &str| json!({"role": "user", "content": text});
    let model_said = |text: &str| json!({"role": "assistant", "content": text});
    let own = "chat-1".to_owned();
    assert_eq!(
        ask(&own, json!([user("a")])),
        ("created".into(), own.clone())
    );
    // The whole conversation, and only the new message.
    let whole = json!([user("a"), model_said("one"), user("b")]);
    assert_eq!(ask(&own, whole), ("appended".into(), own.clone()));
    assert_eq!(
        ask(&own, json!([user("c")])),
        ("appended".into(), own.clone())
    );
    let sent = texts(&model.received()[2].body);
    assert_eq!(sent, ["a", "one", "b", "two", "c"]);
    // Another answer for an earlier message, and another history.
    let earlier = json!([user("a"), model_said("one"), user("other")]);
    let (how, forked) = ask(&own, earlier);
    assert_eq!(how, "forked");
    assert_ne!(forked, own);
    assert_eq!(texts(&model.received()[3].body), ["a", "one", "other"]);
    let changed = json!([user("a"), model_said("edited"), user("b")]);
    assert_eq!(ask(&own, changed).0, "forked");
    assert_eq!(texts(&model.received()[4].body), ["a", "edited", "b"]);
    // The session itself has its three exchanges.
    let session = served.get(&format!("/v1/sessions/{own}")).json();
    assert_eq!(session["messages"], 6);
    let all = served.get("/v1/sessions").json();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn a_call_that_requires_a_person_waits_only_in_a_session() {
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("denied")),
        Reply::Answer(Answer::text("").with_call("c2", "work", "{}")),
        Reply::Answer(Answer::text("first").with_call("c3", "work", "{}")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let mut body = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}]});
    let answer = served.post(PATH, &body);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "denied");
    let headers = [("x-logue-session", "s1")];
    let waiting = served.request("POST", PATH, &headers, &body.to_string());
    let signal = header(&waiting, "x-logue-signal").unwrap();
    let shown = served.get(&format!("/v1/signals/{signal}"));
    assert_eq!(shown.json()["calls"][0]["name"], "work", "{shown:?}");
    // A stream has the signal in its last chunk.
    body["stream"] = json!(true);
    let headers = [("x-logue-session", "s2")];
    let waiting = served.request("POST", PATH, &headers, &body.to_string());
    let lines = waiting.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: {"));
    let chunks: Vec<Value> = data
        .map(|data| serde_json::from_str(&format!("{{{data}")).unwrap())
        .collect();
    let texts = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(texts.collect::<String>(), "first", "{waiting:?}");
    let signal = chunks.last().unwrap()["logue"]["signal_id"].as_str();
    let shown = served.get(&format!("/v1/signals/{}", signal.unwrap()));
    assert_eq!(shown.json()["calls"][0]["name"], "work", "{shown:?}");
}

#[test]
fn an_error_has_the_form_that_clients_of_the_api_expect() {
    let model = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let user = json!([{"role": "user", "content": "go"}]);
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let cases = [
        (
            json!({"model": "gpt-4o", "messages": user}),
            404,
            "agent_not_found",
        ),
        (
            json!({"model": "agent", "messages": []}),
            400,
            "request_invalid",
        ),
        (
            json!({"model": "agent", "messages": user, "n": 2}),
            400,
            "request_invalid",
        ),
        (
            json!({"model": "agent", "messages": user, "tools": tool}),
            400,
            "request_invalid",
        ),
        (json!({"messages": user}), 400, "request_invalid"),
    ];
    for (body, status, code) in cases {
        let answer = served.post(PATH, &body);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.json()["error"]["code"], code, "{answer:?}");
    }
    assert!(model.received().is_empty());
}

#[test]
fn one_of_two_requests_at_once_creates_the_session() {
    let reply = |_: &_| Reply::Answer(Answer::text("done"));
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let servers = [
        serve(folder.path(), &model, &[]),
        serve(folder.path(), &model, &[]),
    ];
    let user = json!({"role": "user", "content": "go"});
    let earlier = json!([user, {"role": "assistant", "content": "yes"}, user]);
    for round in 0..testkit::soak::rounds(24, 300) {
        // One server or both, without earlier messages and with them.
        let places = [&servers[0], &servers[usize::from(round % 2 == 1)]];
        let messages = if round % 4 < 2 {
            json!([user])
        } else {
            earlier.clone()
        };
        let session = format!("new-{round}");
        let barrier = Barrier::new(2);
        let answers = std::thread::scope(|scope| {
            let tasks = places.map(|served| {
                let (session, messages, barrier) = (&session, &messages, &barrier);
                scope.spawn(move || {
                    let body = json!({"model": "agent", "messages": messages}).to_string();
                    barrier.wait();
                    served.request("POST", PATH, &[("x-logue-session", session)], &body)
                })
            });
            tasks.map(|task| task.join().unwrap())
        });
        let how: Vec<_> = answers
            .iter()
            .map(|answer| {
                assert_eq!(answer.status, 200, "round {round}: {answer:?}");
                header(answer, "x-logue-conversation").unwrap()
            })
            .collect();
        let created = how.iter().filter(|how| **how == "created");
        assert_eq!(created.count(), 1, "round {round}: {how:?}");
    }
}
