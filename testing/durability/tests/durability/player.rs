//! A player process and its output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A store and a file of effects.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store").join("sessions.db")
    }

    pub(crate) fn effects(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    pub(crate) fn command(&self, lease: Duration) -> Command {
        std::fs::create_dir_all(self.folder.path().join("store")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_player"));
        command
            .arg(self.store())
            .arg(self.effects())
            .arg(lease.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    pub(crate) fn player(&self, lease: Duration) -> Player {
        Player::start(self.command(lease))
    }
}

pub(crate) struct Player {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Player {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let out = BufReader::new(child.stdout.take().unwrap());
        let into = Arc::clone(&heard);
        let reader = std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                into.lock().unwrap().push(line);
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            heard,
            reader: Some(reader),
        }
    }

    /// Sends a command. A dead process ignores it.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            drop(stdin.write_all(format!("{line}\n").as_bytes()));
        }
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits for a line with this prefix.
    pub(crate) fn wait_for(&self, start: &str) {
        let said = self.says(start, Duration::from_secs(60));
        assert!(said, "{start} is not in {:?}", self.heard());
    }

    /// Returns whether a line with this prefix arrives within this time.
    pub(crate) fn says(&self, start: &str, within: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < within {
            if self.heard().iter().any(|line| line.starts_with(start)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }

    /// Waits for the end of the process and returns its output.
    pub(crate) fn finish(mut self) -> Vec<String> {
        drop(self.stdin.take());
        drop(self.child.wait());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.heard()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the number of rounds; `LOGUE_ROUNDS` overrides the default.
pub(crate) fn rounds(few: usize) -> usize {
    let told = std::env::var("LOGUE_ROUNDS").ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(few)
}

/// Returns the seed of this run, and prints it.
pub(crate) fn seed() -> u64 {
    let told = std::env::var("LOGUE_SEED")
        .ok()
        .and_then(|told| told.parse().ok());
    let seed = told.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().subsec_nanos().into()
    });
    println!("LOGUE_SEED={seed}");
    seed
}

/// Returns the effects, with repetitions.
pub(crate) fn effects(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
