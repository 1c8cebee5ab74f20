//! The representation of ids, numbers, times and JSON in columns.

use logue_harness::Timestamp;
use logue_harness::store::StoreError;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use serde::de::DeserializeOwned;

use super::error::SqliteResult;

/// The maximum nesting depth of JSON. Deeper values could be written and not read.
const MAX_DEPTH: usize = 512;

/// An id: 16 bytes if it is a UUID in its usual spelling, and text otherwise.
#[derive(Debug)]
pub(super) struct Id(pub(super) String);

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match uuid_bytes(&self.0) {
            Some(bytes) => ToSqlOutput::Owned(Value::Blob(bytes)),
            None => ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_bytes())),
        })
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(bytes) if bytes.len() == 16 => Ok(Self(uuid_text(bytes))),
            ValueRef::Text(_) => value.as_str().map(|text| Self(text.to_owned())),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// A number that is never negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(pub(super) u64);

impl ToSql for Count {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(clamped(self.0).into())
    }
}

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        u64::try_from(number)
            .map(Self)
            .map_err(|_| FromSqlError::OutOfRange(number))
    }
}

/// A timestamp. The maximum of the column represents all later ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampColumn(pub(super) Timestamp);

impl ToSql for TimestampColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(clamped(self.0.0).into())
    }
}

impl FromSql for TimestampColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let Count(millis) = Count::column_result(value)?;
        let millis = if millis == i64::MAX.unsigned_abs() {
            u64::MAX
        } else {
            millis
        };
        Ok(Self(Timestamp(millis)))
    }
}

/// Serialises JSON for a column.
pub(super) fn written(value: &serde_json::Value) -> Result<String, StoreError> {
    if !fits(value, MAX_DEPTH) {
        return Err(StoreError::Unavailable {
            message: format!("JSON that is nested more than {MAX_DEPTH} deep cannot be stored"),
            source: None,
        });
    }
    serde_json::to_string(value).map_err(StoreError::unavailable)
}

/// JSON that was read from a column.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        parsed(text)
            .map(Self)
            .map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

/// Converts a row limit; columns hold a smaller maximum than `usize`.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The greatest position within a session.
const LAST: u64 = 0xffff_ffff;

/// The range of row positions of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    base: i64,
}

impl Range {
    /// The range of the session with this number.
    pub(super) fn from_session(sid: i64) -> SqliteResult<Self> {
        let base = sid.checked_mul(0x1_0000_0000);
        Ok(Self {
            base: base.ok_or_else(|| full("sessions"))?,
        })
    }

    /// The place of a position.
    pub(super) fn at(self, position: u64) -> SqliteResult<i64> {
        let offset = i64::try_from(position.min(LAST)).unwrap_or_default();
        if position > LAST {
            return Err(full("positions of a session").into());
        }
        Ok(self.base + offset)
    }

    pub(super) const fn first(self) -> i64 {
        self.base
    }

    pub(super) const fn last(self) -> i64 {
        self.base | 0xffff_ffff
    }
}

/// The position at a place.
pub(super) const fn position(place: i64) -> u64 {
    place.unsigned_abs() & LAST
}

fn full(what: &str) -> StoreError {
    StoreError::Unavailable {
        message: format!("there are no more {what}"),
        source: None,
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    match serde_json::from_str(text) {
        // Only nesting deeper than 128 is parsed again, with `MAX_DEPTH` as the bound.
        Err(_) if (MAX_DEPTH / 8..=MAX_DEPTH + 2).contains(&nesting(text)) => {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            deserializer.disable_recursion_limit();
            let value = T::deserialize(&mut deserializer)?;
            deserializer.end()?;
            Ok(value)
        }
        result => result,
    }
}

/// Returns the nesting depth of the brackets of a JSON text.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn fits(value: &serde_json::Value, left: usize) -> bool {
    match value {
        serde_json::Value::Array(items) => {
            left > 0 && items.iter().all(|item| fits(item, left - 1))
        }
        serde_json::Value::Object(members) => {
            left > 0 && members.values().all(|item| fits(item, left - 1))
        }
        _ => true,
    }
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn uuid_bytes(text: &str) -> Option<Vec<u8>> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = Vec::with_capacity(16);
    let mut high = None;
    for (index, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'-' if matches!(index, 8 | 13 | 18 | 23) => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    // A text with dashes at other places has too many or too few digits.
    (bytes.len() == 16).then_some(bytes)
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}
