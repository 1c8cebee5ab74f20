//! The part of the command line that says what is asked of an answer, and how patiently.

use std::path::PathBuf;

use clap::Args;
use logue_model::ToolChoice;

/// What is asked of an answer, and how patiently.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Demanding {
    /// JSON Schema in this file that the answer has to meet; the answer is that JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Whether the first answer calls tools: auto, required, none or the name of one
    #[arg(long, value_name = "CHOICE", value_parser = tool_choice)]
    pub(crate) tool_choice: Option<ToolChoice>,

    /// Ask again so often when the server is away for a moment [default: 2]
    #[arg(long, value_name = "N")]
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
