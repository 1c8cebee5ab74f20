//! Several processes deliver every message and signal several times at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use testkit::Random;

use crate::laws::check;
use crate::player::{Place, effects, rounds, seed};

#[test]
fn what_is_delivered_five_times_happens_once() {
    let mut random = Random::new(seed());
    let place = Place::new();
    let messages = rounds(40);
    let mut players: Vec<_> = (0..4)
        .map(|_| place.player(Duration::from_secs(2)))
        .collect();
    for number in 0..messages {
        let kind = ["tool", "wait"][number % 2];
        let key = format!("k{number:03}");
        for _ in 0..2 + random.below(4) {
            let player = random.below(4);
            players[player].tell(&format!("&send s{} {key} {kind} {key}", number % 3));
        }
    }
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |lines: Vec<String>| {
        for line in lines {
            if let Some((key, outcome)) = line.strip_prefix("told ").and_then(|l| l.split_once(' '))
            {
                told.entry(key.to_owned())
                    .or_default()
                    .insert(outcome.to_owned());
            }
        }
    };
    for player in players {
        note(player.finish());
    }
    // All suspending turns wait now; the signals are also sent several times.
    let mut players: Vec<_> = (0..4)
        .map(|_| place.player(Duration::from_secs(2)))
        .collect();
    for number in (1..messages).step_by(2) {
        for delivery in 0..2 + random.below(4) {
            let player = random.below(4);
            players[player].tell(&format!("&signal sig-k{number:03} yes{delivery}"));
        }
    }
    for player in players {
        note(player.finish());
    }
    let stored = check(&place, "duplicates");
    for (key, outcomes) in &told {
        assert_eq!(outcomes.len(), 1, "{key} received {outcomes:?}");
    }
    assert_eq!(told.len(), messages + messages / 2);
    assert_eq!(effects(&place.effects()).len(), messages.div_ceil(2));
    for number in 0..messages {
        assert_eq!(
            stored.said(&format!("s{}", number % 3), &format!("k{number:03}")),
            1
        );
    }
    let resumed = stored
        .outcomes
        .values()
        .flatten()
        .filter(|outcome| outcome.resumed)
        .count();
    assert_eq!(resumed, messages / 2);
}
