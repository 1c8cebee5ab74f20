//! `cargo xtask bench chatmd`: the table of ChatMD, and the whole process `logue check`.

use std::path::Path;
use std::process::Command;

use super::{median, time};

/// Bytes of the session that is checked.
const SESSION: &str = "455000";
/// Runs of the program that are measured.
const RUNS: usize = 60;
/// Most milliseconds that checking it may take.
const GOAL: f64 = 15.0;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let megabytes = match arguments {
        [] => None,
        ["--size", megabytes] => Some(*megabytes),
        _ => return Err("usage: cargo xtask bench chatmd [--size MB]".to_owned()),
    };
    let programs = super::build(root)?;
    let megabytes: Vec<&str> = megabytes.into_iter().collect();
    super::print_table(root, &programs.bench, "chatmd", &megabytes)?;
    let failed = |error| format!("{}: {error}", programs.bench.display());
    let session = Command::new(&programs.bench)
        .args(["session", SESSION])
        .output()
        .map_err(failed)?;
    let file = super::target(root).join("logue-bench-session.chatmd");
    std::fs::write(&file, &session.stdout)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    whole_process(&programs.logue, &file, session.stdout.len())
}

fn whole_process(program: &Path, file: &Path, size: usize) -> Result<(), String> {
    let (mut own, mut least) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        own.push(time(Command::new(program).arg("check").arg(file))?);
        least.push(time(&mut Command::new("true"))?);
    }
    let own = median(&mut own).as_secs_f64() * 1e3;
    let least = median(&mut least).as_secs_f64() * 1e3;
    let reached = if own < GOAL { "reached" } else { "NOT reached" };
    println!(
        "logue check of {:.0} KB, whole process, median of {RUNS}: {own:.1} ms (`true`: {least:.1} ms); \
         goal < {GOAL} ms {reached}",
        f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / 1e3,
    );
    Ok(())
}
