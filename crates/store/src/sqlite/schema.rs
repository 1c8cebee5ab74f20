//! Comparison of the tables, indexes and triggers of a file with those of the format.

use std::path::Path;

use logue_harness::store::IntegrityFault;
use rusqlite::Connection;

use super::error::SqliteResult;
use super::{migration, seal};

/// An object of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaObject {
    /// `table`, `index`, `trigger` or `view`.
    pub(super) kind: String,
    pub(super) name: String,
    /// The table of an index or trigger, and of a table itself.
    pub(super) table: String,
    pub(super) sql: String,
}

/// The differences of a file from the format.
#[derive(Debug, Default)]
pub(super) struct SchemaDifference {
    pub(super) missing: Vec<SchemaObject>,
    pub(super) added: Vec<SchemaObject>,
    /// Tables with other columns or constraints.
    pub(super) changed: Vec<SchemaObject>,
}

/// Returns the objects of the format.
pub(super) fn expected() -> SqliteResult<Vec<SchemaObject>> {
    let conn = Connection::open_in_memory()?;
    seal::register(&conn)?;
    migration::migrate(&conn, Path::new(":memory:"))?;
    objects(&conn)
}

/// Compares the schema of the file with that of the format.
pub(super) fn difference(conn: &Connection) -> SqliteResult<SchemaDifference> {
    let expected = expected()?;
    let present = objects(conn)?;
    let mut found = SchemaDifference::default();
    for object in &expected {
        let own = present
            .iter()
            .find(|other| (&other.kind, &other.name) == (&object.kind, &object.name));
        match own {
            Some(own) if own.sql == object.sql => {}
            Some(_) if object.kind == "table" => found.changed.push(object.clone()),
            _ => found.missing.push(object.clone()),
        }
    }
    let known = |object: &SchemaObject| expected.iter().any(|other| other.name == object.name);
    found.added = present;
    found.added.retain(|object| !known(object));
    Ok(found)
}

impl SchemaDifference {
    /// Returns the differences as faults of the store.
    pub(super) fn faults(&self) -> Vec<IntegrityFault> {
        let missing = self.missing.iter().map(|object| match &*object.kind {
            "index" => IntegrityFault::new("index", format!("is missing: {}", object.sql)),
            kind => IntegrityFault::new("file", format!("the {kind} `{}` is missing", object.name)),
        });
        let added = self.added.iter().map(|object| {
            let (kind, name) = (&object.kind, &object.name);
            let problem = format!("the {kind} `{name}` does not belong to a session store");
            IntegrityFault::new("file", problem)
        });
        let changed = self.changed.iter().map(|object| {
            let problem = format!("the table `{}` has another definition", object.name);
            IntegrityFault::new("file", problem)
        });
        missing.chain(added).chain(changed).collect()
    }
}

/// Lists the objects that statements created. SQLite's own have no statement or its prefix.
fn objects(conn: &Connection) -> SqliteResult<Vec<SchemaObject>> {
    let found = conn
        .prepare(
            "SELECT type, name, tbl_name, sql FROM main.sqlite_schema
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
        )?
        .query_map([], |row| {
            Ok(SchemaObject {
                kind: row.get(0)?,
                name: row.get(1)?,
                table: row.get(2)?,
                sql: row.get(3)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(found)
}
