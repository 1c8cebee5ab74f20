//! `deadline_ms`: the time that a model gives a call, beside the tool's own arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::value::RawValue;

/// The name among a call's arguments.
const DEADLINE: &str = "deadline_ms";

/// What a call is given.
pub(super) struct SplitArguments {
    /// The tool's own arguments, where they are not the call's verbatim.
    pub(super) arguments: Option<Arguments>,
    pub(super) deadline: Option<Duration>,
}

/// Takes the deadline out of arguments; a tool that declares a parameter of that name keeps it. What
/// is left is verbatim, value by value.
///
/// # Errors
/// The deadline is no time.
pub(super) fn split(
    arguments: &Arguments,
    definition: &ToolDefinition,
) -> Result<SplitArguments, String> {
    let verbatim = SplitArguments {
        arguments: None,
        deadline: None,
    };
    let text = arguments.as_str();
    let properties = definition.parameters.get("properties");
    let is_own = properties.is_some_and(|properties| properties.get(DEADLINE).is_some());
    if is_own || !text.contains(DEADLINE) {
        return Ok(verbatim);
    }
    // What is no object is for the schema and the tool to refuse.
    let Ok(mut given) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
        return Ok(verbatim);
    };
    let Some(deadline) = given.remove(DEADLINE) else {
        return Ok(verbatim);
    };
    let milliseconds = deadline.get().parse::<u64>().ok().filter(|time| *time > 0);
    let milliseconds = milliseconds.ok_or_else(|| {
        let found: String = deadline.get().chars().take(40).collect();
        format!("{DEADLINE}: expected a whole number of milliseconds above 0, found {found}")
    })?;
    let rest = serde_json::to_string(&given).map_err(|error| error.to_string())?;
    Ok(SplitArguments {
        arguments: Some(Arguments::from_text(rest)),
        deadline: Some(Duration::from_millis(milliseconds)),
    })
}
