//! The command line of `logue serve`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use logue_agent::PermissionRule;
use logue_server::TokenScope;

use crate::age::parse_age;
use crate::arguments::{CrashArgs, StoreArgs};
use crate::arguments::{ModelArgs, TrustArgs};

/// Serve agents over HTTP
///
/// Each ChatMD file, and each of the directories, becomes an agent named after the file. Sessions are
/// kept in the store and continue after a restart. Without a token only clients on this machine are
/// served; create tokens with `logue serve token create`. `harmony:MODEL` serves a gpt-oss model in
/// front of a server with `/v1/completions`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        logue serve agent.md\n  \
        logue serve --listen 0.0.0.0:8080 prompts/\n  \
        logue serve token create phone --scope read,send\n  \
        logue serve harmony:gpt-oss-120b --upstream http://localhost:8000/v1"
)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ServeCommand>,

    /// Files and directories of ChatMD prompts, or harmony:MODEL
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Listen on this address; beyond this machine a token is required
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = parse_listen)]
    pub(crate) listen: SocketAddr,

    /// Serve requests to this host name, besides localhost; a token is required
    #[arg(long = "host-name", value_name = "NAME")]
    pub(crate) host_names: Vec<String>,

    /// Serve below this prefix of paths, for a proxy that does not remove it
    #[arg(long, value_name = "PATH", value_parser = parse_prefix, hide_short_help = true)]
    pub(crate) path_prefix: Option<String>,

    /// Base URL of the server of harmony:MODEL [default: `base_url` of the settings]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,

    /// Refuse further requests while N run, for harmony:MODEL [default: 256]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_concurrent: Option<u16>,

    /// Let running turns end for this long after SIGTERM [default: 25s]
    #[arg(long, value_name = "DURATION", value_parser = parse_age, hide_short_help = true)]
    pub(crate) drain: Option<Duration>,

    #[command(flatten)]
    pub(crate) limits: ServeLimitArgs,

    /// Continue the session whose history a Chat Completions request repeats
    #[arg(long, hide_short_help = true)]
    pub(crate) continue_conversations: bool,

    /// Let tokens with the scope `debug` read reasoning and instructions
    #[arg(long, hide_short_help = true)]
    pub(crate) debug_view: bool,

    /// Allow, ask about or deny calls of a tool (`*`: all others)
    #[arg(long = "permission", value_name = "TOOL=RULE")]
    pub(crate) permissions: Vec<PermissionRule>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) crash: CrashArgs,

    #[command(flatten)]
    pub(crate) trust: TrustArgs,

    #[command(flatten)]
    pub(crate) model_args: ModelArgs,
}

/// The limits of a server's clients.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct ServeLimitArgs {
    /// Refuse further turns of an agent while N run [default: 1024]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_turns: Option<NonZeroU32>,

    /// Refuse further turns of a token while N run [default: 512]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_turns_per_token: Option<NonZeroU32>,

    /// Refuse further requests of a token after N in a minute [default: 6000]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_requests_per_minute: Option<NonZeroU32>,

    /// Let further connections wait while N are open [default: 4096]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) max_connections: Option<NonZeroU32>,
}

/// The subcommands of `logue serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Manage the access tokens of servers
    #[command(subcommand, after_help = "Example: logue serve token list")]
    Token(TokenCommand),
}

/// The subcommands of `logue serve token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Create(TokenCreateArgs),
    List(TokenListArgs),
    Revoke(TokenRevokeArgs),
}

/// Create an access token and print it
///
/// The token is printed once; only its hash is stored. Running servers accept it at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue serve token create phone --scope read,send\n  \
    logue serve token create reviewer --scope read,approve --expires 30d")]
pub(crate) struct TokenCreateArgs {
    /// Name, by which it is listed and revoked
    pub(crate) name: String,

    /// Permit `read`, `send`, `approve` or `debug`; `send` and `approve` exclude each other
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', value_parser = parse_scope,
          required = true)]
    pub(crate) scope: Vec<TokenScope>,

    /// Permit this agent only
    #[arg(long = "agent", value_name = "NAME")]
    pub(crate) agents: Vec<String>,

    /// Expire after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_age)]
    pub(crate) expires: Option<Duration>,
}

/// List the access tokens
#[derive(Debug, Args)]
#[command(after_help = "Example: logue serve token list")]
pub(crate) struct TokenListArgs {
    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Revoke an access token
#[derive(Debug, Args)]
#[command(after_help = "Example: logue serve token revoke phone")]
pub(crate) struct TokenRevokeArgs {
    /// Name of the token
    pub(crate) name: String,
}

fn parse_scope(text: &str) -> Result<TokenScope, String> {
    TokenScope::parse(text).ok_or_else(|| {
        let names = TokenScope::ALL.map(TokenScope::as_str).join(", ");
        format!("unknown scope; scopes are {names}")
    })
}

/// Parses a prefix of paths: segments without escapes, with or without a final slash.
fn parse_prefix(text: &str) -> Result<String, String> {
    let prefix = text.strip_suffix('/').unwrap_or(text);
    let is_valid = |segment: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        !segment.is_empty() && segment.chars().all(is_plain) && !matches!(segment, "." | "..")
    };
    let segments = prefix.strip_prefix('/').map(|rest| rest.split('/'));
    if segments.is_some_and(|mut segments| segments.all(is_valid)) {
        return Ok(prefix.to_owned());
    }
    Err("write a path like /logue, of letters, digits, `-`, `_`, `.` and `~`".to_owned())
}

/// Parses the address of a listener; a port alone is one of this machine.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    if let ("" | "localhost", Ok(port)) = (host, port.parse()) {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| {
        "expected ADDRESS:PORT, such as 127.0.0.1:8080, or a port; \
         0.0.0.0:8080 is reached from other machines"
            .to_owned()
    })
}
