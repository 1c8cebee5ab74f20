//! The table of sessions beside other session stores: lost messages, repeated effects, rate.
//!
//! Each program is a command that takes the actions of `bench/peers/sessions/langgraph_sqlite.py`.
//! Stores have their default settings, all on SQLite in one folder.

pub(crate) mod player;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::Failed;

const WRITERS: usize = 4;
/// Turns of each writer.
const TURNS: usize = 20;
/// Turns of the measured session.
const LONG: usize = 200;
/// Rounds in turn, of which the best counts.
const ROUNDS: usize = 3;

/// A program that keeps sessions, and how it is started.
struct Keeper {
    name: &'static str,
    command: Vec<PathBuf>,
}

/// The figures of one program.
struct Counted {
    /// Messages whose senders received an answer.
    answered: usize,
    lost: usize,
    effects: usize,
    rate: f64,
    bytes: u64,
}

/// Prints the table. `python` has the packages of the peers.
pub(crate) fn table(python: Option<&Path>) -> Result<(), Failed> {
    let own = vec![std::env::current_exe()?, "sessions-player".into()];
    let mut keepers = vec![Keeper {
        name: "Logue, SQLite store",
        command: own,
    }];
    if let Some(python) = python {
        for (name, script) in [
            ("LangGraph, SQLite saver", "langgraph_sqlite.py"),
            ("OpenAI Agents SDK, SQLite session", "agents_sqlite.py"),
        ] {
            let script = Path::new("bench/peers/sessions").join(script);
            keepers.push(Keeper {
                name,
                command: vec![python.to_owned(), "-B".into(), script],
            });
        }
    }
    let folder = tempfile::tempdir_in("target")?;
    let mut all: Vec<Counted> = Vec::new();
    for (number, keeper) in keepers.iter().enumerate() {
        eprintln!("{} …", keeper.name);
        let folder = folder.path().join(number.to_string());
        std::fs::create_dir_all(&folder)?;
        all.push(keeper.count(&folder)?);
    }
    // The rounds of all programs alternate, so that each has the machine as the others have it.
    for round in 0..ROUNDS {
        for (number, (keeper, counted)) in keepers.iter().zip(&mut all).enumerate() {
            let store = folder.path().join(format!("rate-{number}-{round}.db"));
            let (rate, bytes) = keeper.rate(&store)?;
            counted.rate = counted.rate.max(rate);
            counted.bytes = bytes;
        }
    }
    println!(
        "| program | lost of the answered messages of {WRITERS} writers | effects after a \
         provider error and the same message again | turns a second | ours / it | bytes after \
         {LONG} turns |"
    );
    println!("|---|---|---|---|---|---|");
    let ours = all.first().map_or(0.0, |counted| counted.rate);
    for (keeper, counted) in keepers.iter().zip(&all) {
        println!(
            "| {} | {} of {} | {} | {:.0} | {:.1} | {} KB |",
            keeper.name,
            counted.lost,
            counted.answered,
            counted.effects,
            counted.rate,
            ours / counted.rate,
            counted.bytes / 1_000,
        );
    }
    Ok(())
}

impl Keeper {
    fn count(&self, folder: &Path) -> Result<Counted, Failed> {
        let store = folder.join("writers.db");
        let writers = (0..WRITERS).map(|writer| {
            self.start("write", &store, &[format!("w{writer}"), TURNS.to_string()])
                .stdout(Stdio::piped())
                .spawn()
        });
        let writers: Vec<_> = writers.collect::<Result<_, _>>()?;
        let mut answered = BTreeSet::new();
        for writer in writers {
            let output = String::from_utf8(writer.wait_with_output()?.stdout)?;
            let lines = output
                .lines()
                .filter_map(|line| line.strip_prefix("answered "));
            answered.extend(lines.map(str::to_owned));
        }
        let read = self.output("read", &store, &[])?;
        let kept: BTreeSet<&str> = read.lines().collect();
        let lost = answered.iter().filter(|text| !kept.contains(text.as_str()));
        let effects = folder.join("effects");
        let argument = effects.to_string_lossy().into_owned();
        self.output("retry", &folder.join("retry.db"), &[argument])?;
        Ok(Counted {
            lost: lost.count(),
            answered: answered.len(),
            effects: std::fs::read_to_string(&effects)?.lines().count(),
            rate: 0.0,
            bytes: 0,
        })
    }

    /// Returns the turns a second in a new session, and the bytes of its store.
    fn rate(&self, store: &Path) -> Result<(f64, u64), Failed> {
        let seconds: f64 = self
            .output("rate", store, &[LONG.to_string()])?
            .trim()
            .parse()?;
        let turns = f64::from(u32::try_from(LONG)?);
        Ok((turns / seconds, std::fs::metadata(store)?.len()))
    }

    fn start(&self, action: &str, store: &Path, arguments: &[String]) -> Command {
        let (program, fixed) = match self.command.split_first() {
            Some((program, fixed)) => (program.as_path(), fixed),
            None => (Path::new(""), &[][..]),
        };
        let mut command = Command::new(program);
        command.args(fixed).arg(action).arg(store).args(arguments);
        command
    }

    fn output(&self, action: &str, store: &Path, arguments: &[String]) -> Result<String, Failed> {
        let output = self.start(action, store, arguments).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {action}: {said}", self.name).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
