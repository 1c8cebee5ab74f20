//! The values of variables: flags, files and the environment.

use std::path::Path;

use logue_agent::{VariableValues, environment_name, read_bytes};
use serde_json::Value;

use crate::arguments::VariableArgs;
use crate::exit::CliError;
use crate::files::json_cause;
use crate::setup::failures::source_failure;

/// The beginning of the environment variables that set variables of a prompt.
const PREFIX: &str = "LOGUE_VAR_";

/// Returns the values that the command names; flags take precedence over files.
pub(crate) fn variables(arguments: &VariableArgs) -> Result<VariableValues, CliError> {
    let mut values = VariableValues::default();
    for (name, value) in std::env::vars_os() {
        let name = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let (Some(name), Some(value)) = (name, value.to_str()) {
            values.set_environment(name, value);
        }
    }
    for path in &arguments.variable_files {
        for (name, value) in file(path)? {
            values.set_default(name, value);
        }
    }
    for (name, value) in &arguments.variables {
        values.set(name, value);
    }
    Ok(values)
}

/// Returns the environment variable that sets a variable of a prompt.
pub(crate) fn environment_variable(name: &str) -> String {
    format!("{PREFIX}{}", environment_name(name))
}

fn file(path: &Path) -> Result<Vec<(String, String)>, CliError> {
    let bytes = read_bytes(path).map_err(|error| source_failure(&error))?;
    let name = path.display().to_string();
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| CliError::user("E-JSON-SYNTAX", json_cause(&name, &error)))?;
    let Value::Object(entries) = value else {
        return Err(not_values(&name, "it is not an object"));
    };
    let entries = entries.into_iter().map(|(key, value)| match value {
        Value::String(text) => Ok((key, text)),
        Value::Number(number) => Ok((key, number.to_string())),
        Value::Bool(value) => Ok((key, value.to_string())),
        _ => Err(not_values(
            &name,
            &format!("the value of {key:?} is not a text, a number or a boolean"),
        )),
    });
    entries.collect()
}

fn not_values(name: &str, cause: &str) -> CliError {
    CliError::user("usage", format!("cannot use --vars {name}: {cause}"))
        .with_help("write an object such as {\"topic\": \"snow\"}")
}
