//! The command line of permission and trust.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::ServerAccessArgs;

/// The flags of trust and approval.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrustArgs {
    /// Trust the prompt's declarations and the project's logue.toml for this command
    #[arg(long)]
    pub(crate) trust: bool,

    /// Deny a pending call after SECONDS without a decision
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub(crate) approval_timeout: Option<u64>,
}

/// The subcommands of `logue trust`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    Add(TrustAddArgs),
    List(TrustListArgs),
    Remove(TrustRemoveArgs),
    Explain(TrustExplainArgs),
}

/// Trust prompts, and the settings of directories
///
/// A prompt declares what its model may do, so one from elsewhere can grant itself nothing until you
/// trust it: each call of a tool that does more than read the prompt's directory requires your approval.
/// Trust covers the declarations of the prompt and of the agents that it names, and the content of
/// the files below its directory that these execute or load: programs, scripts, imports, agents.
/// Files that those load in turn are not covered. The conversation may grow; a changed declaration
/// or file ends the trust.
///
/// For a directory it trusts what the directory's `logue.toml` grants: roots, hosts, variables, servers
/// and stores. Any change of that file ends the trust.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue trust add review.md\n  \
    logue trust add .\n  \
    logue trust list\n  \
    logue trust remove review.md")]
pub(crate) struct TrustAddArgs {
    /// Prompts, and directories with a `logue.toml`, to trust
    #[arg(value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) servers: ServerAccessArgs,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the trusted prompts and directories
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue trust list")]
pub(crate) struct TrustListArgs {
    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Withdraw the trust in prompts and directories
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    logue trust remove prompt.md")]
pub(crate) struct TrustRemoveArgs {
    /// Prompts, directories, or hashes that `logue trust list` prints
    #[arg(value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain why prompts and directories are trusted or not
///
/// Lists the declarations of each prompt, the files whose content trust covers, and what has changed
/// since the prompt was trusted. For a directory it lists what the directory's `logue.toml` grants.
/// Nothing that a prompt names is started.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue trust explain review.md\n  \
    logue trust explain .\n  \
    logue trust explain --json review.md")]
pub(crate) struct TrustExplainArgs {
    /// Prompts, and directories with a `logue.toml`, to explain
    #[arg(value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}
