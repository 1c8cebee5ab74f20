//! JSON with numbers as Python reads them.

use minijinja::Value;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 100;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Parses JSON.
    ///
    /// # Errors
    /// Returns the reason if the text is not JSON, or has a number or a depth that Python has and
    /// this type does not.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        let raw: &RawValue = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Self::from_raw(raw, MAX_DEPTH)
    }

    fn from_raw(raw: &RawValue, depth: usize) -> Result<Self, String> {
        let text = raw.get();
        let invalid = |error: serde_json::Error| error.to_string();
        let depth = depth
            .checked_sub(1)
            .ok_or("the value is nested too deeply")?;
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let members: Members<'_> = serde_json::from_str(text).map_err(invalid)?;
                let mut map: Vec<(String, Self)> = Vec::with_capacity(members.0.len());
                for (name, raw) in members.0 {
                    let value = Self::from_raw(raw, depth)?;
                    // The last of equal names is valid, at the place of the first.
                    if let Some(member) = map.iter_mut().find(|member| member.0 == name) {
                        member.1 = value;
                    } else {
                        map.push((name, value));
                    }
                }
                Self::Map(map)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(invalid)?;
                let items = items.into_iter().map(|raw| Self::from_raw(raw, depth));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::Text(serde_json::from_str(text).map_err(invalid)?),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') | None => Self::Null,
            Some(_) if text.contains(['.', 'e', 'E']) => {
                Self::Float(text.parse().map_err(|_| format!("invalid number {text}"))?)
            }
            Some(_) => Self::Integer(
                text.parse()
                    .map_err(|_| format!("the number {text} is too large"))?,
            ),
        })
    }

    /// Returns the member of a map.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => {
                let found = members.iter().find(|member| member.0 == name);
                found.map(|member| &member.1)
            }
            _ => None,
        }
    }

    /// Returns the member of a map for changes.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Map(members) => {
                let found = members.iter_mut().find(|member| member.0 == name);
                found.map(|member| &mut member.1)
            }
            _ => None,
        }
    }

    /// Sets the member of a map.
    pub(super) fn set(&mut self, name: &str, value: Self) {
        if let Some(member) = self.get_mut(name) {
            *member = value;
        } else if let Self::Map(members) = self {
            members.push((name.to_owned(), value));
        }
    }

    /// Returns the text of a string.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Calls `visit` with each string, names of members included.
    pub(super) fn each_text(&self, visit: &mut impl FnMut(&str)) {
        match self {
            Self::Text(text) => visit(text),
            Self::List(items) => items.iter().for_each(|item| item.each_text(visit)),
            Self::Map(members) => {
                for (name, value) in members {
                    visit(name);
                    value.each_text(visit);
                }
            }
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Float(_) => {}
        }
    }

    /// Calls `visit` with each number that is not an integer.
    pub(super) fn each_float(&self, visit: &mut impl FnMut(f64)) {
        match self {
            Self::Float(number) => visit(*number),
            Self::List(items) => items.iter().for_each(|item| item.each_float(visit)),
            Self::Map(members) => members.iter().for_each(|member| member.1.each_float(visit)),
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Text(_) => {}
        }
    }

    /// Returns the value for a template.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::from(()),
            Self::Bool(value) => Value::from(*value),
            Self::Integer(number) => match i64::try_from(*number) {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(*number),
            },
            Self::Float(number) => Value::from(*number),
            Self::Text(text) => Value::from(text.as_str()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Map(members) => {
                let pairs = members
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.to_value()));
                Value::from_pairs(pairs)
            }
        }
    }
}

/// The members of an object in their order.
pub(crate) struct Members<'j>(pub(crate) Vec<(String, &'j RawValue)>);

impl<'de: 'j, 'j> Deserialize<'de> for Members<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
