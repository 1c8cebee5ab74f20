//! The value of one state field: JSON, or a list of values of a Rust type.
//!
//! A JSON array at the top of a field is always a [`List`], regardless of the declared type, so
//! that a reducer receives arrays in one form only.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::element::{AnyList, Element};
use crate::state::list::List;

/// A value that a field of a [`State`](crate::State) holds. Cloning is O(1).
#[derive(Clone)]
pub struct FieldValue(Repr);

#[derive(Clone)]
enum Repr {
    List(List),
    /// Elements that are not JSON values.
    Typed(Arc<dyn AnyList>),
    /// Never an array.
    Json(Arc<Value>),
}

impl FieldValue {
    /// Returns the list, if the value is a list of JSON values.
    pub fn as_list(&self) -> Option<&List> {
        match &self.0 {
            Repr::List(list) => Some(list),
            Repr::Json(_) | Repr::Typed(_) => None,
        }
    }

    /// Returns the list, if the value is a list of elements of the type `T`.
    pub fn as_list_of<T: Element>(&self) -> Option<&List<T>> {
        match &self.0 {
            Repr::List(list) => (list as &dyn Any).downcast_ref(),
            Repr::Typed(list) => list.as_any().downcast_ref(),
            Repr::Json(_) => None,
        }
    }

    /// Returns the value as JSON, unless it is a list.
    ///
    /// Lists are not held as JSON arrays.
    pub fn as_json(&self) -> Option<&Value> {
        match &self.0 {
            Repr::List(_) | Repr::Typed(_) => None,
            Repr::Json(value) => Some(value),
        }
    }

    /// Returns a copy as JSON; costs the size of the value.
    pub fn to_json(&self) -> Value {
        match &self.0 {
            Repr::List(list) => list.to_json(),
            Repr::Typed(list) => list.to_json().to_json(),
            Repr::Json(value) => Value::clone(value),
        }
    }

    /// Returns the value as a list of JSON values, if it is a list.
    ///
    /// Typed elements are copied.
    pub(crate) fn to_list(&self) -> Option<List> {
        match &self.0 {
            Repr::List(list) => Some(list.clone()),
            Repr::Typed(list) => Some(list.to_json()),
            Repr::Json(_) => None,
        }
    }

    /// Returns the value as a list of JSON values, unless it keeps its form.
    pub(crate) fn to_list_unless(&self, is_kept: bool) -> Option<List> {
        if is_kept { None } else { self.to_list() }
    }

    pub(crate) fn from_typed(list: Arc<dyn AnyList>) -> Self {
        Self(Repr::Typed(list))
    }

    pub(crate) fn as_typed(&self) -> Option<&dyn AnyList> {
        match &self.0 {
            Repr::Typed(list) => Some(&**list),
            Repr::List(_) | Repr::Json(_) => None,
        }
    }

    /// Returns the typed list, unshared from other values.
    pub(crate) fn as_typed_mut(&mut self) -> Option<&mut (dyn AnyList + 'static)> {
        let Repr::Typed(list) = &mut self.0 else {
            return None;
        };
        if Arc::get_mut(list).is_none() {
            *list = list.clone_list();
        }
        Arc::get_mut(list)
    }

    /// Creates a value from a shared JSON value.
    pub(crate) fn from_shared(value: Arc<Value>) -> Self {
        if value.is_array() {
            Arc::unwrap_or_clone(value).into()
        } else {
            Self(Repr::Json(value))
        }
    }

    /// Returns the value as one item of a list; a list becomes an array.
    pub(crate) fn into_json(self) -> Arc<Value> {
        match self.0 {
            Repr::List(list) => Arc::new(list.to_json()),
            Repr::Typed(list) => Arc::new(list.to_json().to_json()),
            Repr::Json(value) => value,
        }
    }

    pub(crate) fn as_list_mut(&mut self) -> Option<&mut List> {
        match &mut self.0 {
            Repr::List(list) => Some(list),
            Repr::Json(_) | Repr::Typed(_) => None,
        }
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map<String, Value>> {
        match &mut self.0 {
            Repr::Json(value) if value.is_object() => Arc::make_mut(value).as_object_mut(),
            _ => None,
        }
    }

    /// Returns the name of this value's kind for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.0 {
            Repr::List(_) | Repr::Typed(_) => "list",
            Repr::Json(value) => kind_of(value),
        }
    }
}

/// Returns the name of a JSON value's kind for error messages.
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

impl<T: Element> From<Vec<T>> for FieldValue {
    fn from(items: Vec<T>) -> Self {
        List::from(items).into()
    }
}

impl<T: Element> From<List<T>> for FieldValue {
    fn from(list: List<T>) -> Self {
        match (&list as &dyn Any).downcast_ref::<List>() {
            Some(json) => Self(Repr::List(json.clone())),
            None => Self(Repr::Typed(Arc::new(list))),
        }
    }
}

impl PartialEq for FieldValue {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::List(one), Repr::List(other)) => one == other,
            (Repr::Typed(one), Repr::Typed(other)) => one.equals(&**other),
            (Repr::Json(one), Repr::Json(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Debug for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::List(list) => list.fmt(f),
            Repr::Typed(list) => list.debug(f),
            Repr::Json(value) => value.fmt(f),
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::List(list) => serializer.collect_seq(list),
            Repr::Typed(list) => serializer.collect_seq(&list.to_json()),
            Repr::Json(value) => value.serialize(serializer),
        }
    }
}
