//! States as Rust types: one struct to read, another for the changes.
//!
//! This is a thin layer. The engine keeps its named fields, and a typed node converts the state
//! into its struct when it starts: that costs the size of the struct's contents, long lists
//! included. A node that passes over long lists reads its fields from the [`NodeContext`] instead.

use std::future::Future;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

use crate::build::builder::GraphBuilder;
use crate::error::NodeError;
use crate::node::context::NodeContext;
use crate::state::schema::{ElementType, Field, FieldType, StateSchema};
use crate::state::snapshot::State;
use crate::state::update::Update;
use crate::state::value::FieldValue;

impl StateSchema {
    /// Creates a schema with one field for each field of a struct.
    ///
    /// Each field has the type of its value and that value as its default; the last write replaces
    /// earlier ones. A field whose value is null accepts any value.
    ///
    /// ```
    /// use logue_graph::{Reducer, StateSchema};
    /// use serde::Serialize;
    ///
    /// #[derive(Serialize)]
    /// struct Search {
    ///     question: String,
    ///     pages: Vec<String>,
    ///     best: Option<u64>,
    /// }
    ///
    /// let empty = Search { question: String::new(), pages: vec![], best: None };
    /// let schema = StateSchema::from_defaults(&empty)?.reduced("pages", Reducer::Append);
    /// assert_eq!(schema.field("pages").unwrap().field_type().to_string(), "list");
    /// # Ok::<_, logue_graph::NodeError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the value cannot be serialised as a JSON object.
    pub fn from_defaults<S: Serialize>(defaults: &S) -> Result<Self, NodeError> {
        let fields = object(defaults)?.into_iter();
        Ok(fields.fold(Self::new(), |schema, (name, value)| {
            let field = Field::new(name, type_of(&value));
            schema.with(field.with_default(value))
        }))
    }
}

impl State {
    /// Reads the state, or the part that the struct names, into a struct.
    ///
    /// Costs the size of the struct's contents.
    ///
    /// # Errors
    /// Returns an error if a field is missing or has another type than the struct declares.
    pub fn to<S: DeserializeOwned>(&self) -> Result<S, NodeError> {
        let fields = self.iter().map(|(name, value)| (name, Held(value)));
        S::deserialize(MapDeserializer::new(fields)).map_err(|error: serde_json::Error| {
            NodeError::new(format!(
                "cannot read the state as the node's struct: {error}"
            ))
            .with_category("state_validation_error")
        })
    }
}

impl Update {
    /// Creates an update with one field for each field of a struct.
    ///
    /// Skip the fields that do not change: `#[serde(skip_serializing_if = "Option::is_none")]`.
    ///
    /// # Errors
    /// Returns an error if the value cannot be serialised as a JSON object.
    pub fn from_patch<P: Serialize>(patch: &P) -> Result<Self, NodeError> {
        object(patch).map(Self::from)
    }
}

impl<E: 'static> GraphBuilder<E> {
    /// Adds an async closure that reads and returns structs as a node.
    ///
    /// It returns a struct, or another value that serialises as a JSON object, with the fields that
    /// change; see [`Update::from_patch`].
    #[must_use]
    pub fn add_typed_node<S, P, F, Fut>(self, name: impl Into<String>, run: F) -> Self
    where
        S: DeserializeOwned + Send,
        P: Serialize,
        F: Fn(S, NodeContext<E>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<P, NodeError>> + Send + 'static,
    {
        self.add_node_fn(name, move |ctx| {
            let running = ctx.state().to().map(|state| run(state, ctx));
            async move { Update::from_patch(&running?.await?) }
        })
    }
}

/// A field's value that a struct deserialises in place.
///
/// Fields that the struct leaves out are not copied.
struct Held<'a>(&'a FieldValue);

impl<'de> IntoDeserializer<'de, serde_json::Error> for Held<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Held<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.as_typed().is_some() {
            return self.0.to_json().deserialize_any(visitor);
        }
        match (self.0.as_list(), self.0.as_json()) {
            (Some(list), _) => visitor.visit_seq(SeqDeserializer::new(list.iter())),
            (None, Some(json)) => json.deserialize_any(visitor),
            (None, None) => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0.as_json() {
            Some(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0.as_json() {
            Some(json) => json.deserialize_enum(name, variants, visitor),
            None => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn object<T: Serialize>(value: &T) -> Result<Map<String, Value>, NodeError> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(NodeError::new(
            "invalid state: expected a value with named fields",
        )),
        Err(error) => Err(NodeError::from_error(error)),
    }
}

fn type_of(value: &Value) -> FieldType {
    match value {
        Value::Null => FieldType::Any,
        Value::Bool(_) => FieldType::Bool,
        Value::Number(number) if number.is_f64() => FieldType::Float,
        Value::Number(_) => FieldType::Int,
        Value::String(_) => FieldType::String,
        Value::Array(_) => FieldType::List(ElementType::Any),
        Value::Object(_) => FieldType::Map,
    }
}
