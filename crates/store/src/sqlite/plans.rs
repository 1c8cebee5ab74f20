//! Checks that no operation of a turn scans more rows than necessary.
//!
//! The tests examine the query plan of each executed statement.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    CancelMode, Commit, Disposition, EntryPayload, LeaseResult, NewEntry, NewOutcome,
    NewSuspension, OutcomeKind, SessionFork, StoreError, SuspensionFilter, SuspensionStatus,
};
use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use serde_json::{Map, Value, json};

use super::{
    SqliteResult, arrival, audit, change, fork, inbox, migration, seal, session, stored_work,
    suspension, tally, turn,
};

#[test]
fn a_turn_scans_no_table() {
    let mut conn = Connection::open_in_memory().unwrap();
    seal::register(&conn).unwrap();
    migration::migrate(&conn, "memory".as_ref()).unwrap();
    tally::watch(&conn).unwrap();
    let run = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&run);
    let listen = move |event: TraceEvent<'_>| {
        // SQLite reports the actions of triggers and foreign keys as comments.
        if let TraceEvent::Stmt(statement, sql) = event
            && !sql.starts_with("--")
        {
            let expanded = statement.expanded_sql().unwrap_or_default();
            heard.lock().unwrap().push(expanded);
        }
    };
    conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(listen))
        .unwrap();
    every_operation(&conn).unwrap();

    let mut statements: Vec<String> = std::mem::take(&mut *run.lock().unwrap());
    statements.sort_unstable();
    statements.dedup();
    assert!(statements.len() > 40, "{}", statements.len());
    for sql in statements {
        let mut explained = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = explained
            .query_map([], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let scans = plan
            .iter()
            .any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE"));
        assert!(!scans, "{sql}: {plan:?}");
    }
}

/// Returns a keyed entry that asks the running one to end.
fn keyed(now: Timestamp) -> Result<inbox::Arrival, StoreError> {
    arrival(NewEntry {
        work: EntryPayload::Quarantined,
        key: Some("k".to_owned()),
        digest: None,
        retries: None,
        only_if_idle: true,
        only_after: None,
        only_created_at: None,
        cancel: Some(CancelMode::Interrupt),
        now,
    })
}

fn every_operation(conn: &Connection) -> SqliteResult<()> {
    let now = Timestamp(1);
    inbox::enqueue(conn, "s", keyed(now)?)?;
    inbox::enqueue(conn, "s", keyed(now)?)?;
    let ttl = Duration::from_secs(1);
    let acquired = session::acquire(conn, "s".to_owned(), "me".to_owned(), None, now, ttl)?;
    let LeaseResult::Lease(lease) = acquired else {
        panic!("no lease");
    };
    inbox::claim_next(conn, &lease, "i".to_owned())?;
    inbox::claim_next(conn, &lease, "i".to_owned())?;
    inbox::request_cancel(conn, "s", CancelMode::Rollback)?;
    inbox::request_cancel_of(conn, "s", 1, CancelMode::Rollback)?;
    inbox::journal(conn, &lease, "i".to_owned(), &["1".to_owned()])?;
    session::renew(conn, &lease, now)?;
    let outcome = || NewOutcome {
        kind: OutcomeKind::Completed,
        replies_from: 0,
        body: Value::Null,
    };
    let commit = |expected_seq, settle| {
        change(Commit {
            invocation_id: "i".to_owned(),
            expected_seq,
            messages: vec![json!("x")],
            fields: Map::from_iter([("f".to_owned(), json!(1))]),
            schema_version: None,
            settle: Some(settle),
            now,
        })
    };
    turn::commit(conn, &lease, commit(0, Disposition::Requeue)?)?;
    inbox::claim_next(conn, &lease, "i".to_owned())?;
    let suspended = Disposition::Suspended {
        suspension: NewSuspension {
            signal_id: "x".to_owned(),
            metadata: None,
            record: json!(1),
        },
        outcome: outcome(),
    };
    turn::commit(conn, &lease, commit(1, suspended)?)?;
    let work = stored_work(&EntryPayload::Resume {
        invocation_id: "i".to_owned(),
        payload: Map::new(),
    })?;
    suspension::signal(conn, "i", None, work, now)?;
    inbox::inbox(conn, "s")?;
    inbox::claim_next(conn, &lease, "j".to_owned())?;
    let done = Disposition::Done {
        outcome: outcome(),
        keep_journal: false,
        keep_suspension: false,
    };
    turn::commit(conn, &lease, commit(2, done)?)?;
    for (retries, key) in [(1, Some("k".to_owned())), (2, None)] {
        let again = inbox::Arrival {
            retries: Some(retries),
            key,
            only_if_idle: false,
            ..keyed(now)?
        };
        inbox::enqueue(conn, "s", again)?;
    }
    session::release(conn, &lease)?;

    inbox::entry(conn, "s", 1)?;
    inbox::notes(conn, "s", "i".to_owned())?;
    audit::add(conn, "s", "i".to_owned(), &["1".to_owned()], now)?;
    audit::from(conn, "s", 0, 9)?;
    turn::outcomes_since(conn, "s", 0, 9)?;
    turn::outcome_of(conn, "s", 1)?;
    suspension::suspension(conn, "i".to_owned())?;
    for status in [None, Some(SuspensionStatus::Suspended)] {
        let filter = SuspensionFilter {
            session: Some("s".to_owned()),
            status,
            ..SuspensionFilter::default()
        };
        suspension::suspensions(conn, filter)?;
    }
    session::info(conn, "s")?;
    session::history(conn, "s", 0, 9)?;
    session::set_label(conn, "s", "a", "1", now)?;
    fork::fork(conn, "s", fork::Fork::new(SessionFork::new(1, "t", now))?)?;
    session::delete(conn, "s")?;
    Ok(())
}
