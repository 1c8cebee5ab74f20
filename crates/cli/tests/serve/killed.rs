//! SIGKILL and SIGTERM of a server, in the middle of answers and while a call waits for a person.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testkit::{
    Answer, Delivery, Gate, ModelServer, Random, Received, Reply, end_of_stream, soak, text_delta,
};

use crate::client::{Event, Events, Served};
use crate::history::{AGENT, SCRIPT, answer_of, check_numbers, check_turn, count};
use crate::program::{folder, logue};

const EVENTS: &str = "/v1/sessions/s1/events";

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md", "--permission", "work=ask"])
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

/// The call that ran when the server was killed has an end.
#[test]
fn a_call_of_a_killed_server_ends_as_interrupted() {
    let call = Answer::text("").with_call("c1", "work", "{}");
    let replies = vec![
        Reply::Answer(call),
        Reply::Answer(Answer::text("the answer")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("work.sh", "sleep 60\n")]);
    let start = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        Served::start_with(command, &["agent.md", "--permission", "work=allow"])
    };
    let served = start();
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let mut events = stream.until("tool.started");
    served.kill();
    let served = start();
    let last = events.last().unwrap().id.clone();
    let mut stream = served.events("GET", EVENTS, Some(&last), "");
    events.extend(stream.until("turn.completed"));
    check_numbers(&events);
    let ends: Vec<&Event> = events
        .iter()
        .filter(|event| event.kind() == "tool.ended")
        .collect();
    let [end] = ends[..] else {
        panic!("{events:?}");
    };
    assert_eq!(end.data["call_id"], "c1");
    assert_eq!(end.data["interrupted"], true);
    assert!(end.data.get("ok").is_none(), "{end:?}");
    assert_eq!(count(&events, "turn.recovered"), 1, "{events:?}");
    assert!(
        events
            .last()
            .unwrap()
            .data
            .to_string()
            .contains("E-TOOL-CANCELLED")
    );
}

/// A message that is delivered again, to another server, at once after the first one was killed.
#[test]
fn a_message_that_another_server_receives_again_continues_its_turn_and_its_stream() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two "), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(Answer::text("the answer")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let (first, second) = (serve(folder.path(), &model), serve(folder.path(), &model));
    let body = json!({"message": "go"}).to_string();
    let headers = [("idempotency-key", "k1")];
    let path = "/v1/sessions/s1/send";
    let mut stream = first.try_events("POST", path, &headers, &body).unwrap();
    let mut events = stream.until("answer.delta");
    first.kill();
    let again = second.request("POST", path, &headers, &body);
    assert_eq!(again.status, 200, "{again:?}");
    let last = events.last().unwrap().id.clone();
    let mut stream = second.events("GET", EVENTS, Some(&last), "");
    events.extend(stream.until("turn.completed"));
    check_numbers(&events);
    let kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    let recovered = kinds.iter().position(|kind| *kind == "turn.recovered");
    let later = &kinds[recovered.unwrap_or_else(|| panic!("{kinds:?}"))..];
    assert!(later.contains(&"answer.delta"), "{kinds:?}");
    assert!(later.contains(&"answer.completed"), "{kinds:?}");
}

/// A client that continues after each kill, and the killer.
struct Round {
    folder: tempfile::TempDir,
    model: ModelServer,
    random: Random,
    served: Option<Served>,
    events: Vec<Event>,
    /// The number of events after which the server is killed next.
    moment: usize,
    left: usize,
    is_decided: bool,
}

impl Round {
    fn new(seed: u64, gate: &Gate) -> Self {
        let gate = gate.clone();
        let answer = move |request: &Received| answer_of(request, &gate, seed);
        let mut random = Random::new(seed + 1);
        Self {
            folder: folder(&[("agent.md", AGENT), ("work.sh", SCRIPT)]),
            model: ModelServer::start_by(answer, Delivery::Whole).unwrap(),
            served: None,
            events: Vec::new(),
            moment: random.below(40),
            left: 1 + random.below(3),
            is_decided: false,
            random,
        }
    }

    fn killed(&mut self) -> usize {
        match self.served.take() {
            Some(served) => {
                served.kill();
                self.left -= 1;
                self.moment = self.events.len() + self.random.below(30);
                1
            }
            None => 0,
        }
    }

    fn served(&mut self) -> &Served {
        if self.served.is_none() {
            self.served = Some(serve(self.folder.path(), &self.model));
        }
        self.served.as_ref().unwrap()
    }

    /// Waits for a random part of a time in which a server starts, recovers or answers.
    fn wait(&mut self) {
        let time = Duration::from_micros(self.random.below(60_000) as u64);
        std::thread::sleep(time);
    }

    /// Opens the stream after the last event; sends the message if there was none.
    fn stream(&mut self) -> Option<Events> {
        let last = self.events.last().map(|event| event.id.clone());
        let served = self.served();
        if let Some(last) = last {
            let headers = [("last-event-id", last.as_str())];
            return served.try_events("GET", EVENTS, &headers, "");
        }
        let body = json!({"message": "go"}).to_string();
        let headers = [("idempotency-key", "k1")];
        served.try_events("POST", "/v1/sessions/s1/send", &headers, &body)
    }

    /// Posts the decision; kills the server during it if `is_cut`. Returns the kills.
    fn decide(&mut self, is_cut: bool) -> usize {
        let event = self
            .events
            .iter()
            .find(|event| event.kind() == "turn.suspended");
        let signal = event.unwrap().data["signal"]["signal_id"].clone();
        let path = format!("/v1/signals/{}", signal.as_str().unwrap());
        let body = json!({"approval": "approve"}).to_string();
        if is_cut {
            let posted = self.served().connect("POST", &path, &[], &body);
            self.wait();
            let killed = self.killed();
            drop(posted);
            return killed;
        }
        if let Some(answer) = self.served().try_request("POST", &path, &[], &body) {
            assert_eq!(answer.status, 200, "{answer:?}");
            self.is_decided = true;
        }
        0
    }

    /// Runs to the end of the turn, and returns the number of kills.
    fn run(&mut self) -> usize {
        let mut kills = 0;
        // Between the message and its first event.
        if self.random.below(4) == 0 {
            let body = json!({"message": "go"}).to_string();
            let headers = [("idempotency-key", "k1")];
            let path = "/v1/sessions/s1/send";
            let posted = self.served().connect("POST", path, &headers, &body);
            self.wait();
            kills += self.killed();
            drop(posted);
        }
        loop {
            // During the recovery.
            if kills > 0 && self.left > 0 && self.random.below(4) == 0 {
                self.served();
                self.wait();
                kills += self.killed();
            }
            let is_asked = count(&self.events, "turn.suspended") > 0;
            if is_asked && !self.is_decided {
                let is_cut = self.left > 0 && self.random.below(2) == 0;
                kills += self.decide(is_cut);
                continue;
            }
            let Some(mut stream) = self.stream() else {
                continue;
            };
            while self.left == 0 || self.events.len() < self.moment {
                let Some(event) = stream.next() else {
                    break;
                };
                let kind = event.kind().to_owned();
                self.events.push(event);
                if kind == "turn.completed" {
                    return kills;
                }
                if kind == "turn.suspended" {
                    break;
                }
            }
            if self.left > 0 && self.events.len() >= self.moment {
                kills += self.killed();
            }
        }
    }
}

#[test]
fn sigkill_at_random_moments_loses_and_repeats_nothing() {
    let target = soak::rounds(25, 200) as usize;
    let gate = Gate::new();
    let ended = Arc::new(AtomicBool::new(false));
    let (opened, stop) = (gate.clone(), Arc::clone(&ended));
    // The pieces of answers come one after another, so that kills come between them.
    let ticker = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            opened.open();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let (mut kills, mut seed) = (0, 0);
    while kills < target {
        seed += 1;
        let mut round = Round::new(seed, &gate);
        kills += round.run();
        // The same decision again changes nothing.
        round.decide(false);
        let served = round.served.take().unwrap();
        check_turn(&served, round.folder.path(), "s1", &round.events);
    }
    ended.store(true, Ordering::Relaxed);
    ticker.join().unwrap();
    println!("{kills} kills in {seed} turns");
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
