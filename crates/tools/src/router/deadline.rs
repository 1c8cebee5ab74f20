//! `deadline_ms`: the time limit of a call, given beside the arguments of the tool.

use std::collections::BTreeMap;
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::value::RawValue;

/// The name of the parameter.
const DEADLINE: &str = "deadline_ms";

/// The arguments and the deadline of a call.
pub(super) struct SplitArguments {
    /// The arguments without the deadline; `None` if the call has none.
    pub(super) arguments: Option<Arguments>,
    pub(super) deadline: Option<Duration>,
}

/// Removes the deadline from the arguments, unless the tool declares a parameter of that name.
///
/// The other values stay verbatim.
///
/// # Errors
/// Returns a message for the model if the deadline is not a positive integer.
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
    // The schema and the tool refuse what is not an object.
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
