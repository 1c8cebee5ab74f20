//! `cargo xtask bench`: builds the published program and the bench, and prints the tables.

mod chatmd;
mod dedup;
mod harness;
mod openchatml;
mod postgres;
mod python;
mod serve;
mod sessions;
mod stream;
mod turn;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts of the program that are measured.
const STARTS: usize = 200;

pub(crate) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if let ["openchatml", rest @ ..] = arguments {
        return openchatml::bench(root, rest);
    }
    if let ["chatmd", rest @ ..] = arguments {
        return chatmd::bench(root, rest);
    }
    if let ["data", "dedup", rest @ ..] = arguments {
        return dedup::bench(root, rest);
    }
    if let ["data", rest @ ..] = arguments {
        let programs = build(root)?;
        return print_table(root, &programs.bench, "data", rest);
    }
    if let ["harness", rest @ ..] = arguments {
        return harness::bench(root, rest);
    }
    if let ["postgres", rest @ ..] = arguments {
        return postgres::bench(root, rest);
    }
    if let ["serve", rest @ ..] = arguments {
        return serve::bench(root, rest);
    }
    if let ["sessions", rest @ ..] = arguments {
        return sessions::bench(root, rest);
    }
    if let ["stream", rest @ ..] = arguments {
        return stream::bench(root, rest);
    }
    if let ["turn", rest @ ..] = arguments {
        return turn::bench(root, rest);
    }
    let programs = build(root)?;
    start_up(&programs.logue)?;
    print_table(root, &programs.bench, "parse", arguments)
}

/// The programs that every bench uses.
struct Programs {
    logue: PathBuf,
    bench: PathBuf,
}

/// Builds both programs as they are published, with one set of features for all benches.
fn build(root: &Path) -> Result<Programs, String> {
    let packages = ["--package", "logue-cli", "--package", "logue-bench"];
    cargo(
        root,
        &[&["build", "--profile", "dist"][..], &packages].concat(),
    )?;
    let folder = target(root).join("dist");
    Ok(Programs {
        logue: folder.join("logue"),
        bench: folder.join("logue-bench"),
    })
}

/// Runs one table of the bench program.
fn print_table(
    root: &Path,
    bench: &Path,
    table: &str,
    arguments: &[impl AsRef<OsStr>],
) -> Result<(), String> {
    let status = Command::new(bench)
        .arg(table)
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|error| format!("{}: {error}", bench.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err("the bench failed".to_owned())
    }
}

/// Returns the target folder of cargo.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The whole process `logue --version`, in turn with `true`, the smallest process there is.
fn start_up(program: &Path) -> Result<(), String> {
    let mut own = Vec::with_capacity(STARTS);
    let mut least = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        own.push(time(Command::new(program).arg("--version"))?);
        least.push(time(&mut Command::new("true"))?);
    }
    let (own, least) = (median(&mut own), median(&mut least));
    println!("start-up, whole process, median of {STARTS} (baseline: `true` in turn with it)");
    println!(
        "  logue --version        {:8.2} ms   {:.1} times `true` ({:.2} ms)",
        own.as_secs_f64() * 1e3,
        own.as_secs_f64() / least.as_secs_f64(),
        least.as_secs_f64() * 1e3,
    );
    Ok(())
}

fn time(command: &mut Command) -> Result<Duration, String> {
    let started = Instant::now();
    let status = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(started.elapsed())
    } else {
        Err(format!("{command:?} failed"))
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the build failed".to_owned())
    }
}
