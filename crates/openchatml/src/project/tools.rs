//! Declared tools of a row: a list, or a list as text, in the shape of several providers.

use serde_json::{Map, Value, json};

use super::node::{Kind, Node, Object};
use super::reading::Reading;
use crate::convert::Writing;
use crate::loss::LossKind;

/// The keys that declare tools; the second is the older one.
pub(super) const KEYS: [&str; 2] = ["tools", "functions"];

/// The keys of a schema, in the shapes of providers.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// The keys of a function without a schema.
const DESCRIBING: [&str; 4] = ["name", "description", "strict", "cache_control"];

/// The shape of a tool in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolShape {
    /// `{"type": "function", "function": {…}}`.
    Wrapped,
    /// `{"type": "function", "name": …, "parameters": …}`.
    Flat,
    /// `{"name": …, "input_schema": …}`.
    InputSchema,
}

/// Reads the tools of a row in the shape of Chat Completions. The others are in `shape`.
///
/// Returns the key that declared them; `None` if no key declares tools.
pub(super) fn read(
    row: &Object<'_>,
    shape: ToolShape,
    reading: &mut Reading,
) -> Option<&'static str> {
    let (key, node) = KEYS
        .into_iter()
        .find_map(|key| Some((key, row.get(key)?)))?;
    let tools = list(node)?;
    let wrapped: Vec<(Value, ToolShape)> = tools.into_iter().map(wrapped).collect::<Option<_>>()?;
    if wrapped.is_empty() {
        return None;
    }
    if node.kind() == Kind::String {
        let text = format!("the text of `{key}` is read as a list");
        reading.note_whole(LossKind::SpellingChanged, text);
    }
    let is_other = |(_, own): &(Value, ToolShape)| *own != shape && *own != ToolShape::Wrapped;
    if key != "tools" || wrapped.iter().any(is_other) {
        let text = "the tools are in the shape of another form or of an older version";
        reading.note_whole(LossKind::SpellingChanged, text);
    }
    reading.tools = wrapped.into_iter().map(|(tool, _)| tool).collect();
    Some(key)
}

/// The items of a list, or of the text of one.
fn list(node: Node<'_>) -> Option<Vec<Value>> {
    let value = match node.string() {
        Some(text) => serde_json::from_str(&text).ok()?,
        None => node.value()?,
    };
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// A tool in the shape of Chat Completions, and the shape that it had.
///
/// Tools of a provider that are not functions are kept.
fn wrapped(tool: Value) -> Option<(Value, ToolShape)> {
    let tool = match tool {
        // Columns of data sets hold objects as text.
        Value::String(text) => serde_json::from_str(&text).ok()?,
        other => other,
    };
    let object = tool.as_object()?;
    let kind = object.get("type").and_then(Value::as_str);
    if object.get("function").is_some_and(Value::is_object) {
        return Some((tool, ToolShape::Wrapped));
    }
    let has_schema = SCHEMAS.iter().any(|key| object.contains_key(*key));
    let is_function = match kind {
        None => {
            let has_own = |key: &String| !DESCRIBING.contains(&key.as_str());
            has_schema || !object.keys().any(has_own)
        }
        Some("function") => true,
        Some("custom") => has_schema,
        Some(_) => false,
    };
    if !is_function || !object.get("name").is_some_and(Value::is_string) {
        kind?;
        return Some((tool, ToolShape::Wrapped));
    }
    let shape = if object.contains_key("input_schema") {
        ToolShape::InputSchema
    } else {
        ToolShape::Flat
    };
    let mut function = Map::new();
    for (key, value) in object {
        match key.as_str() {
            "type" => {}
            key if SCHEMAS.contains(&key) => {
                function.insert("parameters".into(), value.clone());
            }
            key => {
                function.insert(key.into(), value.clone());
            }
        }
    }
    Some((json!({"type": "function", "function": function}), shape))
}

/// Writes the tools in a shape. Parts without a place in it are noted.
pub(super) fn to_value(tools: &[Value], shape: ToolShape, writing: &mut Writing) -> Value {
    let tools = tools.iter().enumerate();
    let shaped = tools.map(|(index, tool)| match (shape, tool.get("function")) {
        (ToolShape::Flat, Some(Value::Object(function))) => {
            let mut flat = Map::new();
            flat.insert("type".into(), "function".into());
            flat.extend(function.clone());
            note_beside(tool, index, writing);
            Value::Object(flat)
        }
        (ToolShape::InputSchema, Some(Value::Object(function))) => {
            let mut flat = Map::new();
            for (key, value) in function {
                match key.as_str() {
                    "parameters" => flat.insert("input_schema".into(), value.clone()),
                    key => flat.insert(key.into(), value.clone()),
                };
            }
            if !flat.contains_key("input_schema") {
                // The provider requires one.
                flat.insert("input_schema".into(), json!({"type": "object"}));
                let text = format!("tool {} got a schema for any object", index + 1);
                writing.note_whole(LossKind::DeclarationChanged, &text);
            }
            note_beside(tool, index, writing);
            Value::Object(flat)
        }
        _ => tool.clone(),
    });
    shaped.collect()
}

/// Notes the keys beside the function of a tool.
fn note_beside(tool: &Value, index: usize, writing: &mut Writing) {
    let keys = tool.as_object().into_iter().flat_map(Map::keys);
    for key in keys.filter(|key| !["type", "function"].contains(&key.as_str())) {
        let text = format!("the key {key:?} of tool {} dropped", index + 1);
        writing.note_whole(LossKind::AttributeDropped, &text);
    }
}
