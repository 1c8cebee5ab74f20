//! The allowed dependencies between the crates of the workspace, as data.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A crate with its level and its allowed neighbours on that level.
///
/// Any crate may use those of lower levels, except where `never` forbids it.
struct Layer {
    name: &'static str,
    level: u8,
    beside: &'static [&'static str],
    never: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    layer("logue-source", 0, &[], &[]),
    layer("logue-message", 0, &[], &[]),
    layer("logue-html", 0, &[], &[]),
    layer("logue-pdf", 0, &[], &[]),
    layer("logue-o200k", 0, &[], &[]),
    layer("openchatml", 1, &[], &["chatmd"]),
    layer("chatmd", 1, &[], &["openchatml"]),
    layer("logue-data", 2, &[], &["chatmd"]),
    layer("logue-model", 2, &[], &["chatmd"]),
    layer("logue-tools", 2, &[], &["openchatml", "chatmd"]),
    layer(
        "logue-graph",
        2,
        &[],
        &["logue-message", "openchatml", "chatmd"],
    ),
    layer("logue-harness", 3, &[], &["openchatml", "chatmd"]),
    layer("logue-store", 4, &[], &["openchatml", "chatmd"]),
    layer("logue-agent", 4, &[], &[]),
    layer("logue-server", 5, &[], &[]),
    layer("logue-cli", 6, &[], &[]),
    layer("logue-bench", 7, &[], &[]),
    layer("sim", 7, &[], &[]),
    layer("testkit", 0, &["faultfs"], &[]),
    layer("attacks", 7, &[], &[]),
    layer("cluster", 7, &[], &[]),
    layer("durability", 7, &[], &[]),
    layer("faultfs", 0, &[], &[]),
    layer("approved-tool", 7, &[], &[]),
    layer("openarmature-runner", 6, &[], &[]),
    layer("harmony-differential", 7, &[], &[]),
    layer("provider-types", 7, &[], &[]),
    layer("data-masks", 7, &[], &[]),
    layer("conversion-laws", 7, &[], &[]),
    layer("properties", 7, &[], &[]),
    layer("xtask", 7, &[], &[]),
];

/// The pure crates: no runtime, network or process.
pub(super) const PURE: &[&str] = &[
    "logue-source",
    "logue-message",
    "logue-html",
    "logue-pdf",
    "logue-o200k",
    "openchatml",
    "chatmd",
];
/// Packages that pure crates do not depend on directly.
const IMPURE: &[&str] = &[
    "tokio",
    "reqwest",
    "rustls",
    "process-wrap",
    "rusqlite",
    "clap",
    "indicatif",
];

const fn layer(
    name: &'static str,
    level: u8,
    beside: &'static [&'static str],
    never: &'static [&'static str],
) -> Layer {
    Layer {
        name,
        level,
        beside,
        never,
    }
}

/// Checks the dependencies of every crate and returns the metadata of the workspace's packages.
pub(super) fn check(root: &Path, violations: &mut Vec<String>) -> Result<Vec<Value>, String> {
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
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            violations.push(format!(
                "crate {name} has no level in xtask/src/tidy/edges.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            if PURE.contains(&name) && IMPURE.contains(&other) {
                violations.push(format!("{name} is pure and must not depend on {other}"));
            }
            let Some(target) = LAYERS.iter().find(|layer| layer.name == other) else {
                continue;
            };
            let down = target.level < layer.level || layer.beside.contains(&other);
            if !down || layer.never.contains(&other) {
                violations.push(format!("{name} must not depend on {other}"));
            }
        }
    }
    Ok(packages)
}
