//! The reason that a value does not fit. Runs only over values that are held in memory: those that did not
//! pass in one go, and those that are tried against several alternatives.

use std::cell::Cell;
use std::cmp::Ordering;

use logue_source::excerpt;
use serde_json::{Map, Value};

use super::locate::Step;
use super::node::{Bound, Kinds, Node, NodeId, Size, compare};
use super::{ArgumentSchema, SchemaMismatch, describe, locate};
use crate::limits::{MAX_QUOTED_CHARS, MAX_SHAPE_DEPTH, SHAPE_STEPS, SHAPE_STEPS_PER_BYTE};

/// A mismatch whose place is a path.
#[derive(Debug)]
pub(super) struct Finding {
    /// From the innermost step to the outermost.
    steps: Vec<Step>,
    expected: String,
    found: String,
    /// Whether the last step's key is meant rather than its value.
    is_key: bool,
}

impl Finding {
    fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            steps: Vec::new(),
            expected: expected.into(),
            found: found.into(),
            is_key: false,
        }
    }

    /// Adds the place in the text.
    pub(super) fn at(mut self, text: &[u8]) -> SchemaMismatch {
        self.steps.reverse();
        SchemaMismatch {
            path: locate::path(&self.steps),
            span: locate::span(text, &self.steps, self.is_key),
            expected: self.expected,
            found: self.found,
        }
    }
}

/// Returns whether `value` fits the type.
///
/// `size` is the approximate length of its text in bytes. `ignored` is a property of `value` that
/// needs no declaration.
pub(super) fn judge(
    shape: &ArgumentSchema,
    value: &Value,
    size: usize,
    ignored: Option<&str>,
) -> Result<(), Finding> {
    Validator::new(shape, size, ignored).value(shape.root, value, MAX_SHAPE_DEPTH)
}

/// Validates one node with the remaining steps and levels of the whole text.
pub(super) fn validate_node(
    shape: &ArgumentSchema,
    id: NodeId,
    value: &Value,
    steps: &Cell<usize>,
    room: usize,
) -> Result<(), Finding> {
    let mut judge = Validator {
        shape,
        steps: steps.get(),
        ignored: None,
        level: 0,
    };
    let result = judge.value(id, value, room);
    steps.set(judge.steps);
    result
}

/// The steps that a text of about `size` bytes may take.
pub(super) const fn steps(size: usize) -> usize {
    size.saturating_mul(SHAPE_STEPS_PER_BYTE)
        .saturating_add(SHAPE_STEPS)
}

/// The least bytes that a value takes as text. Recurses as deep as the value.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(object) => {
            let pairs = object
                .iter()
                .map(|(key, value)| key.len() + 3 + size(value));
            pairs.sum::<usize>() + 2
        }
        Value::String(text) => text.len() + 2,
        Value::Number(_) => 1,
        Value::Null | Value::Bool(_) => 4,
    }
}

struct Validator<'s> {
    shape: &'s ArgumentSchema,
    /// Remaining steps; with none left, every value passes.
    steps: usize,
    ignored: Option<&'s str>,
    /// Number of arrays and objects around the value.
    level: usize,
}

impl<'s> Validator<'s> {
    fn new(shape: &'s ArgumentSchema, size: usize, ignored: Option<&'s str>) -> Self {
        Self {
            shape,
            steps: steps(size),
            ignored,
            level: 0,
        }
    }

    /// A value inside of another one.
    fn inner(&mut self, id: NodeId, value: &Value, depth: usize) -> Result<(), Finding> {
        self.level += 1;
        let result = self.value(id, value, depth);
        self.level -= 1;
        result
    }

    fn value(&mut self, id: NodeId, value: &Value, depth: usize) -> Result<(), Finding> {
        let shape = self.shape;
        let node = shape.node(id);
        self.steps = self.steps.saturating_sub(cost(node, value));
        if self.steps == 0 || depth == 0 || node.nullable && value.is_null() {
            return Ok(());
        }
        scalar(node, value)?;
        match value {
            Value::Array(items) => self.array(node, items, depth)?,
            Value::Object(object) => self.object(node, object, depth)?,
            _ => {}
        }
        for part in &node.all {
            self.value(*part, value, depth - 1)?;
        }
        for members in &node.unions {
            self.union(id, members, value, depth)?;
        }
        Ok(())
    }

    fn array(&mut self, node: &Node, items: &[Value], depth: usize) -> Result<(), Finding> {
        let Some(item) = node.item else {
            return Ok(());
        };
        for (index, value) in items.iter().enumerate() {
            self.inner(item, value, depth - 1)
                .map_err(|finding| inside(finding, Step::Index(index)))?;
        }
        Ok(())
    }

    fn object(
        &mut self,
        node: &Node,
        object: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), Finding> {
        let mut required = 0;
        for (key, value) in object {
            let step = |finding| inside(finding, Step::Key(key.clone()));
            if let Some(property) = node.property(key) {
                required += usize::from(property.required);
                self.inner(property.node, value, depth - 1).map_err(step)?;
            } else if self.level == 0 && self.ignored == Some(key) {
                // Whatever the tool takes, this is not for it.
            } else if let Some(rule) = node.additional {
                if self.shape.node(rule).kinds == Kinds::NONE {
                    let mut finding = Finding::new(known(node), describe::property(key));
                    finding.is_key = true;
                    return Err(step(finding));
                }
                self.inner(rule, value, depth - 1).map_err(step)?;
            }
        }
        if required == node.required {
            return Ok(());
        }
        let properties = node.properties.iter();
        let missing = properties
            .filter(|each| each.required)
            .find(|each| !object.contains_key(each.name.as_ref()));
        missing.map_or(Ok(()), |each| {
            let found = "an object without it";
            Err(Finding::new(describe::property(&each.name), found))
        })
    }

    /// One of `members` must pass. Else the deepest finding is reported, if only one is:
    /// it is of the member that was meant.
    fn union(
        &mut self,
        id: NodeId,
        members: &[NodeId],
        value: &Value,
        depth: usize,
    ) -> Result<(), Finding> {
        let mut findings = Vec::new();
        for member in members {
            match self.value(*member, value, depth - 1) {
                Ok(()) => return Ok(()),
                Err(finding) => findings.push((self.is_alike(*member, value), finding)),
            }
        }
        let alike = findings.iter().filter(|(alike, _)| *alike).count();
        let reach = |(alike, finding): &(bool, Finding)| (*alike, finding.steps.len());
        let furthest = findings.iter().map(reach).max();
        let mut best = findings
            .into_iter()
            .filter(|finding| Some(reach(finding)) == furthest);
        match (best.next(), best.next()) {
            (Some((true, finding)), None) if alike == 1 || !finding.steps.is_empty() => {
                Err(finding)
            }
            _ => Err(Finding::new(
                describe::expected(self.shape, id),
                describe::kind(value),
            )),
        }
    }

    /// Returns whether a union member is of the value's kind and not only literals.
    fn is_alike(&self, member: NodeId, value: &Value) -> bool {
        let node = self.shape.node(member);
        node.kinds.meets(Kinds::of(value)) && node.literals.is_none()
    }
}

/// The steps that one node takes for a value, without what is in it. Keys are looked up even where
/// no rule speaks of them, and so each alternative pays for them.
fn cost(node: &Node, value: &Value) -> usize {
    let width = match value {
        Value::Object(object) => object.len(),
        Value::Array(items) if node.literals.is_some() => items.len(),
        Value::String(text) if !node.length.is_open() => text.len() / 8,
        _ => 0,
    };
    1 + width + node.compared(value).saturating_mul(1 + width)
}

fn inside(mut finding: Finding, step: Step) -> Finding {
    finding.steps.push(step);
    finding
}

/// The names that an object may have.
fn known(node: &Node) -> String {
    match node.properties.len() {
        0 => "no property".to_owned(),
        1..=4 => {
            let names: Vec<_> = node.properties.iter().map(|each| &*each.name).collect();
            let shown = excerpt(names.join("`, `").as_bytes(), MAX_QUOTED_CHARS);
            format!("no other property than `{shown}`")
        }
        count => format!("one of the {count} properties that are declared"),
    }
}

/// The constraints of a node on the value itself, without its contents.
fn scalar(node: &Node, value: &Value) -> Result<(), Finding> {
    if !node.kinds.meets(Kinds::of(value)) {
        let expected = describe::of_kinds(node.kinds);
        return Err(Finding::new(expected, describe::kind(value)));
    }
    if let Some(literals) = &node.literals
        && !node.lists(literals, value)
    {
        let found = match value {
            Value::String(_) => "another string",
            other => describe::kind(other),
        };
        return Err(Finding::new(describe::of_literals(literals), found));
    }
    match value {
        Value::Number(_) => number(node, value),
        Value::String(text) if !node.length.is_open() => {
            sized(node.length, text.chars().count(), "character", "string")
        }
        Value::Array(items) => sized(node.items, items.len(), "item", "array"),
        _ => Ok(()),
    }
}

fn number(node: &Node, value: &Value) -> Result<(), Finding> {
    let Value::Number(number) = value else {
        return Ok(());
    };
    let broken = |bound: &Option<Bound>, beyond: Ordering| {
        let bound = bound.as_ref()?;
        let order = compare(number, &bound.number)?;
        let out = order == beyond || bound.exclusive && order == Ordering::Equal;
        out.then(|| (bound.number.clone(), bound.exclusive))
    };
    if let Some((limit, exclusive)) = broken(&node.minimum, Ordering::Less) {
        let than = if exclusive { "more than" } else { "at least" };
        return Err(Finding::new(format!("{than} {limit}"), "a smaller number"));
    }
    if let Some((limit, exclusive)) = broken(&node.maximum, Ordering::Greater) {
        let than = if exclusive { "less than" } else { "at most" };
        return Err(Finding::new(format!("{than} {limit}"), "a larger number"));
    }
    Ok(())
}

fn sized(bounds: Size, size: usize, unit: &str, noun: &str) -> Result<(), Finding> {
    let (word, limit) = match bounds.compare(size) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => ("at least", bounds.min),
        Ordering::Greater => ("at most", bounds.max),
    };
    let limit = limit.unwrap_or_default();
    let many = if limit == 1 { "" } else { "s" };
    Err(Finding::new(
        format!("{word} {limit} {unit}{many}"),
        format!("a longer or shorter {noun} ({size})"),
    ))
}

/// Returns whether a value passes what the node says of it alone.
pub(super) fn scalar_fits(node: &Node, value: &Value) -> bool {
    scalar(node, value).is_ok()
}
