//! Which crate may know which: the house as data.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each crate with its level and the crates of its own level that it may use. Any crate may use
/// those of lower levels, except where `never` forbids it.
struct Room {
    name: &'static str,
    level: u8,
    beside: &'static [&'static str],
    never: &'static [&'static str],
}

const ROOMS: &[Room] = &[
    room("logue-source", 0, &[], &[]),
    room("logue-message", 0, &[], &[]),
    room("logue-html", 0, &[], &[]),
    room("logue-o200k", 0, &[], &[]),
    room("openchatml", 1, &[], &["chatmd"]),
    room("chatmd", 1, &[], &["openchatml"]),
    room("logue-model", 2, &[], &["chatmd"]),
    room("logue-tools", 2, &[], &["openchatml", "chatmd"]),
    room("logue-harness", 2, &[], &["openchatml", "chatmd"]),
    room("logue-store", 3, &[], &["openchatml", "chatmd"]),
    room("logue-agent", 3, &[], &[]),
    room("logue-server", 4, &[], &[]),
    room("logue-cli", 4, &["logue-server"], &[]),
    room("logue-bench", 5, &[], &[]),
    room("sim", 5, &[], &[]),
    room("testkit", 0, &[], &[]),
    room("durability", 5, &[], &[]),
    room("faultfs", 0, &[], &[]),
    room("openarmature-runner", 4, &[], &[]),
    room("harmony-differential", 5, &[], &[]),
    room("properties", 5, &[], &[]),
    room("xtask", 5, &[], &[]),
];

/// Crates without runtime, network or process: what they may not pull in, directly.
const PURE: &[&str] = &[
    "logue-source",
    "logue-message",
    "logue-html",
    "logue-o200k",
    "openchatml",
    "chatmd",
];
const IMPURE: &[&str] = &[
    "tokio",
    "reqwest",
    "rustls",
    "process-wrap",
    "rusqlite",
    "clap",
    "indicatif",
];

const fn room(
    name: &'static str,
    level: u8,
    beside: &'static [&'static str],
    never: &'static [&'static str],
) -> Room {
    Room {
        name,
        level,
        beside,
        never,
    }
}

/// Checks the dependencies of every crate of the workspace against the house.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
            faults.push(format!("crate {name} has no room in xtask/src/edges.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            if PURE.contains(&name) && IMPURE.contains(&other) {
                faults.push(format!("{name} is pure and must not depend on {other}"));
            }
            let Some(target) = ROOMS.iter().find(|room| room.name == other) else {
                continue;
            };
            let down = target.level < room.level || room.beside.contains(&other);
            if !down || room.never.contains(&other) {
                faults.push(format!("{name} must not depend on {other}"));
            }
        }
    }
    Ok(())
}
