//! Typed access to the arguments of a call.

use logue_message::Arguments;
use serde_json::{Map, Value};

/// The arguments of a call with a fixed set of parameters.
pub(super) struct ArgumentReader(Map<String, Value>);

impl ArgumentReader {
    /// Parses the arguments. The error is a message for the model.
    pub(super) fn read(arguments: &Arguments, known: &[&str]) -> Result<Self, String> {
        let object = arguments
            .object()
            .map_err(|error| format!("the arguments are {error}"))?;
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            Some(other) => Err(format!(
                "E-CALL-SCHEMA: `{other}` is not a parameter of this tool; the parameters are {}",
                known.join(", ")
            )),
            None => Ok(Self(object)),
        }
    }

    /// Returns a required text by its name; the other names are accepted instead.
    ///
    /// Two of the names are an error, since one of the values would be ignored.
    pub(super) fn text(&self, names: &[&str]) -> Result<&str, String> {
        let mut given = names.iter().filter(|name| self.0.contains_key(**name));
        let first = given.next();
        if let (Some(first), Some(second)) = (first, given.next()) {
            return Err(format!(
                "E-CALL-SCHEMA: `{first}` and `{second}` name the same parameter; set only one of them"
            ));
        }
        let value = first.and_then(|name| self.0.get(*name));
        value.and_then(Value::as_str).ok_or_else(|| {
            let name = names.first().copied().unwrap_or_default();
            format!("E-CALL-SCHEMA: {name}: is required, a string")
        })
    }

    /// Returns an optional text.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("E-CALL-SCHEMA: {name}: must be a string")),
        }
    }

    /// Returns an optional value of any type.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns an optional integer from 0. Some models send -1 for an absent value.
    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        if value.as_i64() == Some(-1) {
            return Ok(None);
        }
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        number
            .map(Some)
            .ok_or_else(|| format!("E-CALL-SCHEMA: {name}: must be a whole number from 0"))
    }

    /// Returns an optional number of lines from 0. A negative number is an error.
    pub(super) fn line_count(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        number
            .map(Some)
            .ok_or_else(|| format!("E-CALL-SCHEMA: {name}: must be a whole number of lines"))
    }

    /// Returns whether an optional flag is true.
    pub(super) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(format!("E-CALL-SCHEMA: {name}: must be true or false")),
        }
    }
}
