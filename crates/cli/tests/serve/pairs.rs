//! Two clients that send to one session at the same time.

use std::sync::mpsc;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Random, Received, Reply, soak};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

/// Returns the number of the user's messages in a request to the model.
fn questions(request: &Received) -> usize {
    let messages = request.body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "user").count()
}

/// Sends two messages at once; `opens` is called after the first answer.
fn send_both(served: &Served, session: &str, busy: &str, opens: impl Fn()) -> Vec<Answered> {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for text in ["first", "second"] {
            let sender = sender.clone();
            scope.spawn(move || {
                let path = format!("/v1/sessions/{session}/send");
                let body = json!({"message": text, "busy": busy});
                sender.send(served.post(&path, &body)).unwrap();
            });
        }
        let first = receiver.recv().unwrap();
        opens();
        vec![first, receiver.recv().unwrap()]
    })
}

#[test]
fn of_two_clients_at_once_the_second_waits_or_is_refused() {
    let pairs = soak::rounds(50, 1_000);
    let gate = Gate::new();
    let gated = gate.clone();
    let answer = move |request: &Received| {
        let text = format!("answer {}", questions(request));
        let bytes = Answer::text(text).stream(&mut Random::new(7));
        // The answer waits for the gate.
        let start = b": wait\n\n".to_vec();
        Reply::Gated(vec![start, bytes], gated.clone())
    };
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md"]);
    let mut known = 0;
    for pair in 0..pairs {
        let session = format!("s{pair}");
        let is_refused = pair % 2 == 1;
        let answers = if is_refused {
            // The refusal comes while the model answers the other.
            send_both(&served, &session, "reject", || gate.open())
        } else {
            gate.open();
            gate.open();
            send_both(&served, &session, "enqueue", || {})
        };
        let requests: Vec<Received> = model.received().drain(known..).collect();
        known += requests.len();
        let history = served.get(&format!("/v1/sessions/{session}/messages"));
        let history = history.json()["messages"].as_array().unwrap().clone();
        let contents: Vec<&Value> = history.iter().map(|message| &message["content"]).collect();
        if is_refused {
            assert_eq!(answers[0].status, 409, "pair {pair}: {answers:?}");
            assert_eq!(answers[0].json()["code"], "session_busy");
            assert_eq!(answers[1].status, 200, "pair {pair}: {answers:?}");
            assert_eq!(requests.len(), 1, "pair {pair}");
            assert_eq!(contents.len(), 2, "pair {pair}: {history:?}");
            continue;
        }
        let are_kept = answers.iter().all(|answer| answer.status == 200);
        assert!(are_kept, "pair {pair}: {answers:?}");
        // The second request has the first answer: it was sent after it.
        let counts: Vec<usize> = requests.iter().map(questions).collect();
        assert_eq!(counts, [1, 2], "pair {pair}");
        let second = requests[1].body["messages"].to_string();
        assert!(second.contains("answer 1"), "pair {pair}: {second}");
        assert_eq!(contents.len(), 4, "pair {pair}: {history:?}");
        assert_eq!([contents[1], contents[3]], ["answer 1", "answer 2"]);
        let mut asked = [contents[0].to_string(), contents[2].to_string()];
        asked.sort();
        assert_eq!(asked, ["\"first\"", "\"second\""]);
    }
    println!("{pairs} pairs");
}
