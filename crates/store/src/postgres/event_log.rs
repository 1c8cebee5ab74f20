//! The log of events in the database of the store.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::events::{
    EventBatch, EventLog, EventPage, ListenState, LogPosition, LoggedEvent, SessionChanges,
};
use logue_harness::store::{StoreError, StoreResult};
use tokio_postgres::Row;

use super::PostgresStore;
use super::call::Call;
use super::column::{count, get, limit, read_count, text, time};

/// The log of the events of a store, in its database, for all nodes.
///
/// It uses the connections of the store.
#[derive(Clone, Debug)]
pub struct PostgresEventLog {
    store: Arc<PostgresStore>,
}

impl PostgresEventLog {
    /// Returns the log beside a store.
    pub const fn new(store: Arc<PostgresStore>) -> Self {
        Self { store }
    }
}

fn read_position(row: &Row) -> Result<LogPosition, StoreError> {
    let number = |column| read_count(get(row, column)?);
    let mut position = LogPosition::default()
        .with_accepted(number("accepted")?)
        .with_outcome(number("cursor")?, number("settled")?);
    position.seq = number("seq")?;
    position.generation = number("generation")?;
    Ok(position)
}

fn read_event(row: &Row) -> Result<LoggedEvent, StoreError> {
    Ok(LoggedEvent {
        seq: read_count(get(row, "seq")?)?,
        entry: read_count(get(row, "entry")?)?,
        text: Arc::from(get::<String>(row, "body")?),
    })
}

impl EventLog for PostgresEventLog {
    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition> {
        let call = Call::new(
            "SELECT logue.generation(l) AS generation, l.seq, l.accepted, l.settled, l.cursor
             FROM logue.log l WHERE substr(l.id, 1, 1024) = substr($1, 1, 1024) AND l.id = $1",
        )
        .bytes(session.as_bytes().to_vec())
        .quick();
        self.store.all(Ok(call), |rows| {
            rows.first()
                .map_or(Ok(LogPosition::default()), read_position)
        })
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>> {
        let moves = batch.progress.is_some();
        let (was, is) = batch.progress.unwrap_or_default();
        let entries = batch.events.iter().map(|(entry, _)| count(*entry));
        let texts = batch.events.iter().map(|(_, text)| text.to_string());
        let lease = batch.lease;
        let call = Call::new(
            "SELECT * FROM logue.log_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .step()
        .bytes(session.as_bytes().to_vec())
        .flag(moves)
        .number(count(was.accepted))
        .number(count(was.cursor))
        .number(count(is.accepted))
        .number(count(is.settled))
        .number(count(is.cursor))
        .numbers(entries.collect())
        .texts(texts.collect())
        .maybe_number(lease.as_ref().map(|lease| count(lease.epoch)))
        .maybe_bytes(lease.as_ref().map(|lease| lease.owner.as_bytes().to_vec()))
        .number(time(batch.now))
        .flagged();
        self.store.one(Ok(call), move |row| {
            if let Some(lease) = lease
                && let Some(current) = get::<Option<i64>>(row, "fence")?
            {
                return Err(StoreError::Fenced {
                    session: lease.session,
                    epoch: lease.epoch,
                    current: read_count(current)?,
                });
            }
            if get(row, "has_moved")? {
                return Ok(None);
            }
            self.store.feed.note(session);
            read_position(row).map(Some)
        })
    }

    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        most: usize,
    ) -> StoreResult<'a, EventPage> {
        let call = Call::new("SELECT * FROM logue.log_since($1, $2, $3)")
            .bytes(session.as_bytes().to_vec())
            .number(count(after))
            .number(limit(most))
            .quick();
        self.store.all(Ok(call), |rows| {
            let Some((state, events)) = rows.split_first() else {
                return Ok(EventPage::default());
            };
            Ok(EventPage {
                generation: read_count(get(state, "generation")?)?,
                removed: read_count(get(state, "removed")?)?,
                events: events.iter().map(read_event).collect::<Result<_, _>>()?,
            })
        })
    }

    fn latest<'a>(
        &'a self,
        session: &'a str,
        beginnings: &'a [&'a str],
        most: usize,
    ) -> StoreResult<'a, Vec<LoggedEvent>> {
        let beginnings = beginnings.iter().map(ToString::to_string);
        let call = Call::new("SELECT * FROM logue.log_latest($1, $2, $3)")
            .bytes(session.as_bytes().to_vec())
            .texts(beginnings.collect())
            .number(limit(most));
        self.store
            .all(Ok(call), |rows| rows.iter().rev().map(read_event).collect())
    }

    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>> {
        let call = Call::new("SELECT logue.log_first_after($1, $2) AS seq")
            .bytes(session.as_bytes().to_vec())
            .number(count(entry));
        self.store.one(Ok(call), |row| {
            get::<Option<i64>>(row, "seq")?.map(read_count).transpose()
        })
    }

    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64> {
        let call = Call::new("SELECT logue.log_trim($1) AS removed").number(time(before));
        self.store
            .one(Ok(call), |row| read_count(get(row, "removed")?))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()> {
        let call = Call::new("SELECT logue.forget($1)").bytes(session.as_bytes().to_vec());
        self.store.all(Ok(call), |_| Ok(()))
    }

    fn sessions(&self) -> StoreResult<'_, Vec<String>> {
        let call = Call::new("SELECT id FROM logue.log");
        self.store
            .each(call, |row| text(&get::<Vec<u8>>(row, "id")?))
    }

    fn foreign_changes(&self) -> StoreResult<'_, u64> {
        self.store.snapshot()
    }

    fn listening(&self) -> Option<ListenState> {
        self.store.listening()
    }

    fn changes<'a>(&'a self, followed: &'a [String]) -> Option<StoreResult<'a, SessionChanges>> {
        Some(self.store.changes(followed))
    }
}
