//! One node of a shape: everything that must hold for one value.
//!
//! A node is a set of rules rather than one of several kinds, as in JSON Schema: a rule about
//! strings says nothing about numbers, and a value must pass all that speak of it.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Number, Value};

/// Literals, or properties, that are compared one by one: up to here that is quicker.
const FEW: usize = 8;

/// The place of a node in its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(pub(crate) u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOL: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    /// Every number, whole ones included.
    pub(crate) const NUMBER: Self = Self(4 | 8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    pub(crate) const ALL: Self = Self(127);

    /// The kind that a JSON Schema calls so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOL,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    /// The kind of a value. A number without a fraction is an integer, however it is written.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOL,
            Value::Number(number) => Self::of_number(number),
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn of_number(number: &Number) -> Self {
        match number.as_f64() {
            Some(float) if number.is_f64() => Self::of_float(float),
            _ => Self::INTEGER,
        }
    }

    /// The kind of a number with a fraction or an exponent.
    pub(crate) fn of_float(float: f64) -> Self {
        if float.fract() == 0.0 {
            Self::INTEGER
        } else {
            Self(8)
        }
    }

    /// Returns whether one of `other`'s kinds is among these.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Bounds on the number of characters or items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

impl Size {
    pub(crate) const fn is_open(self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// Position of `size` relative to the bounds.
    pub(crate) fn compare(self, size: usize) -> Ordering {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        if self.min.is_some_and(|min| size < min) {
            Ordering::Less
        } else if self.max.is_some_and(|max| size > max) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

/// One end of a range of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) number: Number,
    /// Whether the number itself is outside.
    pub(crate) exclusive: bool,
}

/// A property of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Property {
    pub(crate) name: Box<str>,
    pub(crate) node: NodeId,
    pub(crate) required: bool,
}

/// Many literals: a text may be compared with them once for each of its items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Index {
    strings: HashSet<Box<str>>,
    others: Vec<Value>,
}

/// The rules for one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Allowed kinds.
    pub(crate) kinds: Kinds,
    /// Whether null passes whatever the other rules say.
    pub(crate) nullable: bool,
    /// The values that it may be, if it is not free.
    pub(crate) literals: Option<Vec<Value>>,
    /// Index of the literals, if there are many.
    pub(crate) index: Option<Index>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) length: Size,
    pub(crate) items: Size,
    pub(crate) item: Option<NodeId>,
    /// Sorted by name.
    pub(crate) properties: Vec<Property>,
    /// Number of required properties.
    pub(crate) required: usize,
    /// Type of additional properties.
    pub(crate) additional: Option<NodeId>,
    /// Of each of these lists, one must pass.
    pub(crate) unions: Vec<Vec<NodeId>>,
    /// All of these must pass too.
    pub(crate) all: Vec<NodeId>,
}

impl Node {
    /// Every value.
    pub(crate) const fn any() -> Self {
        Self::of(Kinds::ALL)
    }

    /// Every value of these kinds.
    pub(crate) const fn of(kinds: Kinds) -> Self {
        Self {
            kinds,
            nullable: false,
            literals: None,
            index: None,
            minimum: None,
            maximum: None,
            length: Size {
                min: None,
                max: None,
            },
            items: Size {
                min: None,
                max: None,
            },
            item: None,
            properties: Vec::new(),
            required: 0,
            additional: None,
            unions: Vec::new(),
            all: Vec::new(),
        }
    }

    /// Makes the index of a long list of literals.
    pub(crate) fn prepare(&mut self) {
        if let Some(literals) = &self.literals
            && literals.len() > FEW
        {
            let strings = literals.iter().filter_map(Value::as_str);
            let others = literals.iter().filter(|literal| !literal.is_string());
            self.index = Some(Index {
                strings: strings.map(Box::from).collect(),
                others: others.cloned().collect(),
            });
        }
    }

    /// Returns whether `value` is one of the node's `literals`.
    pub(crate) fn lists(&self, literals: &[Value], value: &Value) -> bool {
        if let Value::String(text) = value {
            return self.lists_text(literals, text);
        }
        let others = self.index.as_ref().map_or(literals, |index| &index.others);
        others.iter().any(|literal| same(literal, value))
    }

    /// Maximum number of literals that are compared with `value` one by one.
    pub(crate) fn compared(&self, value: &Value) -> usize {
        match &self.index {
            Some(_) if value.is_string() => 1,
            Some(index) => index.others.len(),
            None => self.literals.as_ref().map_or(0, Vec::len),
        }
    }

    /// Returns whether `text` is one of the node's `literals`.
    pub(crate) fn lists_text(&self, literals: &[Value], text: &str) -> bool {
        match &self.index {
            Some(index) => index.strings.contains(text),
            None => literals
                .iter()
                .any(|literal| literal.as_str() == Some(text)),
        }
    }

    /// Sets the properties. Of two with one name, the last counts.
    pub(crate) fn set_properties(&mut self, mut properties: Vec<Property>) {
        properties.reverse();
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        properties.dedup_by(|later, kept| later.name == kept.name);
        self.required = properties.iter().filter(|each| each.required).count();
        self.properties = properties;
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        self.properties.get(self.position(name)?)
    }

    /// The index of a property.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        // Most objects have few properties, and comparing lengths first is quick.
        if self.properties.len() <= FEW {
            return self.properties.iter().position(|each| &*each.name == name);
        }
        let order = |each: &Property| each.name.as_ref().cmp(name);
        self.properties.binary_search_by(order).ok()
    }

    /// Returns whether the node says nothing about a value and what is in it.
    pub(crate) fn is_free(&self) -> bool {
        self.says_nothing() && self.all.is_empty()
    }

    /// The only node that this one stands for.
    pub(crate) fn alias(&self) -> Option<NodeId> {
        match self.all.as_slice() {
            [only] if self.says_nothing() => Some(*only),
            _ => None,
        }
    }

    /// Returns whether the node speaks of the kind alone.
    pub(crate) fn is_kind(&self) -> bool {
        self.says_nothing_but_kind() && self.all.is_empty()
    }

    /// The only values that pass, if the node just lists them.
    pub(crate) fn values(&self) -> Option<Vec<Value>> {
        match &self.literals {
            Some(literals) => Some(literals.clone()),
            None if self.is_kind() && self.kinds == Kinds::NULL => Some(vec![Value::Null]),
            None => None,
        }
    }

    fn says_nothing(&self) -> bool {
        self.kinds == Kinds::ALL && self.says_nothing_but_kind()
    }

    fn says_nothing_but_kind(&self) -> bool {
        self.literals.is_none()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.length.is_open()
            && self.items.is_open()
            && self.item.is_none()
            && self.properties.is_empty()
            && self.additional.is_none()
            && self.unions.is_empty()
            && !self.nullable
    }
}

/// Orders two numbers, exactly for integers; `None` if one is not a number.
pub(crate) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Returns whether two values are the same to JSON Schema: `1` and `1.0` are. Recurses as deep as
/// `a`,
/// which the parser of JSON bounds.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let held = |(key, a)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(held)
        }
        _ => a == b,
    }
}
