//! JSON Schema to a shape.
//!
//! Each object of the schema becomes one node, found again by its address, so a `$ref` is the
//! index of its target and a cycle needs no care. A list of work instead of recursion: a schema
//! may be as deep as it likes.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::ArgumentSchema;
use super::node::{Bound, Kinds, Node, NodeId, Property, Size};

/// The shape of `schema`.
pub(super) fn compile(schema: &Value) -> ArgumentSchema {
    let mut compiler = Compiler::new(schema);
    let root = compiler.id_of(schema);
    compiler.finish().at(root)
}

/// Compiles the schemas of one document to nodes.
pub(crate) struct Compiler<'v> {
    whole: &'v Value,
    nodes: Vec<Node>,
    /// By the address of the schema.
    known: HashMap<*const Value, NodeId>,
    work: Vec<(NodeId, &'v Value)>,
}

impl<'v> Compiler<'v> {
    /// For schemas whose references lead from `whole`.
    pub(crate) fn new(whole: &'v Value) -> Self {
        Self {
            whole,
            nodes: Vec::new(),
            known: HashMap::new(),
            work: Vec::new(),
        }
    }

    /// Fills in every node. The shape is only there for [`ArgumentSchema::at`].
    pub(crate) fn finish(mut self) -> ArgumentSchema {
        while let Some((id, schema)) = self.work.pop() {
            let node = self.node(schema);
            if let Some(place) = self.nodes.get_mut(id.0 as usize) {
                *place = node;
            }
        }
        ArgumentSchema::from_nodes(self.nodes, NodeId(0))
    }

    /// The node of a schema, which is filled in later.
    pub(crate) fn id_of(&mut self, schema: &'v Value) -> NodeId {
        if let Some(id) = self.known.get(&std::ptr::from_ref(schema)) {
            return *id;
        }
        let id = self.push(Node::any());
        self.known.insert(schema, id);
        self.work.push((id, schema));
        id
    }

    /// Adds a node that is complete.
    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        // More nodes than that would need a schema of many gigabytes.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn node(&mut self, schema: &'v Value) -> Node {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return Node::of(Kinds::NONE),
            _ => return Node::any(),
        };
        let mut node = Node::of(kinds(schema.get("type")));
        node.nullable = schema.get("nullable") == Some(&Value::Bool(true));
        node.literals = match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(Value::Array(values))) => Some(values.clone()),
            _ => None,
        };
        node.minimum = bound(schema, "minimum", "exclusiveMinimum");
        node.maximum = bound(schema, "maximum", "exclusiveMaximum");
        node.length = size(schema, "minLength", "maxLength");
        node.items = size(schema, "minItems", "maxItems");
        if !schema.contains_key("prefixItems") {
            // An older schema has a list here: one for each place.
            let item = schema.get("items").filter(|item| !item.is_array());
            node.item = item.map(|item| self.id_of(item));
        }
        self.object(&mut node, schema);
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(members)) = schema.get(key)
                && !members.is_empty()
            {
                let members = members.iter().map(|member| self.id_of(member));
                node.unions.push(members.collect());
            }
        }
        if let Some(Value::Array(members)) = schema.get("allOf") {
            node.all
                .extend(members.iter().map(|member| self.id_of(member)));
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = target.strip_prefix('#')
            && let Some(target) = self.whole.pointer(target)
        {
            node.all.push(self.id_of(target));
        }
        node
    }

    fn object(&mut self, node: &mut Node, schema: &'v Map<String, Value>) {
        // A pattern exempts the names that it matches, and patterns are not checked.
        if !schema.contains_key("patternProperties") {
            let additional = schema.get("additionalProperties");
            let additional = additional.filter(|rule| **rule != Value::Bool(true));
            node.additional = additional.map(|rule| self.id_of(rule));
        }
        let mut properties = Vec::new();
        if let Some(Value::Object(known)) = schema.get("properties") {
            for (name, schema) in known {
                properties.push(Property {
                    name: name.as_str().into(),
                    node: self.id_of(schema),
                    required: false,
                });
            }
        }
        node.set_properties(properties);
        let Some(Value::Array(required)) = schema.get("required") else {
            return;
        };
        let mut properties = std::mem::take(&mut node.properties);
        let known = properties.len();
        for name in required.iter().filter_map(Value::as_str) {
            let known = properties.get_mut(..known).unwrap_or_default();
            if let Ok(at) = known.binary_search_by(|each| each.name.as_ref().cmp(name)) {
                if let Some(property) = known.get_mut(at) {
                    property.required = true;
                }
                continue;
            }
            let unknown = node.additional.unwrap_or_else(|| self.push(Node::any()));
            properties.push(Property {
                name: name.into(),
                node: unknown,
                required: true,
            });
        }
        node.set_properties(properties);
    }
}

/// The kinds that `type` names; all of them if one name is unknown.
fn kinds(named: Option<&Value>) -> Kinds {
    let known = |name: &Value| name.as_str().and_then(Kinds::named);
    match named {
        Some(Value::Array(names)) => names
            .iter()
            .try_fold(Kinds::NONE, |all, name| Some(all.with(known(name)?)))
            .unwrap_or(Kinds::ALL),
        Some(name) => known(name).unwrap_or(Kinds::ALL),
        None => Kinds::ALL,
    }
}

/// One end of the range of a number. `exclusive` is a number, or in older schemas a flag.
fn bound(schema: &Map<String, Value>, inclusive: &str, exclusive: &str) -> Option<Bound> {
    let limit = schema.get(inclusive).and_then(Value::as_number);
    match schema.get(exclusive) {
        // With both given, the inclusive one is not checked: almost always it is the weaker one.
        Some(Value::Number(number)) => Some(Bound {
            number: number.clone(),
            exclusive: true,
        }),
        flag => Some(Bound {
            number: limit?.clone(),
            exclusive: flag == Some(&Value::Bool(true)),
        }),
    }
}

fn size(schema: &Map<String, Value>, min: &str, max: &str) -> Size {
    let number = |key| schema.get(key).and_then(Value::as_u64);
    Size {
        min: number(min),
        max: number(max),
    }
}
