//! A partial update: what a node returns, and what an invocation starts from.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::value::FieldValue;

/// New values for some fields, in the order in which they were set.
///
/// What becomes of a value is up to the field's [`Reducer`](crate::Reducer): one item to append is
/// a list of one.
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
        match self.entries.iter_mut().rfind(|(name, _)| *name == field) {
            Some((_, old)) => *old = value,
            None => self.entries.push((field, value)),
        }
    }

    /// Puts a later update behind this one. A field that both name is merged twice, in this order.
    #[must_use]
    pub fn and_then(mut self, later: Self) -> Self {
        self.entries.extend(later.entries);
        self
    }

    /// The new value of a field, if the update has one; the last, if it has several.
    pub fn get(&self, field: &str) -> Option<&FieldValue> {
        let mut entries = self.entries.iter().rev();
        entries.find_map(|(name, value)| (name == field).then_some(value))
    }

    /// Takes a field out.
    pub(crate) fn remove(&mut self, field: &str) -> Option<FieldValue> {
        let at = self.entries.iter().rposition(|(name, _)| name == field)?;
        Some(self.entries.remove(at).1)
    }

    /// Adds an entry behind the others, whatever they name.
    pub(crate) fn push(&mut self, field: impl Into<String>, value: FieldValue) {
        self.entries.push((field.into(), value));
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
