//! The argument types of tools, and the check of a JSON text against them.
//!
//! A [`ArgumentSchema`] is made once from a declaration (a JSON Schema here, TypeScript in
//! [`declare`](crate::declare)) and then checks any number of calls. It knows types, literals,
//! arrays, objects, unions, intersections and bounds. What a schema says beyond that is *not
//! checked*: a shape never refuses what its declaration accepts.
//!
//! ```text
//! JSON Schema ─▶ schema ─┐            ┌─▶ pass   one pass over the text: does it fit?
//!                        ├─▶ [Node] ──┤
//! TypeScript  ─▶ declare ┘            └─▶ judge  only if it does not: why, and locate: where
//! ```
//!
//! Nodes are in one list and refer to each other by index, so a type may contain itself.

mod describe;
mod export;
mod fast_check;
mod locate;
mod node;
#[cfg(feature = "schema")]
mod runtime;
mod schema;
mod validate;

use std::sync::Arc;

use logue_source::Span;
use serde_json::Value;

pub(crate) use locate::items as places_of_items;
pub(crate) use node::{Kinds, Node, NodeId, Property};
pub(crate) use schema::Compiler;

use crate::syntax::json;

/// The type of a tool's arguments (OpenChatML 2.2 §8, 2.0 §8.2).
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentSchema {
    /// Shared by the shapes of one declaration.
    nodes: Arc<Vec<Node>>,
    root: NodeId,
    /// The JSON Schema of the declaration, verbatim.
    declared: Option<Arc<Value>>,
    #[cfg(feature = "schema")]
    runtime: runtime::RuntimeSchema,
}

/// A difference between a text and a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// Path of the value: `$`, `$.city`, `$.stops[2]["long name"]`.
    pub path: String,
    /// Expected value, as a noun: ``a string``, ``the property `city` ``.
    pub expected: String,
    /// Actual value, as a noun without the value itself: `a number`.
    pub found: String,
    /// The bytes of the text that are meant: a whole scalar or key, or the bracket that opens an
    /// array or object.
    pub span: Span,
}

impl std::fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            path,
            expected,
            found,
            span: _,
        } = self;
        write!(f, "{path}: expected {expected}, found {found}")
    }
}

impl std::error::Error for SchemaMismatch {}

impl ArgumentSchema {
    /// The shape that every value has.
    pub fn any() -> Self {
        Self {
            nodes: Arc::default(),
            root: NodeId(0),
            declared: None,
            #[cfg(feature = "schema")]
            runtime: runtime::RuntimeSchema::default(),
        }
    }

    /// The shape that a JSON Schema describes.
    ///
    /// Read are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
    /// `anyOf`, `oneOf` (as `anyOf`), `allOf`, `nullable`, the minima and maxima of numbers,
    /// strings and arrays, and `$ref` to a place in the same schema, cycles included. Other
    /// keywords are not checked. Linear in the schema.
    ///
    /// ```
    /// use openchatml::argument_schema::ArgumentSchema;
    /// use serde_json::json;
    ///
    /// let shape = ArgumentSchema::from_json_schema(&json!({
    ///     "type": "object",
    ///     "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
    ///     "required": ["city"],
    /// }));
    /// assert!(shape.check(br#"{"city": "Oslo", "days": 3}"#).is_ok());
    /// let mismatch = shape.check(br#"{"city": "Oslo", "days": 30}"#).unwrap_err();
    /// assert_eq!(mismatch.to_string(), "$.days: expected at most 7, found a larger number");
    /// assert_eq!(mismatch.span, (25..27).into());
    /// ```
    pub fn from_json_schema(schema: &Value) -> Self {
        Self {
            declared: Some(Arc::new(schema.clone())),
            ..schema::compile(schema)
        }
    }

    /// A shape out of nodes that name each other.
    pub(crate) fn from_nodes(mut nodes: Vec<Node>, root: NodeId) -> Self {
        nodes.iter_mut().for_each(Node::prepare);
        Self {
            nodes: Arc::new(nodes),
            ..Self::any().at(root)
        }
    }

    /// The shape of another node of the same list.
    pub(crate) fn at(&self, root: NodeId) -> Self {
        Self {
            nodes: Arc::clone(&self.nodes),
            root,
            declared: None,
            #[cfg(feature = "schema")]
            runtime: runtime::RuntimeSchema::default(),
        }
    }

    /// Returns whether a text is JSON of this shape.
    ///
    /// Linear in the text; a shape that would need more than a bounded number of steps for each
    /// byte is not checked to its end, and neither is a value that is nested deeper than 64
    /// levels or holds what no type here can (a number out of range, half a surrogate pair).
    ///
    /// # Errors
    ///
    /// The first place where the text is not JSON or does not fit, and why.
    pub fn check(&self, text: &[u8]) -> Result<(), SchemaMismatch> {
        self.check_but(text, None)
    }

    /// Checks an object, with `key` as a further property.
    ///
    /// That property is for another component. A shape that knows this property checks it.
    pub(crate) fn check_ignoring(&self, text: &[u8], key: &str) -> Result<(), SchemaMismatch> {
        self.check_but(text, Some(key))
    }

    /// Checks the arguments of a call by the nodes alone.
    #[cfg(not(feature = "schema"))]
    pub(crate) fn check_call(&self, text: &[u8]) -> Result<(), SchemaMismatch> {
        self.check_ignoring(text, logue_message::DEADLINE_PARAMETER)
    }

    fn check_but(&self, text: &[u8], ignored: Option<&str>) -> Result<(), SchemaMismatch> {
        if fast_check::fits(self, text) {
            return Ok(());
        }
        let Ok(value) = serde_json::from_slice::<Value>(text) else {
            // What is JSON and still cannot be held is not judged.
            return json::find_error(text).map_or(Ok(()), |error| Err(not_json(&error, text)));
        };
        validate::judge(self, &value, text.len(), ignored).map_err(|finding| finding.at(text))
    }

    /// Returns whether a value has this shape.
    pub fn accepts(&self, value: &Value) -> bool {
        validate::judge(self, value, validate::size(value), None).is_ok()
    }

    fn node(&self, id: NodeId) -> &Node {
        static ANY: Node = Node::any();
        self.nodes.get(id.0 as usize).unwrap_or(&ANY)
    }
}

fn not_json(error: &json::JsonError, text: &[u8]) -> SchemaMismatch {
    let end = (error.offset + 1).min(text.len());
    SchemaMismatch {
        path: "$".to_owned(),
        expected: "JSON".to_owned(),
        found: if text.is_empty() {
            "nothing".to_owned()
        } else {
            format!("text that is not JSON ({})", error.what)
        },
        span: Span::new(error.offset.min(end), end),
    }
}
