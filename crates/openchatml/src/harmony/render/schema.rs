//! JSON Schema as TypeScript, the form in which models of this format read it.
//!
//! The layout is the one that they were trained on. A schema is written as all that it demands:
//! its own type, one of its variants, all of its `allOf`, what its `$ref` names. References are
//! written out in place; one that leads back into itself is `any`, and so is a type
//! deeper than [`MAX_DEPTH`] or after more than [`MAX_REFERENCES`] references, so that a small
//! schema cannot become a huge text.

mod parts;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::parts::{Part, default_text, literals, parts, takes_null, wrapped};
use super::typescript::{comment, json, key, list, quoted, spaces, string};

/// Nesting that is written.
const MAX_DEPTH: usize = 64;

/// References that are followed in one schema.
const MAX_REFERENCES: usize = 512;

/// Appends the type of a schema.
pub(super) fn write(schema: &Value, out: &mut String) {
    let mut writer = Writer {
        root: schema,
        out,
        open: Vec::new(),
        references: MAX_REFERENCES,
    };
    let place = Place {
        inner: 0,
        outer: 0,
        describe: true,
    };
    let kind = writer.write(schema, place, 0);
    if kind == (Kind::Block { comment: true }) {
        out.push('\n');
    }
}

/// The position of a type.
#[derive(Clone, Copy)]
struct Place {
    /// The indent of an object's properties.
    inner: usize,
    /// The indent of its closing brace, and of variants.
    outer: usize,
    /// Whether nothing before it contains an object's description.
    describe: bool,
}

/// Properties of the output that matter for the text around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing can come between.
    Atom,
    /// Parts with `|` or `&` between, on one line or in braces.
    Joined,
    /// Variants on lines of their own.
    Block {
        /// Whether a comment ends the last line.
        comment: bool,
    },
}

/// The owner of variants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of<'s> {
    /// A property, and its description, which no variant repeats.
    Property(Option<&'s str>),
    /// Any other type.
    Type,
}

struct Writer<'s, 'o> {
    root: &'s Value,
    out: &'o mut String,
    /// The targets of references that are being written.
    open: Vec<&'s Value>,
    references: usize,
}

impl<'s> Writer<'s, '_> {
    fn write(&mut self, schema: &'s Value, place: Place, depth: usize) -> Kind {
        if depth > MAX_DEPTH {
            return self.atom("any");
        }
        match schema {
            Value::Bool(false) => return self.atom("never"),
            Value::Object(_) => {}
            _ => return self.atom("any"),
        }
        let parts = parts(schema, self.root);
        let kind = match parts.as_slice() {
            [] => self.atom("any"),
            [part] => self.part(part, schema, place, depth),
            several => {
                for (index, part) in several.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(" & ");
                    }
                    let from = self.out.len();
                    let kind = self.part(part, schema, place, depth);
                    self.enclose(from, kind, place.outer);
                }
                Kind::Joined
            }
        };
        let nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
        if !nullable || takes_null(schema) {
            return kind;
        }
        if let Kind::Block { .. } = kind {
            self.out.push('\n');
            spaces(place.outer, self.out);
            self.out.push_str(" | null");
            return Kind::Block { comment: false };
        }
        self.out.push_str(" | null");
        Kind::Joined
    }

    fn part(&mut self, part: &Part<'s>, schema: &'s Value, place: Place, depth: usize) -> Kind {
        match *part {
            Part::Literals => {
                let literals = literals(schema);
                self.out.push_str(&literals.join(" | "));
                if literals.len() == 1 {
                    Kind::Atom
                } else {
                    Kind::Joined
                }
            }
            Part::Types(types) => {
                for (index, name) in types.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(" | ");
                    }
                    if name == "object" && says_nothing_of_properties(schema) {
                        self.out.push_str("object");
                    } else {
                        self.named(name.as_str().unwrap_or_default(), schema, place, depth);
                    }
                }
                if types.len() == 1 {
                    Kind::Atom
                } else {
                    Kind::Joined
                }
            }
            Part::Type(name) => self.named(name, schema, place, depth),
            Part::Union(variants) => self.variants(variants, Of::Type, place.outer, depth),
            Part::Plain(variants) => {
                for (index, variant) in variants.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(" | ");
                    }
                    self.write(variant, place, depth + 1);
                }
                if variants.len() == 1 {
                    Kind::Atom
                } else {
                    Kind::Joined
                }
            }
            Part::All(schema) => self.write(schema, place, depth + 1),
            Part::Reference(target) => self.reference(target, schema, place, depth),
        }
    }

    fn reference(
        &mut self,
        target: Option<&'s Value>,
        site: &'s Value,
        place: Place,
        depth: usize,
    ) -> Kind {
        let open = |target: &&Value| !self.open.iter().any(|open| std::ptr::eq(*open, *target));
        let Some(target) = target.filter(open).filter(|_| self.references > 0) else {
            return self.atom("any");
        };
        self.references -= 1;
        self.open.push(target);
        // A description of the place hides the one of the target.
        let describe = place.describe || string(site, "description").is_some();
        let kind = self.write(target, Place { describe, ..place }, depth + 1);
        self.open.pop();
        kind
    }

    fn named(&mut self, name: &str, schema: &'s Value, place: Place, depth: usize) -> Kind {
        match name {
            "object" => self.object(schema, place, depth),
            "array" => self.array(schema, place, depth),
            "integer" | "number" => self.atom("number"),
            "string" | "boolean" | "null" => self.atom(name),
            _ => self.atom("any"),
        }
    }

    fn array(&mut self, schema: &'s Value, place: Place, depth: usize) -> Kind {
        let place = Place {
            describe: true,
            ..place
        };
        if let Some(items) = list(schema, "prefixItems") {
            self.out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    self.out.push_str(", ");
                }
                let from = self.out.len();
                let kind = self.write(item, place, depth + 1);
                if kind != Kind::Joined {
                    self.enclose(from, kind, place.outer);
                }
            }
            self.out.push(']');
            return Kind::Atom;
        }
        let Some(items) = schema.get("items") else {
            return self.atom("Array<any>");
        };
        let from = self.out.len();
        let kind = self.write(items, place, depth + 1);
        self.enclose(from, kind, place.outer);
        self.out.push_str("[]");
        Kind::Atom
    }

    fn object(&mut self, schema: &'s Value, place: Place, depth: usize) -> Kind {
        if let Some(description) = string(schema, "description").filter(|_| place.describe) {
            // The first line follows the beginning of the type.
            let from = self.out.len();
            comment(description, place.outer, self.out);
            self.out.drain(from..from + place.outer);
            spaces(place.outer, self.out);
        }
        self.out.push_str("{\n");
        let required = list(schema, "required").unwrap_or_default().iter();
        let required: BTreeSet<_> = required.filter_map(Value::as_str).collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flat_map(Map::iter) {
            let optional = !required.contains(name.as_str());
            self.property(Some(name), optional, property, place.inner, depth);
        }
        if let Some(others) = schema.get("additionalProperties")
            && *others != Value::Bool(false)
        {
            self.property(None, false, others, place.inner, depth);
        }
        spaces(place.outer, self.out);
        self.out.push('}');
        Kind::Atom
    }

    /// A property and the comments above it; without a name, what any other key holds.
    fn property(
        &mut self,
        name: Option<&str>,
        optional: bool,
        schema: &'s Value,
        indent: usize,
        depth: usize,
    ) {
        // A wrapped schema is described in place.
        let target = self.through(schema);
        let keyword = |key: &str| schema.get(key).or_else(|| target.get(key));
        let variants = match parts(target, self.root).as_slice() {
            [Part::Union(variants)] => Some(*variants),
            _ => None,
        };
        let title = keyword("title").and_then(Value::as_str);
        let description = keyword("description").and_then(Value::as_str);
        let examples = keyword("examples").and_then(Value::as_array);
        let default = keyword("default").map(|default| default_text(default, target));
        if let Some(title) = title {
            comment(title, indent, self.out);
            spaces(indent, self.out);
            self.out.push_str("//\n");
        }
        if let Some(description) = description.filter(|_| variants.is_none()) {
            comment(description, indent, self.out);
        }
        self.examples(examples.map_or(&[], Vec::as_slice), indent);
        if variants.is_some() {
            for text in [description, default.as_deref()].into_iter().flatten() {
                comment(text, indent, self.out);
            }
        }
        spaces(indent, self.out);
        match name {
            Some(name) => key(name, self.out),
            None => self.out.push_str("[key: string]"),
        }
        self.out.push_str(if optional { "?:" } else { ":" });
        let from = self.out.len();
        self.out.push(' ');
        let place = Place {
            inner: indent + 4,
            outer: indent,
            describe: false,
        };
        let kind = match variants {
            Some(variants) if std::ptr::eq(target, schema) && !is_nullable(schema) => {
                self.variants(variants, Of::Property(description), indent, depth)
            }
            _ => self.write(schema, place, depth + 1),
        };
        if let Kind::Block { .. } = kind {
            self.out.remove(from);
            self.out.push('\n');
            spaces(indent, self.out);
        }
        self.out.push(',');
        if let Some(default) = default.filter(|_| variants.is_none()) {
            self.out.push_str(" // ");
            self.out.push_str(&default);
        }
        self.out.push('\n');
    }

    fn examples(&mut self, examples: &[Value], indent: usize) {
        if examples.is_empty() {
            return;
        }
        comment("Examples:", indent, self.out);
        for example in examples {
            comment(&format!("- {}", json(example)), indent, self.out);
        }
    }

    /// One line for each variant.
    fn variants(&mut self, variants: &'s [Value], of: Of<'_>, indent: usize, depth: usize) -> Kind {
        let place = Place {
            inner: indent + 3,
            outer: indent + 3,
            describe: false,
        };
        let mut comment = false;
        for variant in variants {
            self.out.push('\n');
            spaces(indent, self.out);
            self.out.push_str(" | ");
            let from = self.out.len();
            let kind = self.write(variant, place, depth + 1);
            if let Kind::Block { .. } = kind {
                self.enclose(from, kind, place.outer);
            }
            let target = self.through(variant);
            let keyword = |key: &str| variant.get(key).or_else(|| target.get(key));
            let description = keyword("description").and_then(Value::as_str);
            let description = description.filter(|text| of != Of::Property(Some(*text)));
            let default = keyword("default").map(|default| match of {
                Of::Property(_) => default_text(default, target),
                Of::Type => format!("default: {}", json(default)),
            });
            let description = description.map(|text| {
                let lines: Vec<_> = text.lines().collect();
                lines.join(" ")
            });
            let words: Vec<_> = description.into_iter().chain(default).collect();
            comment = !words.is_empty();
            if comment {
                self.out.push_str(" // ");
                self.out.push_str(&words.join(" "));
            }
        }
        Kind::Block { comment }
    }

    /// The target of a schema that only wraps another one, within the limit of references.
    fn through(&self, schema: &'s Value) -> &'s Value {
        if self.references == 0 {
            return schema;
        }
        wrapped(schema, self.root)
    }

    /// Puts what was written from `from` on into brackets, if something could come between.
    fn enclose(&mut self, from: usize, kind: Kind, indent: usize) {
        if kind == Kind::Atom {
            return;
        }
        self.out.insert(from, '(');
        if let Kind::Block { .. } = kind {
            self.out.push('\n');
            spaces(indent, self.out);
        }
        self.out.push(')');
    }

    fn atom(&mut self, text: &str) -> Kind {
        self.out.push_str(text);
        Kind::Atom
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema.get("nullable").and_then(Value::as_bool) == Some(true)
}

fn says_nothing_of_properties(schema: &Value) -> bool {
    let others = schema.get("additionalProperties");
    schema.get("properties").is_none() && others.is_none_or(|others| *others == Value::Bool(false))
}
