//! The time until an event of one server arrives at a listener of another one; printed, not asserted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSettings, Received, events, request};
use testkit::soak;

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
