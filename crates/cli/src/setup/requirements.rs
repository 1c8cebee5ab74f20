//! The requirements of the command line on responses.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{ResponseRequirements, read_bytes};
use serde_json::Value;

use crate::arguments::ResponseArgs;
use crate::exit::CliError;
use crate::files::json_cause;
use crate::setup::failures::source_failure;

/// Returns the requirements of the command line.
///
/// They are checked against the tools of the prompt later, before anything is written.
pub(crate) fn requirements(arguments: &ResponseArgs) -> Result<ResponseRequirements, CliError> {
    let schema = arguments.schema.as_deref().map(schema_in).transpose()?;
    Ok(ResponseRequirements::default()
        .with_tool_choice(arguments.tool_choice.clone())
        .with_response_schema(schema.map(Arc::new)))
}

fn schema_in(path: &Path) -> Result<Value, CliError> {
    let bytes = read_bytes(path).map_err(|error| source_failure(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = json_cause(&path.display().to_string(), &error);
        CliError::user("E-JSON-SYNTAX", message)
            .with_help("--schema names a file with a JSON Schema whose root is an object")
    })
}
