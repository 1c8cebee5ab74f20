//! Checksums of rows, which find damage by the medium.
//!
//! Each table has a column `sum`: the CRC-32 of the other columns, each with its type and length. A
//! CRC-32 differs after any change of up to 32 consecutive bits. Someone who edits a row on purpose
//! can compute it anew.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{FromSql as _, ValueRef};
use rusqlite::{Connection, ToSql};

use super::column::Id;
use super::error::SqliteResult;

/// A table with checksums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub(super) table: &'static str,
    /// The columns that the checksum covers.
    pub(super) columns: &'static str,
    /// The columns that identify a row, as bytes where damage could make the text invalid.
    pub(super) key: &'static str,
    /// The condition of the rows of a session: places `?1` to `?2`, or number `?3`.
    pub(super) of_session: &'static str,
    /// The expression of the position within the session.
    pub(super) position: &'static str,
    /// The expression of the name of a row without a position.
    pub(super) name: &'static str,
}

impl Sealed {
    /// Returns whether rows are found by their place, which contains the session's number.
    pub(super) fn has_places(&self) -> bool {
        self.of_session == BY_PLACE
    }
}

const BY_PLACE: &str = "pos BETWEEN ?1 AND ?2 AND ?3";
const BY_NUMBER: &str = "sid = ?3 AND ?1 <= ?2";
const OFFSET: &str = "pos & 0xffffffff";

/// All tables with checksums; that of sessions is the last one.
pub(super) const TABLES: &[Sealed] = &[
    MESSAGE, ENTRY, WORK, NOTE, SUSPENSION, AUDIT, FIELD, LABEL, SESSION,
];

pub(super) const SESSION: Sealed = Sealed {
    table: "session",
    columns: "sid, id, seq, entries, cursor, has_state, schema_version, created_at, updated_at",
    key: "sid",
    of_session: BY_NUMBER,
    position: "NULL",
    name: "NULL",
};
pub(super) const FIELD: Sealed = Sealed {
    table: "field",
    columns: "sid, name, value",
    key: "sid, CAST(name AS BLOB)",
    of_session: BY_NUMBER,
    position: "NULL",
    name: "name",
};
pub(super) const LABEL: Sealed = Sealed {
    table: "label",
    columns: "sid, name, value",
    key: "sid, CAST(name AS BLOB)",
    of_session: BY_NUMBER,
    position: "NULL",
    name: "name",
};
pub(super) const MESSAGE: Sealed = Sealed {
    table: "message",
    columns: "pos, body",
    key: "pos",
    of_session: BY_PLACE,
    position: OFFSET,
    name: "NULL",
};
pub(super) const ENTRY: Sealed = Sealed {
    table: "entry",
    columns: "pos, resumes, key, digest, invocation, cancel, accepted_at, kind, replies_from, \
              replies_to, body, at",
    key: "pos",
    of_session: BY_PLACE,
    position: OFFSET,
    name: "NULL",
};
pub(super) const WORK: Sealed = Sealed {
    table: "work",
    columns: "pos, body",
    key: "pos",
    of_session: BY_PLACE,
    position: OFFSET,
    name: "NULL",
};
pub(super) const NOTE: Sealed = Sealed {
    table: "note",
    columns: "sid, invocation, seq, body",
    key: "sid, CAST(invocation AS BLOB), seq",
    of_session: BY_NUMBER,
    position: "seq",
    name: "invocation",
};
pub(super) const SUSPENSION: Sealed = Sealed {
    table: "suspension",
    columns: "num, invocation, sid, signal_id, metadata, status, entry, record, since",
    key: "num",
    of_session: BY_NUMBER,
    position: "NULL",
    name: "invocation",
};
pub(super) const AUDIT: Sealed = Sealed {
    table: "audit",
    columns: "pos, invocation, body, at",
    key: "pos",
    of_session: BY_PLACE,
    position: OFFSET,
    name: "NULL",
};

/// Makes `row_sum(column, …)` and `is_id(column)` available to statements of this connection.
pub(super) fn register(conn: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    conn.create_scalar_function("row_sum", -1, flags, |context| Ok(row_sum(context)))?;
    conn.create_scalar_function("is_id", 1, flags, |context| {
        let value = context.get_raw(0);
        Ok(value == ValueRef::Null || Id::column_result(value).is_ok())
    })
}

/// Stores the checksum of changed rows: those of `sealed` that satisfy `condition`.
pub(super) fn seal(
    conn: &Connection,
    sealed: Sealed,
    condition: &str,
    values: &[&dyn ToSql],
) -> SqliteResult<()> {
    let Sealed { table, columns, .. } = sealed;
    conn.prepare_cached(&format!(
        "UPDATE {table} SET sum = row_sum({columns}) WHERE {condition}"
    ))?
    .execute(values)?;
    Ok(())
}

/// Stores the checksum of a session's row.
pub(super) fn seal_session(conn: &Connection, sid: i64) -> SqliteResult<()> {
    seal(conn, SESSION, "sid = ?1", &[&sid])
}

/// Stores the checksum of an entry.
pub(super) fn seal_entry(conn: &Connection, place: i64) -> SqliteResult<()> {
    seal(conn, ENTRY, "pos = ?1", &[&place])
}

fn row_sum(context: &Context<'_>) -> i64 {
    let mut sum = crc32fast::Hasher::new();
    for index in 0..context.len() {
        let mut number = [0; 8];
        let (kind, bytes) = part_in(context.get_raw(index), &mut number);
        add(&mut sum, kind, bytes);
    }
    i64::from(sum.finalize())
}

/// Returns the checksum of a row from the parts of its columns.
pub(super) fn sum_of(parts: &[(u8, Vec<u8>)]) -> i64 {
    let mut sum = crc32fast::Hasher::new();
    for (kind, bytes) in parts {
        add(&mut sum, *kind, bytes);
    }
    i64::from(sum.finalize())
}

/// Returns the checksum of a row with these columns.
pub(super) fn sum_of_row(columns: &[ValueRef<'_>]) -> i64 {
    let mut sum = crc32fast::Hasher::new();
    for column in columns {
        let mut number = [0; 8];
        let (kind, bytes) = part_in(*column, &mut number);
        add(&mut sum, kind, bytes);
    }
    i64::from(sum.finalize())
}

/// Returns the type of a value and its bytes, as the checksum covers them.
pub(super) fn part(value: ValueRef<'_>) -> (u8, Vec<u8>) {
    let mut number = [0; 8];
    let (kind, bytes) = part_in(value, &mut number);
    (kind, bytes.to_vec())
}

fn part_in<'a>(value: ValueRef<'a>, number: &'a mut [u8; 8]) -> (u8, &'a [u8]) {
    match value {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(integer) => {
            *number = integer.to_le_bytes();
            (1, number)
        }
        ValueRef::Real(real) => {
            *number = real.to_le_bytes();
            (2, number)
        }
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(bytes) => (4, bytes),
    }
}

fn add(sum: &mut crc32fast::Hasher, kind: u8, bytes: &[u8]) {
    sum.update(&[kind]);
    sum.update(&bytes.len().to_le_bytes());
    sum.update(bytes);
}

#[cfg(test)]
mod tests {
    use logue_harness::Timestamp;
    use rusqlite::Connection;

    use super::super::{migration, repair, tally, verify};

    /// A checksum that an earlier repair stored does not hide an impossible id.
    #[test]
    fn sealed_rows_with_impossible_values_are_repaired() {
        for change in [
            "UPDATE entry SET key = x'79'",
            "UPDATE entry SET digest = CAST(x'ff' AS TEXT)",
            "UPDATE entry SET invocation = 5",
            "UPDATE entry SET accepted_at = -1",
            "UPDATE entry SET at = -1",
            "UPDATE note SET invocation = x'79'",
            "UPDATE audit SET invocation = 1.5",
            "UPDATE suspension SET invocation = x'79'",
            "UPDATE suspension SET signal_id = x'79'",
        ] {
            let conn = Connection::open_in_memory().unwrap();
            super::register(&conn).unwrap();
            migration::migrate(&conn, "memory".as_ref()).unwrap();
            tally::watch(&conn).unwrap();
            conn.execute_batch(
                "INSERT INTO session (sid, id, epoch, created_at, updated_at, entries, cursor)
                     VALUES (1, 's', 0, 0, 0, 1, 1);
                 INSERT INTO entry (pos, resumes, key, invocation, accepted_at, kind, replies_from,
                     replies_to, at) VALUES (1 << 32 | 1, 1, 'k', 'i', 0, 1, 0, 0, 0);
                 INSERT INTO note VALUES (1, 'i', 0, '{}', 0);
                 INSERT INTO audit VALUES (1 << 32, 'i', '{}', 0, 0);
                 INSERT INTO suspension (num, invocation, sid, signal_id, status, entry, since)
                     VALUES (1, 'i', 1, 'g', 1, 1, 0)",
            )
            .unwrap();
            let seal = || {
                for sealed in super::TABLES {
                    super::seal(&conn, *sealed, "true", &[]).unwrap();
                }
            };
            let faults = || {
                verify::verify(&conn, "memory".as_ref(), None)
                    .unwrap()
                    .faults
            };
            seal();
            assert_eq!(faults(), [], "{change}");
            conn.execute_batch(change).unwrap();
            seal();
            assert_eq!(faults().len(), 1, "{change}: {:#?}", faults());
            let report = repair::repair(&conn, "memory".as_ref(), Timestamp(1)).unwrap();
            assert!(!report.quarantined.is_empty(), "{change}");
            assert_eq!(faults(), [], "{change}");
        }
    }
}
