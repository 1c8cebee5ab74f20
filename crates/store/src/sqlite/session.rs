//! The row of a session, its lease, its history and its labels.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, BegunTurn, BoundLabel, CancelMode, LabelResult, Lease, LeaseResult, SessionFilter,
    SessionInfo, SessionLocation, StoreError, check_session_id, clock_of, is_same_holder,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Map, Value};

use super::column::{Count, Json, Range, TimestampColumn, limit};
use super::error::SqliteResult;
use super::message_body::MessageBody;
use super::{inbox, seal, sound};

/// The state of a session that most operations require.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) sid: i64,
    pub(super) range: Range,
    /// The number of messages.
    pub(super) seq: u64,
    /// The number of entries ever queued.
    pub(super) entries: u64,
    /// The number of settled entries.
    pub(super) cursor: u64,
    epoch: u64,
    holder: Option<(String, Timestamp)>,
}

impl Head {
    /// Returns the number of the running or next entry.
    pub(super) const fn front(&self) -> Option<u64> {
        if self.cursor < self.entries {
            Some(self.cursor + 1)
        } else {
            None
        }
    }

    /// Returns the other owner of the session, and the end of its lease.
    fn holder_beside(
        &self,
        owner: &str,
        gone: Option<(String, Timestamp)>,
        now: Timestamp,
    ) -> Option<(String, Timestamp)> {
        let (holder, until) = self.holder.as_ref()?;
        let is_held = !is_same_holder(holder, owner)
            && (now < *until || clock_of(holder) != clock_of(owner))
            && !gone.is_some_and(|(gone, end)| gone == *holder && end == *until);
        is_held.then(|| (holder.clone(), *until))
    }

    /// Returns the store that continues the session.
    pub(super) fn location(&self) -> SessionLocation {
        let lease = self.holder.as_ref();
        SessionLocation::from_lease(lease.map(|(owner, until)| (owner.as_str(), *until)))
    }
}

/// Returns the time at which a session was created, if it exists.
pub(super) fn created_at(conn: &Connection, session: &str) -> SqliteResult<Option<Timestamp>> {
    let found = conn
        .prepare_cached("SELECT created_at FROM session WHERE id = ?1")?
        .query_row([session], |row| Ok(row.get::<_, TimestampColumn>(0)?.0))
        .optional()?;
    Ok(found)
}

pub(super) fn find(conn: &Connection, session: &str) -> SqliteResult<Option<Head>> {
    let row = conn
        .prepare_cached(
            "SELECT sid, seq, entries, cursor, epoch, owner, until FROM session WHERE id = ?1",
        )?
        .query_row([session], |row| {
            let TimestampColumn(until) = row.get(6)?;
            let owner: Option<String> = row.get(5)?;
            Ok((
                row.get(0)?,
                [row.get::<_, Count>(1)?.0, row.get::<_, Count>(2)?.0],
                [row.get::<_, Count>(3)?.0, row.get::<_, Count>(4)?.0],
                owner.map(|owner| (owner, until)),
            ))
        })
        .optional()?;
    let Some((sid, [seq, entries], [cursor, epoch], holder)) = row else {
        return Ok(None);
    };
    Ok(Some(Head {
        sid,
        range: Range::from_session(sid)?,
        seq,
        entries,
        cursor,
        epoch,
        holder,
    }))
}

/// Returns the session, and creates it if it is missing.
pub(super) fn find_or_create(
    conn: &Connection,
    session: &str,
    now: Timestamp,
) -> SqliteResult<Head> {
    if let Some(head) = find(conn, session)? {
        head.location().check(session)?;
        sound::check_row(conn, head.sid, session)?;
        return Ok(head);
    }
    check_session_id(session)?;
    conn.prepare_cached(
        "INSERT INTO session (id, epoch, created_at, updated_at)
         VALUES (?1, ifnull((SELECT value FROM meta WHERE name = 'epochs'), 0), ?2, ?2)",
    )?
    .execute(params![session, TimestampColumn(now)])?;
    seal::seal_session(conn, conn.last_insert_rowid())?;
    existing(conn, session)
}

pub(super) fn existing(conn: &Connection, session: &str) -> SqliteResult<Head> {
    Ok(find(conn, session)?.ok_or_else(|| missing(session))?)
}

/// Returns the session, unless another store continues it.
pub(super) fn usable(conn: &Connection, session: &str) -> SqliteResult<Head> {
    let head = existing(conn, session)?;
    head.location().check(session)?;
    Ok(head)
}

/// Returns the session of a lease, if the lease is valid.
pub(super) fn owned(conn: &Connection, lease: &Lease) -> SqliteResult<Head> {
    let head = existing(conn, &lease.session)?;
    let holder = head.holder.as_ref();
    if head.epoch == lease.epoch && holder.is_some_and(|(owner, _)| *owner == lease.owner) {
        return Ok(head);
    }
    Err(StoreError::Fenced {
        session: lease.session.clone(),
        epoch: lease.epoch,
        current: head.epoch,
    }
    .into())
}

pub(super) fn acquire(
    conn: &Connection,
    session: String,
    owner: String,
    gone: Option<(String, Timestamp)>,
    now: Timestamp,
    ttl: Duration,
) -> SqliteResult<LeaseResult> {
    let head = usable(conn, &session)?;
    if let Some((owner, until)) = head.holder_beside(&owner, gone, now) {
        return Ok(LeaseResult::Held { owner, until });
    }
    sound::check(conn, head.sid, &session)?;
    let epoch = head.epoch + 1;
    conn.prepare_cached("UPDATE session SET epoch = ?2, owner = ?3, until = ?4 WHERE sid = ?1")?
        .execute(params![
            head.sid,
            Count(epoch),
            owner,
            TimestampColumn(now.after(ttl))
        ])?;
    Ok(LeaseResult::Lease(Lease {
        session,
        owner,
        epoch,
    }))
}

/// Takes a session and marks its next entry as running, unless nothing waits.
pub(super) fn begin(
    conn: &Connection,
    session: String,
    owner: String,
    invocation_id: String,
    now: Timestamp,
    ttl: Duration,
) -> SqliteResult<BeginResult> {
    let head = usable(conn, &session)?;
    if let Some((owner, until)) = head.holder_beside(&owner, None, now) {
        return Ok(BeginResult::Held { owner, until });
    }
    if head.front().is_none() {
        return Ok(BeginResult::Idle);
    }
    let lease = match acquire(conn, session, owner, None, now, ttl)? {
        LeaseResult::Lease(lease) => lease,
        LeaseResult::Held { owner, until } => return Ok(BeginResult::Held { owner, until }),
        _ => return Ok(BeginResult::Idle),
    };
    let claimed = inbox::claim_next(conn, &lease, invocation_id)?;
    // What cannot be read now fails the turn.
    let info = info(conn, &lease.session).unwrap_or_default();
    Ok(claimed.map_or(BeginResult::Idle, |claimed| {
        BeginResult::Turn(Box::new(BegunTurn {
            lease,
            claimed,
            info,
        }))
    }))
}

pub(super) fn renew(
    conn: &Connection,
    lease: &Lease,
    until: Timestamp,
) -> SqliteResult<Option<CancelMode>> {
    let head = owned(conn, lease)?;
    conn.prepare_cached("UPDATE session SET until = ?2 WHERE sid = ?1")?
        .execute(params![head.sid, TimestampColumn(until)])?;
    Ok(inbox::front(conn, &head)?.and_then(|front| front.cancel))
}

pub(super) fn release(conn: &Connection, lease: &Lease) -> SqliteResult<()> {
    conn.prepare_cached(
        "UPDATE session SET owner = NULL, until = 0
         WHERE id = ?1 AND epoch = ?2 AND owner = ?3",
    )?
    .execute(params![lease.session, Count(lease.epoch), lease.owner])?;
    Ok(())
}

pub(super) fn set_label(
    conn: &Connection,
    session: &str,
    name: &str,
    value: &str,
    now: Timestamp,
) -> SqliteResult<()> {
    let head = find_or_create(conn, session, now)?;
    conn.prepare_cached(
        "INSERT INTO label VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))
         ON CONFLICT DO UPDATE SET value = excluded.value, sum = excluded.sum",
    )?
    .execute(params![head.sid, name, value])?;
    touch(conn, head.sid, now)
}

/// Sets a label unless the session has one of the name. Returns the earlier value.
pub(super) fn set_label_once(
    conn: &Connection,
    session: &str,
    name: &str,
    value: &str,
    now: Timestamp,
) -> SqliteResult<Option<Value>> {
    if let Some(head) = find(conn, session)? {
        let earlier = conn
            .prepare_cached(
                "SELECT value, sum IS row_sum(sid, name, value) FROM label
                 WHERE sid = ?1 AND name = ?2",
            )?
            .query_row(params![head.sid, name], |row| {
                let Json(value) = row.get(0)?;
                Ok((value, row.get::<_, bool>(1)?))
            })
            .optional()?;
        if let Some((earlier, is_sound)) = earlier {
            if !is_sound {
                return Err(sound::damaged(session, "a label").into());
            }
            head.location().check(session)?;
            return Ok(Some(earlier));
        }
    }
    set_label(conn, session, name, value, now)?;
    Ok(None)
}

/// Sets a label of the session with the required time of creation.
pub(super) fn set_bound_label(
    conn: &Connection,
    session: &str,
    label: &BoundLabel,
    value: &str,
) -> SqliteResult<LabelResult> {
    if created_at(conn, session)? != Some(label.only_created_at) {
        return Ok(LabelResult::OtherSession);
    }
    let (name, now) = (&label.name, label.now);
    if label.only_if_new {
        let earlier = set_label_once(conn, session, name, value, now)?;
        return Ok(LabelResult::from_earlier(earlier));
    }
    set_label(conn, session, name, value, now)?;
    Ok(LabelResult::Set)
}

/// Updates the time of the last change, which never decreases.
pub(super) fn touch(conn: &Connection, sid: i64, now: Timestamp) -> SqliteResult<()> {
    conn.prepare_cached("UPDATE session SET updated_at = ?2 WHERE sid = ?1 AND updated_at < ?2")?
        .execute(params![sid, TimestampColumn(now)])?;
    seal::seal_session(conn, sid)
}

/// The columns of an overview.
const INFO: &str = "SELECT sid, id, seq, entries, cursor, epoch, has_state, schema_version, \
                    created_at, updated_at, owner FROM session";

pub(super) fn info(conn: &Connection, session: &str) -> SqliteResult<Option<SessionInfo>> {
    let found = conn
        .prepare_cached(&format!("{INFO} WHERE id = ?1"))?
        .query_row([session], overview)
        .optional()?;
    found
        .map(|(sid, bare)| with_values(conn, sid, bare))
        .transpose()
}

pub(super) fn list(conn: &Connection, filter: &SessionFilter) -> SqliteResult<Vec<SessionInfo>> {
    let order = "ORDER BY updated_at DESC, id LIMIT ?1";
    let most = limit(filter.limit.unwrap_or(usize::MAX));
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let sql = format!(
        "{INFO} WHERE id >= ?2 AND (?3 IS NULL OR id < ?3)
         AND (NOT ?4 OR entries > cursor) {order}"
    );
    let found: Vec<_> = conn
        .prepare_cached(&sql)?
        .query_map(
            params![most, prefix, successor(prefix), filter.is_pending],
            overview,
        )?
        .collect::<Result<_, _>>()?;
    found
        .into_iter()
        .map(|(sid, bare)| with_values(conn, sid, bare))
        .collect()
}

pub(super) fn history(
    conn: &Connection,
    session: &str,
    from: u64,
    most: usize,
) -> SqliteResult<Vec<Value>> {
    let Some(head) = find(conn, session)?.filter(|head| from < head.seq) else {
        return Ok(Vec::new());
    };
    let mut statement = conn.prepare_cached(
        "SELECT pos, body, sum FROM message WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT ?3",
    )?;
    let places = params![head.range.at(from)?, head.range.last(), limit(most)];
    let mut rows = statement.query(places)?;
    let mut messages = Vec::new();
    for seq in from.. {
        let Some(row) = rows.next()? else {
            break;
        };
        let sum = seal::sum_of_row(&[row.get_ref(0)?, row.get_ref(1)?]);
        let is_sound = row.get::<_, Option<i64>>(2)? == Some(sum);
        if !is_sound || row.get::<_, i64>(0)? != head.range.at(seq)? {
            return Err(sound::damaged(session, &format!("message {seq}")).into());
        }
        messages.push(row.get::<_, MessageBody>(1)?.0);
    }
    Ok(messages)
}

/// Removes a session, unless it was moved.
pub(super) fn delete_usable(conn: &Connection, session: &str) -> SqliteResult<bool> {
    let location = find(conn, session)?.map(|head| head.location());
    if let Some(moved @ SessionLocation::Moved { .. }) = location {
        moved.check(session)?;
    }
    delete(conn, session)
}

pub(super) fn delete(conn: &Connection, session: &str) -> SqliteResult<bool> {
    let Some(head) = find(conn, session)? else {
        return Ok(false);
    };
    // A lease of this session must not match a later session of that name.
    conn.prepare_cached(
        "INSERT INTO meta VALUES ('epochs', ?1)
         ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
    )?
    .execute([Count(head.epoch)])?;
    for table in ["message", "entry", "audit"] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE pos BETWEEN ?1 AND ?2"))?
            .execute([head.range.first(), head.range.last()])?;
    }
    conn.prepare_cached("DELETE FROM session WHERE sid = ?1")?
        .execute([head.sid])?;
    Ok(true)
}

/// Removes a session that has not changed since a time, unless it is in use.
pub(super) fn prune(
    conn: &Connection,
    session: &str,
    unchanged_since: Timestamp,
    busy_too: bool,
) -> SqliteResult<bool> {
    let busy_too = match find(conn, session)?.map(|head| head.location()) {
        None | Some(SessionLocation::Arriving { .. }) => return Ok(false),
        Some(SessionLocation::Moved { .. }) => true,
        Some(_) => busy_too,
    };
    let is_pruned: bool = conn
        .prepare_cached(
            "SELECT updated_at <= ?2 AND (?3 OR (entries = cursor AND NOT EXISTS
                 (SELECT 1 FROM suspension WHERE sid = session.sid AND status < 2)))
             FROM session WHERE id = ?1",
        )?
        .query_row(
            params![session, TimestampColumn(unchanged_since), busy_too],
            |row| row.get(0),
        )
        .optional()?
        .unwrap_or_default();
    Ok(is_pruned && delete(conn, session)?)
}

fn overview(row: &Row<'_>) -> rusqlite::Result<(i64, SessionInfo)> {
    let Count(entries) = row.get(3)?;
    let Count(cursor) = row.get(4)?;
    let owner: Option<String> = row.get(10)?;
    let location = SessionLocation::from_lease(owner.as_deref().map(|name| (name, Timestamp(0))));
    let pending = match location {
        SessionLocation::Here { .. } => entries.saturating_sub(cursor),
        _ => 0,
    };
    let bare = SessionInfo {
        session: row.get(1)?,
        seq: row.get::<_, Count>(2)?.0,
        fields: Map::new(),
        schema_version: row.get(7)?,
        has_state: row.get(6)?,
        labels: Map::new(),
        epoch: row.get::<_, Count>(5)?.0,
        cursor,
        pending,
        elsewhere: location.elsewhere(),
        created_at: row.get::<_, TimestampColumn>(8)?.0,
        updated_at: row.get::<_, TimestampColumn>(9)?.0,
    };
    Ok((row.get(0)?, bare))
}

fn with_values(conn: &Connection, sid: i64, bare: SessionInfo) -> SqliteResult<SessionInfo> {
    Ok(SessionInfo {
        fields: values(conn, "SELECT name, value FROM field WHERE sid = ?1", sid)?,
        labels: values(conn, "SELECT name, value FROM label WHERE sid = ?1", sid)?,
        ..bare
    })
}

fn values(conn: &Connection, sql: &str, sid: i64) -> SqliteResult<Map<String, Value>> {
    let values = conn
        .prepare_cached(sql)?
        .query_map([sid], |row| {
            let Json(value) = row.get(1)?;
            Ok((row.get(0)?, value))
        })?
        .collect::<Result<_, _>>()?;
    Ok(values)
}

/// Returns the first text after all that begin with `prefix`, if there is one.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn missing(session: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("session `{session}`"),
    }
}
