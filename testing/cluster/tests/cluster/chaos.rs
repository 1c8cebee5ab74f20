//! Everything fails at random, and nothing is lost.

use std::time::Duration;

use cluster::{Chaos, Cluster, ClusterSettings, Load, LoadSettings, check};
use testkit::postgres::PostgresSettings;

/// The time in which everything that was accepted is done after the last failure.
const SETTLED: Duration = Duration::from_secs(30);

/// Returns the number of a variable.
fn variable(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the seed of `LOGUE_CLUSTER_SEED`, or a new one.
fn seed() -> u64 {
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    variable("LOGUE_CLUSTER_SEED", u64::from(time.subsec_micros()))
}

#[test]
fn servers_that_fail_at_random_lose_and_repeat_nothing() {
    let seed = seed();
    println!("cluster: repeat with LOGUE_CLUSTER_SEED={seed}");
    let sends = usize::try_from(variable("LOGUE_CLUSTER_SENDS", 200)).unwrap();
    let sessions = usize::try_from(variable("LOGUE_CLUSTER_SESSIONS", 10)).unwrap();
    let senders = usize::try_from(variable("LOGUE_CLUSTER_SENDERS", 8)).unwrap();
    let settings = ClusterSettings {
        seed,
        nodes: 4,
        has_faulty_relays: variable("LOGUE_CLUSTER_CALM", 0) == 0,
        database: PostgresSettings::default(),
        ..ClusterSettings::default()
    };
    let Some(mut cluster) = Cluster::start(&settings).unwrap() else {
        return;
    };
    let begun = std::time::Instant::now();
    let load = LoadSettings {
        seed,
        sends,
        sessions,
        senders,
        listeners: 2,
        pace: Duration::from_millis(variable("LOGUE_CLUSTER_PACE", 50)),
    };
    let load = Load::start(&load, cluster.addresses());
    let mut chaos = Chaos::new(seed);
    while load.waiting() > 0 {
        if settings.has_faulty_relays {
            chaos.step(&mut cluster).unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    chaos.end(&mut cluster).unwrap();
    let failing = begun.elapsed();
    let settled = load.settle(&cluster, SETTLED);
    let mut record = match &settled {
        Ok(_) => load.finish(&cluster, SETTLED).unwrap(),
        Err(error) => {
            load.record().violation(error.to_string());
            load.abandon()
        }
    };
    let figures = check(&cluster, &mut record).unwrap();
    println!(
        "cluster: {} messages and {} calls in {} sessions, {:.1} s of failures, settled {:.1} s later",
        figures.messages,
        figures.calls,
        sessions,
        failing.as_secs_f64(),
        settled.unwrap_or_default().as_secs_f64(),
    );
    println!(
        "cluster: {} kills, {} pauses ({} longer than a lease), {} cuts, {} of the relays, {} failed starts",
        chaos.kills,
        chaos.pauses,
        chaos.long_pauses,
        chaos.cuts,
        cluster.relays.iter().map(testkit::Relay::faults).sum::<usize>(),
        chaos.failed_starts,
    );
    println!(
        "cluster: {} lost answers, refusals {:?}, {} interrupted calls of which {} ran, {} turns interrupted",
        record.lost_answers,
        record.refusals,
        figures.interrupted,
        figures.interrupted_effects,
        record.interrupted_turns.len(),
    );
    println!(
        "cluster: {} events to {} listeners over {} streams",
        figures.events, figures.listeners, record.streams,
    );
    assert!(record.violations.is_empty(), "seed {seed}: {:#?}", record.violations);
    assert_eq!(record.acknowledged.len() + record.interrupted_turns.len(), sends);
}
