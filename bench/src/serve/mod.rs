//! The table of `logue serve`: latency beside the same client without it, streams, memory and rate.

mod client;
mod model;

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use self::model::Pace;
use crate::harness::{Failed, as_float};

/// The time between two tokens of a paced model.
const TOKEN: Duration = Duration::from_millis(20);

/// The numbers of clients and turns of a run.
struct Load {
    /// Streams at the same time, and turns of each.
    streams: (usize, usize),
    /// Paced turns of each stream.
    paced_turns: usize,
    /// Sessions, listeners of each, and seconds.
    sessions: (usize, usize, u64),
    /// Subscribers, and those of them that never read.
    subscribers: (usize, usize),
    /// Clients, and turns of each.
    clients: (usize, usize),
}

impl Load {
    /// The load that the promises name.
    const FULL: Self = Self {
        streams: (32, 40),
        paced_turns: 20,
        sessions: (256, 2, 60),
        subscribers: (1_000, 100),
        clients: (64, 40),
    };
    /// A part of it.
    const SHORT: Self = Self {
        streams: (32, 10),
        paced_turns: 5,
        sessions: (64, 2, 10),
        subscribers: (200, 20),
        clients: (64, 10),
    };
}

/// A server process, which ends with the bench.
struct Served {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Served {
    fn start(logue: &Path, prompt: &str, model: Option<SocketAddr>) -> Result<Self, Failed> {
        let folder = tempfile::tempdir_in("target")?;
        std::fs::write(folder.path().join("agent.md"), prompt)?;
        let home = folder.path().canonicalize()?;
        let mut command = Command::new(logue.canonicalize()?);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:s.db"])
            .arg("agent.md")
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("LOGUE_TRUST", "all")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(model) = model {
            command.env("OPENAI_BASE_URL", format!("http://{model}/v1"));
        }
        let mut child = command.spawn()?;
        let mut lines = std::io::BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err("the server ended".into());
            }
            if let Some(address) = line.trim().strip_prefix("listening on http://") {
                break address.parse()?;
            }
        };
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                eprintln!("{line}");
            }
        });
        Ok(Self {
            child,
            address,
            _folder: folder,
        })
    }

    /// Returns the resident memory, in kilobytes.
    fn memory(&self) -> Result<u64, Failed> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let value = line.and_then(|line| line.split_whitespace().next());
        Ok(value.ok_or("no VmRSS")?.parse()?)
    }

    /// Returns the milliseconds on processors.
    fn processor_time(&self) -> Result<f64, Failed> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let mut fields = rest.split(' ').skip(11);
        let mut ticks = || -> Result<u32, Failed> { Ok(fields.next().ok_or("no times")?.parse()?) };
        Ok(f64::from(ticks()? + ticks()?) * 10.0)
    }
}

/// The parts of the table.
const PARTS: [&str; 5] = ["saturated", "paced", "rate", "subscribers", "lag"];

/// Prints the table for the program `logue`, or one of its parts.
///
/// `words` are `short` and the names of parts; `None` is returned for other words.
pub(crate) fn table(logue: &Path, words: &[&str]) -> Option<Result<(), Failed>> {
    let is_short = |word: &&str| *word == "short";
    let parts: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| !is_short(word))
        .collect();
    if !parts.iter().all(|part| PARTS.contains(part)) {
        return None;
    }
    let load = if words.iter().any(is_short) {
        &Load::SHORT
    } else {
        &Load::FULL
    };
    Some(print_table(logue, load, &parts))
}

fn print_table(logue: &Path, load: &Load, parts: &[&str]) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let logue = PathBuf::from(logue);
    println!("| measured | p50 | p99 | further |\n|---|---|---|---|");
    runtime.block_on(async {
        for part in PARTS {
            if !parts.is_empty() && !parts.contains(&part) {
                continue;
            }
            match part {
                "saturated" => saturated(&logue, load).await?,
                "paced" => paced(&logue, load).await?,
                "rate" => rate(&logue, load).await?,
                "subscribers" => subscribers(&logue, load).await?,
                _ => lag(&logue, load).await?,
            }
        }
        Ok(())
    })
}

fn millis(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = times.len() * percent / 100;
    let time = times.get(at.min(times.len().saturating_sub(1)));
    time.copied().unwrap_or_default().as_secs_f64() * 1e3
}

fn row(name: &str, times: &mut [Duration], further: &str) {
    let (half, most) = (millis(times, 50), millis(times, 99));
    println!("| {name} | {half:.1} ms | {most:.1} ms | {further} |");
}

/// The time to the first delta of the answer, beside the same request to the model.
///
/// Each client sends its next message at once, so that the processors never rest.
async fn saturated(logue: &Path, load: &Load) -> Result<(), Failed> {
    let model = model::start(Pace {
        deltas: 4,
        delay: Duration::ZERO,
        is_first_instant: true,
    })?;
    let served = Served::start(logue, "<config model=\"m\"/>\n", Some(model))?;
    let (streams, turns) = load.streams;
    let mut direct = client::turns(model, streams, turns, client::completion).await?;
    let before = served.processor_time()?;
    let mut own = client::turns(served.address, streams, turns, client::send).await?;
    let spent = served.processor_time()? - before;
    row(
        &format!("{streams} saturated streams: model alone"),
        &mut direct,
        "",
    );
    let each = spent / as_float(streams * turns);
    let further = format!("{each:.2} ms of processor a turn");
    row(
        &format!("{streams} saturated streams: through the server"),
        &mut own,
        &further,
    );
    let one = client::turns(model, 1, turns, client::completion).await?;
    row("1 stream: model alone", &mut one.clone(), "");
    let mut one = client::turns(served.address, 1, turns, client::send).await?;
    row("1 stream: through the server", &mut one, "");
    Ok(())
}

/// The times to the first token and of each token where a model writes 50 tokens a second.
async fn paced(logue: &Path, load: &Load) -> Result<(), Failed> {
    let model = model::start(Pace {
        deltas: 40,
        delay: TOKEN,
        is_first_instant: true,
    })?;
    let served = Served::start(logue, "<config model=\"m\"/>\n", Some(model))?;
    let ((streams, _), turns) = (load.streams, load.paced_turns);
    let mut direct = client::paced(model, streams, turns, client::completion).await?;
    let before = served.processor_time()?;
    let mut own = client::paced(served.address, streams, turns, client::send).await?;
    let spent = served.processor_time()? - before;
    let name = format!("{streams} paced streams");
    row(
        &format!("{name}, first token: model alone"),
        &mut direct.first,
        "",
    );
    let each = spent / as_float(streams * (turns + 1));
    row(
        &format!("{name}, first token: through the server"),
        &mut own.first,
        &format!("{each:.2} ms of processor a turn of 40 tokens"),
    );
    row(
        &format!("{name}, every token: model alone"),
        &mut direct.tokens,
        "",
    );
    row(
        &format!("{name}, every token: through the server"),
        &mut own.tokens,
        "",
    );
    Ok(())
}

/// Durable turns a second, each flushed to the disk.
async fn rate(logue: &Path, load: &Load) -> Result<(), Failed> {
    let served = Served::start(logue, "<config model=\"echo:\"/>\n", None)?;
    let (clients, turns) = load.clients;
    let before = served.processor_time()?;
    let begun = std::time::Instant::now();
    let mut times = client::turns(served.address, clients, turns, client::whole).await?;
    let rate = as_float(clients * turns) / begun.elapsed().as_secs_f64();
    let spent = served.processor_time()? - before;
    let each = spent / as_float(clients * turns);
    let further = format!("{rate:.0} turns a second, {each:.2} ms of processor a turn");
    row(
        &format!("{clients} clients, echo, full sync"),
        &mut times,
        &further,
    );
    Ok(())
}

/// The memory with subscribers, and after they left.
async fn subscribers(logue: &Path, load: &Load) -> Result<(), Failed> {
    let served = Served::start(logue, "<config model=\"echo:\"/>\n", None)?;
    let (all, silent) = load.subscribers;
    // The turns fill what the server keeps of any turn.
    client::turns(served.address, 1, 20, client::long).await?;
    let before = served.memory()?;
    let subscribed = client::subscribe(served.address, all, silent).await?;
    // Each turn reaches all subscribers.
    client::turns(served.address, 1, 20, client::long).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let during = served.memory()?;
    drop(subscribed);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let after = served.memory()?;
    println!(
        "| {all} subscribers, {silent} never read | | | {before} KB before, {during} KB during, \
         {after} KB 30 s after |"
    );
    Ok(())
}

/// The time from a delta of the model to its arrival at each listener.
async fn lag(logue: &Path, load: &Load) -> Result<(), Failed> {
    let (sessions, listeners, seconds) = load.sessions;
    let model = model::start(Pace {
        deltas: seconds * 50,
        delay: TOKEN,
        is_first_instant: false,
    })?;
    let served = Served::start(logue, "<config model=\"m\"/>\n", Some(model))?;
    let before = served.processor_time()?;
    let deltas = usize::try_from(seconds * 50)?;
    let mut lags = client::listen(served.address, sessions, (listeners, deltas)).await?;
    let spent = (served.processor_time()? - before) / 1e3;
    let further = format!("{} deltas, {spent:.0} s of processor", lags.len());
    let name = format!("{sessions} sessions, 50 tokens/s, {listeners} listeners, {seconds} s");
    row(&name, &mut lags, &further);
    Ok(())
}
