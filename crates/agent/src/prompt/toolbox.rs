//! The tools of a prompt, set up to run.

use std::sync::Arc;

use chatmd::{ShellProfile, ToolDecl, ToolKind};
use futures_util::future::join_all;
use logue_source::{Diagnostic, DiagnosticCode};
use logue_tools::{
    AccessScope, Builtin, CommandError, Roots, ServerToolRequest, ShellOptions, ShellTool, Tool,
    ToolServerError, ToolServerErrorKind, ToolSource, Toolbox, WordLimits, with_note,
};

use crate::agents::agent_tool::AgentTool;
use crate::agents::fork::ForkTool;
use crate::permission::permissions::Permissions;
use crate::prompt::document::Prompt;
use crate::prompt::external_tool::ExternalTool;
use crate::prompt::scope::PromptScope;
use crate::turn::budget::Budget;

/// Sets up the tools that a prompt declares.
///
/// Servers list their tools, all at once, and only if the prompt is trusted: a server is started
/// for that.
///
/// # Errors
/// Returns the first declaration that cannot be used, with its position.
pub async fn toolbox(
    prompt: &Prompt,
    scope: &PromptScope,
    permissions: &Permissions,
) -> Result<Toolbox, Box<Diagnostic>> {
    require_trusted_servers(prompt, permissions)?;
    require_unconfined_servers(prompt, scope)?;
    let named = scope.named_roots(&prompt.tools)?;
    let inherited = &scope.confinement.reading;
    let mut reach = scope.reach(prompt);
    if !inherited.is_empty() {
        reach = reach.with_confined_reading();
    }
    let reach = reach.with_named_roots(if named.is_empty() {
        inherited.to_vec()
    } else {
        named
    });
    let mut sources = sources(prompt, scope, permissions).await.into_iter();
    let mut toolbox = Toolbox::new();
    for declaration in &prompt.tools {
        match &declaration.kind {
            ToolKind::McpServer { .. } => {
                toolbox.add_source(server_source(declaration, sources.next())?);
            }
            ToolKind::Builtin { name } => {
                // A built-in of another program was reported as a warning. It is not offered, and a
                // call of it is refused like that of an undeclared tool.
                let builtins = Builtin::named(name).unwrap_or_default().into_iter();
                for builtin in builtins.filter(|builtin| is_offered(*builtin)) {
                    if builtin == Builtin::Python {
                        confined(declaration, &scope.program_options("python"))?;
                    }
                    let tool = builtin_tool(builtin, &reach, scope);
                    let tool = match &declaration.note {
                        Some(note) => with_note(tool, note),
                        None => tool,
                    };
                    add(&mut toolbox, declaration, tool)?;
                }
            }
            _ => {
                let caller = scope.passing_on(&prompt.config, &prompt.variables);
                let caller = caller.confining(&prompt.tools)?;
                add(&mut toolbox, declaration, tool(declaration, &caller)?)?;
            }
        }
    }
    if let Some(transcript) = prompt.transcript() {
        let builtins = transcript.builtins.iter();
        let builtins = builtins.filter(|builtin| is_offered(**builtin));
        let builtins = builtins.map(|builtin| builtin_tool(*builtin, &reach, scope));
        let functions = transcript.functions.iter().cloned();
        let functions = functions.map(|function| Arc::new(ExternalTool(function)) as Arc<dyn Tool>);
        for tool in builtins.chain(functions) {
            // A function that is declared and built in is run by the built-in.
            drop(toolbox.add(tool));
        }
    }
    Ok(toolbox)
}

/// Returns whether a built-in tool is offered: a fork and its agents cannot fork.
fn is_offered(builtin: Builtin) -> bool {
    builtin != Builtin::Fork || !Budget::current().is_some_and(|budget| budget.is_in_fork())
}

/// Creates a built-in tool with the restrictions of the callers.
fn builtin_tool(builtin: Builtin, reach: &AccessScope, scope: &PromptScope) -> Arc<dyn Tool> {
    match builtin {
        Builtin::Fork => Arc::new(ForkTool::new(scope.clone())),
        _ => scope.confinement.restricted(builtin, builtin.tool(reach)),
    }
}

/// Refuses the servers of a prompt that is not trusted.
///
/// Listing its tools starts a server, before any call could be approved.
fn require_trusted_servers(
    prompt: &Prompt,
    permissions: &Permissions,
) -> Result<(), Box<Diagnostic>> {
    let is_server = |tool: &&ToolDecl| matches!(tool.kind, ToolKind::McpServer { .. });
    match prompt.tools.iter().find(is_server) {
        Some(server) if !permissions.trusts_prompt() => {
            let message = "the prompt is not trusted, so the server that it declares is not used";
            let refused =
                Diagnostic::error(DiagnosticCode::McpServerNotTrusted, message, server.span);
            Err(Box::new(refused.with_help(
                "look at what it declares, then `logue trust add FILE`, or --trust for this run",
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses a server that is a program, if the calling prompt confines programs.
fn require_unconfined_servers(prompt: &Prompt, scope: &PromptScope) -> Result<(), Box<Diagnostic>> {
    let is_refused = |tool: &&ToolDecl| match &tool.kind {
        ToolKind::McpServer { server, .. } => scope.confinement.refuses_server(server),
        _ => false,
    };
    let Some(server) = prompt.tools.iter().find(is_refused) else {
        return Ok(());
    };
    let message = "the prompt that calls this agent is confined, so the server that it starts is \
                   not used";
    let refused = Diagnostic::error(DiagnosticCode::McpServerNotTrusted, message, server.span);
    Err(Box::new(refused.with_help(
        "declare the server in the calling prompt, or remove its `<read>` or read-only profile",
    )))
}

/// Sets up a tool that is neither a built-in nor a server.
fn tool(declaration: &ToolDecl, scope: &PromptScope) -> Result<Arc<dyn Tool>, Box<Diagnostic>> {
    match &declaration.kind {
        ToolKind::Command { name, .. } | ToolKind::AnyProgram { name, .. } => {
            let options = scope.program_options(name);
            confined(declaration, &options)?;
            let Some(tool) = command(declaration, &scope.program_roots(), options) else {
                return unsupported(declaration);
            };
            let tool = tool.or_else(|error: CommandError| {
                let code = DiagnosticCode::MdToolDeclaration;
                refuse(declaration, code, error.to_string())
            })?;
            restricted(declaration, tool, scope)
        }
        ToolKind::Agent {
            name,
            agent,
            local,
            description,
        } => Ok(Arc::new(AgentTool::new(
            name,
            description.as_deref(),
            agent,
            *local,
            scope.clone(),
        ))),
        _ => unsupported(declaration),
    }
}

/// Refuses a declaration of an unknown kind.
fn unsupported<T>(declaration: &ToolDecl) -> Result<T, Box<Diagnostic>> {
    let message = "tools of this kind cannot be run yet";
    refuse(declaration, DiagnosticCode::MdUnsupported, message)
}

/// Creates the command of a declaration with its limits; `None` if it declares none.
pub(crate) fn command(
    declaration: &ToolDecl,
    roots: &Roots,
    options: ShellOptions,
) -> Option<Result<ShellTool, CommandError>> {
    let tool = match &declaration.kind {
        ToolKind::Command {
            name,
            command,
            description,
        } => ShellTool::new(name, command, description.as_deref(), roots, options),
        ToolKind::AnyProgram { name, description } => {
            let description = description.as_deref();
            Ok(ShellTool::any_program(name, description, roots, options))
        }
        _ => return None,
    };
    let Some(shell) = &declaration.shell else {
        return Some(tool);
    };
    let limits = &shell.arguments;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = WordLimits::new(
        size(limits.min_count),
        limits.max_count.map(size),
        limits.max_item_bytes.map(size),
    );
    Some(tool.map(|tool| tool.with_limits(limits)))
}

/// Restricts a command as its declaration and the callers of its prompt demand.
fn restricted(
    declaration: &ToolDecl,
    tool: ShellTool,
    scope: &PromptScope,
) -> Result<Arc<dyn Tool>, Box<Diagnostic>> {
    let mut reads_only = scope.confinement.commands_read_only;
    if let Some(shell) = &declaration.shell {
        reads_only |= shell.profile == Some(ShellProfile::ReadOnly);
    }
    if !reads_only {
        return Ok(Arc::new(tool));
    }
    let tool = tool.read_only();
    tool.sandbox().check().or_else(|error| {
        let message = format!("this command may only read, and {error}");
        refuse(declaration, DiagnosticCode::SandboxUnavailable, message)
    })?;
    Ok(Arc::new(tool))
}

/// Returns the tools of a connected server.
fn server_source(
    declaration: &ToolDecl,
    source: Option<Result<Arc<dyn ToolSource>, ToolServerError>>,
) -> Result<Arc<dyn ToolSource>, Box<Diagnostic>> {
    match source {
        Some(Ok(source)) => Ok(source),
        Some(Err(error)) => {
            let code = match error.kind {
                ToolServerErrorKind::Denied => DiagnosticCode::NetworkDenied,
                ToolServerErrorKind::Address => DiagnosticCode::McpDeclarationInvalid,
                _ => DiagnosticCode::McpToolNotFound,
            };
            let refused = Diagnostic::error(code, error.message, declaration.span);
            let help = error.help.into_iter();
            Err(Box::new(help.fold(refused, Diagnostic::with_help)))
        }
        None => {
            let message = "servers of tools are not connected to here";
            refuse(declaration, DiagnosticCode::MdUnsupported, message)
        }
    }
}

fn add(
    toolbox: &mut Toolbox,
    declaration: &ToolDecl,
    tool: Arc<dyn Tool>,
) -> Result<(), Box<Diagnostic>> {
    toolbox.add(tool).or_else(|error| {
        let code = DiagnosticCode::MdDuplicateTool;
        refuse(declaration, code, error.to_string())
    })
}

fn refuse<T>(
    declaration: &ToolDecl,
    code: DiagnosticCode,
    message: impl Into<String>,
) -> Result<T, Box<Diagnostic>> {
    Err(Box::new(Diagnostic::error(code, message, declaration.span)))
}

/// Checks that programs with these options can be run.
fn confined(declaration: &ToolDecl, options: &ShellOptions) -> Result<(), Box<Diagnostic>> {
    let checked = options.sandbox.check();
    checked.or_else(|error| {
        let code = DiagnosticCode::SandboxUnavailable;
        refuse(declaration, code, error.to_string())
    })
}

/// Connects to the servers of a prompt, in the order of their declarations.
///
/// Returns nothing if servers are off.
async fn sources(
    prompt: &Prompt,
    scope: &PromptScope,
    permissions: &Permissions,
) -> Vec<Result<Arc<dyn ToolSource>, ToolServerError>> {
    let Some(servers) = &scope.servers else {
        return Vec::new();
    };
    let roots = scope.files.roots();
    let wanted: Vec<ServerToolRequest> = prompt
        .tools
        .iter()
        .filter_map(|declaration| match &declaration.kind {
            ToolKind::McpServer {
                server,
                names,
                strict,
            } => Some(
                ServerToolRequest::new(server.clone(), roots.base().to_owned())
                    .with_names(names.clone())
                    .with_strict(*strict)
                    .with_roots((**roots).clone())
                    .with_access(permissions.server_access(server.trim())),
            ),
            _ => None,
        })
        .collect();
    join_all(wanted.iter().map(|wanted| servers.source(wanted))).await
}
