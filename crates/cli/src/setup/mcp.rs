//! The MCP servers of prompts, with the effective settings.

use std::sync::Arc;

use logue_source::escape_line;
use logue_tools::Fetcher;
use logue_tools::mcp::{LogFn, McpServers};

use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// Creates the MCP servers of a command.
///
/// A server that a prompt declares is connected to at its first use. Connection failures are
/// reported on standard error. With `hides_sources` a report contains neither the address of a server,
/// which the prompt names, nor what the server wrote.
pub(crate) fn servers(
    settings: &Settings,
    network: Option<Arc<Fetcher>>,
    hides_sources: bool,
) -> Arc<McpServers> {
    let notice: LogFn = Arc::new(move |text| {
        let text = if hides_sources {
            "an MCP server of a prompt failed; `logue mcp list FILE` shows the cause"
        } else {
            text
        };
        print_error(&format!(
            "warning[E-MCP-SERVER-FAILED]: {}\n",
            escape_line(text)
        ));
    });
    servers_with(settings, network, notice)
}

/// Creates the MCP servers of a command; `notice` receives connection failures.
pub(crate) fn servers_with(
    settings: &Settings,
    network: Option<Arc<Fetcher>>,
    notice: LogFn,
) -> Arc<McpServers> {
    let options = settings.mcp.clone().with_notice(notice);
    Arc::new(McpServers::new(options, network))
}
