//! An upper bound for the cost of a validation, computed before it starts.
//!
//! A schema that applies part of itself twice per level doubles its cost with each level of the
//! value; thirty lines suffice for years. The schema is therefore read as a plan of steps. A step
//! applies to the same position of the value (`allOf`, `$ref`, …) or one level deeper (`properties`,
//! `items`, …), and the steps are counted for the depth of the value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SchemaError;

/// Maximum steps of one validation.
const MAX_STEPS: u64 = 20_000_000;

/// Maximum schemas in evaluation at once; each uses part of the stack.
const MAX_NESTED: u64 = 500;

/// Maximum levels of one schema.
const MAX_LEVELS: usize = 150;

/// Keywords with one schema for the same position.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same position.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with named schemas for the same position.
const SAME_MAP: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with one schema for the children.
const INSIDE: [&str; 7] = [
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with a list of schemas, of which one applies to each child.
const INSIDE_LIST: [&str; 2] = ["prefixItems", "items"];
/// Keywords with references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The result of the cost estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostCheck {
    Acceptable,
    Excessive,
}

/// The numbered steps of a schema.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
}

/// The schemas that one schema applies.
#[derive(Clone, Debug, Default)]
struct Step {
    /// The JSON pointer of the schema.
    path: String,
    /// Further schemas for the same position.
    same: Vec<usize>,
    /// Schemas for the children, all of which apply.
    inside: Vec<usize>,
    /// Groups of schemas for the children; one of each group applies.
    one_inside: Vec<Vec<usize>>,
}

impl Plan {
    /// Reads a schema.
    pub(super) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let mut reader = Reader {
            root: schema,
            steps: Vec::new(),
            known: BTreeMap::new(),
        };
        reader.read(schema, String::new(), 0)?;
        let plan = Self {
            steps: reader.steps,
        };
        plan.reject_endless()?;
        Ok(plan)
    }

    /// Estimates the cost for a value.
    pub(super) fn cost(&self, value: &Value) -> CostCheck {
        let (depth, size) = measure(value);
        // The cost of each schema at one position, by the levels below that position.
        let mut below = vec![Work::default(); self.steps.len()];
        for _ in 0..=depth {
            let mut here = vec![None; self.steps.len()];
            for step in 0..self.steps.len() {
                self.count(step, &below, &mut here);
            }
            below = here.into_iter().map(Option::unwrap_or_default).collect();
        }
        let total = below.first().copied().unwrap_or_default();
        if total.steps.saturating_mul(size) > MAX_STEPS || total.nested > MAX_NESTED {
            CostCheck::Excessive
        } else {
            CostCheck::Acceptable
        }
    }

    /// Returns the cost of a schema at one position.
    ///
    /// `below` holds the costs one level deeper. The recursion ends, because no schema leads to
    /// itself at the same position and chains have a maximum length.
    fn count(&self, step: usize, below: &[Work], here: &mut [Option<Work>]) -> Work {
        if let Some(known) = here.get(step).copied().flatten() {
            return known;
        }
        let Some(this) = self.steps.get(step) else {
            return Work::default();
        };
        let deeper = |step: &usize| below.get(*step).copied().unwrap_or_default();
        let mut work = Work::default();
        for same in &this.same {
            work = work.and(self.count(*same, below, here));
        }
        for inside in &this.inside {
            work = work.and(deeper(inside));
        }
        for group in &this.one_inside {
            work = work.and(group.iter().map(deeper).fold(Work::default(), Work::or));
        }
        let work = Work {
            steps: work.steps.saturating_add(1),
            nested: work.nested.saturating_add(1),
        };
        if let Some(slot) = here.get_mut(step) {
            *slot = Some(work);
        }
        work
    }

    /// Rejects schemas with cycles or long chains at the same position.
    fn reject_endless(&self) -> Result<(), SchemaError> {
        let mut marks = vec![Mark::New; self.steps.len()];
        for first in 0..self.steps.len() {
            let mut path = vec![(first, 0)];
            while let Some((step, next)) = path.pop() {
                let (Some(this), Some(mark)) = (self.steps.get(step), marks.get(step).copied())
                else {
                    continue;
                };
                let now = match (next, mark) {
                    (0, Mark::Open) => return Err(SchemaError::Endless(this.path.clone())),
                    (0, Mark::Ends(_)) => continue,
                    _ => match this.same.get(next) {
                        Some(same) => {
                            path.extend([(step, next + 1), (*same, 0)]);
                            Mark::Open
                        }
                        None => Mark::Ends(1 + Self::longest(this, &marks)),
                    },
                };
                if matches!(now, Mark::Ends(length) if length > MAX_LEVELS) {
                    return Err(too_long(this.path.clone()));
                }
                if let Some(mark) = marks.get_mut(step) {
                    *mark = now;
                }
            }
        }
        Ok(())
    }

    fn longest(step: &Step, marks: &[Mark]) -> usize {
        let lengths = step.same.iter().map(|same| match marks.get(*same) {
            Some(Mark::Ends(length)) => *length,
            _ => 0,
        });
        lengths.max().unwrap_or_default()
    }
}

/// The cost of one schema at one position.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Evaluated schemas.
    steps: u64,
    /// Maximum nesting of their evaluation.
    nested: u64,
}

impl Work {
    fn and(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            nested: self.nested.max(other.nested),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps),
            nested: self.nested.max(other.nested),
        }
    }
}

/// The state of a schema during the search for cycles.
#[derive(Clone, Copy, Debug)]
enum Mark {
    New,
    /// The schema is on the current path.
    Open,
    /// The chain from the schema ends after this number of schemas.
    Ends(usize),
}

fn too_long(path: String) -> SchemaError {
    SchemaError::Invalid {
        path,
        message: format!("it has more than {MAX_LEVELS} levels"),
    }
}

/// Returns the depth of a value and the number of values in it.
fn measure(value: &Value) -> (usize, u64) {
    let (mut deepest, mut size) = (0, 0);
    let mut stack = vec![(value, 0)];
    while let Some((value, depth)) = stack.pop() {
        deepest = deepest.max(depth);
        size += 1;
        match value {
            Value::Array(items) => stack.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(items) => stack.extend(items.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    (deepest, size)
}

struct Reader<'a> {
    root: &'a Value,
    steps: Vec<Step>,
    /// The step of each visited schema by JSON pointer.
    known: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn read(
        &mut self,
        schema: &'a Value,
        path: String,
        level: usize,
    ) -> Result<usize, SchemaError> {
        if let Some(known) = self.known.get(&path) {
            return Ok(*known);
        }
        if level > MAX_LEVELS {
            return Err(too_long(path));
        }
        let number = self.steps.len();
        self.known.insert(path.clone(), number);
        self.steps.push(Step {
            path: path.clone(),
            ..Step::default()
        });
        let Some(object) = schema.as_object() else {
            return Ok(number);
        };
        if !path.is_empty() && object.get("$id").is_some_and(Value::is_string) {
            return Err(SchemaError::Invalid {
                path,
                message: "a nested schema cannot have an `$id`".to_owned(),
            });
        }
        let mut step = Step {
            path: path.clone(),
            ..Step::default()
        };
        let below = |keyword: &str| format!("{path}/{}", escaped(keyword));
        for (keyword, value) in object {
            let keyword = keyword.as_str();
            let place = below(keyword);
            if REFERENCES.contains(&keyword)
                && let Some(reference) = value.as_str()
            {
                let (target, target_path) = self.target(reference, &place)?;
                step.same.push(self.read(target, target_path, level + 1)?);
            } else if SAME.contains(&keyword) {
                step.same.push(self.read(value, place, level + 1)?);
            } else if let (true, Some(list)) = (SAME_LIST.contains(&keyword), value.as_array()) {
                step.same.extend(self.list(list, &place, level)?);
            } else if let (true, Some(map)) = (SAME_MAP.contains(&keyword), value.as_object()) {
                for (name, value) in map {
                    let place = format!("{place}/{}", escaped(name));
                    step.same.push(self.read(value, place, level + 1)?);
                }
            } else if let (true, Some(list)) = (INSIDE_LIST.contains(&keyword), value.as_array()) {
                let group = self.list(list, &place, level)?;
                step.one_inside.push(group);
            } else if INSIDE.contains(&keyword) {
                step.inside.push(self.read(value, place, level + 1)?);
            } else if let ("properties" | "patternProperties", Some(map)) =
                (keyword, value.as_object())
            {
                let mut group = Vec::with_capacity(map.len());
                for (name, value) in map {
                    let place = format!("{place}/{}", escaped(name));
                    group.push(self.read(value, place, level + 1)?);
                }
                if keyword == "properties" {
                    step.one_inside.push(group);
                } else {
                    step.inside.extend(group);
                }
            }
        }
        if let Some(slot) = self.steps.get_mut(number) {
            *slot = step;
        }
        Ok(number)
    }

    fn list(
        &mut self,
        list: &'a [Value],
        place: &str,
        level: usize,
    ) -> Result<Vec<usize>, SchemaError> {
        let indexed = list.iter().enumerate();
        indexed
            .map(|(index, value)| self.read(value, format!("{place}/{index}"), level + 1))
            .collect()
    }

    /// Returns the target of a reference and its JSON pointer.
    fn target(&self, reference: &str, place: &str) -> Result<(&'a Value, String), SchemaError> {
        let remote = || SchemaError::Remote {
            path: place.to_owned(),
            reference: reference.chars().take(200).collect(),
        };
        let pointer = reference.strip_prefix('#').ok_or_else(remote)?;
        let pointer = unescaped(pointer).ok_or_else(remote)?;
        let target = self.root.pointer(&pointer).ok_or_else(remote)?;
        Ok((target, pointer))
    }
}

/// Escapes a name for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Decodes the percent escapes of a fragment.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut remaining = fragment.bytes();
    while let Some(byte) = remaining.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(remaining.next())?, digit(remaining.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
