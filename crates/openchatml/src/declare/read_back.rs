//! The functions of a namespace as JSON, with descriptions, defaults and examples.
//!
//! The inverse of what Harmony writes for a model. It reads that layout and its variations in white
//! space. Text that it does not fully understand is refused, so that no words are lost.

use serde_json::{Map, Value, json};

use crate::limits::{MAX_SCHEMA_LEVELS, MAX_TYPE_DEPTH};

/// Parses `namespace functions { … }`, which must be the whole text.
///
/// Returns the tools as JSON of Chat Completions. Linear in the text.
pub(crate) fn functions(text: &str) -> Option<Vec<Value>> {
    let mut reader = Reader {
        rest: text,
        levels: 0,
    };
    reader.word("namespace")?;
    reader.word("functions")?;
    reader.mark('{')?;
    let mut tools = Vec::new();
    loop {
        let comments = reader.comments();
        if reader.mark('}').is_some() {
            let after = reader.comments();
            let is_closed = comments.is_empty() && reader.rest.is_empty();
            let is_labelled = after.iter().all(|line| *line == "namespace functions");
            return (is_closed && is_labelled && after.len() < 2).then_some(tools);
        }
        tools.push(reader.function(&comments)?);
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// Nested arrays and objects of JSON in the schemas that were read.
    levels: usize,
}

impl<'t> Reader<'t> {
    fn function(&mut self, comments: &[&str]) -> Option<Value> {
        self.word("type")?;
        let name = self.name()?;
        self.mark('=')?;
        self.mark('(')?;
        let mut function = Map::new();
        function.insert("name".into(), name.into());
        let description = comments.join("\n");
        if !description.is_empty() {
            function.insert("description".into(), description.into());
        }
        let parameters = if self.mark(')').is_some() {
            json!({"type": "object", "properties": {}})
        } else {
            self.word("_")?;
            self.mark(':')?;
            let described = self.comments().join("\n");
            self.levels = 0;
            let mut schema = self.union(0)?;
            describe(&mut schema, described);
            self.mark(')')?;
            schema
        };
        self.mark('=')?;
        self.rest = self.rest.strip_prefix('>')?;
        self.word("any")?;
        self.mark(';')?;
        // Defaults and examples are values of their own.
        if !fits(&parameters, MAX_SCHEMA_LEVELS) {
            return None;
        }
        function.insert("parameters".into(), parameters);
        let mut tool = Map::new();
        tool.insert("type".into(), "function".into());
        tool.insert("function".into(), function.into());
        Some(tool.into())
    }

    /// `A | B`; a variant on a line of its own may have a comment.
    fn union(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_TYPE_DEPTH {
            return None;
        }
        let on_lines = self.mark('|').is_some();
        let mut variants = Vec::new();
        loop {
            let mut variant = self.intersection(depth)?;
            let mut ahead = Reader { ..*self };
            let comment = ahead.line_comment();
            if let Some(words) = comment.filter(|_| on_lines) {
                annotate(&mut variant, words);
                self.rest = ahead.rest;
            }
            variants.push(variant);
            if self.mark('|').is_none() {
                break;
            }
        }
        if !on_lines && variants.len() == 1 {
            return variants.pop();
        }
        self.deepen(2)?;
        Some(joined(variants, on_lines))
    }

    fn intersection(&mut self, depth: usize) -> Option<Value> {
        let first = self.suffixed(depth)?;
        if self.mark('&').is_none() {
            return Some(first);
        }
        let mut parts = vec![first, self.suffixed(depth)?];
        while self.mark('&').is_some() {
            parts.push(self.suffixed(depth)?);
        }
        self.deepen(2)?;
        Some(object_of("allOf", parts.into()))
    }

    fn suffixed(&mut self, depth: usize) -> Option<Value> {
        // Sibling types must not add up.
        let beside = std::mem::take(&mut self.levels);
        let mut schema = self.primary(depth)?;
        while let Some(rest) = self.rest.strip_prefix("[]") {
            self.rest = rest;
            self.deepen(1)?;
            // `json!` copies a value that it contains.
            let mut array = Map::new();
            array.insert("type".into(), "array".into());
            array.insert("items".into(), schema);
            schema = array.into();
        }
        self.levels = self.levels.max(beside);
        Some(schema)
    }

    /// Adds levels around the schema that was read; `None` if it is too deep.
    fn deepen(&mut self, levels: usize) -> Option<()> {
        self.levels += levels;
        (self.levels <= MAX_SCHEMA_LEVELS).then_some(())
    }

    fn primary(&mut self, depth: usize) -> Option<Value> {
        if self.mark('(').is_some() {
            let schema = self.union(depth + 1)?;
            self.mark(')')?;
            return Some(schema);
        }
        if self.mark('{').is_some() {
            return self.object(depth + 1);
        }
        if self.word("Array<any>").is_some() {
            return Some(json!({"type": "array"}));
        }
        for name in ["number", "string", "boolean", "object", "null"] {
            if self.word(name).is_some() {
                return Some(json!({"type": name}));
            }
        }
        if self.word("any").is_some() {
            return Some(json!({}));
        }
        let literal = self.json()?;
        Some(json!({"enum": [literal]}))
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut others = None;
        loop {
            let comments = self.comments();
            if self.mark('}').is_some() {
                if !comments.is_empty() {
                    return None;
                }
                break;
            }
            let is_index = self.word("[key: string]").is_some();
            let name = if is_index { String::new() } else { self.key()? };
            let optional = self.mark('?').is_some();
            self.mark(':')?;
            // A nested object has its description before its brace.
            let inner = self.comments().join("\n");
            let mut schema = self.union(depth)?;
            describe(&mut schema, inner);
            self.mark(',')?;
            let after = self.line_comment();
            about(&mut schema, &comments)?;
            if let Some(words) = after {
                let default = words.strip_prefix("default: ")?;
                insert(&mut schema, "default", value_of(default));
            }
            if is_index {
                others = Some(schema);
            } else {
                if !optional {
                    required.push(Value::from(name.as_str()));
                }
                if properties.insert(name, schema).is_some() {
                    return None;
                }
            }
        }
        self.deepen(2)?;
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), properties.into());
        if !required.is_empty() {
            object.insert("required".into(), required.into());
        }
        if let Some(others) = others {
            object.insert("additionalProperties".into(), others);
        }
        Some(Value::Object(object))
    }

    /// The name of a property.
    fn key(&mut self) -> Option<String> {
        self.space();
        if self.rest.starts_with('"') {
            return self.json()?.as_str().map(str::to_owned);
        }
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        self.run(part).map(str::to_owned)
    }

    /// The name of a function.
    fn name(&mut self) -> Option<String> {
        self.space();
        let name = self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))?;
        Some(name.to_owned())
    }

    fn run(&mut self, is_part: impl Fn(char) -> bool) -> Option<&'t str> {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!run.is_empty()).then_some(run)
    }

    /// A JSON value.
    fn json(&mut self) -> Option<Value> {
        self.space();
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let end = values.byte_offset();
        self.rest = self.rest.get(end..)?;
        Some(value)
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn mark(&mut self, mark: char) -> Option<()> {
        let rest = self.rest.trim_start().strip_prefix(mark)?;
        self.rest = rest;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = self.rest.trim_start().strip_prefix(word)?;
        let goes_further = |c: char| c.is_alphanumeric() || c == '_';
        let ends_in_name = word.ends_with(|c: char| c.is_alphanumeric());
        if ends_in_name && rest.starts_with(goes_further) {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    /// The lines of comments that are next.
    fn comments(&mut self) -> Vec<&'t str> {
        let mut lines = Vec::new();
        loop {
            self.space();
            let Some(line) = self.line_comment() else {
                return lines;
            };
            lines.push(line);
        }
    }

    /// A comment on the same line.
    fn line_comment(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start_matches(' ').strip_prefix("//")?;
        let (line, rest) = rest.split_once('\n').unwrap_or((rest, ""));
        self.rest = rest;
        Some(line.strip_prefix(' ').unwrap_or(line))
    }
}

/// Returns whether a value has at most this many levels.
fn fits(value: &Value, levels: usize) -> bool {
    let inner = levels.checked_sub(1);
    match value {
        Value::Array(items) => {
            inner.is_some_and(|levels| items.iter().all(|item| fits(item, levels)))
        }
        Value::Object(object) => {
            inner.is_some_and(|levels| object.values().all(|item| fits(item, levels)))
        }
        _ => true,
    }
}

/// The schema of a union.
fn joined(schemas: Vec<Value>, on_lines: bool) -> Value {
    if on_lines {
        return object_of("anyOf", schemas.into());
    }
    let only = |schema: &Value, key: &str| {
        let object = schema.as_object().filter(|object| object.len() == 1)?;
        object.get(key).cloned()
    };
    let literals: Option<Vec<Value>> = schemas.iter().map(|it| only(it, "enum")).collect();
    if let Some(literals) = literals {
        let values: Vec<Value> = literals.into_iter().filter_map(first_of).collect();
        return json!({"enum": values});
    }
    let names: Option<Vec<Value>> = schemas.iter().map(|it| only(it, "type")).collect();
    match names {
        Some(names) => json!({"type": names}),
        None => object_of("anyOf", schemas.into()),
    }
}

/// An object with one key. `json!` would copy the value.
fn object_of(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn first_of(list: Value) -> Option<Value> {
    match list {
        Value::Array(values) => values.into_iter().next(),
        _ => None,
    }
}

/// Adds the comments above a property: title, description and examples.
fn about(schema: &mut Value, comments: &[&str]) -> Option<()> {
    name_literals(schema);
    let mut lines = comments;
    if let [title, "", remaining @ ..] = lines {
        insert(schema, "title", (*title).into());
        lines = remaining;
    }
    let examples = lines.iter().position(|line| *line == "Examples:");
    if let Some(at) = examples {
        let (before, after) = lines.split_at_checked(at)?;
        let values = after.iter().skip(1).map(|line| {
            let example = line.strip_prefix("- ")?;
            serde_json::from_str(example).ok()
        });
        let values: Vec<Value> = values.collect::<Option<_>>()?;
        insert(schema, "examples", values.into());
        lines = before;
    } else if schema.get("anyOf").is_some()
        && let Some((last, before)) = lines.split_last()
        && let Some(default) = last.strip_prefix("default: ")
    {
        // With variants the default is above them.
        insert(schema, "default", value_of(default));
        lines = before;
    }
    describe(schema, lines.join("\n"));
    Some(())
}

/// Adds the words of a comment after a variant.
fn annotate(schema: &mut Value, words: &str) {
    name_literals(schema);
    let (description, default) = match words.rsplit_once("default: ") {
        Some((description, default)) => (description.trim_end(), Some(default)),
        None => (words, None),
    };
    describe(schema, description.to_owned());
    if let Some(default) = default {
        insert(schema, "default", value_of(default));
    }
}

fn describe(schema: &mut Value, text: String) {
    name_literals(schema);
    if !text.is_empty() {
        insert(schema, "description", text.into());
    }
}

/// Adds the type of a choice of words.
fn name_literals(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let Some(values) = object.get("enum").and_then(Value::as_array) else {
        if let Some(items) = object.get_mut("items") {
            name_literals(items);
        }
        return;
    };
    let is_text = values.iter().all(Value::is_string);
    if is_text && !object.contains_key("type") {
        let mut typed = Map::new();
        typed.insert("type".into(), "string".into());
        typed.append(object);
        *object = typed;
    }
}

fn insert(schema: &mut Value, key: &str, value: Value) {
    if let Some(object) = schema.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// A default: JSON, or the bare word of a choice.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
