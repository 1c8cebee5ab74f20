//! The command line of `logue mcp`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use logue_agent::PermissionRule;
use logue_tools::{HostRule, ServerAccess};

use crate::arguments::ModelArgs;

/// The subcommands of `logue mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    Serve(Box<McpServeArgs>),
    Login(McpLoginArgs),
    List(McpListArgs),
}

/// The access of MCP servers that are programs
#[derive(Debug, Args)]
pub(crate) struct ServerAccessArgs {
    /// Let MCP servers that are programs use the network
    #[arg(long)]
    pub(crate) server_network: bool,

    /// Keep a HOME for MCP servers that are programs between runs
    #[arg(long)]
    pub(crate) server_cache: bool,
}

impl ServerAccessArgs {
    /// Returns the access of the flags.
    pub(crate) fn access(&self) -> ServerAccess {
        ServerAccess::default()
            .with_network(self.server_network)
            .with_cache(self.server_cache)
    }
}

/// List the tools of MCP servers
///
/// Starts or connects to every server that the prompt declares, and prints the tools that each
/// declaration selects. The prompt must be trusted, as for a run. Cached lists of tools are ignored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp list review.md\n  \
    logue mcp list \"stdio:npx -y some-server\"\n  \
    logue mcp list --allow-host tools.example --json https://tools.example/mcp")]
pub(crate) struct McpListArgs {
    /// ChatMD prompt, or server: `stdio:COMMAND` or `https://…`
    #[arg(value_name = "FILE|ADDRESS")]
    pub(crate) from: String,

    /// Trust the declarations of the prompt for this command
    #[arg(long)]
    pub(crate) trust: bool,

    #[command(flatten)]
    pub(crate) servers: ServerAccessArgs,

    /// Allow connections to this host
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve prompts to other programs as an MCP server
///
/// Each ChatMD file of the directories becomes a prompt and a tool with the argument `input`, both
/// named after the file. Each call has its own history, and nothing is written. Added and removed
/// files are detected. Without --http it serves one client on standard input and output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp serve prompts/\n  \
    logue mcp serve --http 8765 review.md translate.md")]
pub(crate) struct McpServeArgs {
    /// Files and directories of ChatMD prompts
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,

    /// Allow or deny calls of a tool; `*` names all others
    #[arg(long = "permission", value_name = "TOOL=RULE")]
    pub(crate) permissions: Vec<PermissionRule>,

    /// Trust the declarations of the prompts for this command
    #[arg(long)]
    pub(crate) trust: bool,

    /// Serve HTTP clients on this port of 127.0.0.1 [default: a free port]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) http: Option<u16>,

    /// Listen on this address instead of 127.0.0.1; requires a token
    #[arg(long, value_name = "ADDRESS", requires = "http")]
    pub(crate) bind: Option<IpAddr>,

    /// Require this bearer token [env: `LOGUE_MCP_TOKEN`] [default: a random token, printed on
    /// standard error]
    #[arg(long, value_name = "TOKEN", requires = "http")]
    pub(crate) token: Option<String>,

    /// Run up to N calls at the same time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: Option<u16>,
}

/// Log in to an MCP server with OAuth
///
/// Prints a URL to open in a browser. The token is stored in a file that only you can read, and
/// renewed when it expires.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp login --allow-host tools.example --allow-host login.example https://tools.example/mcp")]
pub(crate) struct McpLoginArgs {
    /// URL of the server, as prompts declare it
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// Allow connections to this host: the server or its authorization server
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,
}
