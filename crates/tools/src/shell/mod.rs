//! Declared commands as tools.
//!
//! The declaration fixes the program and its first arguments; the model adds arguments. Both
//! become an argument vector that the operating system gets as it is: no shell reads it, so there
//! is nothing to quote and nothing to inject. The command runs in a [`Sandbox`], with a small
//! environment and no input, and everything that it started is killed when it ends, when its time
//! is up, and when the call is cancelled.

#[cfg(target_os = "linux")]
mod launcher;
mod process_group;
mod program;
mod report;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

pub(crate) use program::Program;
pub(crate) use report::outcome;
pub use words::{CommandError, command_words};

use crate::sandbox::Sandbox;
use crate::{BoxFuture, Preview, Roots, Tool, ToolInvocation, ToolResult};
use logue_source::{escape_unambiguous, quote_word};

/// What one run of a command may cost, and what it may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOptions {
    /// Time until the command is killed.
    pub timeout: Duration,
    /// Bytes of output that the model is told.
    pub output_bytes: usize,
    /// The whole environment of the command.
    pub environment: Vec<(OsString, OsString)>,
    /// What the command may reach beside the run's folders.
    pub sandbox: Sandbox,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            output_bytes: 10_000,
            environment: Vec::new(),
            sandbox: Sandbox::default(),
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

/// The options of every command of a run, with those that have their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellPolicy {
    all: ShellOptions,
    named: BTreeMap<String, ShellOptions>,
}

impl From<ShellOptions> for ShellPolicy {
    fn from(all: ShellOptions) -> Self {
        let named = BTreeMap::new();
        Self { all, named }
    }
}

impl ShellPolicy {
    /// The same with options of its own for the tool `name`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, options: ShellOptions) -> Self {
        self.named.insert(name.into(), options);
        self
    }

    /// The options of the tool `name`.
    pub fn of(&self, name: &str) -> &ShellOptions {
        self.named.get(name).unwrap_or(&self.all)
    }
}

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
    /// A tool `name` that runs `command` in the first of the roots. What it may read and write are
    /// the roots and what the sandbox of the options says.
    ///
    /// The command's words are separated by white space. Single quotes keep everything, double
    /// quotes everything but `\"` and `\\`, a backslash elsewhere the next character; `%20` is a
    /// space. No shell reads it: `$`, `*`, `|` and `;` are ordinary characters.
    ///
    /// # Errors
    /// The command has no word or a quote that is never closed.
    pub fn new(
        name: &str,
        command: &str,
        description: Option<&str>,
        roots: &Roots,
        mut options: ShellOptions,
    ) -> Result<Self, CommandError> {
        let words = command_words(command)?;
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
                        line(words.iter())
                    ),
                }
            },
            "required": ["arguments"],
            "additionalProperties": false,
        });
        options.sandbox = options.sandbox.working_on(roots.folders());
        Ok(Self {
            definition: ToolDefinition::new(name, description, parameters),
            command: words,
            folder: roots.base().to_owned(),
            options,
        })
    }

    async fn run(&self, arguments: &Arguments) -> ToolResult {
        let arguments = match argument_vector(arguments) {
            Ok(arguments) => arguments,
            Err(why) => return ToolResult::error("E-CALL-SCHEMA", why),
        };
        let words = self.command.iter().cloned().chain(arguments);
        let program = Program {
            words: words.map(OsString::from).collect(),
            folder: Some(self.folder.clone()),
            input: None,
            sandbox: self.options.sandbox.clone(),
            options: &self.options,
        };
        outcome(program.run().await, &self.options)
    }
}

impl Tool for ShellTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.run(call.arguments))
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        let text = match argument_vector(call.arguments) {
            Ok(arguments) => {
                let line = line(self.command.iter().chain(&arguments));
                let folder = self.folder.to_string_lossy();
                format!("Runs in {}:\n{line}\n", quote_word(&folder))
            }
            Err(why) => format!("The call would fail: {}\n", escape_unambiguous(why)),
        };
        Box::pin(std::future::ready(Some(Preview::new(text))))
    }
}

/// Words as a person reads them.
fn line<'a>(words: impl Iterator<Item = &'a String>) -> String {
    let words: Vec<String> = words.map(|word| quote_word(word)).collect();
    words.join(" ")
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
