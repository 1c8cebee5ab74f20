//! One failure of the database under load, with all facts checked after it.

use std::time::Duration;

use cluster::{Cluster, ClusterSettings, Figures, Load, LoadSettings, Record, check};

/// The time in which everything that was accepted is done after the last failure.
pub(crate) const SETTLED: Duration = Duration::from_secs(30);

/// Returns the number of a variable.
pub(crate) fn variable(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the seed of `LOGUE_CLUSTER_SEED`, or a new one, and prints it.
pub(crate) fn seed() -> u64 {
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = variable("LOGUE_CLUSTER_SEED", u64::from(time.subsec_micros()));
    println!("cluster: repeat with LOGUE_CLUSTER_SEED={seed}");
    seed
}

/// Returns the number of seconds for the short or, with `LOGUE_SOAK`, the long form.
pub(crate) fn seconds(short: u32, long: u32) -> Duration {
    Duration::from_secs(testkit::soak::rounds(short, long).into())
}

/// Returns the settings of three servers whose relays do not fail.
pub(crate) fn calm(seed: u64) -> ClusterSettings {
    ClusterSettings {
        seed,
        nodes: 3,
        ..ClusterSettings::default()
    }
}

/// Starts a load until it is stopped.
pub(crate) fn load(cluster: &Cluster, seed: u64) -> Load {
    let settings = LoadSettings {
        seed,
        sends: 100_000,
        sessions: 8,
        senders: 4,
        listeners: 1,
        pace: Duration::from_millis(100),
    };
    Load::start(&settings, cluster.addresses())
}

/// Waits until the senders have this number of further outcomes, which shows that all is well again.
pub(crate) fn wait_for_outcomes(load: &Load, further: usize) {
    let target = load.record().acknowledged.len() + further;
    let begun = std::time::Instant::now();
    while load.record().acknowledged.len() < target {
        let record = load.record().clone();
        assert!(
            begun.elapsed() < SETTLED,
            "no outcomes; {:?}",
            record.refusals
        );
        drop(record);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends the load, and fails unless everything ends and nothing was lost; servers must still run.
pub(crate) fn conclude(cluster: &mut Cluster, load: Load, seed: u64) -> (Record, Figures) {
    load.stop();
    let settled = load.settle(cluster, SETTLED);
    let mut record = match &settled {
        Ok(_) => load.finish(cluster, SETTLED).unwrap(),
        Err(error) => {
            load.record().violation(error.to_string());
            load.abandon()
        }
    };
    for node in &mut cluster.nodes {
        assert!(node.runs().unwrap(), "{}", node.log());
    }
    let figures = check(cluster, &mut record).unwrap();
    println!(
        "cluster: {} messages, {} calls ({} interrupted), settled in {:.1} s, {} lost answers, refusals {:?}, \
         {} events, {} resets",
        figures.messages,
        figures.calls,
        figures.interrupted,
        settled.unwrap_or_default().as_secs_f64(),
        record.lost_answers,
        record.refusals,
        figures.events,
        record.resets,
    );
    assert!(
        record.violations.is_empty(),
        "seed {seed}: {:#?}",
        record.violations
    );
    (record, figures)
}
