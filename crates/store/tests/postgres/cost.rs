//! The rows and bytes of a turn, and its independence of the length of its session.

use logue_harness::store::{BeginResult, SharedStore};
use logue_store::open_store;
use testkit::postgres::{Database, PostgresServer};

use super::said;
use super::turns::{NOW, TTL, done, entry};

/// The bytes of a message and of its reply.
const TEXT: u64 = 590;

/// A turn as a harness runs it.
async fn turn(store: &SharedStore, number: u64) {
    let text = format!("{number:0>590}");
    store.enqueue("s", entry(&text, None)).await.unwrap();
    let (owner, invocation) = (
        format!("owner#{number}"),
        format!("0f8fad5b-d9cb-469f-a165-{number:0>12}"),
    );
    let begun = store.begin("s", &owner, &invocation, NOW, TTL).await;
    let BeginResult::Turn(begun) = begun.unwrap() else {
        panic!("no turn");
    };
    let messages = vec![said(&text), said(&text)];
    let end = done(&invocation, number * 2, messages);
    store.commit_and_release(&begun.lease, end).await.unwrap();
}

fn number(database: &Database, expression: &str) -> u64 {
    let found = database.query(&format!("SELECT {expression}")).unwrap();
    found.trim().parse().unwrap()
}

const TABLES: &str = "(SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'logue'::regnamespace)::bigint";
const ROWS: &str = "((SELECT count(*) FROM logue.message) + (SELECT count(*) FROM logue.entry)
    + (SELECT count(*) FROM logue.note) + (SELECT count(*) FROM logue.session))";

#[tokio::test]
async fn a_turn_leaves_few_rows_and_little_more_than_its_text() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = open_store(&database.url()).unwrap();
    // The first pages of the tables are not the turns'.
    for one in 0..100 {
        turn(&store, one).await;
    }
    database.query("VACUUM").unwrap();
    let (rows, bytes) = (number(&database, ROWS), number(&database, TABLES));
    for one in 100..500 {
        turn(&store, one).await;
    }
    database.query("VACUUM").unwrap();
    let rows = number(&database, ROWS) - rows;
    let bytes = number(&database, TABLES) - bytes;
    assert!(rows <= 400 * 8, "{rows} rows for 400 turns");
    let sizes =
        "string_agg(relname || ' ' || pg_relation_size(oid) || ' ' || pg_table_size(oid), ', ')
        FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'logue'::regnamespace
            AND pg_relation_size(oid) > 8192";
    let sizes = database.query(&format!("SELECT {sizes}")).unwrap();
    let most = 400 * TEXT * 2 * 3 / 2;
    assert!(bytes <= most, "{bytes} bytes, {most} are possible: {sizes}");
}

/// Each statement of a turn finds its rows by an index: no table is read as a whole.
#[tokio::test]
async fn no_statement_of_a_turn_reads_a_whole_table() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let store = open_store(&database.url()).unwrap();
    for one in 0..40 {
        turn(&store, one).await;
    }
    // Other sessions, so that a scan would cost.
    database
        .query(
            "INSERT INTO logue.message SELECT (1000 + n) << 32, 0, 'ux' FROM generate_series(1, 20000) n;
             INSERT INTO logue.entry (pos, accepted_at, resumes) SELECT ((1000 + n) << 32) + 1, 0, false
                 FROM generate_series(1, 20000) n;
             INSERT INTO logue.session (sid, epoch, created_at, updated_at, id)
                 SELECT 1000 + n, 0, 0, 0, n::text::bytea FROM generate_series(1, 20000) n;
             ANALYZE",
        )
        .unwrap();
    let scanned = "(SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables
        WHERE relname IN ('message', 'entry', 'session'))::bigint";
    drop(store);
    let store = open_store(&database.url()).unwrap();
    database.query("SELECT pg_stat_reset()").unwrap();
    for one in 40..50 {
        turn(&store, one).await;
    }
    assert_eq!(store.history("s", 90, 10).await.unwrap().len(), 10);
    assert_eq!(store.outcomes_since("s", 45, 10).await.unwrap().len(), 5);
    store.session("s").await.unwrap().unwrap();
    let filter = logue_harness::store::SessionFilter {
        prefix: Some("s".to_owned()),
        limit: Some(10),
        is_pending: false,
    };
    assert_eq!(store.list(filter).await.unwrap().len(), 1);
    drop(store);
    // Statistics of a connection are complete when it has ended.
    let mut read = number(&database, scanned);
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        read = number(&database, scanned);
    }
    assert_eq!(read, 0, "rows were read by scans");
}
