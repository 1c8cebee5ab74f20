//! Cuts of the client's connection, in the middle of answers and while a call waits for a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Random, Received, soak};

use crate::client::{Event, Served};
use crate::history::{AGENT, SCRIPT, answer_of, check_turn, count};
use crate::program::{folder, logue};

/// Reads a turn to its end over connections that are cut at random, and returns their number.
fn cut_turn(served: &Served, session: &str, random: &mut Random) -> (Vec<Event>, usize) {
    let (send, follow) = (
        format!("/v1/sessions/{session}/send"),
        format!("/v1/sessions/{session}/events"),
    );
    let body = json!({"message": "go"}).to_string();
    let mut events: Vec<Event> = Vec::new();
    let (mut cuts, mut is_decided) = (0, false);
    loop {
        let mut stream = if let Some(last) = events.last() {
            served.events("GET", &follow, Some(&last.id), "")
        } else {
            let headers = [("idempotency-key", session)];
            served.try_events("POST", &send, &headers, &body).unwrap()
        };
        let end = events.len() + random.below(6);
        while events.len() < end {
            let Some(event) = stream.next() else {
                break;
            };
            events.push(event);
            if matches!(
                events.last().unwrap().kind(),
                "turn.suspended" | "turn.completed"
            ) {
                break;
            }
        }
        if count(&events, "turn.completed") > 0 {
            return (events, cuts);
        }
        // A part of the next event is lost with the connection.
        if count(&events, "turn.suspended") == usize::from(is_decided) {
            stream.cut(1 + random.below(300));
        }
        cuts += 1;
        if count(&events, "turn.suspended") > 0 && !is_decided {
            let event = events.iter().find(|event| event.kind() == "turn.suspended");
            let signal = event.unwrap().data["signal"]["signal_id"].clone();
            let path = format!("/v1/signals/{}", signal.as_str().unwrap());
            let decision = json!({"approval": "approve"}).to_string();
            // The answer to the decision is cut too, which does not cancel it.
            let posted = served.connect("POST", &path, &[], &decision).unwrap();
            if random.below(2) == 0 {
                drop(posted);
                cuts += 1;
            }
            let answer = served.request("POST", &path, &[], &decision);
            assert_eq!(answer.status, 200, "{answer:?}");
            is_decided = true;
        }
    }
}

#[test]
fn cuts_of_the_connection_lose_and_repeat_no_event() {
    let target = soak::rounds(60, 1_000) as usize;
    let gate = Gate::new();
    let ended = Arc::new(AtomicBool::new(false));
    let (opened, stop) = (gate.clone(), Arc::clone(&ended));
    let ticker = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            opened.open();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let answer = move |request: &Received| answer_of(request, &gate, 5);
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("work.sh", SCRIPT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let mut random = Random::new(29);
    let (mut cuts, mut turns) = (0, 0);
    while cuts < target {
        turns += 1;
        let session = format!("s{turns}");
        let (events, count) = cut_turn(&served, &session, &mut random);
        cuts += count;
        check_turn(&served, folder.path(), &session, &events);
        std::fs::remove_file(folder.path().join("runs")).unwrap();
    }
    ended.store(true, Ordering::Relaxed);
    ticker.join().unwrap();
    println!("{cuts} cuts in {turns} turns");
}
