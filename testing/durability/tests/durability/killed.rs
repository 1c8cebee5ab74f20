//! `kill -9` at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use testkit::Random;

use crate::laws::check;
use crate::player::{Place, Player, rounds, seed};

const LEASE: Duration = Duration::from_millis(120);

#[test]
fn nothing_that_was_told_is_lost_and_nothing_happens_twice() {
    let seed = seed();
    let mut random = Random::new(seed);
    let rounds = rounds(50);
    let (mut told_in_all, mut cut, mut resumed, mut failed) = (0, 0, 0, 0);
    let mut round = 0;
    while round < rounds {
        // Several rounds on one store, so that each finds the state of the previous one.
        let place = Place::new();
        let mut keys: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut unheard: Vec<String> = Vec::new();
        let mut failing: BTreeSet<String> = BTreeSet::new();
        // The number of processes that were killed while they had the message.
        let mut kills: BTreeMap<String, usize> = BTreeMap::new();
        for life in 0..10.min(rounds - round) {
            let context = format!("LOGUE_SEED={seed}, round {round}");
            let last = life == 9 || round + 1 == rounds;
            let mut command = place.command(LEASE);
            if !last {
                command.env("PLAYER_AWAY", "1");
            }
            let mut player = Player::start(command);
            let mut asked = Vec::new();
            // Unanswered messages of the previous process are sent again with the same key.
            for line in std::mem::take(&mut unheard) {
                asked.push(line);
            }
            for number in 0..6 {
                let session = format!("s{}", random.below(2));
                let key = format!("k{life}-{number}");
                let kind = ["plain", "tool", "tools", "wait", "fail", "slow"][random.below(6)];
                let verb = ["send", "stream"][random.below(2)];
                asked.push(format!("{verb} {session} {key} {kind} {key}"));
                // What always fails is never sent again.
                if kind == "fail" {
                    failing.insert(key.clone());
                }
                if kind == "wait" {
                    asked.push(format!("signal sig-{key} yes"));
                }
                if random.below(8) == 0 {
                    asked.push(format!("fork {session} 0 f{life}-{number}"));
                }
            }
            for line in &asked {
                let amp = if random.below(3) == 0 { "&" } else { "" };
                player.tell(&format!("{amp}{line}"));
            }
            let heard = if last {
                player.finish()
            } else {
                std::thread::sleep(Duration::from_micros(random.below(90_000) as u64));
                player.kill();
                player.heard()
            };
            let told: BTreeMap<String, String> = heard
                .iter()
                .filter_map(|line| line.strip_prefix("told ")?.split_once(' '))
                .map(|(key, told)| (key.to_owned(), told.to_owned()))
                .collect();
            for line in &asked {
                let words: Vec<&str> = line.split(' ').collect();
                let key = if words[0] == "signal" {
                    words[1]
                } else {
                    words[2]
                };
                match told.get(key) {
                    Some(told) if words[0] == "send" || words[0] == "stream" => {
                        // A failure that passes settles no key: it is sent again.
                        if told.starts_with("errored provider_") && !failing.contains(key) {
                            failed += 1;
                            unheard.push(line.clone());
                        }
                        keys.insert(key.to_owned(), (words[1].to_owned(), told.clone()));
                    }
                    Some(told) if words[0] == "signal" => {
                        resumed += usize::from(told.contains("resumed yes"));
                        // A signal that arrived before the suspension is sent again.
                        if told.contains("harness_signal_correlation_failed") && !last {
                            unheard.push(line.clone());
                        }
                    }
                    Some(_) => {}
                    None if words[0] == "fork" => {}
                    None => {
                        cut += 1;
                        *kills.entry(key.to_owned()).or_default() += 1;
                        unheard.push(line.clone());
                    }
                }
            }
            round += 1;

            let stored = check(&place, &context);
            if last {
                stored.lost_nothing(&place, &context);
            }
            told_in_all += keys.len();
            for (key, (session, told)) in &keys {
                let said = stored.said(session, key);
                if told.starts_with("completed") || told.starts_with("suspended") {
                    // A message is said again if the session went on after its turn had failed.
                    assert!(said >= 1, "{context}: {key} received {told}");
                } else if told == "errored turn_interrupted" {
                    // A turn ends so only after its first process and three recoveries were killed.
                    let killed = kills.get(key).copied().unwrap_or(0);
                    assert!(killed > 3, "{context}: {key} {told} after {killed} kills");
                } else {
                    assert!(
                        told.starts_with("errored provider_"),
                        "{context}: {key} {told}"
                    );
                    let expected = usize::from(!failing.contains(key));
                    assert!(said >= expected, "{context}: {key} received {told}");
                }
            }
        }
        // Finally every message has its answer.
        assert!(
            unheard.iter().all(|line| line.starts_with("signal")),
            "{unheard:?}"
        );
    }
    println!(
        "{rounds} lives, {told_in_all} outcomes looked up, {cut} cut off, {resumed} resumed, \
         {failed} failed and sent again"
    );
    // A few lives on a slow machine may end before anything happens in them.
    assert!(
        rounds < 200 || (cut > 10 && resumed > 0 && failed > 0),
        "the kills met nothing"
    );
}
