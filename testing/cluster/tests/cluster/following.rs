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
        // The lease of 10 s ends first; a statement on a silent connection waits for 30 s.
        let is_recovered = cluster.held.wait(1, std::time::Duration::from_secs(25));
        assert!(is_recovered, "{}", cluster.nodes[1].log());
        cluster.held.release(1);
        drop(running.join().unwrap());
    });
    let again = send(&addresses[1], "s", ("k1", "hold 1")).unwrap();
    assert_eq!(again.status, 200, "{again:?}");
}
