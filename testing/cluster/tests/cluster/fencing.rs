//! A server that is paused within a turn for longer than its lease, and then continues.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSettings, Mutation};
use testkit::postgres::Database;

use crate::pieces::{Listener, PATIENCE, answers, last_event, send, wait_until};
use crate::trial::seed;

/// The events of the turn: those of the first attempt before its pause, and those of the second one.
const EVENTS: [&str; 7] = [
    "turn.accepted",
    "answer.started",
    "answer.delta early-0",
    "turn.recovered",
    "answer.started",
    "answer.delta early-1 middle-1 late-1",
    "answer.completed",
];

/// The texts of the checks of a lease in the functions of the store.
const LEASE: &[(&str, &str)] = &[
    ("s.epoch <> p_epoch", "false"),
    ("s.owner IS NULL", "false"),
    ("s.owner IS DISTINCT FROM p_owner", "false"),
];

/// Checks without which the paused server does damage.
const REMOVED: &[Mutation] = &[
    Mutation {
        name: "the lease of events",
        functions: &["event_fence"],
        changes: &[("l.settled < p_entry AND (", "true OR (")],
    },
    Mutation {
        name: "the lease of commits and notes",
        functions: &["commit", "journal", "renew", "claim_next"],
        changes: LEASE,
    },
    Mutation {
        name: "the idempotency key",
        functions: &["enqueue"],
        changes: &[("is_known := FOUND", "is_known := false")],
    },
];

#[test]
fn a_paused_owner_changes_nothing_after_its_lease() {
    let seed = seed();
    let Some(found) = pause_within_a_turn(seed, None) else {
        return;
    };
    assert_eq!(found, Vec::<String>::new(), "seed {seed}");
}

/// Each check is removed, and the test above must fail. The long form only: a lease is 10 s long.
#[test]
fn the_pause_finds_each_removed_check() {
    if testkit::soak::rounds(0, 1) == 0 {
        return;
    }
    let seed = seed();
    for mutation in REMOVED {
        let Some(found) = pause_within_a_turn(seed, Some(mutation)) else {
            return;
        };
        let name = mutation.name;
        println!("cluster: without {name}: {found:#?}");
        assert!(
            !found.is_empty(),
            "seed {seed}: {name} was removed unnoticed"
        );
    }
}

/// Pauses a server within an answer until another one has taken over; returns the violated promises.
fn pause_within_a_turn(seed: u64, mutation: Option<&Mutation>) -> Option<Vec<String>> {
    let settings = ClusterSettings {
        seed,
        nodes: 2,
        listens: true,
        ..ClusterSettings::default()
    };
    let mut cluster = Cluster::start(&settings).unwrap()?;
    if let Some(mutation) = mutation {
        mutation.apply(&cluster.database).unwrap();
    }
    let addresses = cluster.addresses();
    let (first, second) = (addresses[0].as_str(), addresses[1].as_str());
    assert_eq!(send(first, "s", ("k0", "say 0")).unwrap().status, 200);
    let after = last_event(second, "s");
    let mut listener = Listener::follow(second, "s", &after);
    let mut found = Vec::new();
    let outcome = std::thread::scope(|threads| {
        let sender = threads.spawn(|| send(first, "s", ("k1", "hold 1")));
        assert!(
            listener.wait_for("answer.started"),
            "{:?}",
            listener.kinds()
        );
        // While the append of the first piece waits, the second one waits in the server.
        let lock = LockedLog::new(&cluster);
        cluster.held.send_piece(0);
        wait_until(&cluster, APPENDS, "1");
        cluster.held.send_piece(0);
        wait_until(&cluster, NOTED, "t");
        cluster.nodes[0].pause().unwrap();
        drop(lock);
        assert!(listener.wait_for("early-0"), "{:?}", listener.kinds());
        // The rest of the answer waits in the socket of the paused server.
        cluster.held.release(0);
        assert!(cluster.held.wait(1, PATIENCE), "no server took over");
        cluster.held.send_piece(1);
        assert!(listener.wait_for("early-1"), "{:?}", listener.kinds());
        let before = attempts_to_continue(&cluster);
        cluster.nodes[0].resume().unwrap();
        let begun = Instant::now();
        while attempts_to_continue(&cluster) == before
            && !sender.is_finished()
            && begun.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        cluster.held.release(1);
        sender.join().unwrap()
    });
    let mut note = |is_kept: bool, what: String| {
        if !is_kept {
            found.push(what);
        }
    };
    let outcome = outcome.unwrap();
    note(outcome.status == 200, format!("the outcome is {outcome:?}"));
    let is_complete = listener.wait_for("turn.completed");
    let mut kinds = listener.kinds();
    kinds.pop();
    note(is_complete && kinds == EVENTS, format!("events: {kinds:?}"));
    let said = answers(&cluster, 1, "s");
    let all = said.concat();
    let is_once = all.matches("late-1").count() == 1 && !all.contains("late-0");
    note(is_once, format!("answers: {said:?}"));
    // The same key again, at the other server.
    let again = send(second, "s", ("k0", "say 0"));
    let is_same = again.as_ref().is_ok_and(|again| again.body["turn"] == 1);
    note(is_same, format!("the same key again: {again:?}"));
    let mut other = Listener::follow(first, "s", &after);
    other.wait_for("turn.completed");
    let is_equal = other.events == listener.events;
    note(is_equal, format!("another listener: {:?}", other.kinds()));
    let verified = cluster.run(&["sessions", "verify"]).unwrap();
    let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
    note(verified.status.success(), printed);
    Some(found)
}

/// The number of appends that wait for a lock.
const APPENDS: &str = "select count(*) from pg_stat_activity
    where wait_event_type = 'Lock' and query like '%log_append%' and datname = current_database()";
/// Whether the second piece of the first attempt is in the journal, and so was emitted.
const NOTED: &str = "select exists (select 1 from logue.note where body like '%middle-0%')";

/// A lock of the logs of all sessions, until it is dropped.
struct LockedLog {
    psql: Child,
    database: Database,
}

impl LockedLog {
    fn new(cluster: &Cluster) -> Self {
        let database = cluster.database.clone();
        let mut psql = database.psql(&database.url());
        psql.args(["-c", "begin; select from logue.log for update"]);
        psql.args(["-c", "select pg_sleep(100)"]);
        let psql = psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let held = "select count(*) from pg_stat_activity
            where query = 'select pg_sleep(100)' and datname = current_database()";
        wait_until(cluster, held, "1");
        Self {
            psql: psql.unwrap(),
            database,
        }
    }
}

impl Drop for LockedLog {
    fn drop(&mut self) {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
            where query = 'select pg_sleep(100)'";
        self.database.query(end).unwrap();
        self.psql.wait().unwrap();
    }
}

/// Returns how often the first server has tried to take a session.
fn attempts_to_continue(cluster: &Cluster) -> usize {
    let traffic = cluster.relays[0].traffic();
    let sent = traffic.iter().map(|(sent, _)| sent);
    sent.map(|sent| sent.matches("logue.begin(").count()).sum()
}
