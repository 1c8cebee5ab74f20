//! Listeners receive each turn, whichever server runs it, and whichever server ended.

use cluster::{Cluster, ClusterSettings, Mutation, send_stream};

use crate::pieces::{Listener, PATIENCE, last_event, send, wait_until};
use crate::trial::seed;

fn two_servers(seed: u64) -> Option<Cluster> {
    let settings = ClusterSettings {
        seed,
        nodes: 2,
        listens: true,
        ..ClusterSettings::default()
    };
    Cluster::start(&settings).unwrap()
}

/// A server that runs the message of another one before its own emits its pieces.
#[test]
fn pieces_arrive_live_from_the_server_that_runs_an_earlier_message() {
    let Some(mut cluster) = two_servers(seed()) else {
        return;
    };
    let addresses = cluster.addresses();
    let (first, second) = (addresses[0].as_str(), addresses[1].as_str());
    assert_eq!(send(first, "s", ("k0", "say 0")).unwrap().status, 200);
    let entries = "select entries from logue.session where id = 's'";
    std::thread::scope(|threads| {
        // The first server has the session, and another message for it waits there.
        let running = threads.spawn(|| send(first, "s", ("k1", "hold 1")));
        assert!(cluster.held.wait(0, PATIENCE));
        let path = "/v1/sessions/s/send";
        let body = "{\"message\": \"hold 2\"}";
        let stream = send_stream(second, ("POST", path), &[], body, PATIENCE);
        let mut listener = Listener::of(stream.unwrap().unwrap());
        wait_until(&cluster, entries, "3");
        let own = threads.spawn(|| send(first, "s", ("k3", "say 3")));
        wait_until(&cluster, entries, "4");
        // The second server cannot take the session when it becomes free.
        cluster.nodes[1].pause().unwrap();
        cluster.held.release(0);
        assert!(cluster.held.wait(1, PATIENCE));
        cluster.nodes[1].resume().unwrap();
        // The answer is incomplete, and its first piece is here.
        cluster.held.send_piece(1);
        assert!(listener.wait_for("early-1"), "{:?}", listener.kinds());
        cluster.held.release(1);
        assert!(
            listener.wait_for("turn.completed"),
            "{:?}",
            listener.kinds()
        );
        let kinds = listener.kinds();
        let pieces: Vec<_> = kinds.iter().filter(|kind| kind.contains("-1")).collect();
        assert_eq!(pieces, ["answer.delta early-1 middle-1 late-1"]);
        assert_eq!(running.join().unwrap().unwrap().status, 200);
        assert_eq!(own.join().unwrap().unwrap().status, 200);
    });
}

/// The log refuses all events, as if the server had ended before it could log them.
const NO_EVENTS: Mutation = Mutation {
    name: "events",
    functions: &["log_append"],
    changes: &[(
        "LOOP\n",
        "IF cardinality(p_texts) > 0 THEN RAISE EXCEPTION 'no events'; END IF; LOOP\n",
    )],
};

#[test]
fn a_message_whose_server_ended_before_it_logged_is_in_the_events() {
    let Some(mut cluster) = two_servers(seed()) else {
        return;
    };
    let definition = "select pg_get_functiondef(oid) from pg_proc
        where pronamespace = 'logue'::regnamespace and proname = 'log_append'";
    let whole = cluster.database.query(definition).unwrap();
    NO_EVENTS.apply(&cluster.database).unwrap();
    let addresses = cluster.addresses();
    // The outcome is stored, whatever the first server answers.
    drop(send(&addresses[0], "s", ("k1", "say 1")));
    let settled = "select cursor from logue.session where id = 's'";
    wait_until(&cluster, settled, "1");
    cluster.nodes[0].kill().unwrap();
    cluster.database.query(&whole).unwrap();
    let second = addresses[1].as_str();
    assert_eq!(send(second, "s", ("k2", "say 2")).unwrap().status, 200);
    let last = last_event(second, "s");
    let (_, generation) = last.split_once('-').unwrap();
    let mut listener = Listener::follow(second, "s", &format!("0-{generation}"));
    assert!(listener.wait_for("echo 2"), "{:?}", listener.kinds());
    let texts = listener.events.iter().map(|event| event.data.as_str());
    let texts = texts.collect::<Vec<_>>().concat();
    for text in ["say 1", "echo 1", "say 2"] {
        assert_eq!(texts.matches(text).count(), 1, "{text} in {texts}");
    }
}

/// The log refuses the ends of turns.
const NO_ENDS: Mutation = Mutation {
    name: "ends of turns",
    functions: &["log_append"],
    changes: &[(
        "LOOP\n",
        "IF p_moves AND p_cursor > p_was_cursor THEN RAISE EXCEPTION 'no end'; END IF; LOOP\n",
    )],
};

#[test]
fn a_turn_ends_in_the_log_before_the_next_one_begins() {
    let Some(mut cluster) = two_servers(seed()) else {
        return;
    };
    let definition = "select pg_get_functiondef(oid) from pg_proc
        where pronamespace = 'logue'::regnamespace and proname = 'log_append'";
    let whole = cluster.database.query(definition).unwrap();
    let addresses = cluster.addresses();
    let (first, second) = (addresses[0].as_str(), addresses[1].as_str());
    assert_eq!(send(first, "s", ("k0", "say 0")).unwrap().status, 200);
    let after = last_event(second, "s");
    NO_ENDS.apply(&cluster.database).unwrap();
    drop(send(first, "s", ("k1", "say 1")));
    let settled = "select cursor from logue.session where id = 's'";
    wait_until(&cluster, settled, "2");
    cluster.nodes[0].kill().unwrap();
    cluster.database.query(&whole).unwrap();
    assert_eq!(send(second, "s", ("k2", "say 2")).unwrap().status, 200);
    let mut listener = Listener::follow(second, "s", &after);
    assert!(listener.wait_for("turn.completed"));
    assert!(listener.wait_for("turn.completed"));
    let turns = listener.events.iter().map(|event| {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        data["turn"].as_u64().unwrap()
    });
    let turns: Vec<u64> = turns.collect();
    assert!(turns.is_sorted(), "{:?}", listener.events);
}

/// Connections that became silent do not delay the recovery by another server.
#[test]
fn silent_connections_do_not_stop_recovery() {
    let Some(mut cluster) = two_servers(seed()) else {
        return;
    };
    let addresses = cluster.addresses();
    std::thread::scope(|threads| {
        let running = threads.spawn(|| send(&addresses[0], "s", ("k1", "hold 1")));
        assert!(cluster.held.wait(0, PATIENCE));
        cluster.relays[1].silence();
        cluster.relays[1].restore();
        cluster.nodes[0].kill().unwrap();
        // The lease of 10 s ends first; a statement on a silent connection waits for 8 s.
        let is_recovered = cluster.held.wait(1, std::time::Duration::from_secs(25));
        assert!(is_recovered, "{}", cluster.nodes[1].log());
        cluster.held.release(1);
        drop(running.join().unwrap());
    });
    let again = send(&addresses[1], "s", ("k1", "hold 1")).unwrap();
    assert_eq!(again.status, 200, "{again:?}");
}

/// The steps of turns that wait on silent connections are sent again on others.
#[test]
fn silent_connections_delay_running_turns_for_seconds() {
    /// Less than the 30 s after which a statement over many rows is given up.
    const DELAY: std::time::Duration = std::time::Duration::from_secs(20);
    let Some(cluster) = two_servers(seed()) else {
        return;
    };
    let address = cluster.addresses()[0].clone();
    let line = |session: usize| format!("/v1/sessions/s{session}/send");
    std::thread::scope(|threads| {
        let sends: Vec<_> = (0..4)
            .map(|session| {
                let (path, address) = (line(session), &address);
                threads.spawn(move || {
                    let body = format!("{{\"message\": \"hold {session}\"}}");
                    cluster::request(address, ("POST", &path), &[], &body, DELAY)
                })
            })
            .collect();
        for request in 0..4 {
            assert!(cluster.held.wait(request, PATIENCE));
        }
        cluster.relays[0].silence();
        cluster.relays[0].restore();
        for request in 0..4 {
            cluster.held.release(request);
        }
        for send in sends {
            let answer = send.join().unwrap().unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    });
}
