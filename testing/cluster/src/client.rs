//! A sender: it repeats a message until it has an outcome, and approves its call.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Random;

use crate::http::{Answer, request};
use crate::load::{Item, Shared};

/// The silence after which a client tries another server.
const PATIENCE: Duration = Duration::from_secs(6);

/// The code of a turn that ended after too many recoveries.
const INTERRUPTED: &str = "turn_interrupted";

/// Sends messages until there are no more.
pub(crate) fn send_all(shared: &Shared, mut random: Random) {
    while let Some(item) = shared.take() {
        send(shared, &item, &mut random);
        std::thread::sleep(shared.pace);
    }
}

fn send(shared: &Shared, item: &Item, random: &mut Random) {
    let mut outcome = None;
    if item.is_doubled {
        let mut other = Random::new(random.next_u64());
        std::thread::scope(|scope| {
            scope.spawn(|| deliver(shared, item, &mut other));
            outcome = deliver(shared, item, random);
        });
    } else {
        outcome = deliver(shared, item, random);
    }
    let signal = outcome
        .as_ref()
        .map(|outcome| &outcome["signal"]["signal_id"]);
    let Some(signal) = signal.and_then(Value::as_str) else {
        return;
    };
    if random.below(3) == 0 {
        let mut other = Random::new(random.next_u64());
        std::thread::scope(|scope| {
            scope.spawn(|| approve(shared, item, signal, &mut other));
            approve(shared, item, signal, random);
        });
    } else {
        approve(shared, item, signal, random);
    }
}

/// Delivers a message until it has an outcome.
fn deliver(shared: &Shared, item: &Item, random: &mut Random) -> Option<Value> {
    let path = format!("/v1/sessions/{}/send", item.session);
    let body = json!({ "message": item.text }).to_string();
    let headers = [("idempotency-key", item.key.as_str())];
    let answer = repeat(shared, &item.key, random, |address| {
        request(address, ("POST", &path), &headers, &body, PATIENCE)
    })?;
    let mut record = shared.record();
    if answer.body["code"] == INTERRUPTED {
        record.interrupted_turns.insert(item.key.clone());
        return None;
    }
    let entry = answer.body["turn"].as_u64().unwrap_or(0);
    record.acknowledge(&item.key, &item.session, entry);
    Some(answer.body)
}

/// Approves a call until the decision has an outcome.
fn approve(shared: &Shared, item: &Item, signal: &str, random: &mut Random) {
    let path = format!("/v1/signals/{signal}");
    let body = json!({"approval": "approve"}).to_string();
    let what = format!("the decision about {}", item.key);
    // The server may receive it although its answer never comes.
    shared.record().approved.insert(item.key.clone());
    drop(repeat(shared, &what, random, |address| {
        request(address, ("POST", &path), &[], &body, PATIENCE)
    }));
}

/// Repeats a request at random servers until it succeeds.
fn repeat(
    shared: &Shared,
    what: &str,
    random: &mut Random,
    send: impl Fn(&str) -> std::io::Result<Answer>,
) -> Option<Answer> {
    while !shared.is_abandoned() {
        match send(shared.address(random)) {
            Ok(answer) if matches!(answer.status, 200 | 202) => return Some(answer),
            Ok(answer) if answer.body["code"] == INTERRUPTED => return Some(answer),
            Ok(answer) => shared.record().refuse(what, &answer),
            Err(_) => shared.record().lost_answers += 1,
        }
        let pause = 20 + random.below(180) as u64;
        std::thread::sleep(Duration::from_millis(pause));
    }
    None
}
