//! Worlds by seed. `SIM_SEED` runs one of them; `SIM_WORLDS` sets their number.

use sim::{Settings, run, shrink};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_laws_hold_in_every_world() {
    let settings = Settings::default();
    let first = number("SIM_SEED").unwrap_or(1);
    let worlds = match std::env::var_os("SIM_SEED") {
        Some(_) => 1,
        None => number("SIM_WORLDS").unwrap_or(25),
    };
    let (mut steps, mut crashes, mut completed, mut resumed, mut effects) = (0, 0, 0, 0, 0);
    for seed in first..first + worlds {
        if let Ok(report) = run(seed, settings) {
            steps += report.steps;
            crashes += report.crashes;
            completed += report.completed;
            resumed += report.resumed;
            effects += report.effects;
        } else {
            let (smallest, why) = shrink(seed, settings).unwrap();
            panic!("SIM_SEED={seed} breaks a law: {why}\nstill with {smallest:?}");
        }
    }
    println!(
        "{steps} steps, {crashes} crashes, {completed} completed, {resumed} resumed, {effects} effects"
    );
    // A world in which nothing happens would keep every law.
    if worlds >= 25 {
        assert!(
            steps > 100_000 && crashes > 100 && completed > 100 && resumed > 20 && effects > 100
        );
    }
}

#[test]
fn a_seed_is_a_history() {
    let settings = Settings::default();
    assert_eq!(run(7, settings).unwrap(), run(7, settings).unwrap());
}
