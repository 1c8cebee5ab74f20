//! The schema of a state: named fields with a type, a default and a reducer.

use std::fmt;

use serde_json::{Map, Value};

use crate::state::element::{Element, TypedElement};
use crate::state::reducer::Reducer;
use crate::state::value::{FieldValue, kind_of};

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldType {
    /// Any JSON value.
    Any,
    /// `true` or `false`.
    Bool,
    /// A whole number. `1.0` is not one.
    Int,
    /// Any number.
    Float,
    /// Text.
    String,
    /// A JSON object.
    Map,
    /// A list of elements of one type.
    List(ElementType),
}

/// The element type of a list. Element types of nested lists are not declared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementType {
    /// Any JSON value.
    Any,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Float,
    /// Text.
    String,
    /// A JSON object.
    Map,
    /// A list of any values.
    List,
    /// A type that the engine does not check, known by name, such as `ChatMessage`.
    Named(String),
    /// A Rust type: JSON is decoded when it enters the state.
    Typed(TypedElement),
}

impl FieldType {
    /// Returns a list type with an element type of any name.
    ///
    /// Unknown names are not checked.
    pub fn list_of(element: &str) -> Self {
        Self::List(ElementType::parse(element))
    }

    /// Parses a type in the notation of schemas.
    ///
    /// Accepts `int`, `bool`, `str` or `string`, `float`, `map`, `any`, `list`, `list<int>` or
    /// `list[int]`. The element may have any name.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(element) = text.strip_prefix("list") {
            let element = element.trim();
            if element.is_empty() {
                return Some(Self::List(ElementType::Any));
            }
            let angle = element
                .strip_prefix('<')
                .and_then(|rest| rest.strip_suffix('>'));
            let square = element
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            let element = angle.or(square)?.trim();
            return (!element.is_empty()).then(|| Self::list_of(element));
        }
        match ElementType::parse(text) {
            ElementType::Any => Some(Self::Any),
            ElementType::Bool => Some(Self::Bool),
            ElementType::Int => Some(Self::Int),
            ElementType::Float => Some(Self::Float),
            ElementType::String => Some(Self::String),
            ElementType::Map => Some(Self::Map),
            ElementType::List | ElementType::Named(_) | ElementType::Typed(_) => None,
        }
    }

    /// Returns the type of a list's elements, if they are values of a Rust type.
    pub(crate) fn typed_element(&self) -> Option<&TypedElement> {
        match self {
            Self::List(ElementType::Typed(element)) => Some(element),
            _ => None,
        }
    }

    /// Returns the default value of this type.
    fn empty(&self) -> Value {
        match self {
            Self::Any => Value::Null,
            Self::Bool => Value::Bool(false),
            Self::Int => Value::from(0),
            Self::Float => Value::from(0.0),
            Self::String => Value::String(String::new()),
            Self::Map => Value::Object(Map::new()),
            Self::List(_) => Value::Array(Vec::new()),
        }
    }

    /// Returns the actual kind of a value that is not of this type.
    ///
    /// Costs O(1), for a list O(length).
    pub(crate) fn mismatch(&self, value: &FieldValue) -> Option<Mismatch> {
        let as_element = match self {
            Self::List(element) => {
                if value.as_typed().is_some() {
                    return None;
                }
                let Some(list) = value.as_list() else {
                    return Some(Mismatch {
                        index: None,
                        found: value.kind(),
                    });
                };
                if element.accepts_all() {
                    return None;
                }
                return list.iter().enumerate().find_map(|(index, item)| {
                    let wrong = !element.accepts(item);
                    wrong.then(|| Mismatch {
                        index: Some(index),
                        found: kind_of(item),
                    })
                });
            }
            Self::Any => return None,
            Self::Bool => ElementType::Bool,
            Self::Int => ElementType::Int,
            Self::Float => ElementType::Float,
            Self::String => ElementType::String,
            Self::Map => ElementType::Map,
        };
        let fits = value.as_json().is_some_and(|json| as_element.accepts(json));
        (!fits).then(|| Mismatch {
            index: None,
            found: value.kind(),
        })
    }
}

/// The position and kind of a value that its type does not allow.
pub(crate) struct Mismatch {
    /// The element of a list, counted from the first one checked.
    pub(crate) index: Option<usize>,
    pub(crate) found: &'static str,
}

impl ElementType {
    /// Returns the element type of that name; unknown names are kept.
    pub fn parse(name: &str) -> Self {
        match name.trim() {
            "any" => Self::Any,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "str" | "string" => Self::String,
            "map" => Self::Map,
            "list" => Self::List,
            other => Self::Named(other.to_owned()),
        }
    }

    fn accepts_all(&self) -> bool {
        matches!(self, Self::Any | Self::Named(_) | Self::Typed(_))
    }

    fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Any | Self::Named(_) | Self::Typed(_) => true,
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64() || value.is_u64(),
            Self::Float => value.is_number(),
            Self::String => value.is_string(),
            Self::Map => value.is_object(),
            Self::List => value.is_array(),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::String => "string",
            Self::Map => "map",
            Self::List => "list",
            Self::Named(name) => name,
            Self::Typed(element) => element.name(),
        })
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::String => f.write_str("string"),
            Self::Map => f.write_str("map"),
            Self::List(ElementType::Any) => f.write_str("list"),
            Self::List(element) => write!(f, "list<{element}>"),
        }
    }
}

/// One field of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    name: String,
    holds: FieldType,
    default: FieldValue,
    reducer: Reducer,
}

impl Field {
    /// Creates a field that starts empty and is replaced by each update.
    ///
    /// The empty value is `false`, `0`, `""`, `{}`, `[]` or `null`.
    pub fn new(name: impl Into<String>, field_type: FieldType) -> Self {
        let default = field_type.empty().into();
        Self {
            name: name.into(),
            holds: field_type,
            default,
            reducer: Reducer::default(),
        }
    }

    /// Creates a list to which updates append.
    pub fn appended(name: impl Into<String>, element: &str) -> Self {
        Self::new(name, FieldType::list_of(element)).with_reducer(Reducer::Append)
    }

    /// Creates a list of values of type `T`, under the name that schemas show.
    pub fn typed<T: Element>(name: impl Into<String>, element: &str) -> Self {
        let element = ElementType::Typed(TypedElement::new::<T>(element));
        Self::new(name, FieldType::List(element))
    }

    /// Sets the default value.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<FieldValue>) -> Self {
        self.default = value.into();
        self
    }

    /// Sets the rule that merges updates.
    #[must_use]
    pub fn with_reducer(mut self, reducer: Reducer) -> Self {
        self.reducer = reducer;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    pub fn field_type(&self) -> &FieldType {
        &self.holds
    }

    /// Returns the default value.
    pub fn default_value(&self) -> &FieldValue {
        &self.default
    }

    /// Returns the rule that merges updates.
    pub fn reducer(&self) -> &Reducer {
        &self.reducer
    }
}

/// The fields of a state.
///
/// The schema is checked when the graph that uses it is compiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateSchema {
    fields: Vec<Field>,
    version: Option<String>,
}

impl StateSchema {
    /// Creates a schema without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Sets the reducer of a declared field; unknown names are ignored.
    #[must_use]
    pub fn reduced(mut self, field: &str, reducer: Reducer) -> Self {
        if let Some(field) = self.fields.iter_mut().find(|known| known.name == field) {
            field.reducer = reducer;
        }
        self
    }

    /// Sets the version of the schema, which stored states include.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Returns the fields in the order of their declaration.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the version, if one is set.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}
