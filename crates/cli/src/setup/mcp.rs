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
/// reported on standard error.
pub(crate) fn servers(settings: &Settings, network: Option<Arc<Fetcher>>) -> Arc<McpServers> {
    let notice: LogFn = Arc::new(|text| {
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
