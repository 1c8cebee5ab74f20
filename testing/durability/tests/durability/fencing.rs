//! An owner that is stopped past the end of its lease, and resumes.

use std::time::Duration;

use crate::laws::check;
use crate::player::{Place, Player, rounds};

const LEASE: Duration = Duration::from_millis(60);

/// The number of rounds on one store, so that a round costs the same in a long test.
const ROUNDS_PER_STORE: usize = 50;

fn signal(player: &Player, signal: &str) {
    let id = player.child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args([signal, &id])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn an_owner_that_was_stopped_is_refused() {
    let rounds = rounds(10);
    let mut place = Place::new();
    let mut held = 0;
    for round in 0..rounds {
        let on_store = round % ROUNDS_PER_STORE;
        if on_store == 0 {
            place = Place::new();
        }
        let mut stopped = place.player(LEASE);
        stopped.wait_for("open");
        stopped.tell(&format!("stream s a{round} stuck a{round}"));
        // The owner runs a turn that takes much longer than the lease.
        stopped.wait_for(&format!("begun a{round}"));
        signal(&stopped, "-STOP");
        std::thread::sleep(LEASE + Duration::from_millis(20));
        let mut other = place.player(LEASE);
        other.tell(&format!("send s b{round} plain b{round}"));
        // The other owner recovers the stopped owner's message, and then runs its own.
        let done = format!("told b{round} completed");
        if !other.says(&done, Duration::from_secs(5)) {
            // The owner was stopped during a renewal, with the lock of the file: no process can write
            // until it resumes, and then its writes are refused.
            held += 1;
            signal(&stopped, "-CONT");
            other.wait_for(&done);
        }
        drop(other.finish());
        signal(&stopped, "-CONT");
        let told = stopped.finish();
        // It receives the one outcome of its message, from the other owner.
        let line = format!("told a{round} completed answer to stuck a{round}");
        assert!(told.contains(&line), "round {round}: {told:?}");
        let stored = check(&place, &format!("round {round}"));
        let history = stored.histories.get("s").unwrap();
        assert_eq!(history.len(), 4 * (on_store + 1), "round {round}");
        assert_eq!(
            (
                stored.said("s", &format!("a{round}")),
                stored.said("s", &format!("b{round}"))
            ),
            (1, 1)
        );
    }
    println!("{rounds} owners stopped and refused, {held} of them with the lock of the file");
    assert!(
        held * 10 <= rounds.max(10),
        "{held} of {rounds} held the lock"
    );
}
