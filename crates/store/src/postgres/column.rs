//! The representation of ids, numbers and times in columns.

use logue_harness::Timestamp;
use logue_harness::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use crate::encoding::{uuid_bytes, uuid_text};

/// The first byte of a UUID. No UTF-8 text contains it.
const UUID: u8 = 0xff;
/// The greatest position within a session.
const LAST: u64 = 0xffff_ffff;

/// Returns the stored form of an invocation, a key or a signal.
pub(super) fn id(text: &str) -> Vec<u8> {
    match uuid_bytes(text) {
        Some(mut bytes) => {
            bytes.insert(0, UUID);
            bytes
        }
        None => text.as_bytes().to_vec(),
    }
}

/// Reads an invocation, a key or a signal.
pub(super) fn read_id(bytes: &[u8]) -> Result<String, StoreError> {
    match bytes.split_first() {
        Some((&UUID, uuid)) if uuid.len() == 16 => Ok(uuid_text(uuid)),
        _ => text(bytes),
    }
}

/// Reads a name or the id of a session.
pub(super) fn text(bytes: &[u8]) -> Result<String, StoreError> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned)
        .map_err(|_| StoreError::Damaged("an id is not UTF-8".to_owned()))
}

/// Returns the stored form of a count.
pub(super) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a count.
pub(super) fn read_count(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::Damaged(format!("a number is {number}")))
}

/// Returns the stored form of a time. The maximum represents the end of time only.
pub(super) fn time(at: Timestamp) -> i64 {
    match at.0 {
        u64::MAX => i64::MAX,
        millis => count(millis).min(i64::MAX - 1),
    }
}

/// Reads a time.
pub(super) fn read_time(millis: i64) -> Result<Timestamp, StoreError> {
    match millis {
        i64::MAX => Ok(Timestamp(u64::MAX)),
        _ => read_count(millis).map(Timestamp),
    }
}

/// Returns a limit of rows.
pub(super) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Returns a position within a session; later ones than any that exist are one.
pub(super) fn position(position: u64) -> i64 {
    count(position.min(LAST))
}

/// Reads a column.
///
/// # Errors
/// The database returned another type, or nothing where it always returns something.
pub(super) fn get<T: FromSqlOwned>(row: &Row, column: &str) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| {
        StoreError::Damaged(format!(
            "the database returned an unexpected `{column}`: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use logue_harness::Timestamp;

    use super::{id, read_id, read_time, time};

    #[test]
    fn ids_read_back() {
        for text in [
            "",
            "a",
            "a\0b",
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            "0F8FAD5B-D9CB-469F-A165-70867728950E",
            "sixteen letters!",
            "seventeen letters",
        ] {
            assert_eq!(read_id(&id(text)).unwrap(), text);
        }
        assert_eq!(id("0f8fad5b-d9cb-469f-a165-70867728950e").len(), 17);
        assert!(read_id(b"\xff").is_err());
    }

    #[test]
    fn the_end_of_time_is_apart_from_late_times() {
        for (at, read) in [
            (0, 0),
            (7, 7),
            (u64::MAX, u64::MAX),
            (u64::MAX - 1, i64::MAX.unsigned_abs() - 1),
        ] {
            assert_eq!(read_time(time(Timestamp(at))).unwrap(), Timestamp(read));
        }
        assert!(time(Timestamp(u64::MAX - 1)) < time(Timestamp(u64::MAX)));
    }
}
