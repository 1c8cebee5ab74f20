//! A session that begins with a prefix of another one.

use logue_harness::Timestamp;
use logue_harness::store::{EntryPayload, SessionFork, StoreError};
use rusqlite::{Connection, params};

use super::column::{Count, written};
use super::error::SqliteResult;
use super::inbox::{self, Arrival};
use super::seal;
use super::session::{find, find_or_create, usable};
use super::suspension::{self, SuspensionRow};
use crate::encoding::stored_work;

/// A fork with serialised JSON.
pub(super) struct Fork {
    into: String,
    upto: u64,
    messages: Vec<String>,
    suspended: Vec<(String, SuspensionRow)>,
    work: Option<(String, bool)>,
    now: Timestamp,
}

impl Fork {
    pub(super) fn new(fork: SessionFork) -> Result<Self, StoreError> {
        let messages = fork.messages.iter().map(written);
        let suspended = fork.suspended.into_iter();
        let suspended = suspended.map(|(id, new)| Ok((id, SuspensionRow::new(new)?)));
        let work = fork.work.map(|work| {
            let resumes = matches!(work, EntryPayload::Resume { .. });
            Ok::<_, StoreError>((stored_work(&work)?, resumes))
        });
        Ok(Self {
            into: fork.into,
            upto: fork.upto,
            messages: messages.collect::<Result<_, _>>()?,
            suspended: suspended.collect::<Result<_, StoreError>>()?,
            work: work.transpose()?,
            now: fork.now,
        })
    }
}

pub(super) fn fork(conn: &Connection, session: &str, fork: Fork) -> SqliteResult<()> {
    let origin = usable(conn, session)?;
    let into = fork.into.as_str();
    if find(conn, into)?.is_some() {
        return Err(StoreError::Exists {
            what: format!("a session `{into}`"),
        }
        .into());
    }
    let copy = find_or_create(conn, into, fork.now)?;
    let upto = fork.upto;
    if upto > origin.seq {
        return Err(StoreError::Conflict {
            session: session.to_owned(),
            expected: upto,
            found: origin.seq,
        }
        .into());
    }
    let seq = upto + fork.messages.len() as u64;
    conn.prepare_cached(
        "UPDATE session SET (seq, has_state, schema_version) =
             (SELECT ?3, has_state, schema_version FROM session WHERE sid = ?1)
         WHERE sid = ?2",
    )?
    .execute(params![origin.sid, copy.sid, Count(seq)])?;
    seal::seal_session(conn, copy.sid)?;
    // A damaged row has no checksum in the copy: it does not become sound by being copied.
    if upto > 0 {
        conn.prepare_cached(
            "INSERT INTO message SELECT pos - ?1 + ?2, body,
                 CASE WHEN sum = row_sum(pos, body) THEN row_sum(pos - ?1 + ?2, body) END
             FROM message WHERE pos BETWEEN ?1 AND ?3 ORDER BY pos",
        )?
        .execute(params![
            origin.range.first(),
            copy.range.first(),
            origin.range.at(upto - 1)?
        ])?;
    }
    let mut insert = conn.prepare_cached("INSERT INTO message VALUES (?1, ?2, row_sum(?1, ?2))")?;
    for (position, message) in (upto..).zip(&fork.messages) {
        insert.execute(params![copy.range.at(position)?, message])?;
    }
    for table in ["field", "label"] {
        conn.prepare_cached(&format!(
            "INSERT INTO {table} SELECT ?2, name, value,
                 CASE WHEN sum = row_sum(sid, name, value) THEN row_sum(?2, name, value) END
             FROM {table} WHERE sid = ?1"
        ))?
        .execute([origin.sid, copy.sid])?;
    }
    for (invocation_id, waiting) in fork.suspended {
        suspension::begin(conn, &copy, &invocation_id, waiting, fork.now)?;
    }
    if let Some((work, resumes)) = fork.work {
        let arrival = Arrival {
            work,
            resumes,
            key: None,
            digest: None,
            retries: None,
            only_if_idle: false,
            only_after: None,
            only_created_at: None,
            cancel: None,
            now: fork.now,
        };
        inbox::put(conn, &copy, arrival)?;
    }
    Ok(())
}
