//! The restrictions of a prompt that its agents keep.
//!
//! The permissions of an agent never exceed those of the prompt that calls it (`<read>` and the
//! profiles of `<shell_access>`).

use std::sync::Arc;

use chatmd::{ShellProfile, ToolDecl, ToolKind};
use logue_message::ToolDefinition;
use logue_source::Diagnostic;
use logue_tools::{
    BoxFuture, Builtin, BuiltinPower, NamedRoot, Roots, ShellOptions, Tool, ToolInvocation,
    ToolResult,
};

use crate::prompt::read_roots::named_roots;
use crate::prompt::scope::PromptScope;

/// The restrictions that the callers of a prompt impose on its tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confinement {
    /// The directories that reading tools are confined to; empty for no such restriction.
    pub(crate) reading: Arc<Vec<NamedRoot>>,
    /// Whether programs reach these directories only.
    pub(crate) confines_programs: bool,
    /// Whether commands change no files.
    pub(crate) commands_read_only: bool,
    /// Whether built-in tools change no files.
    pub(crate) files_read_only: bool,
}

impl Confinement {
    /// Returns the restrictions of the agents of a prompt.
    ///
    /// `tools` are its declarations, and `named` the directories that they name.
    fn of_agents(&self, tools: &[&ToolDecl], named: Vec<NamedRoot>) -> Self {
        let any = |is: fn(&ToolDecl) -> bool| tools.iter().any(|tool| is(tool));
        let reads_only = any(is_read_only_command) && !any(is_other_program);
        Self {
            confines_programs: self.confines_programs
                || !named.is_empty() && !any(is_other_program) && !any(is_read_only_command),
            reading: if named.is_empty() {
                Arc::clone(&self.reading)
            } else {
                Arc::new(named)
            },
            commands_read_only: self.commands_read_only || reads_only,
            files_read_only: self.files_read_only || reads_only && !any(changes_files),
        }
    }

    /// Returns whether servers that are programs are refused.
    pub(crate) fn refuses_server(&self, server: &str) -> bool {
        server.trim().starts_with("stdio:") && (self.confines_programs || self.commands_read_only)
    }

    /// Replaces a built-in tool that changes files by one that refuses its calls, if required.
    pub(crate) fn restricted(&self, builtin: Builtin, tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
        if self.files_read_only && builtin.power() == BuiltinPower::Writes {
            Arc::new(ReadOnlyTool(tool.definition().clone()))
        } else {
            tool
        }
    }
}

impl PromptScope {
    /// Sets the restrictions of the agents of a prompt with these tools.
    ///
    /// # Errors
    /// Returns the first directory of a `<read>` that is not allowed, or that does not exist.
    pub(crate) fn confining<'d>(
        &self,
        tools: impl IntoIterator<Item = &'d ToolDecl>,
    ) -> Result<Self, Box<Diagnostic>> {
        let tools: Vec<&ToolDecl> = tools.into_iter().collect();
        let named = self.named_roots(tools.iter().copied())?;
        Ok(Self {
            confinement: Arc::new(self.confinement.of_agents(&tools, named)),
            ..self.clone()
        })
    }

    /// Opens the directories that declarations name.
    pub(crate) fn named_roots<'d>(
        &self,
        tools: impl IntoIterator<Item = &'d ToolDecl>,
    ) -> Result<Vec<NamedRoot>, Box<Diagnostic>> {
        let (allowed, folder) = (self.files.roots(), self.prompt_folder());
        named_roots(tools, allowed, &folder, &self.confinement.reading)
    }

    /// Returns the directories of the prompt's programs.
    pub(crate) fn program_roots(&self) -> Arc<Roots> {
        if self.confinement.confines_programs {
            Arc::new(NamedRoot::joined(&self.confinement.reading))
        } else {
            Arc::clone(self.files.roots())
        }
    }

    /// Returns the options of the programs of a tool.
    pub(crate) fn program_options(&self, tool: &str) -> ShellOptions {
        let mut options = self.shell.of(tool).clone();
        options.sandbox.required |= self.confinement.confines_programs;
        options
    }
}

/// A tool of an agent that may not change files.
#[derive(Debug)]
struct ReadOnlyTool(ToolDefinition);

impl Tool for ReadOnlyTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            ToolResult::failure(
                "nothing was changed: the prompt that calls this agent allows reading only",
            )
        })
    }
}

fn is_read_only_command(tool: &ToolDecl) -> bool {
    let profile = tool.shell.as_ref().and_then(|shell| shell.profile);
    profile == Some(ShellProfile::ReadOnly)
}

/// Returns whether a tool runs programs, other than commands that only read.
fn is_other_program(tool: &ToolDecl) -> bool {
    match &tool.kind {
        ToolKind::Command { .. } | ToolKind::AnyProgram { .. } => !is_read_only_command(tool),
        ToolKind::McpServer { server, .. } => server.trim().starts_with("stdio:"),
        ToolKind::Builtin { name } => has_power(name, BuiltinPower::Runs),
        _ => false,
    }
}

fn changes_files(tool: &ToolDecl) -> bool {
    matches!(&tool.kind, ToolKind::Builtin { name } if has_power(name, BuiltinPower::Writes))
}

fn has_power(name: &str, power: BuiltinPower) -> bool {
    Builtin::declared(name).is_some_and(|builtin| builtin.power() == power)
}
