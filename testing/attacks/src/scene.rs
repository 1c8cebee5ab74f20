//! A home folder, a checkout, a folder outside and the runs of the program in them.

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::attack::{Arena, Failure};

/// The text that must not leave its place.
pub(crate) const SECRET: &str = "TOPSECRET-8c1f2a";
/// The text that may be read.
pub(crate) const INSIDE: &str = "plain-content-51";
/// The time after which a run is ended.
const LIMIT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(3);

/// The folders of one attack, removed afterwards.
#[derive(Debug)]
pub(crate) struct Scene {
    folder: TempDir,
    arena: Arena,
}

impl Scene {
    /// Creates the home folder with a checkout `work`, and `outside` with the secret `id_rsa`.
    pub(crate) fn new(arena: &Arena) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("attack").tempdir()?;
        let scene = Self {
            folder,
            arena: arena.clone(),
        };
        fs::create_dir_all(scene.work())?;
        fs::create_dir_all(scene.outside())?;
        fs::write(scene.outside().join("id_rsa"), SECRET)?;
        fs::write(scene.home().join("id_rsa"), SECRET)?;
        scene.configure("", "")?;
        Ok(scene)
    }

    /// Returns the folder that contains all others.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the home folder of the victim.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the folder with prompts, in which the program runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("home/work")
    }

    /// Returns a folder that no prompt may read.
    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Writes the victim's own settings: lines of `[tools]`, then other tables.
    pub(crate) fn configure(&self, tools: &str, tables: &str) -> Result<(), Failure> {
        let mut text = format!("[tools]\nreadable = [\"{}\"]\n", self.arena.probe.display());
        if let Some(confinement) = self.arena.confinement {
            text.push_str(&format!(
                "sandbox = \"{}\"\nsandbox_required = true\n",
                confinement.word()
            ));
        }
        text.push_str(&format!("{tools}\n{tables}\n"));
        let path = self.home().join(".config/logue");
        fs::create_dir_all(&path)?;
        Ok(fs::write(path.join("config.toml"), text)?)
    }

    /// Writes a file of the checkout.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        let path = self.work().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Returns the text of a file of the checkout, empty without one.
    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.work().join(path)).unwrap_or_default()).into_owned()
    }

    /// Returns the command of a tool that runs [`crate::probe`].
    pub(crate) fn probe(&self) -> String {
        format!("{} probe", self.arena.probe.display())
    }

    /// Returns the number of accesses of a race.
    pub(crate) fn rounds(&self) -> usize {
        self.arena.rounds
    }

    /// Returns the program with the victim's settings and without trust.
    pub(crate) fn logue<const N: usize>(&self, arguments: [&str; N]) -> Logue {
        let mut command = Command::new(&self.arena.logue);
        self.environment(&mut command);
        command.args(arguments);
        Logue { command }
    }

    /// Returns a shell that runs a script with `$LOGUE` as the program.
    pub(crate) fn shell(&self, script: &str) -> Logue {
        let mut command = Command::new("/bin/sh");
        self.environment(&mut command);
        command.args(["-c", script]).env("LOGUE", &self.arena.logue);
        Logue { command }
    }

    fn environment(&self, command: &mut Command) {
        let home = self.home();
        command
            .env_clear()
            .current_dir(self.work())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_CACHE_HOME", home.join(".cache"))
            .env("XDG_DATA_HOME", home.join(".data"))
            .env("XDG_STATE_HOME", home.join(".state"))
            .env("NO_COLOR", "1")
            .env("OPENAI_API_KEY", "sk-attacks-0123456789abcdef");
    }
}

/// A run of the program that is prepared.
#[derive(Debug)]
pub(crate) struct Logue {
    command: Command,
}

impl Logue {
    /// Names the server of models.
    pub(crate) fn with_server(mut self, server: &ModelServer) -> Self {
        self.command.env("OPENAI_BASE_URL", server.base_url());
        self
    }

    /// Trusts every prompt.
    pub(crate) fn with_trust(self) -> Self {
        self.with_env("LOGUE_TRUST", "all")
    }

    /// Sets a variable.
    pub(crate) fn with_env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument.
    pub(crate) fn with_arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Runs in another folder.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Returns the command with its environment.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Starts the program in a process group of its own.
    pub(crate) fn start(mut self) -> Result<Running, Failure> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .process_group(0)
            .spawn()?;
        Ok(Running {
            child,
            stdout,
            stderr,
            started: Instant::now(),
        })
    }

    /// Runs the program to its end.
    pub(crate) fn run(self) -> Result<Ran, Failure> {
        self.start()?.wait(LIMIT)
    }

    /// Runs the program to its end or to a time limit.
    pub(crate) fn run_within(self, limit: Duration) -> Result<Ran, Failure> {
        self.start()?.wait(limit)
    }
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: fs::File,
    stderr: fs::File,
    started: Instant,
}

impl Running {
    /// Waits for the end of the program and kills it after the limit.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<Ran, Failure> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            if self.started.elapsed() > limit {
                self.child.kill()?;
                self.child.wait()?;
                break None;
            }
            std::thread::sleep(INTERVAL);
        };
        Ok(Ran {
            status: status.and_then(|status| status.code()),
            has_ended: status.is_some(),
            stdout: content(&mut self.stdout)?,
            stderr: content(&mut self.stderr)?,
        })
    }

    /// Returns the standard error until now.
    pub(crate) fn stderr(&mut self) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&content(&mut self.stderr)?).into_owned())
    }
}

/// Returns the greatest memory of a process until now, in KiB.
pub(crate) fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|text| text.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

fn content(file: &mut fs::File) -> io::Result<Vec<u8>> {
    // The program shares the position, so this reads by another handle.
    let mut own = fs::File::open(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(file)
    ))?;
    own.rewind()?;
    let mut bytes = Vec::new();
    own.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit status, if the program ended in time and by itself.
    pub(crate) status: Option<i32>,
    /// Whether the program ended in time.
    pub(crate) has_ended: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ran {
    /// Returns everything that was printed.
    pub(crate) fn text(&self) -> String {
        let stderr = String::from_utf8_lossy(&self.stderr);
        format!("{}{stderr}", String::from_utf8_lossy(&self.stdout))
    }

    /// Returns the identifier of the signal that resumes the turn.
    pub(crate) fn signal(&self) -> Result<String, Failure> {
        let text = self.text();
        let mut words = text.split_whitespace().skip_while(|word| *word != "signal");
        words.nth(1).map(str::to_owned).ok_or_else(|| {
            Failure::Control(format!("the turn does not wait for a decision: {text}"))
        })
    }
}

/// Returns a model that makes these calls, one per answer, and then answers `done`.
pub(crate) fn model(calls: &[(&str, Value)]) -> Result<ModelServer, Failure> {
    let calls = calls.iter().enumerate().map(|(at, (name, arguments))| {
        Answer::text("").with_call(format!("c{at}"), *name, arguments.to_string())
    });
    answers(calls.collect())
}

/// Returns a model that gives these answers and then answers `done`.
pub(crate) fn answers(answers: Vec<Answer>) -> Result<ModelServer, Failure> {
    let mut replies: Vec<Reply> = answers.into_iter().map(Reply::Answer).collect();
    replies.push(Reply::Answer(Answer::text("done")));
    Ok(ModelServer::start(replies, Delivery::Whole)?)
}

/// Returns the arguments of a command.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Value {
    json!({"arguments": words.as_slice()})
}

/// Returns everything that a server received, as text.
pub(crate) fn traffic(server: &ModelServer) -> String {
    let mut text = String::new();
    for request in server.received() {
        text.push_str(&request.line);
        for (name, value) in &request.headers {
            text.push_str(&format!("\n{name}: {value}"));
        }
        text.push_str(&format!("\n{}\n", request.body));
    }
    text
}

/// Waits until a condition holds; returns whether it did in time.
pub(crate) fn wait_until(mut is_met: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is_met() {
        if started.elapsed() > Duration::from_secs(15) {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
    true
}

/// Returns every file below a folder with its content; links are not followed.
pub(crate) fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(path),
                Ok(kind) if kind.is_file() => {
                    let bytes = fs::read(&path).unwrap_or_default();
                    files.push((path, bytes));
                }
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Returns the files below a folder that contain a text.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let files = tree(folder).into_iter();
    let files = files.filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains(text));
    files.map(|(path, _)| path).collect()
}
