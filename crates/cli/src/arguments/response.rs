//! The flags for requirements on the answer.

use std::path::PathBuf;

use clap::Args;
use logue_model::ToolChoice;

/// The requirements on the answer.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ResponseArgs {
    /// Require an answer that is JSON valid for this JSON Schema
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Set the tool choice of the first request: auto, required, none or a tool name
    #[arg(long, value_name = "CHOICE", value_parser = tool_choice, hide_short_help = true)]
    pub(crate) tool_choice: Option<ToolChoice>,

    /// Retry transient failures up to N times [default: 2]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) retries: Option<u32>,
}

fn tool_choice(word: &str) -> Result<ToolChoice, String> {
    match word {
        "" => Err("name a tool, or say auto, required or none".to_owned()),
        "auto" => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        "none" => Ok(ToolChoice::None),
        tool => Ok(ToolChoice::Tool(tool.to_owned())),
    }
}
