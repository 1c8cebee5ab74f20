//! The value of one state field: JSON, with every array held as a [`List`].
//!
//! The one invariant is that a JSON array at the top of a field is always a [`List`], whatever
//! type the field declares, so that a reducer never meets an array in two forms.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::list::List;

/// A value that a field of a [`State`](crate::State) holds. Cloning is O(1).
#[derive(Clone, PartialEq)]
pub struct FieldValue(Repr);

#[derive(Clone, PartialEq)]
enum Repr {
    List(List),
    /// Never an array.
    Json(Arc<Value>),
}

impl FieldValue {
    /// The list, if the value is one.
    pub fn as_list(&self) -> Option<&List> {
        match &self.0 {
            Repr::List(list) => Some(list),
            Repr::Json(_) => None,
        }
    }

    /// The value as JSON, unless it is a list: that one is not held as a JSON array.
    pub fn as_json(&self) -> Option<&Value> {
        match &self.0 {
            Repr::List(_) => None,
            Repr::Json(value) => Some(value),
        }
    }

    /// A copy as JSON; costs the size of the value.
    pub fn to_json(&self) -> Value {
        match &self.0 {
            Repr::List(list) => list.to_json(),
            Repr::Json(value) => Value::clone(value),
        }
    }

    /// A value that others hold too.
    pub(crate) fn from_shared(value: Arc<Value>) -> Self {
        if value.is_array() {
            Arc::unwrap_or_clone(value).into()
        } else {
            Self(Repr::Json(value))
        }
    }

    /// The value as one item of a list; a list becomes an array.
    pub(crate) fn into_json(self) -> Arc<Value> {
        match self.0 {
            Repr::List(list) => Arc::new(list.to_json()),
            Repr::Json(value) => value,
        }
    }

    pub(crate) fn as_list_mut(&mut self) -> Option<&mut List> {
        match &mut self.0 {
            Repr::List(list) => Some(list),
            Repr::Json(_) => None,
        }
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map<String, Value>> {
        match &mut self.0 {
            Repr::Json(value) if value.is_object() => Arc::make_mut(value).as_object_mut(),
            Repr::List(_) | Repr::Json(_) => None,
        }
    }

    /// What an error calls the kind of this value.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.0 {
            Repr::List(_) => "list",
            Repr::Json(value) => kind_of(value),
        }
    }
}

/// What an error calls the kind of a JSON value.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

impl From<Value> for FieldValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => items.into(),
            other => Self(Repr::Json(Arc::new(other))),
        }
    }
}

impl From<Vec<Value>> for FieldValue {
    fn from(items: Vec<Value>) -> Self {
        List::from(items).into()
    }
}

impl From<List> for FieldValue {
    fn from(list: List) -> Self {
        Self(Repr::List(list))
    }
}

impl fmt::Debug for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::List(list) => list.fmt(f),
            Repr::Json(value) => value.fmt(f),
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::List(list) => serializer.collect_seq(list),
            Repr::Json(value) => value.serialize(serializer),
        }
    }
}
