//! Members of a row that are chosen by name.

use std::borrow::Cow;
use std::fmt;

use logue_source::{DiagnosticCode, Span};
use serde_json::Value;

use super::{RowTurn, unknown};
use crate::Refusal;

/// The path of a member: names with dots between, such as `metadata.source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// Creates a path. A name that contains a dot is found if the row has it as written.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// Returns the member of a row at this path.
    pub fn find<'v>(&self, row: &'v Value) -> Option<&'v Value> {
        let direct = row.get(&self.0);
        direct.or_else(|| {
            self.0
                .split('.')
                .try_fold(row, |value, name| value.get(name))
        })
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the members at the paths as turns: a string as its text, another value as JSON.
pub(super) fn turns<'b>(row: &[u8], fields: &[FieldPath]) -> Result<Vec<RowTurn<'b>>, Refusal> {
    let value = value_of(row)?;
    let mut turns = Vec::with_capacity(fields.len());
    for field in fields {
        let text = match field.find(&value) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        turns.push(RowTurn {
            speaker: Cow::Owned(field.to_string()),
            text: Cow::Owned(text),
        });
    }
    if turns.is_empty() {
        let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        let message = format!("the row has no member {}", names.join(", "));
        let span = Span::new(0, 1.min(row.len()));
        return Err(Refusal::new(DiagnosticCode::JsonShape, message, span)
            .with_help("name a member that the rows have"));
    }
    Ok(turns)
}

/// Returns the value of a row.
pub(crate) fn value_of(row: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(row).map_err(|_| unknown(row))
}
