//! The time until an event of one server arrives at a listener of another one; printed, not asserted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSettings, Received, events, request};
use testkit::soak;

use crate::pieces::{Listener, last_event};
use crate::trial::seed;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn events_reach_listeners_of_another_server() {
    let seed = seed();
    for listens in [true, false] {
        let settings = ClusterSettings {
            seed,
            nodes: 2,
            listens,
            ..ClusterSettings::default()
        };
        let Some(cluster) = Cluster::start(&settings).unwrap() else {
            return;
        };
        let mut times = measure(&cluster, soak::rounds(20, 200) as usize);
        times.sort();
        let way = if listens { "notified" } else { "polling" };
        let (count, median) = (times.len(), times[times.len() / 2].as_secs_f64() * 1000.0);
        println!("cluster: {count} events on another server, {way}: p50 {median:.1} ms");
    }
}

/// The statement by which a server looks for changes when no notification comes.
const POLL: &str = "unnest($1) AS f (id)";

/// Events arrive by notifications: of several, one at least arrives before the next poll.
#[test]
fn events_arrive_between_two_polls() {
    let seed = seed();
    let (unpolled, all) = notified(seed, &[]).unwrap_or((1, 1));
    println!("cluster: {unpolled} of {all} turns of another server arrived without a poll");
    assert!(unpolled > 0, "no event arrived before a poll");
}

/// A function of the same name hides that of the database: nothing is notified.
#[test]
fn a_missing_notification_is_found() {
    let mute = [
        "create schema mute",
        "create function mute.pg_notify(text, text) returns void language sql as ''",
        "do $$ begin execute format('alter database %I set search_path = mute, pg_catalog, public', \
         current_database()); end $$",
    ];
    let (unpolled, all) = notified(seed(), &mute).unwrap_or((0, 0));
    assert_eq!(unpolled, 0, "of {all}");
}

/// A server whose listening connection was ended listens again; the time is printed.
#[test]
fn servers_listen_again() {
    let settings = ClusterSettings {
        seed: seed(),
        nodes: 2,
        listens: true,
        ..ClusterSettings::default()
    };
    let Some(cluster) = Cluster::start(&settings).unwrap() else {
        return;
    };
    let listening = "select string_agg(pid::text, ',' order by pid) from pg_stat_activity
        where query like 'LISTEN%' or (query = '' and backend_type = 'client backend')";
    let both = |cluster: &Cluster| {
        let found = cluster.database.query(listening).unwrap();
        (found.matches(',').count() == 1).then_some(found)
    };
    let wait_for_both = |before: &str| loop {
        match both(&cluster) {
            Some(found) if found != before => return found,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut before = wait_for_both("");
    let mut longest = Duration::ZERO;
    for _ in 0..soak::rounds(3, 20) {
        let end =
            format!("select pg_terminate_backend(pid) from unnest('{{{before}}}'::int[]) pid");
        cluster.database.query(&end).unwrap();
        let begun = Instant::now();
        before = wait_for_both(&before);
        longest = longest.max(begun.elapsed());
    }
    let longest = longest.as_secs_f64();
    println!("cluster: listening again at most {longest:.2} s after the connection ended");
}

/// Returns how many turns of one server arrived at another one without a poll, and the number of all.
fn notified(seed: u64, statements: &[&str]) -> Option<(usize, usize)> {
    let settings = ClusterSettings {
        seed,
        nodes: 2,
        listens: true,
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap()?;
    for statement in statements {
        cluster.database.query(statement).unwrap();
    }
    if !statements.is_empty() {
        cluster.server.terminate_backends().unwrap();
    }
    let addresses = cluster.addresses();
    send(&addresses[0], 0);
    let after = last_event(&addresses[1], "s1");
    let mut listener = Listener::follow(&addresses[1], "s1", &after);
    let polls = || {
        let traffic = cluster.relays[1].traffic();
        let sent = traffic.iter().map(|(sent, _)| sent.matches(POLL).count());
        sent.sum::<usize>()
    };
    let all = 12;
    let mut unpolled = 0;
    for number in 1..=all {
        let before = polls();
        send(&addresses[0], number);
        assert!(listener.wait_for(&format!("echo {number}")));
        unpolled += usize::from(polls() == before);
    }
    Some((unpolled, all))
}

/// Returns the time between the arrival of each event at both servers.
fn measure(cluster: &Cluster, count: usize) -> Vec<Duration> {
    let addresses = cluster.addresses();
    send(&addresses[0], 0);
    let shown = request(&addresses[0], ("GET", "/v1/sessions/s1"), &[], "", PATIENCE).unwrap();
    let after = shown.body["events_after"].as_str().unwrap();
    let (is_done, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(3)));
    std::thread::scope(|scope| {
        let threads: Vec<_> = addresses
            .iter()
            .map(|address| {
                let (is_done, ready) = (Arc::clone(&is_done), Arc::clone(&ready));
                scope.spawn(move || follow(address, after, count, (&is_done, &ready)))
            })
            .collect();
        ready.wait();
        let mut number = 1;
        while !is_done.load(Ordering::SeqCst) {
            send(&addresses[0], number);
            number += 1;
        }
        let times: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let both = times[0].iter().filter_map(|(seq, first)| {
            let second = times[1].get(seq)?;
            Some(second.saturating_duration_since(*first))
        });
        both.collect()
    })
}

/// Receives events; returns when each arrived.
fn follow(
    address: &str,
    after: &str,
    count: usize,
    (is_done, ready): (&AtomicBool, &Barrier),
) -> BTreeMap<u64, Instant> {
    let path = "/v1/sessions/s1/events";
    let mut stream = events(address, path, after, PATIENCE).unwrap().unwrap();
    ready.wait();
    let mut times = BTreeMap::new();
    while times.len() < count {
        match stream.receive().unwrap() {
            Received::Event(event) => drop(times.insert(event.seq, Instant::now())),
            Received::Comment => {}
            Received::End => break,
        }
    }
    is_done.store(true, Ordering::SeqCst);
    times
}

fn send(address: &str, number: usize) {
    let body = format!("{{\"message\": \"say {number}\"}}");
    let line = ("POST", "/v1/sessions/s1/send");
    let answer = request(address, line, &[], &body, PATIENCE).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}
