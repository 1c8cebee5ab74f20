//! Everything fails at random, and nothing is lost.

use std::time::{Duration, Instant};

use cluster::{Chaos, Cluster, ClusterSettings, Figures, Load, LoadSettings, Record, check};
use testkit::{Relay, soak};

use crate::trial::{SETTLED, seed, variable};

#[test]
fn servers_that_fail_at_random_lose_and_repeat_nothing() {
    let seed = seed();
    let settings = ClusterSettings {
        seed,
        nodes: 4,
        has_faulty_relays: true,
        listens: true,
        ..ClusterSettings::default()
    };
    run(&settings, soak::rounds(200, 10_000));
}

#[test]
fn wrong_clocks_and_a_pooler_lose_and_repeat_nothing() {
    let seed = seed();
    let settings = ClusterSettings {
        seed,
        nodes: 4,
        has_faulty_relays: true,
        has_pooler: true,
        clock: cluster::clock_library().unwrap(),
        ..ClusterSettings::default()
    };
    run(&settings, soak::rounds(100, 2_000));
}

/// Sends messages under failures until all are begun, and checks everything.
fn run(settings: &ClusterSettings, sends: u32) {
    let number = |name: &str, default: u32| variable(name, default.into());
    let count = |name, default| usize::try_from(number(name, default)).unwrap();
    let sends = count("LOGUE_CLUSTER_SENDS", sends);
    let load = LoadSettings {
        seed: settings.seed,
        sends,
        sessions: count("LOGUE_CLUSTER_SESSIONS", soak::rounds(10, 100)),
        senders: count("LOGUE_CLUSTER_SENDERS", soak::rounds(16, 24)),
        listeners: 2,
        pace: Duration::from_millis(number("LOGUE_CLUSTER_PACE", 20)),
    };
    let Some(mut cluster) = Cluster::start(settings).unwrap() else {
        return;
    };
    let begun = Instant::now();
    let load = Load::start(&load, cluster.addresses());
    let mut chaos = Chaos::new(settings.seed);
    while load.waiting() > 0 {
        chaos.step(&mut cluster).unwrap();
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
    let times = (failing, settled.unwrap_or_default());
    report(&cluster, &chaos, &record, &figures, times);
    let seed = settings.seed;
    assert!(
        record.violations.is_empty(),
        "seed {seed}: {:#?}",
        record.violations
    );
    assert_eq!(record.resets, 0, "seed {seed}");
    let ended = record.acknowledged.len() + record.interrupted_turns.len();
    assert_eq!(ended, sends, "seed {seed}");
}

fn report(
    cluster: &Cluster,
    chaos: &Chaos,
    record: &Record,
    figures: &Figures,
    (failing, settled): (Duration, Duration),
) {
    println!(
        "cluster: {} messages and {} calls, {:.1} s of failures, settled {:.1} s later",
        figures.messages,
        figures.calls,
        failing.as_secs_f64(),
        settled.as_secs_f64(),
    );
    println!(
        "cluster: {} kills, {} pauses ({} longer than a lease), {} cuts of a server, {} cuts of a \
         connection, {} failed starts",
        chaos.kills,
        chaos.pauses,
        chaos.long_pauses,
        chaos.cuts,
        cluster.relays.iter().map(Relay::faults).sum::<usize>(),
        chaos.failed_starts,
    );
    println!(
        "cluster: {} lost answers, refusals {:?}, {} interrupted calls of which {} ran, {} interrupted \
         turns",
        record.lost_answers,
        record.refusals,
        figures.interrupted,
        figures.interrupted_effects,
        record.interrupted_turns.len(),
    );
    println!(
        "cluster: {} events to {} listeners over {} streams, {} resets",
        figures.events, figures.listeners, record.streams, record.resets,
    );
}
