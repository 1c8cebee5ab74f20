//! A partial update: the result of a node, or the start of an invocation.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::value::FieldValue;

/// New values for some fields, in the order in which they were set.
///
/// The field's [`Reducer`](crate::Reducer) determines how a value is merged: to append one item,
/// pass a list with one item.
///
/// ```
/// use logue_graph::Update;
/// use serde_json::json;
///
/// let update = Update::new()
///     .with("messages", json!([{ "role": "assistant", "content": "Hello" }]))
///     .with("tokens", json!(12));
/// assert_eq!(update.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    entries: Vec<(String, FieldValue)>,
}

impl Update {
    /// Creates an empty update.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the new value of a field.
    ///
    /// A field that is already in the update gets the new value and keeps its position.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl Into<FieldValue>) -> Self {
        self.set(field, value);
        self
    }

    /// Sets a field in place; see [`with`](Self::with).
    pub fn set(&mut self, field: impl Into<String>, value: impl Into<FieldValue>) {
        let field = field.into();
        let value = value.into();
        match self.entries.iter_mut().rfind(|(name, _)| *name == field) {
            Some((_, old)) => *old = value,
            None => self.entries.push((field, value)),
        }
    }

    /// Appends a later update. A field in both is merged twice, in order.
    #[must_use]
    pub fn and_then(mut self, later: Self) -> Self {
        self.entries.extend(later.entries);
        self
    }

    /// Returns the new value of a field, if any; the last of several.
    pub fn get(&self, field: &str) -> Option<&FieldValue> {
        let mut entries = self.entries.iter().rev();
        entries.find_map(|(name, value)| (name == field).then_some(value))
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, field: &str) -> Option<FieldValue> {
        let at = self.entries.iter().rposition(|(name, _)| name == field)?;
        Some(self.entries.remove(at).1)
    }

    /// Appends an entry after the others, even for a field that is present.
    pub(crate) fn push(&mut self, field: impl Into<String>, value: FieldValue) {
        self.entries.push((field.into(), value));
    }

    /// Returns the fields and their new values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the update is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn into_entries(self) -> Vec<(String, FieldValue)> {
        self.entries
    }
}

impl From<Map<String, Value>> for Update {
    fn from(fields: Map<String, Value>) -> Self {
        let entries = fields
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect();
        Self { entries }
    }
}

impl Serialize for Update {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Update {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}
