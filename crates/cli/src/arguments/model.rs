//! The flags for the model of a turn, its limits and its access.

use std::path::PathBuf;

use clap::Args;
use logue_tools::HostRule;

use crate::arguments::{LimitArgs, ResponseArgs, VariableArgs};

/// The model, its limits, and the access of the prompt.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Use this model instead of the prompt's: NAME, openai:NAME, responses:NAME, anthropic:NAME,
    /// harmony:NAME, replay:FILE or echo:
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Let tools and documents read this directory too
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,

    /// Allow documents, agents and tools to connect to this host
    #[arg(long = "allow-host", value_name = "HOST", hide_short_help = true)]
    pub(crate) allow_hosts: Vec<HostRule>,

    #[command(flatten)]
    pub(crate) response: ResponseArgs,

    #[command(flatten)]
    pub(crate) variables: VariableArgs,

    /// Limit the requests of this run and its agents to models [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub(crate) max_requests: Option<u32>,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// Ask agents, fetch pages and rewrite the prompt again, in place of what was recorded
    #[arg(long, hide_short_help = true)]
    pub(crate) fresh: bool,

    /// Like --fresh, and leave the caches of this machine as they are
    #[arg(long, hide_short_help = true)]
    pub(crate) no_cache: bool,

    /// Base URL of the model server, including `/v1`, for the provider of -m [default
    /// provider: openai]
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(crate) base_url: Option<String>,

    /// API key; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    pub(crate) api_key: Option<String>,
}
