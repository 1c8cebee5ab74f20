//! A declared command as a tool.
//!
//! The declaration fixes the program and its first arguments; the model adds arguments. Both
//! become an argument vector that the operating system gets as it is: no shell reads it, so there
//! is nothing to quote and nothing to inject. The command runs in its own process group, with a
//! small environment and no input, and the group is killed when the command ends, when its time is
//! up, and when the call is cancelled.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::output::Capped;
use crate::shown::{quoted, shown};
use crate::{BoxFuture, Call, Outcome, Preview, Tool};

/// What one run of a command may cost, and what it may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOptions {
    /// Time until the command is killed.
    pub timeout: Duration,
    /// Bytes of output that the model is told.
    pub output_bytes: usize,
    /// The whole environment of the command.
    pub environment: Vec<(OsString, OsString)>,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            output_bytes: 10_000,
            environment: Vec::new(),
        }
    }
}

impl ShellOptions {
    /// The variables that a command should get from the program's own environment: what programs
    /// need to find things and to write text, and nothing that holds a secret.
    pub const STANDARD_ENVIRONMENT: &'static [&'static str] = &[
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "TEMP",
        "TMP",
        "SystemRoot",
    ];
}

/// Time that output already written may take to arrive after the command has ended.
const DRAIN: Duration = Duration::from_millis(500);

/// A command from a prompt's `<tool name="…" command="…"/>`.
#[derive(Clone, Debug)]
pub struct ShellTool {
    definition: ToolDefinition,
    /// The program and the arguments that the declaration fixes.
    command: Vec<String>,
    folder: PathBuf,
    options: ShellOptions,
}

impl ShellTool {
    /// A tool `name` that runs `command` in `folder`. The command's words are separated by white
    /// space; `%20` in a word is a space.
    pub fn new(
        name: &str,
        command: &str,
        description: Option<&str>,
        folder: PathBuf,
        options: ShellOptions,
    ) -> Self {
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| word.replace("%20", " "))
            .collect();
        let description = match description {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => format!("Runs `{command}` with the given arguments"),
        };
        let parameters = json!({
            "type": "object",
            "properties": {
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": format!(
                        "Arguments added behind `{}`, one string each; no shell reads them",
                        words.join(" ")
                    ),
                }
            },
            "required": ["arguments"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new(name, description, parameters),
            command: words,
            folder,
            options,
        }
    }

    async fn run(&self, arguments: &Arguments) -> Outcome {
        let arguments = match argument_vector(arguments) {
            Ok(arguments) => arguments,
            Err(why) => return Outcome::error("E-CALL-SCHEMA", why),
        };
        let Some((program, fixed)) = self.command.split_first() else {
            return Outcome::failed("the tool's declaration names no command");
        };
        let mut command = CommandWrap::with_new(program, |command| {
            command
                .args(fixed)
                .args(&arguments)
                .current_dir(&self.folder)
                .env_clear()
                .envs(
                    self.options
                        .environment
                        .iter()
                        .map(|(name, value)| (name, value)),
                )
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        command.wrap(ProcessGroup::leader());
        let mut group = match command.spawn() {
            Ok(child) => Group(child),
            Err(error) => {
                return Outcome::failed(format!("`{program}` could not be started: {error}"));
            }
        };
        let mut output = Capped::new(self.options.output_bytes);
        let watched =
            tokio::time::timeout(self.options.timeout, watch(group.0.as_mut(), &mut output)).await;
        // Whatever the command left running goes with it, however it ended.
        let killed = group.end().await;
        let timed_out = watched.is_err();
        let (status, ok) = match watched {
            Ok(Ok(status)) => (describe(status), status.success()),
            Ok(Err(error)) => (format!("the command could not be watched: {error}"), false),
            Err(_) => (
                format!(
                    "E-TOOL-TIMEOUT: the command was killed after {} s",
                    self.options.timeout.as_secs_f64()
                ),
                false,
            ),
        };
        let mut text = output.into_text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{status}]"));
        if let Err(error) = killed {
            text.push_str(&format!(
                "\n[its process group could not be ended: {error}]"
            ));
        }
        match (ok, timed_out) {
            (true, _) => Outcome::done(text),
            (false, false) => Outcome::failed_saying(text),
            (false, true) => Outcome::failed_saying(text).with_code("E-TOOL-TIMEOUT"),
        }
    }
}

impl Tool for ShellTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(self.run(call.arguments))
    }

    fn preview<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Option<Preview>> {
        let text = match argument_vector(call.arguments) {
            Ok(arguments) => {
                let words = self.command.iter().chain(&arguments);
                let words: Vec<String> = words.map(|word| quoted(word)).collect();
                let folder = self.folder.to_string_lossy();
                format!("Runs in {}:\n{}\n", quoted(&folder), words.join(" "))
            }
            Err(why) => format!("The call would fail: {}\n", shown(&why)),
        };
        Box::pin(std::future::ready(Some(Preview::new(text))))
    }
}

/// Reads both streams in the order in which they come until the command has ended.
async fn watch(child: &mut dyn ChildWrapper, output: &mut Capped) -> std::io::Result<ExitStatus> {
    let mut out = child.stdout().take();
    let mut err = child.stderr().take();
    let (mut out_block, mut err_block) = (vec![0_u8; 16 * 1024], vec![0_u8; 16 * 1024]);
    let mut status = None;
    loop {
        if let Some(status) = status
            && out.is_none()
            && err.is_none()
        {
            return Ok(status);
        }
        tokio::select! {
            biased;
            read = read_some(&mut out, &mut out_block), if out.is_some() => match read? {
                0 => out = None,
                count => output.push(&out_block[..count]),
            },
            read = read_some(&mut err, &mut err_block), if err.is_some() => match read? {
                0 => err = None,
                count => output.push(&err_block[..count]),
            },
            ended = child.wait_leader(), if status.is_none() => status = Some(ended?),
            // A child that the command left behind may hold the streams open for ever.
            () = tokio::time::sleep(DRAIN), if status.is_some() => {
                out = None;
                err = None;
            }
        }
    }
}

/// Waiting for the command itself, not for its whole group.
trait WaitLeader {
    fn wait_leader(&mut self) -> BoxFuture<'_, std::io::Result<ExitStatus>>;
}

impl WaitLeader for dyn ChildWrapper + '_ {
    fn wait_leader(&mut self) -> BoxFuture<'_, std::io::Result<ExitStatus>> {
        Box::pin(self.inner_mut().wait())
    }
}

async fn read_some<R: AsyncRead + Unpin>(
    stream: &mut Option<R>,
    block: &mut [u8],
) -> std::io::Result<usize> {
    match stream {
        Some(stream) => stream.read(block).await,
        None => Ok(0),
    }
}

/// `ESRCH`: the group has no process left.
const NO_SUCH_PROCESS: i32 = 3;

/// A started command with everything that it started.
struct Group(Box<dyn ChildWrapper>);

impl Group {
    /// Kills what is left of the group. A group that is gone already is as wished.
    async fn end(&mut self) -> std::io::Result<()> {
        match self.0.start_kill() {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => return Ok(()),
            Err(error) => return Err(error),
        }
        drop(tokio::time::timeout(DRAIN, self.0.wait()).await);
        Ok(())
    }
}

impl Drop for Group {
    /// A call that is cancelled leaves nothing running. After [`Group::end`] there is nothing left
    /// to kill, and the failure to do so means just that.
    fn drop(&mut self) {
        drop(self.0.start_kill());
    }
}

fn argument_vector(arguments: &Arguments) -> Result<Vec<String>, String> {
    let object = arguments
        .object()
        .map_err(|error| format!("the arguments are {error}"))?;
    if let Some(other) = object.keys().find(|key| *key != "arguments") {
        return Err(format!(
            "`{other}` is no parameter of this tool; the only one is `arguments`"
        ));
    }
    let list = match object.get("arguments") {
        Some(Value::Array(list)) => list,
        Some(_) => return Err("arguments: must be a list of strings".to_owned()),
        None => return Err("arguments: is required, a list of strings".to_owned()),
    };
    let words = list.iter().enumerate().map(|(at, word)| match word {
        Value::String(word) if word.contains('\0') => {
            Err(format!("arguments[{at}]: no argument can hold a NUL byte"))
        }
        Value::String(word) => Ok(word.clone()),
        _ => Err(format!("arguments[{at}]: must be a string")),
    });
    words.collect()
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return format!("killed by signal {signal}");
        }
    }
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => "ended without an exit status".to_owned(),
    }
}
