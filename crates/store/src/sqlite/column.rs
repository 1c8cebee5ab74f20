//! The representation of ids, numbers, times and JSON in columns.

use logue_harness::Timestamp;
use logue_harness::store::StoreError;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use serde::de::DeserializeOwned;

use super::error::SqliteResult;
use crate::encoding::{parsed, uuid_bytes, uuid_text};

pub(super) use crate::encoding::written;

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

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
