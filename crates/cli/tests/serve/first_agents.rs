//! Requests that name different agents for one session at the same time.

use std::sync::Barrier;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

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
