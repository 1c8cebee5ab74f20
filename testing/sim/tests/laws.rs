//! Worlds by seed. `SIM_SEED` runs one of them; `SIM_WORLDS` sets their number.

use sim::{Report, Settings, run, shrink};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The settings of a world.
fn settings_of(seed: u64) -> Settings {
    let mut settings = Settings::default();
    if seed.is_multiple_of(4) {
        // So often that turns are given up.
        settings.crashes /= 8;
    }
    settings.stops = seed.is_multiple_of(3);
    settings
}

#[test]
fn the_laws_hold_in_every_world() {
    let first = number("SIM_SEED").unwrap_or(1);
    let worlds = match std::env::var_os("SIM_SEED") {
        Some(_) => 1,
        None => number("SIM_WORLDS").unwrap_or(25),
    };
    let mut all = Report::default();
    for seed in first..first + worlds {
        let settings = settings_of(seed);
        if let Ok(report) = run(seed, settings) {
            all.add(&report);
        } else {
            let (smallest, why) = shrink(seed, settings).unwrap();
            panic!("SIM_SEED={seed} breaks a law: {why}\nstill with {smallest:?}");
        }
    }
    println!("{all:?}");
    // A world in which nothing happens would keep every law.
    if worlds >= 25 {
        assert!(all.steps > 100_000 && all.crashes > 100, "{all:?}");
        assert!(all.completed > 100 && all.resumed > 20, "{all:?}");
        assert!(
            all.effects > 100 && all.failed_after_effects > 20,
            "{all:?}"
        );
        assert!(all.clock_steps > 100, "{all:?}");
        assert!(all.unacknowledged_commits > 5, "{all:?}");
    }
}

#[test]
fn a_seed_is_a_history() {
    let settings = Settings::default();
    assert_eq!(run(7, settings).unwrap(), run(7, settings).unwrap());
}

/// The harness without a change on four stores that crash and lose leases.
#[test]
fn the_laws_hold_over_stores_that_crash() {
    let first = number("SIM_SEED").unwrap_or(1);
    let worlds = match std::env::var_os("SIM_SEED") {
        Some(_) => 1,
        None => number("SIM_WORLDS").unwrap_or(25),
    };
    let mut all = Report::default();
    for seed in first..first + worlds {
        let settings = Settings {
            sessions: 8,
            shards: 4,
            store_crashes: 60,
            ..settings_of(seed)
        };
        if let Ok(report) = run(seed, settings) {
            all.add(&report);
        } else {
            let (smallest, why) = shrink(seed, settings).unwrap();
            panic!("SIM_SEED={seed} breaks a law: {why}\nstill with {smallest:?}");
        }
    }
    println!("{worlds} worlds of 8 sessions in 4 stores: {all:?}");
    if worlds >= 25 {
        assert!(
            all.store_crashes > 100 && all.lost_operations > 100,
            "{all:?}"
        );
        assert!(all.completed > 100 && all.resumed > 10, "{all:?}");
        assert!(all.routed > 10 * all.asked_all, "{all:?}");
    }
}
