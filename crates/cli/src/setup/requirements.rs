//! What the command line asks of an answer, as a turn takes it.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{Demands, read_bytes};
use logue_message::ToolDefinition;
use serde_json::Value;

use crate::arguments::Demanding;
use crate::exit::Failure;
use crate::setup::failures::source_failure;
use crate::setup::model::provider_failure;

/// What is asked of the answers of a turn with these tools. Nothing was written yet, so that what
/// cannot be met leaves no trace.
pub(crate) fn demands(arguments: &Demanding, tools: &[ToolDefinition]) -> Result<Demands, Failure> {
    let schema = arguments.schema.as_deref().map(schema_in).transpose()?;
    let demands = Demands {
        tool_choice: arguments.tool_choice.clone().unwrap_or_default(),
        response_schema: schema.map(Arc::new),
    };
    demands.check(tools).map_err(|error| {
        let failure = provider_failure(&error);
        match &arguments.schema {
            Some(file) if error.message.contains("schema") => {
                failure.with_help(format!("the schema is in {}", file.display()))
            }
            _ => failure,
        }
    })?;
    Ok(demands)
}

fn schema_in(path: &Path) -> Result<Value, Failure> {
    let bytes = read_bytes(path).map_err(|error| source_failure(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("{} is no JSON: {error}", path.display());
        Failure::user("E-JSON-SYNTAX", message)
            .with_help("--schema names a file with a JSON Schema whose root is an object")
    })
}
