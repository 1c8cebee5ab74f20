//! A listener: it follows a session over connections that end at random.

use std::time::Duration;

use testkit::Random;

use crate::http::{Event, Received, events, request};
use crate::load::Shared;

/// The silence after which a listener connects again; a server that runs is never silent for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows a session from its first event to its last one.
pub(crate) fn listen(shared: &Shared, session: &str, mut random: Random) {
    let mut received: Vec<Event> = Vec::new();
    let Some(mut generation) = generation(shared, session, &mut random) else {
        return;
    };
    let path = format!("/v1/sessions/{session}/events");
    while !shared.is_abandoned() && !is_complete(shared, session, &received) {
        let last = received.last().map_or(0, |event| event.seq);
        let after = format!("{last}-{generation}");
        let reset = follow(
            shared,
            (&path, &after),
            &generation,
            &mut received,
            &mut random,
        );
        if let Some(new) = reset {
            // The numbers have begun anew.
            shared.record().resets += 1;
            received.clear();
            generation = new;
        }
        let pause = random.below(100) as u64;
        std::thread::sleep(Duration::from_millis(pause));
    }
    let mut record = shared.record();
    if !is_complete(shared, session, &received) {
        let last = received.last().map_or(0, |event| event.seq);
        let end = shared.end(session);
        record.violation(format!(
            "a listener of {session} is at event {last} of {end:?}"
        ));
    }
    record
        .events
        .entry(session.to_owned())
        .or_default()
        .push(received);
}

fn is_complete(shared: &Shared, session: &str, received: &[Event]) -> bool {
    let last = received.last().map_or(0, |event| event.seq);
    shared.end(session).is_some_and(|end| last >= end)
}

/// Waits until a session exists, and returns the generation of its events.
fn generation(shared: &Shared, session: &str, random: &mut Random) -> Option<String> {
    let path = format!("/v1/sessions/{session}");
    // A session without a message never exists.
    while !shared.is_abandoned() && (!shared.has_ended() || shared.end(session).is_some()) {
        let shown = request(shared.address(random), ("GET", &path), &[], "", PATIENCE);
        match shown {
            Ok(shown) if shown.status == 200 => {
                let after = shown.body["events_after"].as_str().unwrap_or_default();
                // The log begins after the session.
                if let Some((_, generation)) = after.split_once('-').filter(|(_, one)| *one != "0")
                {
                    return Some(generation.to_owned());
                }
            }
            Ok(shown) if shown.status != 404 => shared.record().refuse(&path, &shown),
            Ok(_) => {}
            Err(_) => shared.record().lost_answers += 1,
        }
        let pause = 50 + random.below(100) as u64;
        std::thread::sleep(Duration::from_millis(pause));
    }
    None
}

/// Receives events over one connection; returns the new generation if the numbers have begun anew.
fn follow(
    shared: &Shared,
    (path, after): (&str, &str),
    generation: &str,
    received: &mut Vec<Event>,
    random: &mut Random,
) -> Option<String> {
    let mut stream = match events(shared.address(random), path, after, PATIENCE) {
        Ok(Ok(stream)) => stream,
        Ok(Err(answer)) => {
            shared.record().refuse(path, &answer);
            return None;
        }
        Err(_) => {
            shared.record().lost_answers += 1;
            return None;
        }
    };
    shared.record().streams += 1;
    let session = path.rsplit('/').nth(1).unwrap_or_default();
    for _ in 0..=random.below(200) {
        if shared.is_abandoned() || is_complete(shared, session, received) {
            return None;
        }
        let event = match stream.receive() {
            Ok(Received::Event(event)) => event,
            Ok(Received::Comment) => continue,
            Ok(Received::End) | Err(_) => return None,
        };
        if event.data == "{\"type\":\"reset\"}" {
            return Some(event.generation);
        }
        let last = received.last().map_or(0, |event| event.seq);
        if event.seq != last + 1 || event.generation != generation {
            let text = format!("{path} after {after}: event {event:?} follows {last}");
            shared.record().violation(text);
            return None;
        }
        received.push(event);
    }
    None
}
