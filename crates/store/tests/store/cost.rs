//! The cost of a turn over typed messages does not depend on the length of its session. Counted, not
//! timed: operations, messages and rows, and the bytes that the turn's thread allocates.
#![expect(
    unsafe_code,
    reason = "an allocator that counts can only be written with unsafe"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logue_graph::{
    CompiledGraph, CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, List, NodeContext,
    SignalDescriptor, State, StateSchema, Update,
};
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, SignalTarget, messages_field};
use logue_harness::store::{
    Commit, Disposition, Lease, Store, StoreLayer, StoreResult, Suspension,
};
use logue_harness::{BoxFuture, Clock, Timestamp};
use logue_message::ChatMessage;
use logue_store::SqliteStore;
use rusqlite::Connection;
use serde_json::{Map, Value};

use super::{NOW, place};

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The counted work of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Work {
    /// The operations of the store.
    operations: u64,
    /// The messages that were encoded for a commit or the journal.
    encoded: u64,
    /// The messages that were decoded from the history.
    decoded: u64,
    /// The bytes of the record of a suspension.
    suspended_bytes: u64,
    /// The rows that were inserted, changed or deleted.
    rows: u64,
}

/// A store in a file that counts the messages that pass through it.
struct Counted {
    inner: SqliteStore,
    operations: AtomicU64,
    encoded: AtomicU64,
    decoded: Arc<AtomicU64>,
    suspended_bytes: AtomicU64,
}

impl Counted {
    fn open(path: &Path) -> Arc<Self> {
        Arc::new(Self {
            inner: SqliteStore::open(path).unwrap(),
            operations: AtomicU64::new(0),
            encoded: AtomicU64::new(0),
            decoded: Arc::default(),
            suspended_bytes: AtomicU64::new(0),
        })
    }

    fn work(&self, rows: u64) -> Work {
        Work {
            operations: self.operations.swap(0, Ordering::Relaxed),
            encoded: self.encoded.swap(0, Ordering::Relaxed),
            decoded: self.decoded.swap(0, Ordering::Relaxed),
            suspended_bytes: self.suspended_bytes.swap(0, Ordering::Relaxed),
            rows,
        }
    }
}

impl StoreLayer for Counted {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        operation(&self.inner)
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        self.encoded
            .fetch_add(notes.len() as u64, Ordering::Relaxed);
        self.forward(move |store| store.journal(lease, invocation_id, notes))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.encoded
            .fetch_add(commit.messages.len() as u64, Ordering::Relaxed);
        if let Some(Disposition::Suspended { suspension, .. }) = &commit.settle {
            let bytes = suspension.record.to_string().len() as u64;
            self.suspended_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.forward(move |store| store.commit(lease, commit))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        let decoded = Arc::clone(&self.decoded);
        let messages = self.forward(move |store| store.history(session, from, limit));
        Box::pin(async move {
            let messages = messages.await?;
            decoded.fetch_add(messages.len() as u64, Ordering::Relaxed);
            Ok(messages)
        })
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        self.forward(move |store| store.suspension(invocation_id))
    }
}

/// A clock that stands still, so that no lease is renewed and no poll happens.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A model that calls a tool once, or waits for a signal if the user asks it to.
pub(crate) fn graph() -> CompiledGraph {
    let schema = StateSchema::new()
        .with(messages_field())
        .with(Field::new("approval", FieldType::String));
    let answer = |ctx: NodeContext| async move {
        let messages = ctx.state().list_of::<ChatMessage>("messages");
        let last = messages.and_then(List::last).map(ChatMessage::text);
        let reply = ChatMessage::assistant(format!("answer to {}", last.unwrap_or_default()));
        ctx.journal(reply.to_json()).await?;
        Ok(Update::new().with("messages", vec![reply]))
    };
    let waits = |state: &State| {
        let messages = state.list_of::<ChatMessage>("messages");
        let last = messages.and_then(List::last).map(ChatMessage::text);
        match last {
            Some(text) if text == "answer to wait" => EdgeTarget::node("hold"),
            _ => END,
        }
    };
    GraphBuilder::new(schema)
        .add_node_fn("model", answer)
        .add_node_fn("hold", |ctx: NodeContext| async move {
            match ctx.suspend(SignalDescriptor::new("approval")).await {}
        })
        .add_node_fn("after", answer)
        .entry("model")
        .add_conditional_edge("model", [EdgeTarget::node("hold"), END], waits)
        .add_edge("hold", "after")
        .add_edge("after", END)
        .compile(CountingIds::new())
        .unwrap()
}

/// Fills the history of a session with messages of a kilobyte each.
async fn fill(store: &SqliteStore, length: usize) {
    store
        .set_label("s", "filled", true.into(), NOW)
        .await
        .unwrap();
    let lease = super::lease(store, "s").await.unwrap();
    let message = |n| ChatMessage::user(format!("message {n} {}", "x".repeat(1_000))).to_json();
    let commit = Commit {
        settle: None,
        ..super::done("fill", 0, (0..length).map(message).collect())
    };
    store.commit(&lease, commit).await.unwrap();
    store.release(&lease).await.unwrap();
}

/// Counts the changed rows of the file in a table of its own.
fn count_rows(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("CREATE TABLE changed (n INTEGER); INSERT INTO changed VALUES (0);")
        .unwrap();
    let tables = [
        "session",
        "field",
        "label",
        "message",
        "entry",
        "work",
        "note",
        "suspension",
    ];
    for table in tables {
        for event in ["INSERT", "UPDATE", "DELETE"] {
            let sql = format!(
                "CREATE TRIGGER {table}_{event} AFTER {event} ON {table}
                 BEGIN UPDATE changed SET n = n + 1; END"
            );
            conn.execute_batch(&sql).unwrap();
        }
    }
    conn
}

fn changed(conn: &Connection) -> u64 {
    let rows: i64 = conn
        .query_row("SELECT n FROM changed", [], |row| row.get(0))
        .unwrap();
    u64::try_from(rows).unwrap()
}

/// A session of some length whose state is in memory, as after its previous turn.
struct Session {
    chat: ChatHarness,
    store: Arc<Counted>,
    rows: Connection,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Session {
    fn new(length: usize) -> Self {
        let (folder, path) = place();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let store = Counted::open(&path);
        runtime.block_on(fill(&store.inner, length));
        let shared = Arc::clone(&store);
        let ids = Arc::new(CountingIds::new());
        let chat = ChatHarness::new(graph(), shared, Arc::new(Still), ids).unwrap();
        let session = Self {
            chat,
            store,
            rows: count_rows(&path),
            runtime,
            _folder: folder,
        };
        // The first turn of a process loads the session; the second one fills caches.
        for _ in 0..2 {
            drop(session.turn("hello"));
        }
        session
    }

    /// Runs a turn, and returns its outcome, its work and the bytes that it allocated.
    fn count(&self, turn: impl Future<Output = ChatTurnOutcome>) -> (ChatTurnOutcome, Work, usize) {
        let rows = changed(&self.rows);
        self.store.work(0);
        let before = ALLOCATED.with(Cell::get);
        let outcome = self.runtime.block_on(turn);
        let bytes = ALLOCATED.with(Cell::get) - before;
        let work = self.store.work(changed(&self.rows) - rows);
        (outcome, work, bytes)
    }

    fn turn(&self, text: &str) -> (ChatTurnOutcome, Work, usize) {
        self.count(self.chat.send("s", ChatMessage::user(text)))
    }

    fn signal(&self) -> (ChatTurnOutcome, Work, usize) {
        let mut payload = Map::new();
        payload.insert("approval".to_owned(), "yes".into());
        self.count(async {
            let target = SignalTarget::Signal("approval");
            self.chat.signal(target, payload).await.unwrap()
        })
    }
}

fn state(outcome: ChatTurnOutcome) -> State {
    match outcome {
        ChatTurnOutcome::Completed(turn) => turn.final_state.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The difference that a deeper tree and a fuller tail of the list may make, in bytes.
const SLACK: usize = 4_096;

#[test]
fn a_turn_over_ten_thousand_typed_messages_costs_what_one_over_ten_does() {
    let (small, large) = (Session::new(10), Session::new(10_000));
    let before = state(large.turn("hello").0);
    drop(small.turn("hello"));
    let (_, few, few_bytes) = small.turn("hello");
    let (outcome, many, many_bytes) = large.turn("hello");
    let after = state(outcome);

    assert_eq!(many, few);
    assert_eq!((many.encoded, many.decoded), (3, 0), "{many:?}");
    assert!(
        many_bytes < few_bytes + SLACK,
        "{few_bytes} bytes over 10 messages, {many_bytes} over 10,000"
    );
    let messages = |state: &State| state.list_of::<ChatMessage>("messages").cloned().unwrap();
    let (before, after) = (messages(&before), messages(&after));
    assert_eq!((before.len(), after.len()), (10_006, 10_008));
    let copied = before
        .iter()
        .zip(&after)
        .filter(|(old, new)| !std::ptr::eq(*old, *new));
    assert_eq!(copied.count(), 0, "messages were copied");
}

#[test]
fn a_suspension_and_its_signal_cost_the_same_in_a_long_session() {
    let (small, large) = (Session::new(10), Session::new(10_000));
    for (part, run) in [
        (
            "suspension",
            (|session| session.turn("wait")) as fn(&Session) -> _,
        ),
        ("signal", Session::signal),
    ] {
        let (outcome, few, few_bytes) = run(&small);
        let (_, many, many_bytes) = run(&large);
        let expected = if part == "signal" {
            "completed"
        } else {
            "suspended"
        };
        assert_eq!(outcome.as_str(), expected);
        assert_eq!(many, few, "{part}");
        assert!(
            many_bytes < few_bytes + SLACK,
            "{part}: {few_bytes} bytes over 10 messages, {many_bytes} over 10,000"
        );
    }
}
