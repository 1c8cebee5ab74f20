//! A partial update: what a node returns, and what an invocation starts from.

use serde_json::{Map, Value};

use crate::value::FieldValue;

/// New values for some fields, in the order in which they were set.
///
/// What becomes of a value is up to the field's [`Reducer`](crate::Reducer): one item to append is
/// a list of one.
///
/// ```
/// use logue_harness::Update;
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
    /// An update of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field; one that is there already gets the new value and keeps its place.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl Into<FieldValue>) -> Self {
        self.set(field, value);
        self
    }

    /// Adds a field in place; see [`with`](Self::with).
    pub fn set(&mut self, field: impl Into<String>, value: impl Into<FieldValue>) {
        let field = field.into();
        let value = value.into();
        match self.entries.iter_mut().find(|(name, _)| *name == field) {
            Some((_, old)) => *old = value,
            None => self.entries.push((field, value)),
        }
    }

    /// The new value of a field, if the update has one.
    pub fn get(&self, field: &str) -> Option<&FieldValue> {
        self.iter()
            .find_map(|(name, value)| (name == field).then_some(value))
    }

    /// The fields and their new values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// How many fields it names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it changes nothing.
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
