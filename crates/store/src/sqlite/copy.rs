//! Copies of a store while others use it: backup, restore and vacuum. All of them block.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use logue_harness::Timestamp;
use logue_harness::store::{IntegrityReport, SessionLocation, StoreError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior, params};

use super::column::TimestampColumn;
use super::error::{SqliteError, SqliteResult, database, file as file_error};
use super::file::{self, Access};
use super::transfer::NEVER;
use super::{SqliteOptions, event_log, seal, verify};

/// The pause between attempts while another process writes.
const PAUSE: Duration = Duration::from_millis(10);

/// The time for which sessions are held while their store is replaced.
const HELD: Duration = Duration::from_secs(60);

/// The result of [`restore`].
#[derive(Debug)]
pub struct RestoreReport {
    /// The check of the restored content. With faults, nothing was changed.
    pub integrity: IntegrityReport,
    /// The sessions that the store had moved to another one, each with its address.
    ///
    /// They stay moved, whatever the backup has of them.
    pub moved: Vec<(String, String)>,
}

/// Copies the state of one moment to a new file, and checks the copy.
///
/// Other processes may write meanwhile. Only the owner can read the file. If the report has faults,
/// there is no file.
///
/// # Errors
/// Returns [`StoreError::Exists`] if the file exists, and the errors of the store and the disk.
pub fn back_up(store: &Path, target: &Path) -> Result<IntegrityReport, StoreError> {
    let exists = || StoreError::Exists {
        what: format!("a file `{}`", target.display()),
    };
    if target.exists() {
        return Err(exists());
    }
    let timeout = SqliteOptions::default().busy_timeout;
    let source = open_source(store, timeout)?;
    let part = Part::new(target)?;
    copy(&source, &part.0, timeout).map_err(|error| error.into_store_error(&part.0))?;
    let report = checked(&part.0, timeout)?;
    if !report.faults.is_empty() {
        return Ok(report);
    }
    let placed = File::open(&part.0)
        .and_then(|copy| copy.sync_all())
        .and_then(|()| place(&part.0, target))
        .and_then(|()| file::sync_folder(file::folder_of(target)));
    match placed {
        Ok(()) => Ok(report),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists()),
        Err(error) => Err(file_error(target, error)),
    }
}

/// Gives a file its name. A file that another program made meanwhile is not replaced.
fn place(part: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(part, target) {
        // The file system has no links.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(part, target),
        linked => linked,
    }
}

/// Replaces the content of a store by that of a checked backup.
///
/// The file is unchanged, and its leases are not restored: a process that runs a turn of the store
/// meanwhile loses its session. A session that the store had moved stays moved, because the other
/// store continues it: the backup may be older than the move. If the report has faults, nothing was
/// changed.
///
/// # Errors
/// Returns [`StoreError::Exists`] if the store has sessions and `replace` is false,
/// [`StoreError::Arriving`] if a session is on its way to the store, and the errors of the file and
/// the store.
pub fn restore(
    backup: &Path,
    store: &Path,
    replace: bool,
    now: Timestamp,
) -> Result<RestoreReport, StoreError> {
    let begun = Instant::now();
    let timeout = SqliteOptions::default().busy_timeout;
    let source = open_source(backup, timeout)?;
    // Migrations and the reset of leases happen in a copy, so that the backup stays as it is.
    let mut target = file::open(store, timeout, None)?;
    let has_sessions: bool = target
        .query_row("SELECT EXISTS (SELECT 1 FROM session)", [], |row| {
            row.get(0)
        })
        .map_err(|error| database(store, error))?;
    if has_sessions && !replace {
        return Err(StoreError::Exists {
            what: format!("a session in `{}`", store.display()),
        });
    }
    let moved = moved_sessions(&target).map_err(|error| error.into_store_error(store))?;
    let part = Part::new(store)?;
    copy(&source, &part.0, timeout).map_err(|error| error.into_store_error(&part.0))?;
    let copied = file::open(&part.0, timeout, None)?;
    reset_leases(&copied, now)
        .map_err(SqliteError::from)
        .and_then(|()| keep_marks(&copied, &moved, now))
        .map_err(|error| error.into_store_error(&part.0))?;
    let checked = verify::verify(&copied, &part.0, None);
    let integrity = checked.map_err(|error| error.into_store_error(&part.0))?;
    if !integrity.faults.is_empty() {
        return Ok(RestoreReport { integrity, moved });
    }
    let passed = u64::try_from((begun.elapsed() + HELD).as_millis()).unwrap_or(u64::MAX);
    let until = Timestamp(now.0.saturating_add(passed));
    hold(&mut target, &moved, until).map_err(|error| error.into_store_error(store))?;
    if let Err(error) = step(&copied, &mut target, timeout) {
        // Otherwise the leases end by themselves.
        drop(release_leases(&target));
        return Err(error.into_store_error(store));
    }
    // It repeats the sessions that were replaced.
    event_log::remove(store)?;
    let checked = verify::verify(&target, store, None);
    let integrity = checked.map_err(|error| error.into_store_error(store))?;
    Ok(RestoreReport { integrity, moved })
}

/// Returns the sessions that another store continues, with its address.
///
/// # Errors
/// Returns [`StoreError::Arriving`] if a session is on its way here: its old store may already have
/// marked it, so that the record here is the only one.
fn moved_sessions(conn: &Connection) -> SqliteResult<Vec<(String, String)>> {
    let mut statement =
        conn.prepare("SELECT id, owner FROM session WHERE owner IS NOT NULL ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut moved = Vec::new();
    while let Some(row) = rows.next()? {
        let (session, owner): (String, String) = (row.get(0)?, row.get(1)?);
        match SessionLocation::from_lease(Some((&owner, NEVER))) {
            SessionLocation::Moved { to } => moved.push((session, to)),
            arriving @ SessionLocation::Arriving { .. } => arriving.check(&session)?,
            _ => {}
        }
    }
    Ok(moved)
}

/// Marks sessions as moved. One that the backup does not have becomes an empty record.
fn keep_marks(conn: &Connection, moved: &[(String, String)], now: Timestamp) -> SqliteResult<()> {
    for (session, to) in moved {
        let owner = SessionLocation::moved_owner(to);
        let is_marked = conn.execute(
            "UPDATE session SET owner = ?2, until = ?3 WHERE id = ?1",
            params![session, owner, TimestampColumn(NEVER)],
        )?;
        if is_marked == 0 {
            conn.execute(
                "INSERT INTO session (id, epoch, owner, until, created_at, updated_at)
                 VALUES (?1, ?4, ?2, ?3, ?4, ?4)",
                params![session, owner, TimestampColumn(NEVER), TimestampColumn(now)],
            )?;
            seal::seal_session(conn, conn.last_insert_rowid())?;
        }
    }
    Ok(())
}

/// Takes the leases of a store whose content is about to be replaced.
///
/// No turn and no move can begin or end until then: the mark of a move would be lost.
///
/// # Errors
/// Returns [`StoreError::Unavailable`] if a session was moved after the marks were read.
fn hold(target: &mut Connection, moved: &[(String, String)], until: Timestamp) -> SqliteResult<()> {
    let transaction = target.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if moved_sessions(&transaction)? != moved {
        return Err(SqliteError::Refused(StoreError::Unavailable {
            message: "sessions of the store were moved meanwhile; try again".to_owned(),
            source: None,
        }));
    }
    let [moved, arriving] = SessionLocation::MARKS;
    transaction.execute(
        "UPDATE session SET owner = 'restore', until = ?3, epoch = epoch + 1
         WHERE owner IS NULL OR (owner NOT LIKE ?1 || '%' AND owner NOT LIKE ?2 || '%')",
        params![moved, arriving, TimestampColumn(until)],
    )?;
    transaction.commit()?;
    Ok(())
}

/// Rewrites a store without its free pages; returns the freed bytes.
///
/// # Errors
/// Returns the errors of the store; it is unchanged then.
pub fn vacuum(store: &Path) -> Result<u64, StoreError> {
    let timeout = SqliteOptions::default().busy_timeout;
    let conn = file::open(store, timeout, None)?;
    let size = || -> rusqlite::Result<i64> {
        let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0))?;
        let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        Ok(pages * page)
    };
    let vacuumed = || -> SqliteResult<i64> {
        let before = size()?;
        file::with_busy_retry(timeout, || conn.execute_batch("VACUUM"))?;
        conn.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))?;
        Ok(before - size()?)
    };
    let freed = vacuumed().map_err(|error| error.into_store_error(store))?;
    Ok(u64::try_from(freed).unwrap_or_default())
}

/// A new file that is removed with its journals unless it was renamed.
struct Part(PathBuf);

impl Part {
    /// Creates an empty file beside another one.
    fn new(target: &Path) -> Result<Self, StoreError> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = Self(PathBuf::from(name));
        file::private_file(&part.0).map_err(|error| file_error(&part.0, error))?;
        Ok(part)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // A file that was renamed is missing.
            drop(fs::remove_file(file::beside(&self.0, suffix)));
        }
    }
}

/// Opens a store to be copied, without changing it.
fn open_source(path: &Path, timeout: Duration) -> Result<Connection, StoreError> {
    if !file::exists_as_ours(path)? {
        return Err(StoreError::NotFound {
            what: format!("file `{}`", path.display()),
        });
    }
    let access = file::marked_read_only(path).unwrap_or(Access::ReadWrite);
    match file::open_reader(path, timeout, access) {
        Err(error) if file::permits_reading(path, &error) => {
            file::open_reader(path, timeout, file::read_only(path))
        }
        opened => opened,
    }
}

fn copy(source: &Connection, target: &Path, timeout: Duration) -> SqliteResult<()> {
    let mut target = Connection::open(target)?;
    step(source, &mut target, timeout)?;
    // The copy must not depend on a log beside it.
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    Ok(())
}

/// Copies all pages in one step, which is one transaction of the target.
fn step(source: &Connection, target: &mut Connection, timeout: Duration) -> SqliteResult<()> {
    let begun = Instant::now();
    let backup = Backup::new(source, target)?;
    loop {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            _ if begun.elapsed() < timeout => thread::sleep(PAUSE),
            _ => {
                return Err(SqliteError::Refused(StoreError::Unavailable {
                    message: "another process writes to the store; try again".to_owned(),
                    source: None,
                }));
            }
        }
    }
}

fn checked(path: &Path, timeout: Duration) -> Result<IntegrityReport, StoreError> {
    let access = Access::ReadOnly { is_unused: true };
    let conn = file::open_reader(path, timeout, access)?;
    verify::verify(&conn, path, None).map_err(|error| error.into_store_error(path))
}

/// Gives all sessions back under epochs that no owner of either store had.
///
/// Sessions that another store continues stay marked so.
fn reset_leases(conn: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let now = TimestampColumn(now);
    release_leases(conn)?;
    conn.execute("UPDATE session SET epoch = max(epoch + 1, ?1)", [now])?;
    conn.execute(
        "INSERT INTO meta VALUES ('epochs', ?1)
         ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
        [now],
    )?;
    Ok(())
}

/// Removes the owners of all sessions that this store continues.
fn release_leases(conn: &Connection) -> rusqlite::Result<()> {
    let [moved, arriving] = SessionLocation::MARKS;
    conn.execute(
        "UPDATE session SET owner = NULL, until = 0
         WHERE owner NOT LIKE ?1 || '%' AND owner NOT LIKE ?2 || '%'",
        [moved, arriving],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::time::Duration;

    use logue_harness::store::{EntryPayload, LeaseResult, NewEntry, SessionLocation, Store as _};
    use logue_harness::{Clock as _, SystemClock, Timestamp};

    use super::super::SqliteStore;
    use super::{file, hold, moved_sessions, place, release_leases};

    #[tokio::test]
    async fn a_store_that_is_restored_gives_no_lease() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open(&path).unwrap();
        let (ttl, now) = (Duration::from_secs(30), SystemClock.now());
        let entry = NewEntry {
            work: EntryPayload::Quarantined,
            key: None,
            digest: None,
            retries: None,
            only_if_idle: false,
            only_after: None,
            only_created_at: None,
            cancel: None,
            now,
        };
        store.enqueue("s", entry).await.unwrap();
        let LeaseResult::Lease(lease) = store.acquire("s", "server", now, ttl).await.unwrap()
        else {
            panic!("the session is free");
        };
        let mut target = file::open(&path, ttl, None).unwrap();
        hold(&mut target, &[], Timestamp(now.0 + 60_000)).unwrap();
        assert!(store.renew(&lease, now, ttl).await.is_err());
        let held = store.acquire("s", "mover", now, ttl).await.unwrap();
        assert!(matches!(held, LeaseResult::Held { .. }), "{held:?}");
        release_leases(&target).unwrap();
        let free = store.acquire("s", "mover", now, ttl).await.unwrap();
        assert!(matches!(free, LeaseResult::Lease(_)), "{free:?}");

        // A move that ended after the marks were read is not forgotten.
        let owner = SessionLocation::moved_owner("sqlite:new.db");
        target
            .execute("UPDATE session SET owner = ?1", [owner])
            .unwrap();
        assert_eq!(moved_sessions(&target).unwrap().len(), 1);
        assert!(hold(&mut target, &[], now).is_err());
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (part, target) = (folder.path().join("part"), folder.path().join("target"));
        fs::write(&part, "copy").unwrap();
        fs::write(&target, "theirs").unwrap();
        let placed = place(&part, &target);
        assert_eq!(placed.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
    }
}
