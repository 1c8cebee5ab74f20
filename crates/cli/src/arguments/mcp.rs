//! The command line of `logue mcp`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use logue_agent::PermissionRule;
use logue_tools::HostRule;

use crate::arguments::{Asking, TrustArgs};

/// What is done with servers of the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    Serve(Box<McpServeArgs>),
    Login(McpLoginArgs),
    List(McpListArgs),
}

/// Show what servers offer
///
/// Of a prompt, every server that it declares is started or connected to, trusted or not, and the tools that each declaration takes are
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

/// Offer prompts to other programs, as an MCP server
///
/// Each ChatMD file of the folders becomes a prompt and a tool that is told `input`, both named after
/// the file. Each call runs with a history of its own, and nothing is written. Files that come and go
/// are noticed. Without --http one client is served on standard input and output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp serve prompts/\n  \
    logue mcp serve --http 8765 review.md translate.md")]
pub(crate) struct McpServeArgs {
    /// Files and folders of ChatMD prompts
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) asking: Asking,

    /// Allow or deny calls of a tool; `*` names all others
    #[arg(long = "permission", value_name = "TOOL=allow|deny")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    /// Serve many clients over HTTP, on this port of 127.0.0.1; 0, or none, takes a free one
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) http: Option<u16>,

    /// Listen on this address of the machine instead of 127.0.0.1; wants a token
    #[arg(long, value_name = "ADDRESS", requires = "http")]
    pub(crate) bind: Option<IpAddr>,

    /// What every request has to carry; `LOGUE_MCP_TOKEN` keeps it out of the process list. Without
    /// either a random one is made and told on standard error
    #[arg(long, value_name = "TOKEN", requires = "http")]
    pub(crate) token: Option<String>,

    /// Run up to N calls at the same time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: Option<u16>,
}

/// Log in at a server that wants to know who asks
///
/// An address is told to be opened in a browser; when the browser comes back, the token is kept in a
/// file that only you can read, and renewed when it is old.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue mcp login --allow-host tools.example --allow-host login.example https://tools.example/mcp")]
pub(crate) struct McpLoginArgs {
    /// Address of the server, as prompts declare it
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// A host that may be connected to: the server's, and that of its authorization server
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostRule>,
}
