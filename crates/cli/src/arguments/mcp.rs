//! The command line of `logue mcp`.

use clap::{Args, Subcommand};
use logue_tools::HostRule;

/// What is done with servers of the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    List(McpListArgs),
}

/// Show what servers offer
///
/// Of a prompt, every server that it declares is asked, and the tools that each declaration takes are
/// shown. What was remembered of an earlier run is not used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp list review.md\n  \
    logue mcp list \"stdio:npx -y some-server\"\n  \
    logue mcp list --allow-host tools.example --json https://tools.example/mcp")]
pub(crate) struct McpListArgs {
    /// ChatMD prompt, or address of a server: `stdio:COMMAND` or `https://…`
    #[arg(value_name = "FILE|ADDRESS")]
    pub(crate) from: String,

    /// A host that may be connected to
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,

    /// Print one JSON object a tool
    #[arg(long)]
    pub(crate) json: bool,
}
