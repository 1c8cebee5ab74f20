//! Declared commands as tools.
//!
//! The declaration fixes the program and its first arguments; the model adds arguments. Both form
//! an argument vector that the operating system receives unchanged: no shell reads it, so nothing
//! needs quoting and nothing can be injected. The command runs in a [`Sandbox`], with a small
//! environment and no input. All of its processes are killed when it ends, when its time limit
//! passes and when the call is cancelled.

#[cfg(target_os = "linux")]
mod launcher;
mod process_group;
mod program;
mod report;
mod words;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

pub(crate) use program::{Program, locate};
pub(crate) use report::outcome;
pub use words::{CommandError, command_words};

use crate::covered::{UNBOUND, command_digest};
use crate::sandbox::Sandbox;
use crate::{BoxFuture, Preview, Roots, Tool, ToolInvocation, ToolResult};
use logue_source::{escape_unambiguous, quote_word, quote_words};

/// The limits and permissions of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellOptions {
    /// Time until the command is killed.
    pub timeout: Duration,
    /// Maximum size of the reported output in bytes.
    pub output_bytes: usize,
    /// The complete environment of the command.
    pub environment: Vec<(OsString, OsString)>,
    /// The sandbox, in addition to the roots of the run.
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
    /// Variables that a command inherits: those that programs need, without secrets.
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

    /// Sets the time until the command is killed.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of the reported output in bytes.
    #[must_use]
    pub const fn with_output_bytes(mut self, output_bytes: usize) -> Self {
        self.output_bytes = output_bytes;
        self
    }

    /// Sets the complete environment of the command.
    #[must_use]
    pub fn with_environment(mut self, environment: Vec<(OsString, OsString)>) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the sandbox.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        self
    }
}

/// The options of all commands of a run, with exceptions by tool.
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
    /// Sets the options of the tool `name`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, options: ShellOptions) -> Self {
        self.named.insert(name.into(), options);
        self
    }

    /// Returns the options of tools without exceptions.
    pub const fn general(&self) -> &ShellOptions {
        &self.all
    }

    /// Returns the options of the tool `name`.
    pub fn of(&self, name: &str) -> &ShellOptions {
        self.named.get(name).unwrap_or(&self.all)
    }
}

/// A command from a prompt's `<tool name="…" command="…"/>`.
#[derive(Clone, Debug)]
pub struct ShellTool {
    definition: ToolDefinition,
    /// The fixed program and arguments; empty if a call names the program.
    command: Vec<String>,
    folder: PathBuf,
    options: ShellOptions,
    limits: WordLimits,
}

/// Limits of the arguments that a call adds to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WordLimits {
    /// Minimum number.
    pub min_count: usize,
    /// Maximum number.
    pub max_count: Option<usize>,
    /// Maximum size of one argument in bytes.
    pub max_bytes: Option<usize>,
}

impl WordLimits {
    /// Creates limits of the number of arguments and of the size of each.
    pub fn new(min_count: usize, max_count: Option<usize>, max_bytes: Option<usize>) -> Self {
        Self {
            min_count,
            max_count,
            max_bytes,
        }
    }
}

impl ShellTool {
    /// Creates a tool `name` that runs `command` in the first root.
    ///
    /// The command can read and write the roots and the paths of the sandbox in `options`.
    ///
    /// Words are separated by white space. Single quotes keep everything, double quotes everything
    /// but `\"` and `\\`, a backslash elsewhere the next character; `%20` is a space. No shell
    /// reads the command: `$`, `*`, `|` and `;` are ordinary characters.
    ///
    /// # Errors
    /// Returns an error if the command has no word or an unclosed quote.
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
                        "Arguments added after `{}`, one string each; no shell reads them",
                        quote_words(words.iter())
                    ),
                }
            },
            "additionalProperties": false,
        });
        options.sandbox = options.sandbox.working_on(roots);
        Ok(Self {
            definition: ToolDefinition::new(name, description, parameters),
            command: words,
            folder: roots.base().to_owned(),
            options,
            limits: WordLimits::default(),
        })
    }

    /// Creates a tool `name` that runs the program of each call in the first root.
    pub fn any_program(
        name: &str,
        description: Option<&str>,
        roots: &Roots,
        mut options: ShellOptions,
    ) -> Self {
        let description = match description {
            Some(text) if !text.is_empty() => text,
            _ => "Runs a program with the given arguments; no shell reads them",
        };
        let parameters = json!({
            "type": "object",
            "properties": {
                "program": {"type": "string", "description": "Name or path of the program"},
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Arguments, one string each; no shell reads them",
                }
            },
            "required": ["program"],
            "additionalProperties": false,
        });
        options.sandbox = options.sandbox.working_on(roots);
        Self {
            definition: ToolDefinition::new(name, description, parameters),
            command: Vec::new(),
            folder: roots.base().to_owned(),
            options,
            limits: WordLimits::default(),
        }
    }

    /// Sets the limits of the arguments of a call.
    ///
    /// A call needs `arguments` only if the minimum is above 0.
    #[must_use]
    pub fn with_limits(mut self, limits: WordLimits) -> Self {
        self.limits = limits;
        let parameters = &mut self.definition.parameters;
        let list = &mut parameters["properties"]["arguments"];
        if limits.min_count > 0 {
            list["minItems"] = json!(limits.min_count);
        }
        match limits.max_count {
            Some(0) => {
                let properties = parameters["properties"].as_object_mut();
                properties.map(|properties| properties.remove("arguments"));
            }
            Some(most) => list["maxItems"] = json!(most),
            None => {}
        }
        if limits.min_count > 0 {
            let mut required = parameters["required"].as_array().cloned();
            required.get_or_insert_default().push(json!("arguments"));
            parameters["required"] = json!(required);
        }
        self
    }

    /// Lets commands read the roots and change nothing in them.
    ///
    /// Commands are refused if a sandbox cannot enforce that.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.options.sandbox = self.options.sandbox.read_only();
        self
    }

    /// Returns the sandbox of the commands.
    pub fn sandbox(&self) -> &Sandbox {
        &self.options.sandbox
    }

    /// Returns the words of a call: the command and its arguments.
    fn words(&self, arguments: &Arguments) -> Result<Vec<String>, String> {
        let (program, arguments) = argument_vector(arguments, self.command.is_empty())?;
        let limits = self.limits;
        let most = limits.max_count.unwrap_or(usize::MAX);
        if arguments.len() < limits.min_count || arguments.len() > most {
            let expected = match limits.max_count {
                Some(most) => format!("from {} to {most}", limits.min_count),
                None => format!("at least {}", limits.min_count),
            };
            let count = arguments.len();
            return Err(format!(
                "arguments: has {count} items; {expected} are allowed"
            ));
        }
        let most = limits.max_bytes.unwrap_or(usize::MAX);
        if let Some(at) = arguments.iter().position(|word| word.len() > most) {
            return Err(format!("arguments[{at}]: has more than {most} bytes"));
        }
        let command = self.command.iter().cloned();
        Ok(command.chain(program).chain(arguments).collect())
    }

    /// Runs the command if it is the approved one.
    async fn run(&self, arguments: &Arguments, approved: Option<&str>) -> ToolResult {
        let words = match self.words(arguments) {
            Ok(words) => words,
            Err(why) => return ToolResult::error("E-CALL-SCHEMA", why),
        };
        if let Some(approved) = approved {
            match self.digest(words.clone()).await {
                Err(reason) => return ToolResult::stale(unbound(&reason)),
                Ok(digest) if digest != approved => {
                    let line = quote_words(words.iter());
                    return ToolResult::stale(format_args!(
                        "`{line}` executes something else since it was approved"
                    ));
                }
                Ok(_) => {}
            }
        }
        let program = Program {
            words: words.into_iter().map(OsString::from).collect(),
            folder: Some(self.folder.clone()),
            input: None,
            sandbox: self.options.sandbox.clone(),
            options: &self.options,
        };
        outcome(program.run().await, &self.options)
    }

    /// Returns a digest of the command, its executable and the files that it names.
    async fn digest(&self, words: Vec<String>) -> Result<String, String> {
        let name = words.first().map(OsStr::new).unwrap_or_default();
        let executable = locate(name, &self.folder, &self.options.sandbox, &self.options).ok();
        let folder = self.folder.clone();
        let work = move || command_digest(Some(&folder), &words, executable.as_deref(), None);
        let digest = tokio::task::spawn_blocking(work).await;
        digest.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Describes a command that no approval can be bound to.
fn unbound(reason: &str) -> String {
    format!("an approval cannot be bound to the files of this command ({reason})")
}

impl Tool for ShellTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.run(call.arguments, call.approved))
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(async move {
            let words = match self.words(call.arguments) {
                Ok(words) => words,
                Err(reason) => return Some(would_fail(&reason)),
            };
            let line = quote_words(words.iter());
            let folder = self.folder.to_string_lossy();
            let text = format!("Runs in {}:\n{line}\n", quote_word(&folder));
            Some(match self.digest(words).await {
                Ok(digest) => Preview::new(text).with_fingerprint(digest),
                Err(reason) => would_fail(&unbound(&reason)),
            })
        })
    }
}

fn would_fail(reason: &str) -> Preview {
    let text = format!("The call would fail: {}\n", escape_unambiguous(reason));
    Preview::new(text).with_fingerprint(UNBOUND)
}

/// Returns the program of a call, if calls name it, and the arguments.
fn argument_vector(
    arguments: &Arguments,
    names_program: bool,
) -> Result<(Option<String>, Vec<String>), String> {
    let object = arguments
        .object()
        .map_err(|error| format!("the arguments are {error}"))?;
    let is_known = |key: &str| key == "arguments" || names_program && key == "program";
    if let Some(other) = object.keys().find(|key| !is_known(key)) {
        let known = if names_program {
            "they are `program` and `arguments`"
        } else {
            "the only one is `arguments`"
        };
        return Err(format!(
            "`{other}` is not a parameter of this tool; {known}"
        ));
    }
    let program = match object.get("program") {
        Some(Value::String(program)) if !program.is_empty() && !program.contains('\0') => {
            Some(program.clone())
        }
        None if !names_program => None,
        _ => return Err("program: is required, the name of a program".to_owned()),
    };
    let list = match object.get("arguments") {
        Some(Value::Array(list)) => list,
        None | Some(Value::Null) => &Vec::new(),
        Some(_) => return Err("arguments: must be a list of strings".to_owned()),
    };
    let words = list.iter().enumerate().map(|(at, word)| match word {
        Value::String(word) if word.contains('\0') => {
            Err(format!("arguments[{at}]: no argument can hold a NUL byte"))
        }
        Value::String(word) => Ok(word.clone()),
        _ => Err(format!("arguments[{at}]: must be a string")),
    });
    let words: Result<Vec<String>, String> = words.collect();
    Ok((program, words?))
}
