//! The check that no object of a JSON body has two members of one name.
//!
//! Parsers keep the first or the last of them, so that a program in front of the server could check another
//! body than the one that is used.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::problem::Problem;

/// Refuses a body in which a name occurs twice in one object.
///
/// Text that is not JSON is left to the route, which reports it.
///
/// # Errors
/// Returns a problem that names the member.
pub(crate) fn check_unique_keys(body: &[u8]) -> Result<(), Problem> {
    let mut repeated = None;
    let mut parser = serde_json::Deserializer::from_slice(body);
    let checked = UniqueKeys(&mut repeated).deserialize(&mut parser);
    match (checked, repeated) {
        (Err(_), Some(name)) => {
            let detail = format!("invalid request body: the member `{name}` occurs twice");
            Err(Problem::invalid(detail).with_help("name each member of an object once"))
        }
        _ => Ok(()),
    }
}

/// Visits a value, and keeps the first repeated name.
struct UniqueKeys<'r>(&'r mut Option<String>);

impl<'de> DeserializeSeed<'de> for UniqueKeys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(UniqueKeys(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                *self.0 = Some(name);
                return Err(A::Error::custom("a repeated member"));
            }
            names.insert(name);
            members.next_value_seed(UniqueKeys(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_occurs_once_in_each_object() {
        for body in [
            "",
            "{",
            "[1, -2, 1.5, true, null, \"a\"]",
            r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}"#,
        ] {
            assert_eq!(check_unique_keys(body.as_bytes()), Ok(()), "{body}");
        }
        for body in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"{"b": [{"c": {"a": 1, "b": 2, "a": 3}}]}"#,
        ] {
            let refused = check_unique_keys(body.as_bytes()).unwrap_err();
            assert!(refused.detail.contains("`a`"), "{refused:?}");
        }
    }
}
