//! States as types of the program: a struct for what a node reads, another for what it changes.
//!
//! This is a thin layer. The engine keeps its named fields, and a typed node turns the state into
//! its struct when it begins: that costs the size of what the struct holds, long lists included. A
//! node that passes over long lists reads its fields from the [`NodeContext`] instead.

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
    /// A schema with a field for each of a struct's, of the type that its value has and with that
    /// value as its default; the last write wins. A field whose value is null takes anything.
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
    /// let schema = StateSchema::of(&empty)?.reduced("pages", Reducer::Append);
    /// assert_eq!(schema.field("pages").unwrap().field_type().to_string(), "list");
    /// # Ok::<_, logue_graph::NodeError>(())
    /// ```
    ///
    /// # Errors
    /// The value cannot be written as JSON, or is no object there.
    pub fn of<S: Serialize>(defaults: &S) -> Result<Self, NodeError> {
        let fields = object(defaults)?.into_iter();
        Ok(fields.fold(Self::new(), |schema, (name, value)| {
            let field = Field::new(name, type_of(&value));
            schema.with(field.with_default(value))
        }))
    }
}

impl State {
    /// The state as a struct, or the part of it that the struct names. Costs what the struct holds.
    ///
    /// # Errors
    /// A field is missing, or is not what the struct says.
    pub fn to<S: DeserializeOwned>(&self) -> Result<S, NodeError> {
        let fields = self.iter().map(|(name, value)| (name, Held(value)));
        S::deserialize(MapDeserializer::new(fields)).map_err(|error: serde_json::Error| {
            NodeError::new(format!("the state is not what the node expects: {error}"))
                .with_category("state_validation_error")
        })
    }
}

impl Update {
    /// An update from a struct: a field for each of its own. A field that is to stay as it is must
    /// not be written: `#[serde(skip_serializing_if = "Option::is_none")]`.
    ///
    /// # Errors
    /// The value cannot be written as JSON, or is no object there.
    pub fn of<P: Serialize>(patch: &P) -> Result<Self, NodeError> {
        object(patch).map(Self::from)
    }
}

impl<E: 'static> GraphBuilder<E> {
    /// Adds an async closure as a node which reads the state as a struct, and returns another struct,
    /// or anything else that is an object in JSON, with the fields that change; see [`Update::of`].
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
            async move { Update::of(&running?.await?) }
        })
    }
}

/// A field's value where a struct reads it: in place, so that what the struct leaves out is not
/// copied.
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
        Ok(_) => Err(NodeError::new("only a value with named fields is a state")),
        Err(error) => Err(NodeError::wrap(error)),
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
