//! `logue mcp list`: the tools that servers offer or that a prompt declares.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chatmd::{ToolKind, load};
use logue_agent::read_bytes;
use logue_source::{escape_line, quote_word};
use logue_tools::mcp::LogFn;
use logue_tools::{RootError, Roots, ServerToolRequest, ToolServers as _};
use serde_json::json;

use crate::arguments::McpListArgs;
use crate::exit::{CliError, Exit};
use crate::files::{file_world, folder_of};
use crate::setup::failures::{rendered, source_failure};
use crate::setup::mcp::servers_with;
use crate::setup::network::fetcher;
use crate::setup::server_access::AccessByServer;
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, signalled};
use crate::setup::trust::{TrustReason, grant_of, place_of, single};
use crate::setup::trust_file::file;
use crate::terminal::{ignore_broken_pipe, print, print_error};

pub(super) fn list(arguments: &McpListArgs) -> Result<Exit, CliError> {
    let settings = Settings::inspect()?;
    if let Some(report) = &settings.ignored {
        print_error(report);
    }
    let mut wanted = if arguments.from.contains("://") || arguments.from.starts_with("stdio:") {
        let roots = Roots::new([PathBuf::from(".")]).map_err(|error| unreadable(&error))?;
        let wanted = ServerToolRequest::new(arguments.from.clone(), roots.base());
        vec![wanted.with_roots(roots.clone())]
    } else {
        let path = Path::new(&arguments.from);
        let mut servers = declared(path).map_err(|failure| match server_program(path) {
            Some(server) => failure.with_help(format!(
                "the program of a server is named by {}",
                quote_word(&server)
            )),
            None => failure,
        })?;
        if !servers.is_empty() && !arguments.trust {
            let access = require_trust(path, &settings, &servers)?;
            for wanted in &mut servers {
                let given = access.get(wanted.server.trim()).copied();
                wanted.access = given.unwrap_or_default();
            }
        }
        servers
    };
    for wanted in &mut wanted {
        let access = wanted.access;
        wanted.access = access
            .with_network(access.network || arguments.servers.server_network)
            .with_cache(access.cache || arguments.servers.server_cache);
    }
    if wanted.is_empty() {
        let name = escape_line(&arguments.from);
        print_error(&format!("{name} declares no MCP servers\n"));
    }
    let network = fetcher(&arguments.allow_hosts, &settings)?;
    let failed = Arc::new(AtomicBool::new(false));
    let notice: LogFn = {
        let failed = Arc::clone(&failed);
        Arc::new(move |text| {
            failed.store(true, Ordering::Relaxed);
            let failure = CliError::new(Exit::Retryable, "E-MCP-SERVER-FAILED", text).with_help(
                "check the command or the address; a program must be in PATH and must not exit",
            );
            crate::terminal::report(&failure);
        })
    };
    let servers = servers_with(&settings, network, notice);
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let listing = async {
            let mut text = String::new();
            for wanted in &wanted {
                servers.forget(wanted);
                let source = servers.source(wanted).await.map_err(|error| {
                    let code = match error.kind {
                        logue_tools::ToolServerErrorKind::Denied => "E-NETWORK-DENIED",
                        logue_tools::ToolServerErrorKind::Address => "E-MCP-DECLARATION-INVALID",
                        _ => "E-MCP-TOOL-NOT-FOUND",
                    };
                    let failure = CliError::user(code, error.message);
                    error.help.into_iter().fold(failure, CliError::with_help)
                })?;
                if !arguments.json {
                    text.push_str(&format!("{}\n", escape_line(&wanted.server)));
                }
                for tool in source.tools().await {
                    text.push_str(&line(&wanted.server, tool.definition(), arguments.json));
                }
            }
            Ok(text)
        };
        let ended = tokio::select! {
            biased;
            exit = signalled() => Err(exit),
            text = listing => Ok(text),
        };
        servers.close().await;
        ended
    });
    runtime.shutdown_background();
    match ended {
        Ok(text) => match ignore_broken_pipe(print(&text?))? {
            Exit::Done if failed.load(Ordering::Relaxed) => Ok(Exit::Retryable),
            exit => Ok(exit),
        },
        Err(exit) => Ok(exit),
    }
}

fn line(server: &str, tool: &logue_message::ToolDefinition, as_json: bool) -> String {
    if as_json {
        let value = json!({
            "server": server,
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": tool.strict,
        });
        return format!("{value}\n");
    }
    let first = tool.description.lines().next().unwrap_or_default();
    let parameters = tool.provider_parameters();
    let parameters = parameters
        .get("properties")
        .and_then(serde_json::Value::as_object);
    let names: Vec<&str> = parameters
        .into_iter()
        .flat_map(|object| object.keys().map(String::as_str))
        .collect();
    let line = format!("  {}({})  {first}", tool.name, names.join(", "));
    format!("{}\n", escape_line(line.trim_end()))
}

/// Refuses a prompt that is not trusted: listing the tools of a server starts it.
///
/// Returns the access of its server programs.
fn require_trust(
    path: &Path,
    settings: &Settings,
    servers: &[ServerToolRequest],
) -> Result<AccessByServer, CliError> {
    let grant = grant_of(path, settings)?;
    let place = place_of(Some(path));
    let reason = TrustReason::find(&settings.trust, file().as_ref(), &place, &grant)?;
    // The file may have changed since its servers were read.
    let programs = grant.server_programs();
    let is_judged = |wanted: &ServerToolRequest| {
        let server = wanted.server.trim();
        !server.starts_with("stdio:") || programs.contains(server)
    };
    if reason.is_trusted() && servers.iter().all(is_judged) {
        return Ok(reason.servers());
    }
    let name = single(&path.display().to_string());
    let message =
        format!("`{name}` is not trusted, so the servers that it declares are not started");
    Err(CliError::user("E-MCP-SERVER-NOT-TRUSTED", message).with_help(format!(
        "look at what it declares with `logue trust explain {name}`, then `logue trust add {name}`, \
         or --trust for this command"
    )))
}

fn unreadable(error: &RootError) -> CliError {
    CliError::user("E-SOURCE-READ", error.to_string())
}

/// Returns the address of a server program, if the words are a command line.
fn server_program(words: &Path) -> Option<String> {
    let text = words.to_str().filter(|_| !words.exists())?;
    let is_command = text.contains(' ') || !text.contains(['.', '/']);
    is_command.then(|| format!("stdio:{text}"))
}

/// Returns the servers that a prompt and its imports declare.
fn declared(path: &Path) -> Result<Vec<ServerToolRequest>, CliError> {
    let name = path.display().to_string();
    let bytes = read_bytes(path).map_err(|error| source_failure(&error))?;
    let text = logue_agent::into_text(&name, bytes).map_err(|error| source_failure(&error))?;
    let mut world = file_world(path)
        .map_err(|error| CliError::user("E-SOURCE-READ", format!("{name}: {error}")))?;
    let loaded = load(&name, &text, &mut world);
    if loaded.has_errors() {
        let errors: Vec<_> = loaded
            .diagnostics()
            .iter()
            .filter(|found| found.is_error())
            .cloned()
            .collect();
        return Err(rendered(&name, text.as_bytes(), &errors));
    }
    let roots = Roots::new([folder_of(path)]).map_err(|error| unreadable(&error))?;
    let wanted = loaded
        .document()
        .tools()
        .filter_map(|tool| match &tool.kind {
            ToolKind::McpServer {
                server,
                names,
                strict,
            } => Some(
                ServerToolRequest::new(server.clone(), roots.base())
                    .with_names(names.clone())
                    .with_strict(*strict)
                    .with_roots(roots.clone()),
            ),
            _ => None,
        });
    Ok(wanted.collect())
}
