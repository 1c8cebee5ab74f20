//! Deduplication of generated conversations: time, memory, recall of planted pairs, verified removals.

mod generate;

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::turn::process::resident;

/// The limits for a million rows on two processors.
const SECONDS: f64 = 60.0;
const MEGABYTES: f64 = 1000.0;

pub(crate) fn table(program: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let input = folder.path().join("in.jsonl");
    let output = folder.path().join("out.jsonl");
    let planted = generate::write(&input, rows)?;
    let bytes = fs::metadata(&input)?.len();
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["data", "dedup", "-o"])
        .args([&output, &input])
        .stderr(Stdio::null())
        .spawn()?;
    let status_file = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut memory = 0;
    let status = loop {
        memory = memory.max(resident(&status_file));
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("the program ended with {status}").into());
    }
    let evidence = fs::read_to_string(folder.path().join("out.jsonl.duplicates.jsonl"))?;
    let mut removed = HashSet::new();
    let mut lowest = 1.0_f64;
    for line in evidence.lines() {
        let pair: Value = serde_json::from_str(line)?;
        removed.extend(pair["removed"]["line"].as_u64());
        lowest = lowest.min(pair["jaccard"].as_f64().unwrap_or(0.0));
    }
    let near = planted
        .iter()
        .filter(|pair| 5 * pair.shared >= 4 * pair.united);
    let near: Vec<_> = near.collect();
    let found = near.iter().filter(|pair| removed.contains(&pair.line));
    let found = found.count();
    let (megabytes, size) = (thousandths(memory), thousandths(bytes / 1000));
    let recall = share(found, near.len());
    println!("logue data dedup: {rows} conversations, {size:.0} MB");
    println!(
        "  time       {seconds:8.1} s   {:.2} of the limit",
        seconds / SECONDS
    );
    println!("  speed      {:8.1} MB/s", size / seconds);
    println!(
        "  memory     {megabytes:8.1} MB  {:.2} of the limit",
        megabytes / MEGABYTES
    );
    println!(
        "  removed    {:8}     lowest Jaccard index {lowest:.4}",
        removed.len()
    );
    println!(
        "  recall     {recall:8.4}     {found} of {} planted pairs at 0.8",
        near.len()
    );
    Ok(())
}

/// Returns thousands of a number.
fn thousandths(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)) / 1000.0
}

fn share(part: usize, total: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(part) / number(total.max(1))
}
