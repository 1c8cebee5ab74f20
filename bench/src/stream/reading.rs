//! A process whose output is read while it runs: first word, whole time and memory.

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};

use super::server::{FIRST_WORD, LAST_WORD};
use crate::turn::process::resident;

/// The time between two readings of the memory.
const INTERVAL: Duration = Duration::from_millis(2);

/// The size of the terminal.
const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The standard output of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    Pipe,
    Terminal,
}

/// The figures of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// The time until the output contains the beginning of the answer, after any spinner.
    pub(crate) first_word: Duration,
    pub(crate) whole: Duration,
    /// The greatest resident memory in KiB, read while the process runs.
    memory: u64,
}

impl Ran {
    #[expect(clippy::cast_precision_loss, reason = "figures of three digits")]
    pub(crate) fn megabytes(self) -> f64 {
        self.memory as f64 / 1024.0
    }
}

/// Runs a process to its end; its output must contain the whole answer.
///
/// # Errors
/// It cannot be started, it fails, or its output differs.
pub(crate) fn run(command: &mut Command, output: Output) -> Result<Ran, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let begun = Instant::now();
    let (mut child, screen) = start(command, output).map_err(|error| failed(&error))?;
    let (sender, read) = mpsc::channel();
    std::thread::spawn(move || read_all(screen, begun, &sender));
    let status_file = format!("/proc/{}/status", child.id()).into();
    let mut ran = Ran::default();
    let mut text = String::new();
    loop {
        match read.recv_timeout(INTERVAL) {
            Ok((at, bytes)) => {
                text.push_str(&String::from_utf8_lossy(&bytes));
                if ran.first_word.is_zero() && text.contains(FIRST_WORD) {
                    ran.first_word = at;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        ran.memory = ran.memory.max(resident(&status_file));
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    ran.whole = begun.elapsed();
    if !status.success() || !text.contains(LAST_WORD) {
        return Err(failed(&format!("{status}: {text}")));
    }
    Ok(ran)
}

fn start(command: &mut Command, output: Output) -> std::io::Result<(Child, Box<dyn Read + Send>)> {
    command.stdin(Stdio::null()).stderr(Stdio::null());
    match output {
        Output::Pipe => {
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let Some(out) = child.stdout.take() else {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            };
            Ok((child, Box::new(out)))
        }
        Output::Terminal => {
            let pair = openpty(&SIZE, None)?;
            let child = command
                .env("TERM", "xterm-256color")
                .stdin(pair.slave.try_clone()?)
                .stderr(pair.slave.try_clone()?)
                .stdout(pair.slave)
                .spawn()?;
            // The terminal ends when the last process has closed it, the command included.
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            Ok((child, Box::new(Screen(File::from(pair.master)))))
        }
    }
}

/// A terminal that answers the questions of programs.
struct Screen(File);

/// What a program asks a terminal, and the answers: the place of the cursor, and the kind of terminal.
const QUESTIONS: [(&[u8], &[u8]); 2] = [(b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62c")];

impl Read for Screen {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        let shown = buffer.get(..count).unwrap_or_default();
        for (question, answer) in QUESTIONS {
            for _ in shown
                .windows(question.len())
                .filter(|part| *part == question)
            {
                self.0.write_all(answer)?;
            }
        }
        Ok(count)
    }
}

/// Sends what is read with its time. A terminal ends with an error.
fn read_all(
    mut screen: Box<dyn Read + Send>,
    begun: Instant,
    sender: &mpsc::Sender<(Duration, Vec<u8>)>,
) {
    let mut block = [0; 4096];
    while let Ok(count @ 1..) = screen.read(&mut block) {
        let bytes = block.get(..count).unwrap_or_default().to_vec();
        if sender.send((begun.elapsed(), bytes)).is_err() {
            return;
        }
    }
}

/// The median of each figure.
pub(crate) fn median(all: &mut [Ran]) -> Ran {
    fn middle<T: Ord + Copy + Default>(all: &[Ran], figure: fn(&Ran) -> T) -> T {
        let mut figures: Vec<T> = all.iter().map(figure).collect();
        figures.sort_unstable();
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    }
    Ran {
        first_word: middle(all, |ran| ran.first_word),
        whole: middle(all, |ran| ran.whole),
        memory: middle(all, |ran| ran.memory),
    }
}
