//! The deadline of a call: `deadline_ms` beside the arguments of the tool (OpenChatML 2.2 §8.2).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::Arguments;

/// The name of the parameter that sets the deadline of a call.
pub const DEADLINE_PARAMETER: &str = "deadline_ms";

/// Maximum length of a quoted value, in characters.
const MAX_FOUND_CHARS: usize = 40;

/// The arguments of a tool and the deadline of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitArguments<'a> {
    /// The arguments of the tool; borrowed if the call sets no deadline.
    pub arguments: Cow<'a, Arguments>,
    /// The deadline, if the call sets one.
    pub deadline: Option<Duration>,
}

impl Arguments {
    /// Separates the deadline of the call from the arguments of the tool.
    ///
    /// `parameters` is the JSON Schema of the tool. If it declares a parameter of that name, the
    /// value belongs to the tool. The other arguments stay verbatim, sorted by name. Text that is not
    /// a JSON object stays unchanged, because the schema check reports it.
    ///
    /// ```
    /// use logue_message::Arguments;
    /// use serde_json::json;
    /// use std::time::Duration;
    ///
    /// let arguments = Arguments::from_text(r#"{"city": "Oslo", "deadline_ms": 1500}"#);
    /// let split = arguments.split_deadline(&json!({"type": "object"}))?;
    /// assert_eq!(split.arguments.as_str(), r#"{"city":"Oslo"}"#);
    /// assert_eq!(split.deadline, Some(Duration::from_millis(1500)));
    /// # Ok::<(), logue_message::DeadlineError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineError`] if the deadline is not a positive integer.
    pub fn split_deadline(&self, parameters: &Value) -> Result<SplitArguments<'_>, DeadlineError> {
        let Some((deadline, arguments)) = self.without_deadline(parameters) else {
            return Ok(SplitArguments {
                arguments: Cow::Borrowed(self),
                deadline: None,
            });
        };
        let milliseconds = deadline.parse::<u64>().ok().filter(|time| *time > 0);
        let milliseconds = milliseconds.ok_or_else(|| DeadlineError {
            found: deadline.chars().take(MAX_FOUND_CHARS).collect(),
        })?;
        Ok(SplitArguments {
            arguments: Cow::Owned(arguments),
            deadline: Some(Duration::from_millis(milliseconds)),
        })
    }

    /// Returns the text of the deadline and the other arguments.
    fn without_deadline(&self, parameters: &Value) -> Option<(&str, Self)> {
        let text = self.as_str();
        let properties = parameters.get("properties");
        let is_declared = properties.is_some_and(|known| known.get(DEADLINE_PARAMETER).is_some());
        if is_declared || !text.contains(DEADLINE_PARAMETER) {
            return None;
        }
        let mut arguments: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        let deadline = arguments.remove(DEADLINE_PARAMETER)?.get();
        let remaining = serde_json::to_string(&arguments).ok()?;
        Some((deadline, Self::from_text(remaining)))
    }
}

/// A deadline that is not a positive integer, from [`Arguments::split_deadline`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineError {
    found: String,
}

impl DeadlineError {
    /// The expected value.
    pub const EXPECTED: &'static str = "a whole number of milliseconds above 0";
}

impl std::fmt::Display for DeadlineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (expected, found) = (Self::EXPECTED, &self.found);
        write!(
            f,
            "{DEADLINE_PARAMETER}: expected {expected}, found {found}"
        )
    }
}

impl std::error::Error for DeadlineError {}
