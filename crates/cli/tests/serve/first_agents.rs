//! Requests that name different agents for one session at the same time.

use std::sync::Barrier;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue, run};

#[test]
fn one_of_two_agents_gets_an_empty_conversation() {
    let reply = |_: &_| Reply::Answer(Answer::text("done"));
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let agent = |name: &str| format!("<config model=\"{name}\"/>\n");
    let folder = folder(&[("one.md", &agent("one")), ("two.md", &agent("two"))]);
    let start = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        Served::start_with(command, &["one.md", "two.md"])
    };
    let servers = [start(), start()];
    for round in 0..testkit::soak::rounds(20, 300) {
        let conversation = servers[0].post("/v1/conversations", &json!({})).json()["id"].clone();
        let before = model.received().len();
        let barrier = Barrier::new(2);
        let answers: Vec<(&str, Answered)> = std::thread::scope(|scope| {
            let tasks: Vec<_> = ["one", "two"]
                .into_iter()
                .zip(&servers)
                .map(|(name, served)| {
                    let (conversation, barrier) = (conversation.clone(), &barrier);
                    scope.spawn(move || {
                        let body = json!({"model": name, "input": "go",
                            "conversation": conversation});
                        barrier.wait();
                        (name, served.post("/v1/responses", &body))
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) =
            answers.iter().partition(|(_, answer)| answer.status == 200);
        let ([(name, done)], [(_, refused)]) = (&done[..], &refused[..]) else {
            panic!("round {round}: {answers:?}");
        };
        assert_eq!(refused.status, 409, "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "agent_differs");
        assert_eq!(done.json()["model"], *name);
        // The other agent's model was not asked.
        let requests = model.received();
        let models = requests.iter().skip(before);
        let models: Vec<_> = models
            .map(|request| request.body["model"].clone())
            .collect();
        assert_eq!(models, [*name], "round {round}");
    }
}

#[test]
fn one_of_two_agents_gets_a_new_session() {
    let reply = |_: &_| Reply::Answer(Answer::text("done"));
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let agent = |name: &str| format!("<config model=\"{name}\"/>\n");
    let folder = folder(&[("one.md", &agent("one")), ("two.md", &agent("two"))]);
    let start = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        Served::start_with(command, &["one.md", "two.md"])
    };
    let servers = [start(), start()];
    for round in 0..testkit::soak::rounds(20, 300) {
        // One server or both.
        let second = usize::from(round % 2 == 1);
        let places = [&servers[0], &servers[second]];
        let before = model.received().len();
        let barrier = Barrier::new(2);
        let session = format!("new-{round}");
        let statuses = std::thread::scope(|scope| {
            let tasks = [("one", places[0]), ("two", places[1])].map(|(name, served)| {
                let (session, barrier) = (&session, &barrier);
                scope.spawn(move || {
                    let body = json!({"agent": name, "message": name});
                    barrier.wait();
                    served.post(&format!("/v1/sessions/{session}/send"), &body)
                })
            });
            tasks.map(|task| task.join().unwrap())
        });
        let mut codes: Vec<u16> = statuses.iter().map(|answer| answer.status).collect();
        let winner = if codes[0] == 200 { "one" } else { "two" };
        codes.sort_unstable();
        assert_eq!(codes, [200, 409], "round {round}: {statuses:?}");
        let own = servers[0].get(&format!("/v1/sessions/{session}")).json();
        assert_eq!(own["agent"], winner, "round {round}: {own}");
        let requests = model.received();
        let asked = requests.iter().skip(before);
        let asked: Vec<_> = asked.map(|request| request.body["model"].clone()).collect();
        assert_eq!(asked, [winner], "round {round}");
    }
}

/// Sends two requests at the same moment; returns the answer of the winner and the refusal.
fn race(
    served: &Served,
    path: &str,
    requests: [(&[(&str, &str)], &Value); 2],
) -> (Answered, Answered) {
    let barrier = Barrier::new(2);
    let answers = std::thread::scope(|scope| {
        let tasks = requests.map(|(headers, body)| {
            let barrier = &barrier;
            scope.spawn(move || {
                let body = body.to_string();
                barrier.wait();
                served.request("POST", path, headers, &body)
            })
        });
        tasks.map(|task| task.join().unwrap())
    });
    match answers {
        [one, other] if one.status == 200 => (one, other),
        [one, other] => (other, one),
    }
}

#[test]
fn a_session_that_another_token_begins_at_the_same_moment_is_unknown() {
    let agent = "<config model=\"echo:\"/>\n";
    let folder = folder(&[("one.md", agent), ("two.md", agent)]);
    let token = |name: &str, more: &[&str]| {
        let create = ["serve", "token", "create", name, "--scope", "read,send"];
        let ran = run(folder.path(), create.iter().chain(more));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        format!("Bearer {}", ran.stdout.trim())
    };
    let only = ["one", "two"].map(|name| token(&format!("only-{name}"), &["--agent", name]));
    let both = ["a", "b"].map(|name| token(name, &[]));
    let served = Served::start(folder.path(), &["one.md", "two.md"]);
    for round in 0..testkit::soak::rounds(30, 300) {
        // Each of these tokens may use one of the agents.
        let bodies = ["one", "two"].map(|name| json!({"agent": name, "message": "go"}));
        let headers = [0, 1].map(|at| [("authorization", only[at].as_str())]);
        let path = format!("/v1/sessions/only-{round}/send");
        let requests = [0, 1].map(|at| (&headers[at][..], &bodies[at]));
        let (first, other) = race(&served, &path, requests);
        assert_eq!(
            [first.status, other.status],
            [200, 404],
            "{round}: {other:?}"
        );
        assert_eq!(other.json()["code"], "session_not_found", "{round}");

        // A conversation of an OpenAI client belongs to its token, whatever the agents are.
        for (kind, models) in [("same", ["one", "one"]), ("other", ["one", "two"])] {
            let session = format!("{kind}-{round}");
            let bodies = models.map(
                |model| json!({"model": model, "messages": [{"role": "user", "content": "go"}]}),
            );
            let headers = [0, 1].map(|at| {
                [
                    ("authorization", both[at].as_str()),
                    ("x-logue-session", session.as_str()),
                ]
            });
            let requests = [0, 1].map(|at| (&headers[at][..], &bodies[at]));
            let (first, other) = race(&served, "/v1/chat/completions", requests);
            let statuses = [first.status, other.status];
            assert_eq!(statuses, [200, 404], "{session}: {first:?} {other:?}");
            let code = &other.json()["error"]["code"];
            assert_eq!(code, "session_not_found", "{session}");
            let created = first.head.contains("x-logue-conversation: created\r\n");
            assert!(created, "{session}: {first:?}");
        }
    }
}
