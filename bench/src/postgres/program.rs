//! A program of the table, and how it is started.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::Failed;

/// The script of the peer.
const SCRIPT: &str = "bench/peers/langgraph/langgraph_postgres.py";

/// The name of this program.
const OWN: &str = "Logue";

/// A program that keeps sessions in PostgreSQL.
pub(super) struct Program {
    pub(super) name: &'static str,
    command: Vec<PathBuf>,
    options: &'static [&'static str],
}

impl Program {
    /// Returns this program.
    pub(super) fn own() -> Result<Self, Failed> {
        Ok(Self {
            name: OWN,
            command: vec![std::env::current_exe()?, "postgres-player".into()],
            options: &[],
        })
    }

    /// Returns the script of the peer, with its options.
    pub(super) fn peer(
        python: &Path,
        name: &'static str,
        options: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            command: vec![python.to_owned(), "-B".into(), SCRIPT.into()],
            options,
        }
    }

    /// Returns whether it is this program.
    pub(super) fn is_own(&self) -> bool {
        self.name == OWN
    }

    /// Runs an action, and returns the JSON lines that it prints.
    pub(super) fn lines(&self, words: &[&str]) -> Result<Vec<Value>, Failed> {
        let output = self.start(words)?.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} {words:?} failed: {}", self.name, output.status).into());
        }
        let lines = output.stdout.lines();
        lines
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect()
    }

    /// Runs several processes, which begin when all are ready, and returns the lines of all.
    pub(super) fn lines_at_once(&self, all: &[Vec<&str>]) -> Result<Vec<Value>, Failed> {
        let mut processes = Vec::new();
        for words in all {
            let mut command = self.start(words)?;
            let mut process = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut lines = BufReader::new(process.stdout.take().ok_or("no output")?);
            lines.read_line(&mut String::new())?;
            processes.push((process, lines));
        }
        for (process, _) in &mut processes {
            process.stdin.as_mut().ok_or("no input")?.write_all(b"\n")?;
        }
        let readers: Vec<_> = processes
            .into_iter()
            .map(|(mut process, lines)| {
                std::thread::spawn(move || {
                    let lines: Vec<String> = lines.lines().map_while(Result::ok).collect();
                    process.wait().map(|status| (status, lines))
                })
            })
            .collect();
        let mut result = Vec::new();
        for reader in readers {
            let (status, lines) = reader.join().map_err(|_| "a reader failed")??;
            if !status.success() {
                return Err(format!("{} failed: {status}", self.name).into());
            }
            for line in lines {
                result.push(serde_json::from_str(&line)?);
            }
        }
        Ok(result)
    }

    fn start(&self, words: &[&str]) -> Result<Command, Failed> {
        let (program, first) = self.command.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(first).args(self.options).args(words);
        Ok(command)
    }
}
