//! Chat Completions that continue the session whose history they repeat.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Random, Received, Reply, soak};

use crate::client::{Answered, Served};
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n";
const PATH: &str = "/v1/chat/completions";

/// Starts a server of the folder's agents that continues conversations.
fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &[".", "--continue-conversations"])
}

/// Returns a model that answers the n-th message of a user with `answer n`.
fn counting() -> ModelServer {
    let answer = |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap().iter();
        let asked = messages.filter(|message| message["role"] == "user").count();
        Reply::Answer(Answer::text(format!("answer {asked}")))
    };
    ModelServer::start_by(answer, Delivery::Whole).unwrap()
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn image(data: &str) -> Value {
    let url = format!("data:image/png;base64,{data}");
    json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}])
}

/// How a request continued its conversation, and where.
fn place(answer: &Answered) -> (String, String) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let header = |name: &str| {
        let mut lines = answer.head.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found
            .unwrap_or_else(|| panic!("no {name}: {answer:?}"))
            .to_owned()
    };
    (header("x-logue-conversation"), header("x-logue-session"))
}

fn ask(served: &Served, messages: &Value) -> (String, String) {
    place(&served.post(PATH, &json!({"model": "agent", "messages": messages})))
}

fn ask_as(served: &Served, token: &str, messages: &Value) -> (String, String) {
    let bearer = format!("Bearer {token}");
    let body = json!({"model": "agent", "messages": messages}).to_string();
    place(&served.request("POST", PATH, &[("authorization", &bearer)], &body))
}

/// Returns the contents of the messages that the model received last.
fn sent(model: &ModelServer) -> Vec<Value> {
    let received = model.received();
    let messages = &received.last().unwrap().body["messages"];
    let messages = messages.as_array().unwrap().iter();
    messages.map(|message| message["content"].clone()).collect()
}

/// Returns the stored contents of a session.
fn stored(served: &Served, session: &str) -> Vec<Value> {
    let shown = served.get(&format!("/v1/sessions/{session}/messages"));
    let shown = shown.json();
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"].clone()).collect()
}

fn sessions(served: &Served) -> usize {
    let all = served.get("/v1/sessions").json();
    all["sessions"].as_array().unwrap().len()
}

#[test]
fn a_repeated_history_continues_its_session_also_after_a_restart() {
    let model = counting();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let (how, own) = ask(&served, &json!([user("a")]));
    assert_eq!(how, "created");
    let two = json!([user("a"), said("answer 1"), user("b")]);
    assert_eq!(ask(&served, &two), ("appended".into(), own.clone()));
    assert_eq!(sent(&model), ["a", "answer 1", "b"]);
    // The same request again follows an earlier message.
    let (how, forked) = ask(&served, &two);
    assert_eq!(how, "forked");
    assert_ne!(forked, own);
    assert_eq!(sent(&model), ["a", "answer 1", "b"]);
    // A history that no session has.
    let edited = json!([user("a"), said("edited"), user("b")]);
    assert_eq!(ask(&served, &edited).0, "forked");
    assert_eq!(sent(&model), ["a", "edited", "b"]);
    assert_eq!(stored(&served, &own).len(), 4);
    assert_eq!(sessions(&served), 3);
    // Another server on the store, and one after a crash.
    let other = serve(folder.path(), &model);
    let four = json!([
        user("a"),
        said("edited"),
        user("b"),
        said("answer 2"),
        user("c")
    ]);
    let (how, edited) = ask(&other, &four);
    assert_eq!(how, "appended");
    served.kill();
    let served = serve(folder.path(), &model);
    let six = [
        four.as_array().unwrap().as_slice(),
        &[said("answer 3"), user("d")],
    ]
    .concat();
    assert_eq!(
        ask(&served, &json!(six)),
        ("appended".into(), edited.clone())
    );
    let kept = [
        "a", "edited", "b", "answer 2", "c", "answer 3", "d", "answer 4",
    ];
    assert_eq!(stored(&other, &edited), kept);
    assert_eq!(sessions(&other), 3);
}

#[test]
fn other_images_are_another_history() {
    let model = counting();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let (_, own) = ask(&served, &json!([user(image("AAAA"))]));
    let next = |data: &str| json!([user(image(data)), said("answer 1"), user("b")]);
    let (how, other) = ask(&served, &next("BBBB"));
    assert_eq!(how, "forked");
    let url = |content: &Value| content[1]["image_url"]["url"].as_str().map(str::to_owned);
    let expected = url(&image("BBBB"));
    assert_eq!(url(&sent(&model)[0]), expected, "{:?}", sent(&model));
    assert_eq!(stored(&served, &own).len(), 2);
    assert_ne!(own, other);
    assert_eq!(
        ask(&served, &next("AAAA")),
        ("appended".into(), own.clone())
    );
    // A named session compares them, too.
    let body = json!({"model": "agent",
        "messages": [user(image("BBBB")), said("answer 1"), user("b"), said("answer 2"), user("c")]});
    let headers = [("x-logue-session", own.as_str())];
    let answer = served.request("POST", PATH, &headers, &body.to_string());
    assert_eq!(place(&answer).0, "forked");
    assert_eq!(stored(&served, &own).len(), 4);
}

#[test]
fn a_history_of_another_token_or_agent_is_not_continued() {
    let model = counting();
    let folder = folder(&[("agent.md", AGENT), ("other.md", AGENT)]);
    let token = |name: &str| {
        let arguments = ["serve", "token", "create", name, "--scope", "read,send"];
        run(folder.path(), arguments).stdout.trim().to_owned()
    };
    let (one, two) = (token("one"), token("two"));
    let served = serve(folder.path(), &model);
    let (_, own) = ask_as(&served, &one, &json!([user("a")]));
    let next = json!([user("a"), said("answer 1"), user("b")]);
    let (how, of_two) = ask_as(&served, &two, &next);
    assert_eq!(how, "forked");
    assert_ne!(of_two, own);
    let bearer = format!("Bearer {one}");
    let headers = [("authorization", bearer.as_str())];
    let body = json!({"model": "other", "messages": next}).to_string();
    let (how, of_other) = place(&served.request("POST", PATH, &headers, &body));
    assert_eq!(how, "forked");
    assert_ne!(of_other, own);
    assert_eq!(
        ask_as(&served, &one, &next),
        ("appended".into(), own.clone())
    );
    // A name does not give access to it.
    let bearer = format!("Bearer {two}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-logue-session", own.as_str()),
    ];
    let body = json!({"model": "agent", "messages": [user("c")]}).to_string();
    let refused = served.request("POST", PATH, &headers, &body);
    assert_eq!(refused.status, 404, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "session_not_found");
}

#[test]
fn a_redacted_history_continues_its_session() {
    let model = counting();
    let settings = "[redact]\npatterns = [\"sk-[a-z]+\"]\n";
    let folder = folder(&[("agent.md", AGENT), (".config/logue/config.toml", settings)]);
    let served = serve(folder.path(), &model);
    let (_, own) = ask(&served, &json!([user("my key is sk-secret")]));
    let next = json!([user("my key is sk-secret"), said("answer 1"), user("b")]);
    assert_eq!(ask(&served, &next), ("appended".into(), own.clone()));
    // An unknown history is redacted as well.
    let unknown = json!([user("sk-another"), said("good"), user("b")]);
    let (_, new) = ask(&served, &unknown);
    let kept = [stored(&served, &own), stored(&served, &new)].concat();
    let kept = Value::Array(kept).to_string();
    assert!(!kept.contains("sk-"), "{kept}");
}

#[test]
fn of_two_clients_at_once_one_appends_and_the_other_forks() {
    let rounds = soak::rounds(10, 200);
    let gate = Gate::new();
    let gated = gate.clone();
    let answer = move |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap()["content"].as_str().unwrap();
        let bytes = Answer::text(format!("to {last}")).stream(&mut Random::new(7));
        if last.starts_with("begin") {
            return Reply::Body("text/event-stream", bytes);
        }
        Reply::Gated(vec![b": wait\n\n".to_vec(), bytes], gated.clone())
    };
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let servers = [serve(folder.path(), &model), serve(folder.path(), &model)];
    for round in 0..rounds {
        let begin = format!("begin {round}");
        let (_, own) = ask(&servers[0], &json!([user(begin.as_str())]));
        let before = model.received().len();
        let clients = [
            ("left", &servers[0]),
            ("right", &servers[round as usize % 2]),
        ];
        let places: Vec<(String, String)> = std::thread::scope(|scope| {
            let asked = clients.map(|(text, server)| {
                let answer = said(&format!("to {begin}"));
                let messages = json!([user(begin.as_str()), answer, user(text)]);
                scope.spawn(move || ask(server, &messages))
            });
            // Both answers wait: neither request follows the other's.
            while model.received().len() < before + 2 {
                std::thread::yield_now();
            }
            gate.open();
            gate.open();
            asked.map(|asked| asked.join().unwrap()).into()
        });
        let mut hows: Vec<&str> = places.iter().map(|(how, _)| &**how).collect();
        hows.sort_unstable();
        assert_eq!(hows, ["appended", "forked"], "round {round}");
        for ((text, _), (how, session)) in clients.iter().zip(&places) {
            assert_eq!(how == "appended", *session == own, "round {round}");
            let kept = stored(&servers[0], session);
            let own = [json!(begin), json!(format!("to {begin}")), json!(text)];
            assert_eq!(kept[..3], own, "round {round}");
            assert_eq!(kept[3], format!("to {text}"), "round {round}");
            assert_eq!(kept.len(), 4, "round {round}");
        }
    }
    println!("{rounds} pairs");
}
