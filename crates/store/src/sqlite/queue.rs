//! The threads between callers and the database.
//!
//! One thread writes. All queued requests go into one transaction, each with its own savepoint, so
//! that a failed request undoes only itself. All callers receive their results when that transaction
//! is on the disk. Concurrent sessions share the cost of the flush. A transaction of requests that
//! need no flush ([`Flush::WithLater`]) is not flushed.
//!
//! A few threads read. Each request has a transaction of its own, each thread a connection of its
//! own, and a read sees all writes that were confirmed before it began.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logue_harness::store::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::{SqliteResult, database, file};
use super::file::{Access, Identity, empty_log, open_reader, undo_if_failed, with_busy_retry};
use super::requests::{RequestThread, Requests};

/// The maximum number of requests that share a transaction.
const BATCH: usize = 256;
/// The number of consecutive batches before a pause of [`BREATH`] for other processes.
///
/// The pause is longer than the interval at which other processes retry.
const STREAK: u32 = 16;
const BREATH: Duration = Duration::from_millis(3);
/// The stack size of a thread, sufficient for the deepest JSON that can be stored.
const STACK: usize = 4 << 20;
/// The number of free pages at which they are returned to the file system.
///
/// They must also be at least a quarter of the file.
const SPARE: i64 = 256;

/// The interval between two transactions, for each request of the first one.
const INTERVAL: Duration = Duration::from_micros(200);
/// The longest of these intervals.
const MAX_INTERVAL: Duration = Duration::from_millis(5);

/// The beginning of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It begins with the first request.
    AtOnce,
    /// It waits up to 5 ms for others above 5,000 requests a second.
    Gathered,
}

/// The time at which a change is on the disk.
///
/// Other processes see a change when it is confirmed, and keep it if this process ends. Only a failure
/// of the machine undoes changes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Before it is confirmed.
    BeforeAnswer,
    /// With the next change that is flushed. A log is flushed as a whole, so that no later change
    /// survives without it.
    WithLater,
}

/// A queued request for a connection.
pub(super) trait Job: Send {
    /// Returns when its changes are flushed.
    fn flush(&self) -> Flush;

    /// Runs the request, stores the result for `answer`, and returns whether it succeeded.
    fn run(&mut self, conn: &Connection, path: &Path) -> bool;

    /// Sends the caller the result, or `failure`.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

/// The queue of requests, with its threads.
#[derive(Debug)]
pub(super) struct Queue {
    requests: Arc<Requests>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
    /// Set if the log beside the file must be emptied after the current transaction.
    erased: Arc<AtomicBool>,
}

impl Queue {
    /// Starts the thread that writes.
    pub(super) fn to_write(
        conn: Connection,
        path: &Path,
        busy_timeout: Duration,
        pace: Pace,
    ) -> Result<Self, StoreError> {
        let requests = Arc::<Requests>::default();
        let erased = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            conn,
            erased: Arc::clone(&erased),
            identity: Identity::from_path(path)?,
            path: path.to_owned(),
            busy_timeout,
            pace,
            flushes: None,
        };
        let own = requests.thread();
        let thread = start("store-writer", path, move || writer.process(&own))?;
        Ok(Self {
            requests,
            threads: vec![thread],
            path: path.to_owned(),
            erased,
        })
    }

    /// Starts threads that read. Each opens its connection when it gets its first request.
    pub(super) fn to_read(
        count: usize,
        path: &Path,
        busy_timeout: Duration,
        access: Access,
    ) -> Result<Self, StoreError> {
        let requests = Arc::<Requests>::default();
        let mut threads = Vec::new();
        for _ in 0..count.max(1) {
            let (path_of_thread, own) = (path.to_owned(), requests.thread());
            threads.push(start("store-reader", path, move || {
                read_all(&path_of_thread, &own, busy_timeout, access);
            })?);
        }
        Ok(Self {
            requests,
            threads,
            path: path.to_owned(),
            erased: Arc::default(),
        })
    }

    /// Returns the flag that an operation sets to empty the log beside the file.
    ///
    /// The log has earlier contents of the pages. It is emptied before the operation is confirmed.
    pub(super) fn erased(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.erased)
    }

    /// Queues a request on the first poll, and completes with its result.
    ///
    /// A request whose future was dropped before its turn is skipped.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        flush: Flush,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let request = Request {
                flush,
                operation: Some(operation),
                result: None,
                reply,
            };
            self.requests.push(Box::new(request));
            match answer.await {
                Ok(result) => result,
                Err(_) => Err(StoreError::Unavailable {
                    message: format!("{}: the store was closed", self.path.display()),
                    source: None,
                }),
            }
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.requests.close();
        for thread in self.threads.drain(..) {
            // The result of a panicked thread is irrelevant.
            drop(thread.join());
        }
    }
}

struct Request<T, F> {
    flush: Flush,
    operation: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnOnce(&Connection) -> SqliteResult<T> + Send> Job for Request<T, F> {
    fn flush(&self) -> Flush {
        self.flush
    }

    fn run(&mut self, conn: &Connection, path: &Path) -> bool {
        let Some(operation) = self.operation.take().filter(|_| !self.reply.is_closed()) else {
            return true;
        };
        let result = operation(conn).map_err(|error| error.into_store_error(path));
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let result = match (self.result, failure) {
            // A refusal is reported even if the shared transaction fails.
            (Some(Err(refused)), _) => Err(refused),
            (_, Some(failure)) => Err(failure),
            (Some(result), None) => result,
            (None, None) => return,
        };
        // The caller may have dropped its future.
        drop(self.reply.send(result));
    }
}

fn start(
    name: &str,
    path: &Path,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|error| file(path, error))
}

/// The state of the writer thread.
struct Writer {
    conn: Connection,
    erased: Arc<AtomicBool>,
    identity: Identity,
    path: PathBuf,
    busy_timeout: Duration,
    pace: Pace,
    /// The flush that the connection is set to; `None` before the first request.
    flushes: Option<Flush>,
}

impl Writer {
    /// Processes requests until the queue is closed.
    fn process(mut self, requests: &RequestThread) {
        let mut streak = 0;
        let (mut begun, mut interval) = (Instant::now(), Duration::ZERO);
        while let Some((first, has_waited)) = requests.next() {
            streak = if has_waited { streak + 1 } else { 0 };
            if streak > 0 && streak % STREAK == 0 {
                thread::sleep(BREATH);
            }
            if self.pace == Pace::Gathered {
                let wait = interval.saturating_sub(begun.elapsed());
                if !wait.is_zero() {
                    thread::sleep(wait);
                }
                begun = Instant::now();
            }
            let mut batch = vec![first];
            requests.fill(&mut batch, BATCH);
            let count = u32::try_from(batch.len() - 1).unwrap_or(u32::MAX);
            interval = INTERVAL.saturating_mul(count).min(MAX_INTERVAL);
            let failure = self
                .write(&mut batch)
                .err()
                .map(|error| error.into_store_error(&self.path));
            if self.erased.swap(false, Ordering::Relaxed) {
                empty_log(&self.conn);
            }
            for job in batch {
                job.answer(failure.clone());
            }
        }
    }

    /// Runs all jobs in one transaction.
    ///
    /// It is on the disk when this returns, if a job needs that.
    fn write(&mut self, batch: &mut [Box<dyn Job>]) -> SqliteResult<()> {
        self.identity.check()?;
        self.set_flush(batch)?;
        let conn = &self.conn;
        with_busy_retry(self.busy_timeout, || step(conn, "BEGIN IMMEDIATE"))?;
        let written = write_each(conn, &self.path, batch).and_then(|()| {
            give_back_spare_pages(conn)?;
            Ok(step(conn, "COMMIT")?)
        });
        undo_if_failed(conn, written)
    }

    /// Makes the connection flush the transaction of these jobs, or not.
    fn set_flush(&mut self, batch: &[Box<dyn Job>]) -> SqliteResult<()> {
        if self.pace == Pace::Gathered {
            // The log of events has one setting for all of its changes.
            return Ok(());
        }
        let is_later = batch.iter().all(|job| job.flush() == Flush::WithLater);
        let wanted = if is_later {
            Flush::WithLater
        } else {
            Flush::BeforeAnswer
        };
        if self.flushes != Some(wanted) {
            let mode = if is_later { "NORMAL" } else { "FULL" };
            self.conn.pragma_update(None, "synchronous", mode)?;
            self.flushes = Some(wanted);
        }
        Ok(())
    }
}

/// Runs a statement without rows, which is compiled once.
fn step(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(drop)
}

fn write_each(conn: &Connection, path: &Path, batch: &mut [Box<dyn Job>]) -> SqliteResult<()> {
    for job in batch {
        step(conn, "SAVEPOINT request")?;
        if !job.run(conn, path) {
            if conn.is_autocommit() {
                return Err(ended_for_all(path).into());
            }
            step(conn, "ROLLBACK TO request")?;
        }
        step(conn, "RELEASE request")?;
    }
    Ok(())
}

/// Returns the error for requests whose shared transaction another request ended.
///
/// A full disk, for example, ends the transaction.
fn ended_for_all(path: &Path) -> StoreError {
    StoreError::Unavailable {
        message: format!(
            "{}: an operation that shared the transaction failed and ended it; try again",
            path.display()
        ),
        source: None,
    }
}

/// Returns excess free pages, left by deleted sessions, to the file system.
fn give_back_spare_pages(conn: &Connection) -> SqliteResult<()> {
    let count = |query| {
        conn.prepare_cached(query)?
            .query_row([], |row| row.get::<_, i64>(0))
    };
    let free = count("PRAGMA freelist_count")?;
    if free >= SPARE && free >= count("PRAGMA page_count")? / 4 {
        let mut statement = conn.prepare("PRAGMA incremental_vacuum(4096)")?;
        let mut steps = statement.query([])?;
        while steps.next()?.is_some() {}
    }
    Ok(())
}

fn read_all(path: &Path, requests: &RequestThread, busy_timeout: Duration, access: Access) {
    let mut conn = None;
    while let Some((mut job, _)) = requests.next() {
        let failure = match conn
            .take()
            .map_or_else(|| open_reader(path, busy_timeout, access), Ok)
        {
            Err(failure) => Some(failure),
            Ok(open) => {
                let read = read(&open, path, &mut *job).err();
                conn = Some(open);
                read.map(|error| database(path, error))
            }
        };
        job.answer(failure);
    }
}

/// Runs one request on a single snapshot of the file.
fn read(conn: &Connection, path: &Path, job: &mut dyn Job) -> rusqlite::Result<()> {
    step(conn, "BEGIN")?;
    job.run(conn, path);
    if conn.is_autocommit() {
        return Ok(());
    }
    step(conn, "ROLLBACK")
}
