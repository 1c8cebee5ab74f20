//! Export of an argument schema as JSON Schema, for requests to providers.

use logue_message::object_parameters;
use serde_json::{Map, Value, json};

use super::ArgumentSchema;
use super::node::{Kinds, Node, NodeId};

/// Maximum depth of a written schema; a recursive type has no end.
const DEEPEST: usize = 16;

/// Maximum number of written nodes; a schema may refer to one node in many places.
const MOST: usize = 2000;

impl ArgumentSchema {
    /// Returns the JSON Schema of the arguments.
    ///
    /// The schema of a JSON declaration is verbatim. Of other declarations, parts nested deeper than
    /// 16 levels or after the first 2000 nodes become schemas that accept every value.
    ///
    /// ```
    /// use serde_json::json;
    ///
    /// let text = "namespace functions { type f = (_: { on: boolean, level?: 1 | 2 }) => any; }";
    /// let declarations = openchatml::declare::read(text);
    /// let shape = declarations.tool("functions.f").and_then(|tool| tool.schema.as_ref()).unwrap();
    /// assert_eq!(shape.to_json_schema(), json!({
    ///     "type": "object",
    ///     "properties": {"level": {"enum": [1, 2]}, "on": {"type": "boolean"}},
    ///     "required": ["on"],
    /// }));
    /// ```
    pub fn to_json_schema(&self) -> Value {
        if let Some(declared) = &self.declared {
            return Value::clone(declared);
        }
        let mut room = MOST;
        self.schema_of(self.root, 0, &mut room)
    }

    /// Returns the JSON Schema against which calls are validated.
    ///
    /// See [`object_parameters`] for schemas whose type excludes objects.
    pub fn to_parameters(&self) -> Value {
        object_parameters(self.to_json_schema())
    }

    fn schema_of(&self, id: NodeId, depth: usize, room: &mut usize) -> Value {
        if depth > DEEPEST || *room == 0 {
            return json!({});
        }
        *room -= 1;
        let node = self.node(id);
        let mut schema = rules(node);
        let mut inner = |id: NodeId| self.schema_of(id, depth + 1, room);
        if let Some(item) = node.item {
            schema.insert("items".to_owned(), inner(item));
        }
        if !node.properties.is_empty() {
            let properties = node.properties.iter();
            let properties: Map<String, Value> = properties
                .map(|property| (property.name.to_string(), inner(property.node)))
                .collect();
            schema.insert("properties".to_owned(), properties.into());
        }
        if let Some(additional) = node.additional {
            schema.insert("additionalProperties".to_owned(), inner(additional));
        }
        let mut all: Vec<Value> = node.all.iter().map(|id| inner(*id)).collect();
        let unions = node.unions.iter();
        let mut unions: Vec<Vec<Value>> = unions
            .map(|union| union.iter().map(|id| inner(*id)).collect())
            .collect();
        if unions.len() > 1 {
            all.extend(unions.drain(1..).map(|union| json!({"anyOf": union})));
        }
        if let Some(union) = unions.pop() {
            schema.insert("anyOf".to_owned(), union.into());
        }
        if !all.is_empty() {
            schema.insert("allOf".to_owned(), all.into());
        }
        if node.kinds == Kinds::NONE && node.literals.is_none() {
            return json!(false);
        }
        if node.nullable {
            return json!({"anyOf": [schema, {"type": "null"}]});
        }
        Value::Object(schema)
    }
}

/// The constraints of a node on the value itself.
fn rules(node: &Node) -> Map<String, Value> {
    let mut schema = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            schema.insert(key.to_owned(), value);
        }
    };
    let literals = node.literals.as_ref();
    set("enum", literals.map(|literals| literals.clone().into()));
    if literals.is_none() && node.kinds != Kinds::ALL {
        let names = [
            "null", "boolean", "string", "array", "object", "number", "integer",
        ];
        let mut kinds: Vec<&str> = names
            .into_iter()
            .filter(|name| {
                // A number is one with or without a fraction.
                Kinds::named(name).is_some_and(|kind| node.kinds.with(kind) == node.kinds)
            })
            .collect();
        if kinds.contains(&"number") {
            kinds.retain(|kind| *kind != "integer");
        }
        match kinds.as_slice() {
            [only] => set("type", Some(json!(only))),
            several => set("type", Some(json!(several))),
        }
    }
    for (bound, inside, outside) in [
        (&node.minimum, "minimum", "exclusiveMinimum"),
        (&node.maximum, "maximum", "exclusiveMaximum"),
    ] {
        if let Some(bound) = bound {
            let key = if bound.exclusive { outside } else { inside };
            set(key, Some(Value::Number(bound.number.clone())));
        }
    }
    set("minLength", node.length.min.map(Value::from));
    set("maxLength", node.length.max.map(Value::from));
    set("minItems", node.items.min.map(Value::from));
    set("maxItems", node.items.max.map(Value::from));
    let required = node.properties.iter().filter(|each| each.required);
    let required: Vec<&str> = required.map(|each| &*each.name).collect();
    if !required.is_empty() {
        set("required", Some(json!(required)));
    }
    schema
}
