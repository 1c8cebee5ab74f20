//! Many processes use one session.

use std::time::Duration;

use logue_message::Role;

use crate::laws::check;
use crate::player::{Place, rounds};

#[test]
fn sixteen_processes_have_one_order() {
    let place = Place::new();
    let sends = rounds(100).min(100);
    let mut players: Vec<_> = (0..16)
        .map(|_| place.player(Duration::from_secs(2)))
        .collect();
    for (sender, player) in players.iter_mut().enumerate() {
        for number in 0..sends {
            player.tell(&format!(
                "send s p{sender}-{number:03} plain p{sender}-{number:03}"
            ));
        }
    }
    for (sender, player) in players.into_iter().enumerate() {
        let told = player.finish();
        let told: Vec<_> = told
            .iter()
            .filter(|line| line.starts_with("told"))
            .collect();
        for (number, line) in told.iter().enumerate() {
            let key = format!("p{sender}-{number:03}");
            assert_eq!(
                **line,
                format!("told {key} completed answer to plain {key}")
            );
        }
        assert_eq!(told.len(), sends);
    }
    let stored = check(&place, "sixteen processes");
    let history = stored.histories.get("s").unwrap();
    assert_eq!(history.len(), 16 * sends * 2);
    let mut next = [0; 16];
    for turn in history.chunks(2) {
        let said = turn[0].text();
        assert_eq!((turn[0].role, turn[1].role), (Role::User, Role::Assistant));
        assert_eq!(
            turn[1].text(),
            format!("answer to {said}"),
            "turns are interleaved"
        );
        let key = said.strip_prefix("plain p").unwrap();
        let (sender, number) = key.split_once('-').unwrap();
        let sender: usize = sender.parse().unwrap();
        assert_eq!(
            number.parse::<usize>().unwrap(),
            next[sender],
            "a sender's order is lost"
        );
        next[sender] += 1;
    }
}
