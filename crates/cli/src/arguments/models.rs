//! The command line of `logue models`.

use clap::Args;

/// List the models of servers, and aliases
///
/// Asks the configured servers and the servers that this machine runs (Ollama, llama.cpp, vLLM). A
/// server whose key is not configured is left out. Aliases are in your own settings:
/// `[models] fast = "openai:gpt-4o-mini"`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue models\n  \
    logue models gpt mini\n  \
    logue models --base-url http://localhost:8000/v1 --json")]
pub(crate) struct ModelsArgs {
    /// List only models whose name contains each of the words
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,

    /// Ask only the server at this base URL, including `/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// API key; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` keeps it out of the process list
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
