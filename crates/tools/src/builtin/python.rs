//! `python`: runs one short program.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

use crate::covered::{UNBOUND, command_digest};
use crate::sandbox::Sandbox;
use crate::shell::{Program, ShellOptions, outcome};
use crate::{BoxFuture, Preview, Roots, Tool, ToolInvocation, ToolResult};
use logue_source::escape_unambiguous;

/// Directories searched for Python after `PATH`.
const FALLBACK_PATH: &str = "/usr/bin:/usr/local/bin:/bin";

/// Maximum memory of a program in bytes.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// Maximum time of a program, even if other commands may run longer.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Runs Python programs in a private empty directory without network; the roots are readable.
#[derive(Clone, Debug)]
pub struct Python {
    definition: ToolDefinition,
    options: ShellOptions,
    sandbox: Sandbox,
}

impl Python {
    /// Creates a tool for programs that may read the roots.
    ///
    /// The network is closed unless the options open it.
    pub fn new(roots: &Roots, mut options: ShellOptions) -> Self {
        let description = "Runs a Python 3 program and returns its output. Each call starts in a new empty \
             folder: nothing is kept, and only printed text is returned. The network is not available.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "The program"},
            },
            "required": ["code"],
            "additionalProperties": false,
        });
        options.timeout = options.timeout.min(MAX_TIME);
        let mut sandbox = options.sandbox.clone().looking_at(roots);
        let memory = sandbox
            .limits
            .memory_bytes
            .unwrap_or(MAX_MEMORY_BYTES)
            .min(MAX_MEMORY_BYTES);
        sandbox.limits.memory_bytes = Some(memory);
        Self {
            definition: ToolDefinition::new("python", description, parameters),
            options,
            sandbox,
        }
    }

    /// Runs the program if it is the approved one.
    async fn run(&self, arguments: &Arguments, approved: Option<&str>) -> ToolResult {
        let code = match code(arguments) {
            Ok(code) => code,
            Err(reason) => return ToolResult::error("E-CALL-SCHEMA", reason),
        };
        let Some(python) = self.interpreter() else {
            return ToolResult::failure(
                "there is no `python3` here that the sandbox can read, so the program was not run",
            );
        };
        if let Some(approved) = approved
            && self.digest(&code).await.as_deref() != Ok(approved)
        {
            return ToolResult::stale("Python is another program since this call was approved");
        }
        let program = Program {
            words: vec![python.into(), "-I".into(), "-".into()],
            folder: None,
            input: Some(code),
            sandbox: self.sandbox.clone(),
            options: &self.options,
        };
        outcome(program.run().await, &self.options)
    }

    fn interpreter(&self) -> Option<PathBuf> {
        let is_path = |(name, _): &&(OsString, OsString)| name == "PATH";
        let path = self.options.environment.iter().find(is_path);
        let path = path.map(|(_, value)| value.as_os_str());
        let name = OsStr::new("python3");
        let found = self.sandbox.find(name, path);
        let fallback = || self.sandbox.find(name, Some(OsStr::new(FALLBACK_PATH)));
        found.or_else(|_| fallback()).ok()
    }

    /// Returns a digest of the program and its interpreter.
    async fn digest(&self, code: &str) -> Result<String, String> {
        let python = self.interpreter();
        let words = ["python3", "-I", "-", code].map(str::to_owned);
        // The program starts in an empty directory, so its words name no file.
        let work = move || command_digest(None, &words, python.as_deref(), None);
        let digest = tokio::task::spawn_blocking(work).await;
        digest.unwrap_or_else(|error| Err(error.to_string()))
    }
}

impl Tool for Python {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.run(call.arguments, call.approved))
    }

    /// Arguments that are not JSON are a program.
    fn checks_arguments(&self) -> bool {
        true
    }

    /// Shows the program.
    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(async move {
            let code = match code(call.arguments) {
                Ok(code) => code,
                Err(reason) => {
                    let text = format!("The call would fail: {}\n", escape_unambiguous(&reason));
                    return Some(Preview::new(text));
                }
            };
            let lines: Vec<String> = code.lines().map(escape_unambiguous).collect();
            let preview = Preview::new(format!("Runs this in Python:\n{}\n", lines.join("\n")));
            let digest = self.digest(&code).await;
            Some(preview.with_fingerprint(digest.unwrap_or_else(|_| UNBOUND.to_owned())))
        })
    }
}

/// Returns the program: the parameter `code`, or the complete text, as some models send it.
pub(super) fn code(arguments: &Arguments) -> Result<String, String> {
    let code = match arguments.object() {
        Ok(object) => {
            if let Some(other) = object.keys().find(|key| *key != "code") {
                return Err(format!(
                    "`{other}` is not a parameter of this tool; the only one is `code`"
                ));
            }
            match object.get("code") {
                Some(Value::String(code)) => code.clone(),
                _ => return Err("code: is required, a string".to_owned()),
            }
        }
        Err(_) => arguments.as_str().to_owned(),
    };
    if code.contains('\0') {
        return Err("code: no program can hold a NUL character".to_owned());
    }
    Ok(code)
}
