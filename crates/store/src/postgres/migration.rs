//! The schema: ordered steps, each with the checksum of its text, and the checks of the server.
//!
//! A step runs in a transaction that holds a row of the table of steps, so that of several processes
//! one migrates and the others wait. That works through a pooler, which a lock of a connection does not.

use logue_harness::store::StoreError;
use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use super::error::{Failure, Fate};
use super::link::{PATIENCE, Shared};

/// The steps from an empty schema to the current one. A released step never changes.
const STEPS: &[&str] = &[
    include_str!("0001.sql"),
    include_str!("0002.sql"),
    include_str!("0003.sql"),
    include_str!("0004.sql"),
    include_str!("0005.sql"),
    include_str!("0006.sql"),
    include_str!("0007.sql"),
    include_str!("0008.sql"),
    include_str!("0009.sql"),
    include_str!("0010.sql"),
];

/// The oldest version of the server, as the server states it.
const OLDEST: i64 = 140_000;

/// Checks the server, and creates or migrates the schema.
///
/// A server that starts is waited for.
pub(super) async fn prepare(shared: &Shared) -> Result<(), StoreError> {
    let begun = std::time::Instant::now();
    loop {
        match attempt(shared).await {
            Ok(()) => return Ok(()),
            Err(Attempt::Later(_)) if begun.elapsed() < PATIENCE => {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            Err(Attempt::Later(error) | Attempt::Failed(error)) => return Err(error),
        }
    }
}

enum Attempt {
    Failed(StoreError),
    Later(StoreError),
}

impl From<StoreError> for Attempt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

async fn attempt(shared: &Shared) -> Result<(), Attempt> {
    let shown = &shared.address.shown;
    let failed = |error: Error| {
        // Two processes created the schema at the same time, or one waited for the other.
        let is_late = error.code().is_some_and(|code| code.code() == "23505");
        let failure = Failure::answering(shown, error);
        match failure.fate {
            Fate::Refused if !is_late => Attempt::Failed(failure.error),
            _ => Attempt::Later(failure.error),
        }
    };
    let mut client = shared.client().await.map_err(|failure| {
        let is_starting = failure.error.to_string().contains("starting up");
        match failure.fate {
            Fate::Undone if is_starting => Attempt::Later(failure.error),
            _ => Attempt::Failed(failure.error),
        }
    })?;
    let schema = &shared.address.schema;
    let state =
        "SELECT to_regclass($1) IS NOT NULL, current_setting('transaction_read_only') = 'on'";
    let name = format!("{schema}.migration");
    let state = client.query_typed_one(state, &[(&name, Type::TEXT)]).await;
    let state = state.and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let (exists, is_read_only): (bool, bool) = state.map_err(failed)?;
    if is_read_only {
        return Err(Attempt::Failed(StoreError::ReadOnly(format!(
            "{shown}: the database is read-only (`default_transaction_read_only`)"
        ))));
    }
    let recorded = shared.sql("SELECT version, checksum FROM logue.migration ORDER BY version");
    if exists {
        let rows = client.query_typed(&recorded, &[]).await.map_err(failed)?;
        if missing(shown, &rows)?.is_empty() {
            return Ok(());
        }
    }
    let change = client.transaction().await.map_err(failed)?;
    if !exists {
        let begin = format!(
            "CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE IF NOT EXISTS {schema}.migration
                 (version integer PRIMARY KEY, checksum text NOT NULL);
             INSERT INTO {schema}.migration VALUES (0, 'lock') ON CONFLICT DO NOTHING"
        );
        change.batch_execute(&begin).await.map_err(failed)?;
    }
    let lock = shared.sql("SELECT 1 FROM logue.migration WHERE version = 0 FOR UPDATE");
    change.query_typed(&lock, &[]).await.map_err(failed)?;
    let rows = change.query_typed(&recorded, &[]).await.map_err(failed)?;
    for (version, step) in missing(shown, &rows)? {
        change
            .batch_execute(&shared.sql(step))
            .await
            .map_err(failed)?;
        let record = shared.sql("INSERT INTO logue.migration VALUES ($1, $2)");
        let sum = checksum(step);
        change
            .execute_typed(&record, &[(&version, Type::INT4), (&sum, Type::TEXT)])
            .await
            .map_err(failed)?;
    }
    change.commit().await.map_err(failed)
}

/// Returns the steps that a schema has not, with their numbers.
fn missing(shown: &str, rows: &[Row]) -> Result<Vec<(i32, &'static str)>, StoreError> {
    let mut recorded = Vec::new();
    for row in rows {
        let read = row.try_get(0).and_then(|version: i32| {
            let checksum: String = row.try_get(1)?;
            Ok((version, checksum))
        });
        recorded.push(read.map_err(|error| Failure::answering(shown, error).error)?);
    }
    let known = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
    let found = recorded.iter().map(|(version, _)| *version).max();
    if let Some(found) = found.filter(|found| *found > known) {
        return Err(StoreError::Newer {
            found: u64::from(found.unsigned_abs()),
            known: u64::from(known.unsigned_abs()),
        });
    }
    let mut missing = Vec::new();
    for (version, step) in (1_i32..).zip(STEPS) {
        match recorded.iter().find(|(other, _)| *other == version) {
            Some((_, recorded)) if *recorded == checksum(step) => {}
            Some(_) => {
                return Err(StoreError::Damaged(format!(
                    "{shown}: the migration step {version} has another checksum; the schema is of \
                     another program, or was changed by hand"
                )));
            }
            None => missing.push((version, *step)),
        }
    }
    Ok(missing)
}

/// Refuses a server that cannot keep the promises of a store.
///
/// A database that is only read passes: what it contains is read.
pub(super) async fn check(client: &Client, shown: &str) -> Result<(), Failure> {
    let read = |error: Error| {
        let failure = Failure::answering(shown, error);
        match failure.fate {
            // The check changes nothing.
            Fate::Unknown => Failure {
                fate: Fate::Undone,
                ..failure
            },
            Fate::Refused | Fate::Undone | Fate::OnlyRead => failure,
        }
    };
    let row = client
        .query_typed_one(
            "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
                 current_setting('server_encoding'), current_setting('synchronous_commit'),
                 current_setting('fsync'), pg_is_in_recovery()",
            &[],
        )
        .await
        .map_err(read)?;
    let version: i64 = row.try_get(0).map_err(read)?;
    let text = |index: usize| row.try_get::<_, String>(index).map_err(read);
    let refused = |what: String| {
        Err(Failure {
            fate: Fate::Refused,
            error: StoreError::NotAStore(format!("{shown}: {what}")),
        })
    };
    if version < OLDEST {
        return refused(format!(
            "the server is PostgreSQL {}; {} or later is needed",
            text(1)?,
            OLDEST / 10_000
        ));
    }
    if text(2)? != "UTF8" {
        return refused(format!(
            "the encoding of the database is {}; create one with `ENCODING 'UTF8'`",
            text(2)?
        ));
    }
    if row.try_get(5).map_err(read)? {
        return Err(Failure {
            fate: Fate::OnlyRead,
            error: StoreError::ReadOnly(format!(
                "{shown}: the server is a standby; name the primary, or all hosts of the cluster, \
                 separated by commas"
            )),
        });
    }
    for (setting, value) in [("synchronous_commit", text(3)?), ("fsync", text(4)?)] {
        if value == "off" {
            return refused(format!(
                "the server has `{setting} = off`: an accepted message could be lost in a crash; \
                 turn it on for the role or the database of the store"
            ));
        }
    }
    Ok(())
}

fn checksum(step: &str) -> String {
    format!("{:x}", Sha256::digest(step.as_bytes()))
}
