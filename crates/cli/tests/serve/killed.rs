//! SIGKILL and SIGTERM of a server, in the middle of answers and while a call waits for a person.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::{
    Answer, Delivery, Gate, ModelServer, Random, Received, Reply, end_of_stream, text_delta,
};

use crate::client::{Event, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";
const EVENTS: &str = "/v1/sessions/s1/events";

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md", "--permission", "work=ask"])
}

/// Fails unless the numbers count up from the first one without a gap.
fn check_numbers(events: &[Event]) {
    let numbers = events.iter().map(|event| {
        let (seq, generation) = event.id.split_once('-').unwrap();
        assert_eq!(generation, "1");
        seq.parse::<u64>().unwrap()
    });
    let numbers: Vec<u64> = numbers.collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "{events:?}");
}

#[test]
fn a_killed_server_continues_its_turn_and_its_stream() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two "), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(Answer::text("the answer")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let mut events = stream.until("answer.delta");
    served.kill();

    let served = serve(folder.path(), &model);
    let last = events.last().unwrap().id.clone();
    let mut stream = served.events("GET", EVENTS, Some(&last), "");
    events.extend(stream.until("turn.completed"));
    check_numbers(&events);
    let recovered = events
        .iter()
        .filter(|event| event.kind() == "turn.recovered");
    assert_eq!(recovered.count(), 1, "{events:?}");
    let replies = events.last().unwrap().data["messages"].clone();
    let last = replies.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"], "the answer");
    let accepted = events
        .iter()
        .filter(|event| event.kind() == "turn.accepted");
    assert_eq!(accepted.count(), 1, "{events:?}");
}

/// Calls the tool until the request contains a result.
fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let has_result = messages.iter().any(|message| message["role"] == "tool");
    Reply::Answer(if has_result {
        Answer::text("g h i j k l")
    } else {
        Answer::text("a b c d e f").with_call("c1", "work", "{}")
    })
}

#[test]
fn sigkill_at_random_moments_loses_and_repeats_no_event() {
    const ROUNDS: usize = 40;
    let mut random = Random::new(17);
    for round in 0..ROUNDS {
        let delivery = Delivery::Random(round as u64);
        let model = ModelServer::start_by(answer_of, delivery).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let mut served = Some(serve(folder.path(), &model));
        let body = json!({"message": "go"}).to_string();
        let mut stream =
            served
                .as_ref()
                .unwrap()
                .events("POST", "/v1/sessions/s1/send", None, &body);
        let mut events: Vec<Event> = Vec::new();
        // The kill comes after this many events, which may be after the last one.
        let moment = random.below(9);
        let mut decided = false;
        let mut is_killed = false;
        loop {
            if events.len() == moment && !is_killed && served.is_some() {
                served.take().unwrap().kill();
            }
            let Some(server) = &served else {
                let server = serve(folder.path(), &model);
                let last = events.last().map_or("0-1", |event| event.id.as_str());
                stream = server.events("GET", EVENTS, Some(last), "");
                is_killed = true;
                served = Some(server);
                continue;
            };
            match events.last().map(Event::kind) {
                Some("turn.suspended") if !decided => {
                    let signal = events.last().unwrap().data["signal"]["signal_id"].clone();
                    let path = format!("/v1/signals/{}", signal.as_str().unwrap());
                    let answer = server.post(&path, &json!({"approval": "approve"}));
                    assert_eq!(answer.status, 200, "{answer:?}");
                    decided = true;
                    let last = events.last().unwrap().id.clone();
                    stream = server.events("GET", EVENTS, Some(&last), "");
                }
                Some("turn.completed") => break,
                _ => {}
            }
            let event = stream.next();
            events.push(event.unwrap_or_else(|| panic!("round {round}: {events:?}")));
        }
        check_numbers(&events);
        assert!(decided, "round {round}: {events:?}");
        let server = served.as_ref().unwrap();
        let history = server.get("/v1/sessions/s1/messages").json();
        let messages: Vec<Value> = history["messages"].as_array().unwrap().clone();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        assert_eq!(results.count(), 1, "round {round}: {messages:?}");
    }
}

#[test]
fn a_terminated_server_lets_its_turns_end() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut served = serve(folder.path(), &model);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    stream.until("answer.delta");
    let id = i32::try_from(served.child.id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    gate.open();
    gate.open();
    let ended = stream.until("turn.completed");
    assert_eq!(
        ended.last().unwrap().data["messages"][0]["content"],
        "one two"
    );
    assert_eq!(served.child.wait().unwrap().code(), Some(143));
}
