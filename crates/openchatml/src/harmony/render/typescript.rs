//! TypeScript fragments and JSON Schema accessors of both schema writers.

use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// A key of an object type: quoted unless it is an identifier.
pub(super) fn key(name: &str, out: &mut String) {
    let begins = |c: char| c.is_alphabetic() || c == '_' || c == '$';
    let mut characters = name.chars();
    let plain =
        characters.next().is_some_and(begins) && characters.all(|c| begins(c) || c.is_numeric());
    if plain {
        out.push_str(name);
    } else {
        out.push_str(&quoted(name));
    }
}

/// A string literal.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A comment, with `//` before each line of it.
pub(super) fn comment(text: &str, indent: usize, out: &mut String) {
    let empty = text.is_empty().then_some("");
    for line in text.lines().chain(empty) {
        spaces(indent, out);
        out.push_str("// ");
        out.push_str(line);
        out.push('\n');
    }
}

/// A value as compact JSON. Numbers are written as models saw them, without the sign of a positive
/// exponent.
pub(super) fn json(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Plain(CompactFormatter));
    // Writing to memory cannot fail, and neither can a value.
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    String::from_utf8(out).unwrap_or_default()
}

struct Plain(CompactFormatter);

impl Formatter for Plain {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let mut digits = Vec::new();
        self.0.write_f64(&mut digits, value)?;
        digits.retain(|byte| *byte != b'+');
        writer.write_all(&digits)
    }
}

pub(super) fn spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// The list under a key of a schema.
pub(super) fn list<'s>(schema: &'s Value, key: &str) -> Option<&'s [Value]> {
    Some(schema.get(key)?.as_array()?)
}

/// The string under a key of a schema.
pub(super) fn string<'s>(schema: &'s Value, key: &str) -> Option<&'s str> {
    schema.get(key)?.as_str()
}
