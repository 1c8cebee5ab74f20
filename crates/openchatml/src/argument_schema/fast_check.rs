//! The check of a text in one pass: the JSON parser drives the nodes, and nothing is built.
//!
//! What is tried against several alternatives is built after all and judged as a value. The
//! answer is only yes or no: for a no, [`judge`](super::validate) finds the reason.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize as _;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::ArgumentSchema;
use super::node::{Kinds, Node, NodeId};
use super::validate::{scalar_fits, steps, validate_node};
use crate::limits::MAX_SHAPE_DEPTH;

/// Properties of one object that can be told apart while it is read.
const MARKS: usize = 64;

/// Maximum number of nodes that only refer to another one.
const FOLLOWED: usize = 16;

/// Returns whether `text` is JSON that fits. A no may be wrong where a key is repeated, a value
/// cannot be held, or the steps do not suffice.
pub(super) fn fits(shape: &ArgumentSchema, text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut parser = serde_json::Deserializer::from_str(text);
    let steps = Cell::new(steps(text.len()));
    let seed = Seed {
        shape,
        id: shape.root,
        steps: &steps,
        room: MAX_SHAPE_DEPTH,
    };
    seed.deserialize(&mut parser).is_ok() && parser.end().is_ok() && steps.get() > 0
}

#[derive(Clone, Copy)]
struct Seed<'s> {
    shape: &'s ArgumentSchema,
    id: NodeId,
    /// Remaining steps of the whole text, alternatives included.
    steps: &'s Cell<usize>,
    /// Remaining levels of nesting; with none left, every value passes.
    room: usize,
}

impl<'s> Seed<'s> {
    const fn child(&self, id: NodeId) -> Self {
        Self {
            id,
            room: self.room.saturating_sub(1),
            ..*self
        }
    }

    /// The seed's node, or the one that it only names.
    fn resolved(mut self) -> (Self, &'s Node) {
        let mut node = self.shape.node(self.id);
        for _ in 0..FOLLOWED {
            match node.alias() {
                Some(id) => self.id = id,
                None => break,
            }
            node = self.shape.node(self.id);
        }
        (self, node)
    }

    fn judge<E: Error>(&self, value: &Value) -> Result<(), E> {
        validate_node(self.shape, self.id, value, self.steps, self.room).map_err(|_| no())
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        let (seed, node) = self.resolved();
        if node.is_free() || seed.room == 0 {
            return IgnoredAny::deserialize(input).map(drop);
        }
        if !node.unions.is_empty() || !node.all.is_empty() {
            return seed.judge(&Value::deserialize(input)?);
        }
        input.deserialize_any(Reader { seed, node })
    }
}

/// Takes one value for a node without alternatives.
struct Reader<'s> {
    seed: Seed<'s>,
    node: &'s Node,
}

impl Reader<'_> {
    fn number<E: Error>(&self, number: Number) -> Result<(), E> {
        answer(scalar_fits(self.node, &Value::Number(number)))
    }
}

fn answer<E: Error>(fits: bool) -> Result<(), E> {
    if fits { Ok(()) } else { Err(no()) }
}

fn no<E: Error>() -> E {
    E::custom("")
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the shape")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        answer(self.node.nullable || scalar_fits(self.node, &Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        answer(scalar_fits(self.node, &Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.number(Number::from_f64(value).ok_or_else(no)?)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let node = self.node;
        let is_listed = |literals: &Vec<Value>| node.lists_text(literals, text);
        answer(
            node.kinds.meets(Kinds::STRING)
                && node.literals.as_ref().is_none_or(is_listed)
                && (node.length.is_open() || node.length.compare(text.chars().count()).is_eq()),
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { seed, node } = self;
        if node.literals.is_some() {
            return seed.judge(&Value::deserialize(SeqAccessDeserializer::new(items))?);
        }
        if !node.kinds.meets(Kinds::ARRAY) {
            return Err(no());
        }
        let mut count = 0;
        match node.item {
            Some(item) => {
                while items.next_element_seed(seed.child(item))?.is_some() {
                    count += 1;
                }
            }
            None => {
                while items.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
            }
        }
        answer(node.items.compare(count).is_eq())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        let Self { seed, node } = self;
        if node.literals.is_some() || node.properties.len() > MARKS {
            return seed.judge(&Value::deserialize(MapAccessDeserializer::new(pairs))?);
        }
        if !node.kinds.meets(Kinds::OBJECT) {
            return Err(no());
        }
        let mut seen = 0_u64;
        while let Some(found) = pairs.next_key_seed(Key(node))? {
            let rule = match found.and_then(|index| node.properties.get(index)) {
                Some(property) => {
                    if property.required {
                        seen |= 1 << found.unwrap_or_default();
                    }
                    Some(property.node)
                }
                None => node.additional,
            };
            match rule {
                Some(id) => pairs.next_value_seed(seed.child(id))?,
                None => drop(pairs.next_value::<IgnoredAny>()?),
            }
        }
        answer(seen.count_ones() as usize == node.required)
    }
}

/// Reads a key: the index of its property.
struct Key<'s>(&'s Node);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.position(name))
    }
}
