//! The columns of a data set and their types.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};

/// The columns that rows of JSON lines have, in the order of their first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub(crate) struct Columns(pub(crate) Vec<Column>);

/// A column with the narrowest type of all its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub(crate) enum Kind {
    /// Values of one type.
    One(Scalar),
    /// Lists of such values.
    List(Scalar),
}

/// The type of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, DeriveDeserialize)]
pub(crate) enum Scalar {
    /// Only `null`.
    Null,
    Bool,
    Int32,
    /// Integers that a 64-bit float holds too.
    Int53,
    Int64,
    Float64,
    Text,
    /// JSON as text.
    Json,
}

impl Scalar {
    /// Returns the narrowest type that holds values of both.
    fn merge(self, other: Self) -> Self {
        use Scalar::{Float64, Int32, Int53, Int64, Null};
        match (self, other) {
            (one, other) if one == other => one,
            (Null, other) | (other, Null) => other,
            (Int32, Int53) | (Int53, Int32) => Int53,
            (Int32 | Int53, Int64) | (Int64, Int32 | Int53) => Int64,
            (Int32 | Int53, Float64) | (Float64, Int32 | Int53) => Float64,
            _ => Self::Json,
        }
    }
}

impl Kind {
    /// Returns the narrowest type that holds values of both.
    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::One(Scalar::Null), other) | (other, Self::One(Scalar::Null)) => other,
            (Self::One(one), Self::One(other)) => Self::One(one.merge(other)),
            (Self::List(one), Self::List(other)) => Self::List(one.merge(other)),
            _ => Self::One(Scalar::Json),
        }
    }
}

impl Columns {
    /// Adds the members of a row. Anything except an object adds nothing.
    pub(crate) fn observe(&mut self, row: &[u8]) {
        let mut reader = serde_json::Deserializer::from_slice(row);
        // The rows are our own output, which is valid JSON.
        drop(reader.deserialize_map(OfRow(self)));
    }

    /// Returns the columns of a file. One without any has a column all the same, because readers
    /// accept no file without columns.
    #[cfg(feature = "parquet")]
    pub(crate) fn of_file(&self) -> Self {
        if !self.0.is_empty() {
            return self.clone();
        }
        Self(vec![Column {
            name: "messages".to_owned(),
            kind: Kind::List(Scalar::Json),
        }])
    }

    /// Returns whether a name has a character that ends it for readers of columns.
    pub(crate) fn has_cut_name(&self) -> bool {
        self.0.iter().any(|column| column.name.contains('\0'))
    }

    /// Adds the columns of later rows.
    pub(crate) fn add(&mut self, later: Self) {
        for column in later.0 {
            self.place(column.name, column.kind);
        }
    }

    fn place(&mut self, name: String, kind: Kind) {
        match self.0.iter_mut().find(|column| column.name == name) {
            Some(column) => column.kind = column.kind.merge(kind),
            None => self.0.push(Column { name, kind }),
        }
    }
}

struct OfRow<'c>(&'c mut Columns);

impl<'de> Visitor<'de> for OfRow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let Observed(kind) = map.next_value()?;
            match self.0.0.iter_mut().find(|column| column.name == name) {
                Some(column) => column.kind = column.kind.merge(kind),
                None => self.0.place(name.into_owned(), kind),
            }
        }
        Ok(())
    }
}

/// The type of a value.
struct Observed(Kind);

impl<'de> Deserialize<'de> for Observed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfValue)
    }
}

struct OfValue;

const fn one(scalar: Scalar) -> Observed {
    Observed(Kind::One(scalar))
}

impl<'de> Visitor<'de> for OfValue {
    type Value = Observed;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Observed, E> {
        Ok(one(Scalar::Null))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Observed, E> {
        Ok(one(Scalar::Bool))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Observed, E> {
        Ok(one(if i32::try_from(value).is_ok() {
            Scalar::Int32
        } else if value.unsigned_abs() <= 1 << 53 {
            Scalar::Int53
        } else {
            Scalar::Int64
        }))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Observed, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            // No integer type of the columns holds it.
            Err(_) => Ok(one(Scalar::Json)),
        }
    }

    fn visit_f64<E>(self, _: f64) -> Result<Observed, E> {
        Ok(one(Scalar::Float64))
    }

    fn visit_str<E>(self, _: &str) -> Result<Observed, E> {
        Ok(one(Scalar::Text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Observed, A::Error> {
        let mut scalar = Scalar::Null;
        while scalar != Scalar::Json {
            let Some(Observed(kind)) = items.next_element()? else {
                break;
            };
            scalar = match kind {
                Kind::One(one) => scalar.merge(one),
                Kind::List(_) => Scalar::Json,
            };
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Observed(Kind::List(scalar)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Observed, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(one(Scalar::Json))
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, Kind, Scalar};

    fn kinds(rows: &[&str]) -> Vec<(String, Kind)> {
        let mut columns = Columns::default();
        for row in rows {
            columns.observe(row.as_bytes());
        }
        columns
            .0
            .into_iter()
            .map(|column| (column.name, column.kind))
            .collect()
    }

    #[test]
    fn a_column_has_the_narrowest_type_of_its_values() {
        let found = kinds(&[
            r#"{"a":1,"b":null,"c":[1,2],"d":{"x":1},"e":[{"x":1}],"f":"t","g":[],"i":9007199254740993,"j":7}"#,
            r#"{"a":3000000000,"b":true,"c":[null,1.5],"f":7,"h":18446744073709551615,"i":0.5,"j":0.5}"#,
        ]);
        let expected = [
            ("a", Kind::One(Scalar::Int53)),
            ("b", Kind::One(Scalar::Bool)),
            ("c", Kind::List(Scalar::Float64)),
            ("d", Kind::One(Scalar::Json)),
            ("e", Kind::List(Scalar::Json)),
            ("f", Kind::One(Scalar::Json)),
            ("g", Kind::List(Scalar::Null)),
            // A float would lose digits of the integer.
            ("i", Kind::One(Scalar::Json)),
            ("j", Kind::One(Scalar::Float64)),
            ("h", Kind::One(Scalar::Json)),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
