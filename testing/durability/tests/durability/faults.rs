//! The n-th write, sync or rename fails, for every n of a scripted session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::laws::check;
use crate::player::{Place, Player, rounds};

const LEASE: Duration = Duration::from_millis(60);

const SCRIPT: &[&str] = &[
    "send s k0 plain k0",
    "send s k1 tool k1",
    "send s k2 wait k2",
    "signal sig-k2 yes",
    "send s k3 fail k3",
    "send s k4 plain k4",
];

/// The library, built as a dependency of these tests.
fn library() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    let beside = folder.join("libfaultfs.so");
    folder.pop();
    let above = folder.join("libfaultfs.so");
    let library = if beside.exists() { beside } else { above };
    assert!(
        library.exists(),
        "{} is not there: `cargo build -p faultfs` makes it",
        library.display()
    );
    library
}

/// Runs the script, and returns the reports and the number of operations.
fn play(
    place: &Place,
    at: Option<usize>,
    how: &str,
    lasting: usize,
) -> (BTreeMap<String, String>, usize) {
    let log = place.folder.path().join("operations");
    let mut command = place.command(LEASE);
    command
        .env("LD_PRELOAD", library())
        .env("FAULTFS_UNDER", place.folder.path().join("store"))
        .env("FAULTFS_LOG", &log)
        .env("FAULTFS_HOW", how)
        .env("FAULTFS_FOR", lasting.to_string());
    if let Some(at) = at {
        command.env("FAULTFS_AT", at.to_string());
    }
    let mut player = Player::start(command);
    for line in SCRIPT {
        player.tell(line);
    }
    let heard = player.finish();
    let told = heard
        .iter()
        .filter_map(|line| line.strip_prefix("told ")?.split_once(' '));
    let told = told
        .map(|(key, told)| (key.to_owned(), told.to_owned()))
        .collect();
    let operations = std::fs::read_to_string(log)
        .unwrap_or_default()
        .lines()
        .count();
    (told, operations)
}

#[test]
fn an_operation_that_fails_is_told_and_harms_nothing_that_was() {
    let place = Place::new();
    let (told, operations) = play(&place, None, "EIO", 1);
    assert!(operations > 20, "{operations}");
    assert_eq!(told.get("k4").unwrap(), "completed answer to plain k4");
    // Every operation in sequence, or with a stride that varies between kinds of failure.
    let stride = (operations * 6 / rounds(120).max(1)).max(1);
    let (mut failed, mut died) = (0, 0);
    for (kind, (how, lasting)) in [
        ("EIO", 1),
        ("ENOSPC", 1),
        ("ENOSPC", 1_000_000),
        ("short", 1),
        ("torn", 1),
        ("die", 1),
    ]
    .into_iter()
    .enumerate()
    {
        for at in (1 + kind % stride..=operations).step_by(stride) {
            let context = format!("{how} at {at} of {operations} for {lasting}");
            let place = Place::new();
            let (told, _) = play(&place, Some(at), how, lasting);
            failed += told
                .values()
                .filter(|told| told.starts_with("nobody-knows"))
                .count();
            died += usize::from(told.len() < SCRIPT.len());
            for told in told
                .values()
                .filter(|told| told.starts_with("nobody-knows"))
            {
                assert!(told.contains(": "), "{context}: {told}");
            }
            // The disk works again: the store opens and contains the reported outcomes.
            let mut healthy = place.player(LEASE);
            healthy.tell("send s after plain after");
            let after = healthy.finish();
            let line = "told after completed answer to plain after".to_owned();
            assert!(after.contains(&line), "{context}: {after:?}");
            let stored = check(&place, &context);
            for (key, told) in told.iter().filter(|(key, _)| key.starts_with('k')) {
                if told.starts_with("completed") || told.starts_with("suspended") {
                    assert_eq!(stored.said("s", key), 1, "{context}: {key} {told}");
                }
            }
            if let Some(told) = told
                .get("sig-k2")
                .filter(|told| told.starts_with("completed"))
            {
                let history = stored.histories.get("s").unwrap();
                let resumed = history.iter().filter(|m| m.text() == "resumed yes").count();
                assert_eq!(
                    (told.as_str(), resumed),
                    ("completed resumed yes", 1),
                    "{context}"
                );
            }
        }
    }
    println!("{operations} operations a session; {failed} turns failed, {died} players died");
    assert!(failed > 0 && died > 0);
}
