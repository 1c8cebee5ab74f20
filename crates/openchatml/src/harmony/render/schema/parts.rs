//! The constraints of a schema, part by part.

use serde_json::Value;

use super::{json, list, quoted, string};

/// Wrappers that are looked through.
const MAX_WRAPPERS: usize = 16;

/// One thing that a value must be. A schema's parts are all demanded.
#[derive(Clone, Copy)]
pub(super) enum Part<'s> {
    /// One of its `const` or `enum`.
    Literals,
    /// Of one of these types.
    Types(&'s [Value]),
    /// Of this type.
    Type(&'s str),
    /// One of these, each on a line.
    Union(&'s [Value]),
    /// One of these, which are short.
    Plain(&'s [Value]),
    /// This one of `allOf`.
    All(&'s Value),
    /// The target of a `$ref`, if any.
    Reference(Option<&'s Value>),
}

/// The parts of a schema. `root` is what its references look into.
pub(super) fn parts<'s>(schema: &'s Value, root: &'s Value) -> Vec<Part<'s>> {
    let mut parts = Vec::new();
    for (key, may_be_plain) in [("oneOf", false), ("anyOf", true)] {
        let variants = list(schema, key).unwrap_or_default();
        if variants.is_empty() || own(schema).is_some() && variants.iter().all(says_nothing) {
            continue;
        }
        let plain = may_be_plain && variants.iter().all(|variant| is_plain(variant, root));
        parts.push(if plain {
            Part::Plain(variants)
        } else {
            Part::Union(variants)
        });
    }
    let all = list(schema, "allOf").unwrap_or_default().iter();
    parts.extend(all.filter(|part| !says_nothing(part)).map(Part::All));
    if let Some(reference) = string(schema, "$ref") {
        parts.push(Part::Reference(target(reference, root)));
    }
    if let Some(own) = own(schema)
        && (parts.is_empty() || !says_only_type(schema))
    {
        parts.insert(0, own);
    }
    parts
}

/// The schema's own constraints.
fn own(schema: &Value) -> Option<Part<'_>> {
    let has = |key: &str| schema.get(key).is_some();
    let values = list(schema, "enum").unwrap_or_default();
    if has("const") || !values.is_empty() {
        return Some(Part::Literals);
    }
    match schema.get("type") {
        Some(Value::String(name)) => Some(Part::Type(name)),
        Some(Value::Array(names)) if !names.is_empty() => Some(Part::Types(names)),
        _ if has("properties") || has("additionalProperties") => Some(Part::Type("object")),
        _ if has("items") || has("prefixItems") => Some(Part::Type("array")),
        _ => None,
    }
}

/// Returns whether nothing of a schema's own goes beyond the name of a type.
fn says_only_type(schema: &Value) -> bool {
    let more = [
        "const",
        "enum",
        "properties",
        "additionalProperties",
        "items",
        "prefixItems",
    ];
    !more.iter().any(|key| {
        schema
            .get(*key)
            .is_some_and(|value| *value != Value::Bool(false))
    })
}

/// Returns whether a schema accepts every value, as far as its types show.
fn says_nothing(schema: &Value) -> bool {
    let says = ["oneOf", "anyOf", "allOf"];
    match schema {
        Value::Bool(taken) => *taken,
        _ => {
            own(schema).is_none()
                && schema.get("$ref").is_none()
                && !says.iter().any(|key| schema.get(*key).is_some())
        }
    }
}

/// Returns whether a variant is short and has no description.
fn is_plain<'s>(mut variant: &'s Value, root: &'s Value) -> bool {
    if let Some(reference) = string(variant, "$ref") {
        let Some(target) = target(reference, root) else {
            return true;
        };
        variant = target;
    }
    loop {
        let long = [
            "description",
            "default",
            "properties",
            "additionalProperties",
        ];
        let deep = ["oneOf", "anyOf", "allOf", "$ref", "prefixItems"];
        let mut keys = long.iter().chain(&deep);
        if keys.any(|key| variant.get(*key).is_some()) || string(variant, "type") == Some("object")
        {
            return false;
        }
        match variant.get("items") {
            Some(items) => variant = items,
            None => return true,
        }
    }
}

/// Resolves a schema that is only a `$ref` or an `allOf` of one.
///
/// Returns any other schema unchanged.
pub(super) fn wrapped<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut at = schema;
    for _ in 0..MAX_WRAPPERS {
        at = match parts(at, root).as_slice() {
            [Part::Reference(Some(target))] => target,
            [Part::All(part)] => part,
            _ => return at,
        };
    }
    schema
}

/// The target of a reference within the document.
fn target<'s>(reference: &str, root: &'s Value) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The values that a schema allows, as TypeScript writes them: those of its type, if there are any.
pub(super) fn literals(schema: &Value) -> Vec<String> {
    if let Some(value) = schema.get("const") {
        return vec![json(value)];
    }
    let values = list(schema, "enum").unwrap_or_default().iter();
    let fitting = values
        .clone()
        .filter(|value| fits(value, schema.get("type")));
    let fitting: Vec<_> = fitting.map(json).collect();
    if fitting.is_empty() {
        return values.map(json).collect();
    }
    fitting
}

fn fits(value: &Value, types: Option<&Value>) -> bool {
    let fits = |name: &str| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(_) => name == "number" || name == "integer",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    match types {
        Some(Value::String(name)) => fits(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(fits),
        _ => true,
    }
}

/// Returns whether a schema says already that it takes `null`.
pub(super) fn takes_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => false,
    };
    let literal = |schema: &Value| {
        let values = list(schema, "enum").unwrap_or_default();
        schema.get("const") == Some(&Value::Null) || values.contains(&Value::Null)
    };
    let variants = ["oneOf", "anyOf"].into_iter();
    let mut variants = variants.flat_map(|key| list(schema, key).unwrap_or_default());
    is_null(schema)
        || literal(schema)
        || variants.any(|variant| is_null(variant) || literal(variant))
}

/// A default as a comment says it. Of a choice of words it is the bare word.
pub(super) fn default_text(default: &Value, schema: &Value) -> String {
    let is_choice = list(schema, "enum").is_some_and(|values| !values.is_empty());
    match default.as_str() {
        Some(word) if is_choice && !word.chars().any(char::is_control) => {
            format!("default: {word}")
        }
        Some(text) => format!("default: {}", quoted(text)),
        None => format!("default: {}", json(default)),
    }
}
