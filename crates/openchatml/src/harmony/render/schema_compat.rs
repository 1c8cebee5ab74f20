//! JSON Schema as openai-harmony 0.0.8 writes it, losses included.
//!
//! What it does not know becomes `any` or is left out: `anyOf`, `allOf`, `$ref`, `const`, numbers
//! in an `enum`. Comments are not continued on their second line, strings are not escaped, and
//! `[]` binds to the last part of a union. Models have seen this, so it can be had; [`schema`]
//! says what was meant.
//!
//! [`schema`]: super::schema

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::typescript::{json, list, spaces, string};

/// Nesting that is written; below it everything is `any`.
const MAX_DEPTH: usize = 128;

/// Appends the type of a schema.
pub(super) fn write(schema: &Value, out: &mut String) {
    write_type(schema, 0, 0, out);
}

fn write_type(schema: &Value, indent: usize, depth: usize, out: &mut String) {
    if depth > MAX_DEPTH {
        out.push_str("any");
        return;
    }
    if let Some(variants) = list(schema, "oneOf") {
        write_variants(variants, &Over::Nothing, indent, depth, out);
        return;
    }
    if let Some(types) = list(schema, "type") {
        let names = types.iter().filter_map(Value::as_str);
        let names: Vec<_> = names
            .map(|name| if name == "integer" { "number" } else { name })
            .collect();
        if !names.is_empty() {
            out.push_str(&names.join(" | "));
            return;
        }
    }
    match string(schema, "type") {
        Some("object") => write_object(schema, indent, depth, out),
        Some("string") => {
            let names = list(schema, "enum").unwrap_or_default().iter();
            let names: Vec<_> = names
                .filter_map(Value::as_str)
                .map(|name| format!("\"{name}\""))
                .collect();
            if names.is_empty() {
                out.push_str("string");
            } else {
                out.push_str(&names.join(" | "));
            }
        }
        Some("number" | "integer") => out.push_str("number"),
        Some("boolean") => out.push_str("boolean"),
        Some("array") => match schema.get("items") {
            Some(items) => {
                write_type(items, indent, depth + 1, out);
                out.push_str("[]");
            }
            None => out.push_str("Array<any>"),
        },
        _ => out.push_str("any"),
    }
}

fn write_object(schema: &Value, indent: usize, depth: usize, out: &mut String) {
    if let Some(description) = string(schema, "description") {
        spaces(indent, out);
        out.push_str("// ");
        out.push_str(description);
        out.push('\n');
    }
    out.push_str("{\n");
    let required: BTreeSet<_> = list(schema, "required")
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, value) in properties.into_iter().flat_map(Map::iter) {
        write_comments(value, indent, out);
        let variants = list(value, "oneOf");
        if let Some(variants) = variants {
            write_lead(value, variants, indent, out);
        }
        spaces(indent, out);
        out.push_str(key);
        if !required.contains(key.as_str()) {
            out.push('?');
        }
        out.push(':');
        if let Some(variants) = variants {
            let over = Over::Property(string(value, "description"));
            write_variants(variants, &over, indent, depth, out);
            out.push('\n');
            spaces(indent, out);
            out.push_str(",\n");
        } else {
            out.push(' ');
            let from = out.len();
            write_type(value, indent + 4, depth + 1, out);
            write_null(value, from, out);
            out.push(',');
            if let Some(default) = default(value) {
                out.push_str(" // ");
                out.push_str(&default);
            }
            out.push('\n');
        }
    }
    spaces(indent, out);
    out.push('}');
}

/// The comments above a property, whatever its type is.
fn write_comments(property: &Value, indent: usize, out: &mut String) {
    let mut line = |text: &str| {
        spaces(indent, out);
        out.push_str("//");
        out.push_str(text);
        out.push('\n');
    };
    if let Some(title) = string(property, "title") {
        line(&format!(" {title}"));
        line("");
    }
    if list(property, "oneOf").is_none()
        && let Some(description) = string(property, "description")
    {
        line(&format!(" {description}"));
    }
    let examples = list(property, "examples").unwrap_or_default();
    if !examples.is_empty() {
        line(" Examples:");
        for example in examples.iter().filter_map(Value::as_str) {
            line(&format!(" - \"{example}\""));
        }
    }
}

/// The comments above a property of several variants, after the other comments.
fn write_lead(property: &Value, variants: &[Value], indent: usize, out: &mut String) {
    let first = variants.first();
    let leading = first.and_then(|first| string(first, "description"));
    let description = string(property, "description").filter(|text| leading != Some(*text));
    let description = description.map(str::to_owned);
    for text in [description, default(property)].into_iter().flatten() {
        spaces(indent, out);
        out.push_str("// ");
        out.push_str(&text);
        out.push('\n');
    }
}

/// The owner of variants.
enum Over<'s> {
    /// A property, and its description. For its sake the first variant's is left out, and that of
    /// any other that says the same.
    Property(Option<&'s str>),
    /// A schema defined elsewhere.
    Nothing,
}

/// One line for each variant.
fn write_variants(
    variants: &[Value],
    over: &Over<'_>,
    indent: usize,
    depth: usize,
    out: &mut String,
) {
    for (index, variant) in variants.iter().enumerate() {
        out.push('\n');
        spaces(indent, out);
        out.push_str(" | ");
        let from = out.len();
        write_type(variant, indent + 3, depth + 1, out);
        write_null(variant, from, out);
        let description = string(variant, "description");
        let description = description.filter(|text| match over {
            Over::Property(Some(leading)) => index > 0 && text != leading,
            _ => true,
        });
        let default = match over {
            Over::Property(_) => default(variant),
            Over::Nothing => default_elsewhere(variant),
        };
        let comments = [description.map(str::to_owned), default];
        let comments: Vec<_> = comments.into_iter().flatten().collect();
        if !comments.is_empty() {
            out.push_str(" // ");
            out.push_str(&comments.join(" "));
        }
    }
}

/// Adds `null`, unless the type that begins at `from` has these letters in it.
fn write_null(schema: &Value, from: usize, out: &mut String) {
    let nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
    let written = out.get(from..).unwrap_or_default();
    if nullable && !written.contains("null") {
        out.push_str(" | null");
    }
}

fn default(schema: &Value) -> Option<String> {
    let value = schema.get("default")?;
    let is_enum = list(schema, "enum").is_some_and(|values| !values.is_empty());
    Some(match value.as_str() {
        Some(text) if is_enum => format!("default: {text}"),
        Some(text) => format!("default: \"{text}\""),
        None => format!("default: {}", json(value)),
    })
}

/// Outside properties even a choice of words has its default in quotes.
fn default_elsewhere(schema: &Value) -> Option<String> {
    let value = schema.get("default")?;
    let is_enum = list(schema, "enum").is_some_and(|values| !values.is_empty());
    if is_enum {
        return Some(format!("default: {}", json(value)));
    }
    default(schema)
}
