//! Words for what a node expects and what a value is. No value is repeated: arguments may be
//! private, and the place says it all.

use logue_source::excerpt;
use serde_json::Value;

use super::ArgumentSchema;
use super::node::{Kinds, Node, NodeId};
use crate::limits::MAX_QUOTED_CHARS;

/// Maximum number of listed alternatives; of more, only the number is given.
const LISTED: usize = 6;

/// Maximum depth of unions that are followed for their words.
const FOLLOWED: usize = 4;

/// A noun for what fits the node.
pub(super) fn expected(shape: &ArgumentSchema, id: NodeId) -> String {
    let mut nouns = Vec::new();
    collect(shape, id, FOLLOWED, &mut nouns);
    listed(&nouns)
}

/// A noun for these kinds.
pub(super) fn of_kinds(kinds: Kinds) -> String {
    let mut nouns = Vec::new();
    add_kinds(kinds, &mut nouns);
    listed(&nouns)
}

/// A noun for the kind of a value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction or exponent",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A noun for the values of a list.
pub(super) fn of_literals(literals: &[Value]) -> String {
    let mut nouns = Vec::new();
    add_literals(literals, &mut nouns);
    listed(&nouns)
}

/// A noun for a property.
pub(super) fn property(name: &str) -> String {
    format!(
        "the property `{}`",
        excerpt(name.as_bytes(), MAX_QUOTED_CHARS)
    )
}

fn collect(shape: &ArgumentSchema, id: NodeId, depth: usize, nouns: &mut Vec<String>) {
    let node = shape.node(id);
    let parts = node.unions.iter().flatten().chain(&node.all);
    if let Some(literals) = &node.literals {
        add_literals(literals, nouns);
    } else if node.kinds != Kinds::ALL || is_free(node) {
        add_kinds(node.kinds, nouns);
    } else if depth > 0 {
        for part in parts.take(LISTED + 1) {
            collect(shape, *part, depth - 1, nouns);
        }
    }
    if node.nullable {
        add("null", nouns);
    }
}

const fn is_free(node: &Node) -> bool {
    node.unions.is_empty() && node.all.is_empty()
}

fn add(noun: &str, nouns: &mut Vec<String>) {
    if nouns.len() <= LISTED && !nouns.iter().any(|known| known == noun) {
        nouns.push(noun.to_owned());
    }
}

fn add_literals(literals: &[Value], nouns: &mut Vec<String>) {
    for literal in literals.iter().take(LISTED + 1) {
        match literal {
            Value::Array(_) | Value::Object(_) => add("a certain array or object", nouns),
            Value::String(text) => add(
                &format!("`\"{}\"`", excerpt(text.as_bytes(), MAX_QUOTED_CHARS)),
                nouns,
            ),
            scalar => add(&format!("`{scalar}`"), nouns),
        }
    }
}

fn add_kinds(kinds: Kinds, nouns: &mut Vec<String>) {
    if kinds == Kinds::ALL {
        return add("any value", nouns);
    }
    let number = kinds.0 & Kinds::NUMBER.0;
    let known = [
        (Kinds::STRING, "a string"),
        (Kinds::BOOL, "a boolean"),
        (Kinds::ARRAY, "an array"),
        (Kinds::OBJECT, "an object"),
        (Kinds::NULL, "null"),
    ];
    if number == Kinds::NUMBER.0 {
        add("a number", nouns);
    } else if number == Kinds::INTEGER.0 {
        add("a whole number", nouns);
    }
    for (kind, noun) in known {
        if kinds.meets(kind) {
            add(noun, nouns);
        }
    }
}

fn listed(nouns: &[String]) -> String {
    match nouns {
        [] => "nothing at all".to_owned(),
        [only] => only.clone(),
        [first, second] => format!("{first} or {second}"),
        [head @ .., _] if nouns.len() > LISTED => format!("{} or another one", head.join(", ")),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}
