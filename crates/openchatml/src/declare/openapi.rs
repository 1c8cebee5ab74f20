//! `OpenAPI` documents: each operation with an id is a function (OpenChatML 2.0 §8.2).
//!
//! The arguments of a call are one object: the parameters of an operation that has only those, or
//! the JSON of its request body if it has only that. How both form one object is not
//! specified, so then only the parameters are checked.

use logue_source::Span;
use serde_json::{Map, Value};

use super::json::full_name;
use super::{Declarations, DeclaredTool};
use crate::argument_schema::{Compiler, Kinds, Node, NodeId, Property};

const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Returns whether an object is such a document.
pub(super) fn is_document(object: &Map<String, Value>) -> bool {
    let has_paths = object.get("paths").is_some_and(Value::is_object);
    has_paths && (object.contains_key("openapi") || object.contains_key("swagger"))
}

/// Reads every operation. They share one list of nodes, since they share their components.
pub(super) fn read(
    document: &Value,
    object: &Map<String, Value>,
    span: Span,
    found: &mut Declarations,
) {
    let mut complete = true;
    let mut compiler = Compiler::new(document);
    let mut tools = Vec::new();
    let paths = object.get("paths").and_then(Value::as_object);
    for path in paths.into_iter().flat_map(Map::values) {
        for operation in METHODS.iter().filter_map(|method| path.get(*method)) {
            let Some(id) = operation.get("operationId").and_then(Value::as_str) else {
                complete = false;
                found.issue(
                    span,
                    "an operation without an `operationId` cannot be called",
                );
                continue;
            };
            let described = ["description", "summary"]
                .iter()
                .find_map(|key| operation.get(*key)?.as_str());
            let root = arguments(document, path, operation, &mut compiler);
            tools.push((full_name(id), described.map(str::to_owned), root));
        }
    }
    let shapes = compiler.finish();
    for (name, description, root) in tools {
        found.add(DeclaredTool {
            name,
            description,
            schema: root.map(|root| shapes.at(root)),
            span,
        });
    }
    found.note("functions", complete);
}

fn arguments<'v>(
    document: &'v Value,
    path: &'v Value,
    operation: &'v Value,
    compiler: &mut Compiler<'v>,
) -> Option<NodeId> {
    let lists = [path, operation].into_iter();
    let parameters: Vec<_> = lists
        .filter_map(|owner| owner.get("parameters")?.as_array())
        .flatten()
        .map(|parameter| target(document, parameter))
        .collect();
    let body = operation.get("requestBody");
    if parameters.is_empty() {
        let content = target(document, body?).get("content")?;
        let schema = content.get("application/json")?.get("schema")?;
        return Some(compiler.id_of(schema));
    }
    let properties = parameters.into_iter().filter_map(|parameter| {
        let name = parameter.get("name")?.as_str()?;
        let place = parameter.get("in").and_then(Value::as_str);
        // The runtime has headers and cookies, and the place of a body is not specified.
        let is_argument = matches!(place, Some("path" | "query"));
        is_argument.then(|| Property {
            name: name.into(),
            node: match parameter.get("schema") {
                Some(schema) => compiler.id_of(schema),
                None => compiler.push(Node::any()),
            },
            required: parameter.get("required") == Some(&Value::Bool(true)),
        })
    });
    let properties = properties.collect();
    let mut node = Node::of(Kinds::OBJECT);
    node.set_properties(properties);
    Some(compiler.push(node))
}

/// The direct target of a reference.
fn target<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    let reference = value.get("$ref").and_then(Value::as_str);
    let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
    pointer
        .and_then(|pointer| document.pointer(pointer))
        .unwrap_or(value)
}
