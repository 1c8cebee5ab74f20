//! How long holding a value against a schema can take, known before it is done.
//!
//! A schema that uses a part of itself twice at every level takes twice as long with every level of
//! the value: thirty lines are enough for years. So the schema is read as a plan of steps, each of
//! which looks at the same place of the value (`allOf`, `$ref`, …) or one level deeper (`properties`,
//! `items`, …), and the steps are counted for the depth that a value has.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SchemaError;

/// Steps that one check may take.
const STEPS: u64 = 20_000_000;

/// Schemas that may be in work at once, as each is a part of the stack.
const NESTED: u64 = 500;

/// Levels of one schema.
const LEVELS: usize = 150;

/// Keywords with one schema for the same place.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same place.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with named schemas for the same place.
const SAME_MAP: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with one schema for what is inside.
const INSIDE: [&str; 7] = [
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with a list of schemas for what is inside, one of which applies.
const INSIDE_LIST: [&str; 2] = ["prefixItems", "items"];
/// Keywords with references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Whether a check is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostCheck {
    Fair,
    TooHigh,
}

/// The steps of a schema, each by its number.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
}

/// What is looked at from one schema on.
#[derive(Clone, Debug, Default)]
struct Step {
    /// Where in the schema.
    path: String,
    /// Further schemas for the same place.
    same: Vec<usize>,
    /// Schemas for what is inside, all of which apply.
    inside: Vec<usize>,
    /// Groups of schemas for what is inside, of each of which one applies.
    one_inside: Vec<Vec<usize>>,
}

impl Plan {
    /// Reads a schema.
    pub(super) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let mut reader = Reader {
            root: schema,
            steps: Vec::new(),
            known: BTreeMap::new(),
        };
        reader.read(schema, String::new(), 0)?;
        let plan = Self {
            steps: reader.steps,
        };
        plan.refuse_endless()?;
        Ok(plan)
    }

    /// Whether a value can be checked.
    pub(super) fn cost(&self, value: &Value) -> CostCheck {
        let (depth, size) = measure(value);
        // What each schema costs at one place of the value, by the levels that are below it.
        let mut below = vec![Work::default(); self.steps.len()];
        for _ in 0..=depth {
            let mut here = vec![None; self.steps.len()];
            for step in 0..self.steps.len() {
                self.count(step, &below, &mut here);
            }
            below = here.into_iter().map(Option::unwrap_or_default).collect();
        }
        let whole = below.first().copied().unwrap_or_default();
        if whole.steps.saturating_mul(size) > STEPS || whole.nested > NESTED {
            CostCheck::TooHigh
        } else {
            CostCheck::Fair
        }
    }

    /// What a schema costs at one place, given the costs one level deeper. No schema leads to itself
    /// at the same place, and none leads far, so this ends.
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

    /// Looks for schemas that lead to themselves, or far, without going on in the value.
    fn refuse_endless(&self) -> Result<(), SchemaError> {
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
                if matches!(now, Mark::Ends(length) if length > LEVELS) {
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

/// What it takes to hold a place of a value against a schema.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Schemas that are looked at.
    steps: u64,
    /// How many of them are being looked at at the same time, each for the sake of another.
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

/// What is known of a schema while endless ones are looked for.
#[derive(Clone, Copy, Debug)]
enum Mark {
    New,
    /// It is on the path that is being followed.
    Open,
    /// It comes to an end after so many schemas at the same place.
    Ends(usize),
}

fn too_long(path: String) -> SchemaError {
    SchemaError::Invalid {
        path,
        message: format!("it has more than {LEVELS} levels"),
    }
}

/// Levels of a value, and how many values are in it.
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
    /// The step of each schema that was met, by its path.
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
        if level > LEVELS {
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
                message: "a schema inside of another one may not have an `$id`".to_owned(),
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

    /// What a reference names: a place in the schema, by pointer.
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

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A fragment without its percent escapes.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
